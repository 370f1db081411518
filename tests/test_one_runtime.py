"""What the simulator runs is what Spark runs: no module of core is reached from one alone, but for those listed.

The lists are exact: a module that is listed and need not be fails the test as well.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
SIMULATOR = ("sim",)
#: What a user of Spark calls, and what runs for them.
SPARK = ("spark", "federation", "config", "store", "web", "answers", "grouping", "sic")

#: The papers' algorithms as published, and what they are compared with.
PUBLISHED = {
    "fairness.balance_sic": "THEMIS: Algorithm 1",
    "fairness.input_buffer": "THEMIS: the input buffer of a node",
    "fairness.shedder": "THEMIS: BALANCE-SIC and random shedding, node by node",
    "fairness.max_min_nodes": "THEMIS: the optimum, with all knowledge",
    "compiled": "THEMIS: Algorithm 1 is compiled",
    "seeded_random": "THEMIS: ties of BALANCE-SIC, and random shedding",
    "network.origins": "Aurora: what each output rests on, by which losses are counted",
}
#: Machines that decide row by row; they are not wired to Spark yet.
ROW_MACHINES = {
    "grouping.machines": "events of grouping row by row",
    "grouping.ready_time": "grouping by when an instance will be ready",
}
#: Readable forms of compiled loops: the simulator runs those, and tests hold both equal to the bit.
ACCELERATED = {
    "grouping.baselines": "OSG: round-robin and its other baselines",
    "grouping.osg": "OSG: the scheduler as published",
}
#: Not wired to either yet.
NOWHERE = {"network.delay_shedding": "drops by delay QoS"}


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.glob("penstock/**/*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imported(module: str) -> frozenset[str]:
    """The modules that a module imports, anywhere in it, except for types alone; and the packages it lies in."""
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found = {module.rpartition(".")[0]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and id(node) not in types:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found & set(modules()))


def reached(rooms: tuple[str, ...]) -> set[str]:
    """The modules of core, without the package's name, that are reached from rooms of the package."""
    starts = tuple(f"penstock.{room}" for room in rooms)
    todo = [one for one in modules() if one in starts or one.startswith(tuple(f"{start}." for start in starts))]
    seen: set[str] = set()
    while todo:
        if (module := todo.pop()) not in seen:
            seen.add(module)
            todo += imported(module)
    return {module.removeprefix("penstock.core.") for module in seen if module.startswith("penstock.core.")}


def test_nothing_of_core_serves_the_simulator_alone_except_what_papers_published_and_row_machines() -> None:
    assert reached(SIMULATOR) - reached(SPARK) == {*PUBLISHED, *ROW_MACHINES}


def test_nothing_of_core_serves_spark_alone() -> None:
    assert reached(SPARK) - reached(SIMULATOR) == set()


def test_what_neither_reaches_is_the_readable_form_of_a_compiled_loop_or_not_wired_yet() -> None:
    core = {module.removeprefix("penstock.core.") for module in modules() if module.startswith("penstock.core.")}
    assert core - reached(SIMULATOR) - reached(SPARK) == {*ACCELERATED, *NOWHERE}


@pytest.mark.parametrize("name", ["control.planner", "fairness.sites.planner", "loop.machine", "network.planner"])
def test_planners_and_loop_are_reached_from_both(name: str) -> None:
    assert name in reached(SIMULATOR) & reached(SPARK)
