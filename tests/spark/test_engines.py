"""The guard's tests pass on every engine: separate executor processes, and a client of a Spark Connect server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.environ.get("PENSTOCK_TEST_ENGINE", "classic") != "classic", reason="this is the inner run")
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("engine", ["local-cluster", "connect"])
def test_the_guard_works_on(engine: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}"]
    result = subprocess.run(
        [*command, "tests/spark/test_guard.py"],
        cwd=ROOT,
        env={**os.environ, "PENSTOCK_TEST_ENGINE": engine},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-6000:]
    assert " passed" in result.stdout
    assert "skipped" not in result.stdout
