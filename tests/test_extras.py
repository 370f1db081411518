"""What the plain package needs, and what a missing extra says."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from penstock.extras import _EXTRAS  # the table itself

REPOSITORY = Path(__file__).parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
#: Modules of distributions that are called otherwise.
MODULES = {
    "confluent-kafka": "confluent_kafka",
    "opentelemetry-api": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyyaml": "yaml",
}
#: Brought by others of the same extra.
ALONG = {"anyio", "pydantic_core"}
#: Runs some code as if modules were not installed.
HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
{code}
"""


def distributions(listed: list[str]) -> set[str]:
    names = {one.partition(">")[0].partition("[")[0].strip() for one in listed}
    return {MODULES.get(name, name) for name in names}


def imports(tree: ast.AST, *, late: bool) -> Iterator[str]:
    """The modules that some source imports when it is loaded, or also when its functions run."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)
        if late or not isinstance(node, ast.FunctionDef):
            yield from imports(node, late=late)


@cache
def imported(path: Path, *, late: bool) -> tuple[str, ...]:
    return tuple(imports(ast.parse(path.read_text()), late=late))


def needed(*modules: str, late: bool = False) -> set[str]:
    """The packages of others that some modules of ours need, by all that they import."""
    assert [module for module in modules if path_of(module) is None] == []  # an unknown module needs nothing
    found, waiting = set[str](), list(modules)
    while waiting:
        module = waiting.pop()
        while module.startswith("penstock.") and path_of(module) is None:
            module = module.rpartition(".")[0]  # a name in it
        if module in found:
            continue
        found.add(module)
        path = path_of(module)
        if path is not None:
            waiting += [module.rpartition(".")[0], *imported(path, late=late)]
    tops = {module.partition(".")[0] for module in found} - {""}
    return {top for top in tops if top not in sys.stdlib_module_names and top != "penstock"}


def path_of(module: str) -> Path | None:
    path = REPOSITORY / "src" / module.replace(".", "/")
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)


def run_without(hidden: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HIDDEN.format(hidden=hidden, code=code)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def command(*arguments: str) -> str:
    return f"import penstock.__main__; sys.argv = {['penstock', *arguments]!r}; penstock.__main__.main()"


PLAIN = distributions(PROJECT["dependencies"])
PUBLIC = [
    "penstock.answers",
    "penstock.baselines",
    "penstock.core.balanced.policy",
    "penstock.core.balanced.worth",
    "penstock.grouping",
    "penstock.logs",
    "penstock.machines",
    "penstock.sic",
    "penstock.spark.fair.fair",
    "penstock.spark.guard.guard",
    "penstock.spark.quarantine.replay",
    "penstock.spark.session",
    "penstock.spark.source",
    "penstock.testing",
]


def test_a_guard_needs_the_plain_package_and_spark() -> None:
    assert needed("penstock.spark.guard.guard") == PLAIN | {"pyspark"}
    assert needed(*PUBLIC) == PLAIN | {"pyspark"}
    later = {"pandas", "prometheus_client", "opentelemetry", "confluent_kafka", "obstore"}
    assert needed(*PUBLIC, late=True) == PLAIN | {"pyspark", *later}


@pytest.mark.parametrize(
    ("module", "extras"),
    [
        ("penstock.cli.dashboard", {"cli", "web"}),
        ("penstock.cli.replay", {"cli", "spark"}),
        ("penstock.cli.reproduce", {"cli", "sim"}),
        ("penstock.cli.roadmap", {"cli", "network"}),
        ("penstock.cli.run", {"cli", "network", "spark"}),
        ("penstock.cli.site", {"cli", "network", "spark"}),
        ("penstock.cli.whatif", {"cli", "sim", "spark"}),
        ("penstock.demo.page", {"cli", "plot", "spark"}),
        ("penstock.web.app", {"web"}),
    ],
)
def test_a_command_needs_the_extras_that_are_told_of_it(module: str, extras: set[str]) -> None:
    brought = {one: distributions(PROJECT["optional-dependencies"][one]) for one in extras}
    assert needed(module) <= PLAIN.union(ALONG, *brought.values())
    assert [one for one in extras if not needed(module, late=True) & brought[one]] == []  # none is named in vain


def test_every_other_package_comes_with_an_extra() -> None:
    extras = {name: distributions(listed) for name, listed in PROJECT["optional-dependencies"].items()}
    for extra, modules in _EXTRAS.items():
        assert set(modules) - ALONG <= extras[extra]
    everything = set().union(*(set(modules) for modules in _EXTRAS.values()))
    ours = [".".join(path.relative_to(REPOSITORY / "src").with_suffix("").parts) for path in sources()]
    assert needed(*ours, late=True) - PLAIN - {"py4j"} <= everything
    (listed,) = PROJECT["optional-dependencies"]["all"]
    assert listed == f"penstock[{','.join(sorted(_EXTRAS))}]"


def sources() -> list[Path]:
    return [path for path in (REPOSITORY / "src" / "penstock").rglob("*.py") if path.name != "__init__.py"]


@pytest.mark.parametrize(
    ("hidden", "arguments", "line"),
    [
        ("typer", ["--version"], "penstock: typer is missing: run pip install 'penstock[cli]'\n"),
        ("numba", ["reproduce", "las"], "penstock: numba is missing: run pip install 'penstock[sim]'\n"),
        (
            "starlette",
            ["dashboard", ".", "--wait"],
            "penstock: starlette is missing: run pip install 'penstock[web]'\n",
        ),
        ("sqlglot", ["roadmap", "net.yaml"], "penstock: sqlglot is missing: run pip install 'penstock[network]'\n"),
        ("pyspark", ["demo"], "penstock: pyspark is missing: run pip install 'penstock[spark]'\n"),
        (
            "matplotlib",
            ["reproduce", "aurora", "--runs", "1", "--figure", "9", "--out", "{folder}"],
            "penstock: matplotlib is missing: run pip install 'penstock[plot]'\n",
        ),
    ],
)
def test_a_command_names_the_extra_that_is_missing(
    hidden: str, arguments: list[str], line: str, tmp_path: Path
) -> None:
    given = [one.format(folder=tmp_path / "out") for one in arguments]
    done = run_without((hidden,), command(*given))
    assert (done.stderr, done.returncode != 0) == (line, True)


def test_the_command_starts_with_its_own_extra_alone() -> None:
    others = {module for extra, modules in _EXTRAS.items() if extra != "cli" for module in modules}
    others -= {"pydantic", "pydantic_core"}  # Typer needs them, too
    for option in ("--help", "--version"):
        done = run_without(tuple(others), command(option))
        assert (done.returncode, done.stderr) == (0, "")


def test_a_name_without_its_extra_is_one_line() -> None:
    code = "import penstock as ps\ntry:\n    ps.Guard\nexcept ps.PenstockError as error:\n    print(error)"
    done = run_without(("pyspark",), code)
    assert (done.stdout, done.stderr) == ("pyspark is missing: run pip install 'penstock[spark]'\n", "")


def test_an_export_without_its_extra_is_one_line() -> None:
    code = (
        "import penstock as ps\ntry:\n    ps.Guard(ps.Throughput(5)).export_metrics()\n"
        "except ps.PenstockError as error:\n    print(error)"
    )
    done = run_without(("opentelemetry",), code)
    assert (done.stdout, done.stderr) == ("opentelemetry is missing: run pip install 'penstock[otel]'\n", "")
