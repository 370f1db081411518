"""Modules under their old names: each still imports, with a warning, until the next release."""

import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

#: By the room that modules were in and the one that they are in (- is the package itself): names, with `:` the new one.
_TABLE = """
- config network_file
network_file config load:network_file
- messages message:codec plan report
- store journal log:logs report_log
core core profile:rate_profile
core core.answers weighted_sums:sums
core core.balanced balanced_planner:planner worth
core core.control allot:allotment arrival:backlog backlog bucket_costs density gate planner policy:policies
core core.control pooled_costs:bucket_costs target:targets thresholds:gate
core core.fairness balance:balance_sic buffer:input_buffer due:service_debt fair_planner:planner fair_share:max_min
core core.fairness fair_share_nodes:max_min_nodes jain shared_knowledge:members shedder sic work_budget
core core.fairness.sites others:peers site_planner:planner site_shares:shares
core core.grouping deal partition_costs
core core.network admission:admission_control drift:map_upkeep dynamic:delay_shedding exact intervals
core core.network network_planner:planner network_statistics:statistics qos roadmap
core core.network.by_value cells histograms semantic:roadmap
core core.row baselines budget:latency_budget carry:carried_weight check:latency_goals costs:cost_model
core core.row heavy:cost_model las load_aware price shedding:machines sketch:cost_sketch
core messages news:site_news
core spark.network weighted:weighted_aggregates
federation config site_file
federation federation boxes:exchange folder_bus:bus site_report:account
sim sim.aurora aurora_networks:networks
sim sim.las queueing
sim sim.themis themis_runs:runs
sim sim.whatif recorded
spark spark feed:progress
spark spark.fair sic:sic_operators
spark spark.grouping dealing
spark spark.guard controller
spark spark.plans gate
spark spark.quarantine replay
spark.network messages plan
spark.network spark.network calibration:learning stages:layout
spark.network views.network snapshot
web web by_age:why costs:guarded plan_tail:guarded serve:app site:guarded typed_value:why
"""
#: Names that are not in the module that theirs became, or are called otherwise there: old module, new module, names.
_NAMES = """
core.backlog core.control.gate TOO_OLD
core.due core.fairness.service_debt Due:ServiceDebt
core.fair_planner core.fairness.by_source ALIKE UNFAIR
core.fair_planner core.fairness.members Choice Prefer
core.network_planner core.network.map_upkeep Map
core.others core.fairness.sites.peers Others:Peers
core.planner core.control.allotment DEAR OVER_CAPACITY POOR
core.planner core.control.out_of_reach SHORTER
core.policy core.control.planner SOURCE
log store.folder local_folder scheme_of
spark.guard spark.lifecycle METRICS_PORT
spark.network.plan store.bound_plans DropLog
"""


def _names(table: str) -> dict[str, str]:
    """Old name to new name."""
    return {
        f"penstock.{old}.{name.partition(':')[0]}".replace(".-.", "."): f"penstock.{new}.{name.rpartition(':')[2]}"
        for old, new, *names in map(str.split, table.strip().splitlines())
        for name in names
    }


MOVED, RENAMED = _names(_TABLE), _names(_NAMES)


class OldModule(ModuleType):
    """A module under its old name; a name in it stays what it was when a module of that name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        """Take what the import system sets, but for modules."""
        if not isinstance(value, ModuleType):
            super().__setattr__(name, value)


def spec_of(name: str) -> ModuleSpec | None:
    """The module of an old name; None if there was none."""
    room = any(one.startswith(f"{name}.") for one in MOVED)
    return spec_from_loader(name, OldLoader(), is_package=room) if name in MOVED else None


class OldLoader(Loader):
    """Makes a module under its old name; what it holds is looked up in the new one."""

    def exec_module(self, module: ModuleType) -> None:
        """Say where it is now."""
        module.__class__ = OldModule
        module.__dict__["__getattr__"] = names_of(module.__name__, MOVED[module.__name__])


def names_of(old: str, new: str) -> Callable[[str], object]:
    """Look-up of names that were in the module `old` and are in the module `new`."""

    def look_up(name: str) -> object:
        if name == "__all__":  # of `from old import *`
            return [one for one, it in vars(import_module(new)).items() if one[0] != "_" and type(it) is not ModuleType]
        if name.startswith("__"):
            raise AttributeError(name)
        home, _, own = RENAMED.get(f"{old}.{name}", f"{new}.{name}").rpartition(".")
        found = getattr(import_module(home), own, None)
        if found is None or isinstance(found, ModuleType):  # a module of this package is imported next
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        now = f"in {home}" if own == name else f"{home}.{own}"
        warnings.warn(f"{old}.{name} is {now} now", DeprecationWarning, stacklevel=2)
        return found

    return look_up
