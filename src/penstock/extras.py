"""Extras of the package: the plain one has what a guard needs, others add the packages listed here."""

from importlib.util import find_spec

from penstock.errors import PenstockError

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


def missing(error: ModuleNotFoundError) -> PenstockError:
    """The error in one line that names the extra to install; raises the error itself if no extra brings the module."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRA_OF:
        raise error
    return PenstockError(f"{module.replace('_', '-')} is missing: run pip install 'penstock[{_EXTRA_OF[module]}]'")
