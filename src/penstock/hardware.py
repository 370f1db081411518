"""The machine on which a number was measured."""

import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path

_PACKAGES = ("penstock", "numpy", "numba", "pyarrow", "pyspark")


Description = dict[str, str | int | float]


def describe() -> Description:
    """Processor, cores, memory and versions, as far as known."""
    about: Description = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
    }
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            about[package] = metadata.version(package)
    return about


def in_one_line(about: Description) -> str:
    """The description as a sentence."""
    return f"{about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB, Python {about['python']}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown processor")
