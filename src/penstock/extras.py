"""Extras of the package: the plain one has what a guard needs, others add the packages listed here."""

from importlib import import_module
from importlib.util import find_spec

from penstock.errors import PenstockError

#: How versions of Spark begin that no guard runs on.
_TOO_OLD = ("1.", "2.", "3.")
#: The modules that each extra brings.
_EXTRAS = {
    "cli": ("rich", "typer"),
    "kafka": ("confluent_kafka",),
    "network": ("pydantic", "pydantic_core", "scipy", "sqlglot"),
    "objects": ("obstore",),
    "otel": ("opentelemetry",),
    "plot": ("matplotlib",),
    "sim": ("numba",),
    "spark": ("pandas", "prometheus_client", "pyspark"),
    "web": ("anyio", "starlette", "uvicorn"),
}
_EXTRA_OF = {module: extra for extra, modules in _EXTRAS.items() for module in modules}


def require_spark() -> None:
    """Refuse in one line to start what needs Spark and does not find it."""
    for module in ("pyspark", "pandas"):
        if find_spec(module) is None:
            raise missing(ModuleNotFoundError(name=module))


def missing(error: ImportError) -> PenstockError:
    """The error in one line that names the extra to install; raises the error itself if no extra brings the module."""
    module, _, part = (error.name or "").partition(".")
    if module not in _EXTRA_OF:
        raise error
    if module == "pyspark" and part and (version := import_module(module).__version__).startswith(_TOO_OLD):
        return PenstockError(f"Spark {version} is too old: Penstock needs Spark 4.0 or later")
    return PenstockError(f"{module.replace('_', '-')} is missing: run pip install 'penstock[{_EXTRA_OF[module]}]'")
