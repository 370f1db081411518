"""The command line in the tests' own process, which is much faster than to start one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from penstock.cli.main import main


class Result(NamedTuple):
    """How a command ended and what it said."""

    status: object
    out: str
    err: str


Command = Callable[..., Result]


def in_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *first: str) -> Command:
    """Runs `penstock` with these arguments and more; an error it does not catch fails the test."""

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["penstock", *first, *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return Result(stop.value.code, *capfd.readouterr())

    return run
