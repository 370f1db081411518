"""The guard's tests pass on every engine: separate executor processes, and a client of a Spark Connect server.

`tests/conftest.py` starts these runs when the session begins, and lets these tests come before all others on Spark.
"""

import pytest
from tests.engines import ENGINES, RUNS


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("engine", ENGINES)
def test_the_guard_works_on(engine: str) -> None:
    code, said = RUNS.result(engine)
    assert code == 0, said[-6000:]
    assert " passed" in said
    assert "skipped" not in said
