"""A process for small runs of whole programs, which share its JVM: its start takes longer than they do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

Small = Callable[[str], dict[str, Any]]
#: Runs the scripts it is sent, one a line, and answers each with its result.
RUNNER = """
import json, os, pathlib, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # nobody else writes where the answers go
for line in sys.stdin:
    folder, script = json.loads(line)
    names = {"folder": pathlib.Path(folder)}
    try:
        exec(script, names)
        answer = {"result": names["result"]}
    except BaseException:
        answer = {"error": traceback.format_exc()}
    print(json.dumps(answer), file=answers, flush=True)
"""


@pytest.fixture(scope="session")
def runner() -> Iterator[subprocess.Popen[str]]:
    """One process for the demo and all small benchmarks: it starts one JVM, in which each has sessions of its own."""
    command = [sys.executable, "-c", RUNNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def small(runner: subprocess.Popen[str], tmp_path: Path) -> Small:
    """Runs a program with less effort than its command allows; in the script `folder` is the test's own."""

    def run(script: str) -> dict[str, Any]:
        assert runner.stdin
        assert runner.stdout
        runner.stdin.write(json.dumps([str(tmp_path), script]) + "\n")
        runner.stdin.flush()
        answer = json.loads(runner.stdout.readline())
        assert "error" not in answer, answer["error"]
        found: dict[str, Any] = answer["result"]
        return found

    return run
