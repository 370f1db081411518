"""Plans on disk: to read what was in force, and to write plans by hand."""

from penstock.messages.plan import KeepTable
from penstock.store.logs import PlanLog

__all__ = ["KeepTable", "PlanLog"]
