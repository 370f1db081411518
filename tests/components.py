"""Real components for tests: brought from Debian or Maven into a cache outside the repository, or a reason to skip."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from types import ModuleType

EXAMPLES = Path(__file__).parents[1] / "examples"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
KAFKA_READ_BY = "Kafka was read by "
#: What is told at the end of a run: components whose version depends on what could be had.
USED: list[str] = []


def missing(what: str) -> NoReturn:
    """Skip because a component cannot be had; where nothing may be skipped (`CI` is set), fail."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}, and CI skips nothing")
    pytest.skip(what)


def pyspark_client() -> Path:
    """A folder with the package `pyspark-client`, as it is on PyPI, and nothing else."""
    folder = CACHE / "pyspark-client"
    if not (folder / "pyspark").exists():
        wanted = "pyspark-client>=4.2,<4.4"
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), wanted]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            missing(f"pyspark-client cannot be had: {result.stderr[-300:]}")
    return folder


def hadoop_aws() -> list[Path]:
    """Hadoop's client of S3, for the Hadoop of PySpark."""
    import pyspark  # noqa: PLC0415 - runs without Spark are welcome

    name = next((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")).stem
    versions = {"hadoop": name.removeprefix("hadoop-client-api-"), "sdk": "2.35.4", "accelerator": "1.3.1"}
    pom = Path(__file__).with_name("hadoop-aws.pom.xml")
    return sorted(example("kafka/broker").jars(f"hadoop-aws-{versions['hadoop']}", pom, versions).glob("*.jar"))


def example(name: str) -> ModuleType:
    """A file of `examples/` as a module that nobody can import by name: its functions travel to workers whole."""
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def debian_tool(name: str, package: str) -> Path:
    """A program of a Debian package: the installed one, or one unpacked into the cache."""
    if installed := shutil.which(name):
        return Path(installed)
    folder = CACHE / "debian" / package
    program = folder / "usr" / "bin" / name
    if not program.exists():
        apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
        if apt is None or dpkg is None:
            missing(f"{name} is not installed, and this is no Debian to bring it")
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            subprocess.run([apt, "update", "-qq"], capture_output=True, check=False)
        subprocess.run([apt, "download", "-qq", package], cwd=folder, capture_output=True, check=False)
        for archive in folder.glob("*.deb"):
            subprocess.run([dpkg, "-x", archive, folder], check=True)
            archive.unlink()
    if not program.exists():
        missing(f"{name} cannot be had: the package {package} could not be downloaded")
    return program


def debian_browser() -> tuple[Path, dict[str, str]]:
    """Debian's Chromium and the environment it needs: the installed one, or one unpacked with what it depends on."""
    if installed := shutil.which("chromium"):
        return Path(installed), {}
    folder = CACHE / "debian" / "chromium"
    program = folder / "usr" / "lib" / "chromium" / "chromium"
    whole = folder / "whole"
    if not whole.exists():
        apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
        if apt is None or dpkg is None:
            missing("chromium is not installed, and this is no Debian to bring it")
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            subprocess.run([apt, "update", "-qq"], capture_output=True, check=False)
        simulated = subprocess.run(
            [apt, "install", "--simulate", "-qq", "--no-install-recommends", "chromium"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        packages = [line.split()[1] for line in simulated.splitlines() if line.startswith("Inst ")]
        got = subprocess.run([apt, "download", "-qq", *packages], cwd=folder, capture_output=True, check=False)
        for archive in folder.glob("*.deb"):
            subprocess.run([dpkg, "-x", archive, folder], check=True)
            archive.unlink()
        if got.returncode or not program.exists():
            missing("chromium cannot be had: its packages could not be downloaded")
        whole.touch()
    libraries = sorted({str(path.parent) for path in (folder / "usr" / "lib").glob("*-linux-gnu*/**/*.so*")})
    return program, {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}
