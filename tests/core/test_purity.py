"""Core is pure: what it may import and call is listed, so that nothing new slips in unseen."""

import ast
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "src" / "penstock" / "core"
#: Nothing here reads a clock, a file, the network, the environment or a source of chance.
MAY_IMPORT = {
    "__future__",
    "abc",
    "array",
    "base64",
    "binascii",
    "bisect",
    "collections",
    "copy",
    "dataclasses",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "numba",
    "numbers",
    "numpy",
    "penstock",
    "re",
    "scipy",
    "sqlglot",
    "statistics",
    "struct",
    "typing",
    "xxhash",
    "zlib",
}
#: Names of the project that lie below core.
MAY_IMPORT_OF_PENSTOCK = ("penstock.core", "penstock.errors", "penstock.messages", "penstock.moved")
FORBIDDEN_NAMES = {"open", "print", "input", "eval", "exec", "hash", "id", "globals", "__import__"}


def problems(source: str) -> list[str]:  # noqa: C901 - a list of kinds of lines
    found = []
    typing_only: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            typing_only.update(inner for statement in node.body for inner in ast.walk(statement))
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] not in MAY_IMPORT]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.partition(".")[0] not in MAY_IMPORT:
                found.append(module)
            elif module == "numpy" and any(alias.name == "random" for alias in node.names):
                found.append("numpy.random")
            elif module.startswith("penstock") and not module.startswith(MAY_IMPORT_OF_PENSTOCK):
                found += [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            found.append(node.id)
        elif isinstance(node, ast.Attribute) and node.attr in {"random", "datetime64"}:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", sorted(CORE.glob("**/*.py")), ids=lambda path: path.name)
def test_core_imports_and_calls_only_what_is_pure(path: Path) -> None:
    assert problems(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "import datetime",
        "import time",
        "from numpy import random",
        "import numpy as np\nnp.random.default_rng()",
        "import uuid",
        "from concurrent import futures",
        "import pyarrow.parquet",
        "from penstock import output",
        "from penstock.sim import kernel",
        "open('x')",
        "hash('x')",
    ],
)
def test_what_is_not_pure_is_found(line: str) -> None:
    assert problems(line)
