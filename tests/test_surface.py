"""What `import penstock` gives, and what it takes."""

import json
import subprocess
import sys

import pytest

import penstock

#: Packages that a guard has no use for.
HEAVY = ("matplotlib", "numba", "starlette", "typer", "rich", "pydantic", "sqlglot", "scipy", "pandas")
#: How many names a newcomer may have to choose from.
MOST_NAMES = 20


def imported_by(code: str) -> list[str]:
    command = f"{code}; import json, sys; print(json.dumps([one for one in {HEAVY} if one in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True, timeout=60)
    found: list[str] = json.loads(done.stdout)
    return found


def test_every_name_is_there() -> None:
    assert len(penstock.__all__) <= MOST_NAMES
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
    assert set(penstock.__all__) <= set(dir(penstock))
    with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'Nothing'"):
        penstock.Nothing  # noqa: B018


def test_importing_it_is_quick_because_it_loads_hardly_anything() -> None:
    code = "import sys; before = {*sys.modules}; import penstock; print(*sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    loaded = {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert loaded == {"penstock"}


def test_a_guard_loads_nothing_that_it_does_not_need() -> None:
    assert imported_by("import penstock as ps; ps.Guard; ps.LoadAware(); ps.MeanQueueLatency('2 s')") == []


def test_names_that_were_exported_before_are_found_with_a_warning() -> None:
    for name, home in penstock._MOVED_TO.items():  # noqa: SLF001 - the table itself
        with pytest.warns(DeprecationWarning, match=f"penstock.{name} is in {home} now"):
            assert getattr(penstock, name).__name__ == name
