"""`make setup` on machines that lack something: it installs what it may, else says in one line what to do."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKED = ("pyproject.toml", "scripts/setup.sh", "scripts/apt.sh")
TOOLS = ("cat", "cksum", "dirname", "head", "ln", "rm", "sed", "sh")
INTERPRETER = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")


class Machine:
    """A checkout, and a folder of commands that is the whole PATH: a test decides what is installed."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "a checkout"
        self.commands = folder / "bin"
        self.apt_log = folder / "apt.log"
        (self.checkout / "scripts").mkdir(parents=True)
        for script in ("apt.sh", "maven.sh", "setup.sh"):
            shutil.copy(ROOT / "scripts" / script, self.checkout / "scripts")
        (self.checkout / "pyproject.toml").write_text('[project]\nname = "nothing"\nversion = "1"\n')
        self.commands.mkdir()
        for tool in TOOLS:
            (self.commands / tool).symlink_to(shutil.which(tool) or tool)
        self.command("id", "echo 0")
        self.command("python3", f'exec "{INTERPRETER}" "$@"')

    def command(self, name: str, script: str) -> Path:
        path = self.commands / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def java(self, version: str, name: str = "java") -> Path:
        """Installs a make-believe Java and returns its home."""
        home = self.command(f"jvm/{version}/bin/java", ":").parents[1]
        self.command(name, f"echo '    java.home = {home}'\necho 'openjdk version \"{version}\"' >&2")
        return home

    def apt(self, offers: str, then: str = ":") -> None:
        """Provides an apt-get that knows one package and runs a command when asked to install it."""
        self.command(
            "apt-get",
            f'echo "$*" >>"{self.apt_log}"\n'
            f'case "$*" in *update | *--simulate*" {offers}") ;; *--simulate*) exit 100 ;; *) {then} ;; esac',
        )

    def venv(self) -> Path:
        """Provides a finished .venv whose Python does nothing, and returns its stamp."""
        self.command("../a checkout/.venv/bin/python", ":")
        parts = [(self.checkout / name).read_text() for name in CHECKED]
        sums = subprocess.check_output([self.commands / "cksum"], input="".join(parts), text=True)
        stamp = self.checkout / ".venv" / ".complete"
        stamp.write_text(f"{self.checkout.resolve()}\n{sums}")
        return stamp

    def setup(self, script: str = "setup.sh", **env: str) -> tuple[int, list[str]]:
        """Runs the set-up from elsewhere; returns its exit code and what it printed."""
        result = subprocess.run(
            [self.commands / "sh", self.checkout / "scripts" / script],
            env={"HOME": str(self.checkout.parent), "PATH": str(self.commands)} | env,
            cwd="/",
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return result.returncode, result.stdout.splitlines()

    def jre(self) -> Path:
        return (self.checkout / ".venv" / "jre").readlink()

    def apt_installed(self) -> list[str]:
        calls = self.apt_log.read_text().splitlines()
        assert calls[0].endswith("update")
        return [call.split()[-1] for call in calls if " -y " in call]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_to_do_is_silent_and_links_java(machine: Machine) -> None:
    home = machine.java("17.0.2")
    machine.venv()

    assert machine.setup() == (0, [])
    assert machine.jre() == home


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_java_home_is_taken_when_the_java_on_the_path_is_too_old(machine: Machine, version: str) -> None:
    machine.java("1.8.0_391")
    home = machine.java(version, name="modern/bin/java")
    machine.venv()

    assert machine.setup(JAVA_HOME=str(machine.commands / "modern")) == (0, [])
    assert machine.jre() == home


def test_maven_is_found_or_installed_or_one_line_says_what_it_is_for(machine: Machine) -> None:
    missing = "penstock: Maven is missing: install it to run what needs Kafka"
    assert machine.setup("maven.sh") == (0, [missing])
    machine.apt("maven")
    assert machine.setup("maven.sh") == (0, ["penstock: installing maven with apt-get"])
    assert machine.apt_installed() == ["maven"]
    machine.command("mvn", ":")
    assert machine.setup("maven.sh") == (0, [])


def test_without_java_and_apt_one_line_says_what_to_install(machine: Machine) -> None:
    code, lines = machine.setup()

    assert code == 1
    assert lines[-1].startswith("penstock: Spark needs Java 17 or newer: install a JRE")
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize(("version", "major"), [("11.0.2", 11), ("1.8.0_391", 8)])
def test_an_old_java_is_named(machine: Machine, version: str, major: int) -> None:
    machine.java(version)

    code, lines = machine.setup()

    assert code == 1
    assert f"(java is Java {major})" in lines[-1]


def test_apt_installs_java(machine: Machine) -> None:
    home = machine.java("21.0.1", name="later")
    machine.apt("openjdk-21-jre-headless", then='ln -s later "$(dirname "$0")/java"')
    machine.venv()

    code, lines = machine.setup()

    assert code == 0
    assert lines[0] == "penstock: no Java 17 or newer is here: asking apt-get for one"
    assert machine.apt_installed() == ["openjdk-21-jre-headless"]
    assert machine.jre() == home


def test_apt_is_left_alone_by_a_user_who_may_not_install(machine: Machine) -> None:
    machine.apt("openjdk-17-jre-headless")
    machine.command("id", "echo 1000")

    code, lines = machine.setup()

    assert code == 1
    assert "Spark needs Java 17 or newer" in lines[-1]
    assert not machine.apt_log.exists()


def test_apt_is_run_through_sudo_where_that_asks_no_password(machine: Machine) -> None:
    machine.apt("openjdk-17-jre-headless")
    machine.command("id", "echo 1000")
    machine.command("true", ":")
    machine.venv()
    machine.command("sudo", 'while [ "$1" = -n ] || [ "$1" = -E ]; do shift; done; exec "$@"')

    machine.setup()

    assert machine.apt_installed() == ["openjdk-17-jre-headless"]


@pytest.mark.parametrize(
    "python",
    ["exit 1", 'case "$2" in *ensurepip*) exit 1 ;; esac'],
    ids=["an old Python", "a Python without its venv module"],
)
def test_python_is_installed_or_asked_for(machine: Machine, python: str) -> None:
    machine.command("python3", python)
    machine.apt("python3.11-venv")

    code, lines = machine.setup()

    assert code == 1
    assert lines[-1].startswith("penstock: needs Python 3.11 or newer")
    assert machine.apt_installed() == ["python3.11-venv"]


@pytest.mark.parametrize("case", ["interrupted", "changed", "broken"])
def test_an_unfinished_environment_is_made_afresh_and_a_dead_network_told_in_one_line(
    machine: Machine, case: str
) -> None:
    machine.java("17.0.2")
    stamp = machine.venv()
    if case == "interrupted":
        stamp.unlink()
    elif case == "changed":
        with (machine.checkout / "pyproject.toml").open("a") as project:
            project.write('description = "changed"\n')
    else:
        (machine.checkout / ".venv" / "bin" / "python").unlink()
    left_over = machine.checkout / ".venv" / "left-over"
    left_over.touch()
    if case != "interrupted":  # one real environment is enough: it takes seconds to make
        fresh = machine.command("../fresh/bin/python", "exit 1").parents[1].resolve()
        machine.command("python3", f'case "$1" in -c) echo "$0" ;; *) ln -s "{fresh}" .venv ;; esac')

    code, lines = machine.setup(PIP_CONFIG_FILE="/dev/null", PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0")

    assert code == 1
    assert not left_over.exists()
    assert not stamp.exists()
    assert lines[0].startswith("penstock: making .venv with ")
    assert lines[1].startswith("penstock: downloading and installing packages")
    assert lines[-1].startswith("penstock: could not install the packages")
    assert not any("Traceback" in line for line in lines)
