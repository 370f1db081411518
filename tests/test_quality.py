"""The rules of the code base - style, types, layers, one version, clean text - each checked by one test."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[1]
LINT_IMPORTS = Path(sysconfig.get_path("scripts")) / "lint-imports"

#: A path of somebody's own machine, spelt so that this line does not match itself.
PRIVATE_PATH = re.compile(r"(?<![\w.~-])/(?:home|root|work)/")
TRAILING_SPACE = re.compile(r"[ \t\r]$")


def run(*command: str | Path, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | env,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def assert_passes(*command: str | Path) -> None:
    result = run(*command)
    if result.returncode:
        pytest.fail(result.stdout, pytrace=False)


def test_ruff_finds_nothing() -> None:
    assert_passes(sys.executable, "-m", "ruff", "check")


def test_code_is_formatted() -> None:
    assert_passes(sys.executable, "-m", "ruff", "format", "--diff")


def test_types_hold() -> None:
    assert_passes(sys.executable, "-m", "mypy")


def test_layers_hold() -> None:
    assert_passes(LINT_IMPORTS, "--no-logo", "--no-cache")


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("core.control", "from penstock import sim"),
        ("core.control", "import time"),
        ("core.network", "from penstock.core.fairness import jain"),
        ("spark.plans", "from penstock.spark.guard import checks"),
    ],
)
def test_a_room_may_import_neither_a_higher_one_nor_core_a_clock(room: str, line: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = shutil.copytree(ROOT / "src", tmp_path / "src") / "penstock"
    (package / room.replace(".", "/") / "intruder.py").write_text(f"{line}\n")

    result = run(LINT_IMPORTS, "--no-logo", "--no-cache", cwd=tmp_path, PYTHONPATH=str(package.parent))

    assert result.returncode == 1
    assert f"penstock.{room}.intruder" in result.stdout


def test_the_version_is_the_same_everywhere() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest = re.search(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert penstock.__version__ == declared
    assert newest is not None
    assert newest[1] == declared


def source_files() -> Iterator[Path]:
    """What git tracks or would track; without git, all but hidden and made folders."""
    if (ROOT / ".git").exists():
        listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        if listed.returncode == 0:
            yield from (ROOT / name for name in listed.stdout.split("\0") if (ROOT / name).is_file())
            return
    made = re.compile(r"\.(?!ci$)|(__pycache__|build|dist|out|site)$")
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [name for name in subfolders if not made.match(name)]
        yield from (Path(folder, name) for name in names)


def test_text_is_clean() -> None:
    faults = []
    for path in source_files():
        data = path.read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode().split("\n"), start=1):
            if PRIVATE_PATH.search(line) or TRAILING_SPACE.search(line):
                faults.append(f"{path}:{number}: {line!r}")

    assert not faults
