"""What stands beside every number."""

import json
import os
import platform
from importlib import metadata
from pathlib import Path

import pytest

from penstock import hardware


def test_processor_cores_memory_and_versions_are_told_as_json() -> None:
    about = hardware.describe()
    assert json.loads(json.dumps(about, allow_nan=False)) == about
    assert about["python"] == platform.python_version()
    assert about["numpy"] == metadata.version("numpy")
    assert isinstance(about["processor"], str)
    assert about["processor"]
    assert 0 < about["memory_gib"] < 1e6


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tell which cores are allowed")
def test_only_cores_this_process_may_use_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7})
    assert hardware.describe()["cores"] == 3


def test_a_system_without_processor_information_is_described_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    read_text = Path.read_text

    def refuse(path: Path, *given: object, **named: object) -> str:
        if path == Path("/proc/cpuinfo"):
            raise FileNotFoundError
        return read_text(path, *given, **named)

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert hardware.describe()["processor"] == "unknown processor"


def test_a_package_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "numba":
            raise metadata.PackageNotFoundError
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    about = hardware.describe()
    assert "numba" not in about
    assert about["numpy"] == "1.0"


def test_one_line_for_people_names_processor_cores_memory_and_python() -> None:
    about = {"processor": "Z80", "cores": 2, "memory_gib": 7.5, "python": "3.11.7"}
    assert hardware.in_one_line(about) == "Z80, 2 cores, 7.5 GiB, Python 3.11.7"
