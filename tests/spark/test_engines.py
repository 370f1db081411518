"""The guard's tests pass on every engine: separate executor processes, and a client of a Spark Connect server.

`tests/conftest.py` starts these runs when the session begins. Tests of networks, with Kafka, of whole programs and of
the simulator are run in the same way, on the usual engine.
"""

import pytest
from tests.components import KAFKA_READ_BY, USED
from tests.engines import AT_LAST, BESIDE, QUIETLY, RUNS


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("name", [*BESIDE, *AT_LAST, *QUIETLY])
def test_the_tests_pass_that_are_run_beside(name: str) -> None:
    code, said = RUNS.result(name)
    assert code == 0, said[-6000:]
    assert " passed" in said
    USED.extend(line for line in said.splitlines() if line.startswith(KAFKA_READ_BY))
    if " skipped" in said:  # that run fails by itself where nothing may be skipped
        pytest.skip(said.splitlines()[-1])
