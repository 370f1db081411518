"""The guard's tests pass on every engine: separate executor processes, and a client of a Spark Connect server.

`tests/conftest.py` starts these runs when the session begins, and lets these tests come before all others on Spark. The
tests of networks are run in the same way, on the usual engine.
"""

import pytest
from tests.engines import BESIDE, RUNS


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("name", BESIDE)
def test_the_tests_pass_that_are_run_beside(name: str) -> None:
    code, said = RUNS.result(name)
    assert code == 0, said[-6000:]
    assert " passed" in said
    assert "skipped" not in said
