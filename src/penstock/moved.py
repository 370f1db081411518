"""Modules under their old names: each still imports, with a warning, until the next release."""

import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

_TABLE = """
core.admission core.network.admission_control
core.allot core.control.allotment
core.arrival core.control.backlog
core.backlog core.control.backlog
core.balance core.fairness.balance_sic
core.balanced_planner core.balanced.planner
core.baselines core.row.baselines
core.bucket_costs core.control.bucket_costs
core.budget core.row.latency_budget
core.buffer core.fairness.input_buffer
core.carry core.row.carried_weight
core.cells core.network.by_value.cells
core.check core.row.latency_goals
core.costs core.row.cost_model
core.deal core.grouping.deal
core.density core.control.density
core.drift core.network.map_upkeep
core.due core.fairness.service_debt
core.dynamic core.network.delay_shedding
core.exact core.network.exact
core.fair_planner core.fairness.planner
core.fair_share core.fairness.max_min
core.fair_share_nodes core.fairness.max_min_nodes
core.gate core.control.gate
core.heavy core.row.cost_model
core.histograms core.network.by_value.histograms
core.intervals core.network.intervals
core.jain core.fairness.jain
core.las core.row.las
core.load_aware core.row.load_aware
core.network_planner core.network.planner
core.network_statistics core.network.statistics
core.news messages.site_news
core.others core.fairness.sites.peers
core.partition_costs core.grouping.partition_costs
core.planner core.control.planner
core.policy core.control.policies
core.pooled_costs core.control.bucket_costs
core.price core.row.price
core.profile core.rate_profile
core.qos core.network.qos
core.roadmap core.network.roadmap
core.semantic core.network.by_value.roadmap
core.shared_knowledge core.fairness.members
core.shedder core.fairness.shedder
core.shedding core.row.machines
core.sic core.fairness.sic
core.site_planner core.fairness.sites.planner
core.site_shares core.fairness.sites.shares
core.sketch core.row.cost_sketch
core.target core.control.targets
core.thresholds core.control.gate
core.weighted spark.network.weighted_aggregates
core.weighted_sums core.answers.sums
core.work_budget core.fairness.work_budget
core.worth core.balanced.worth
federation.boxes federation.exchange
federation.folder_bus federation.bus
federation.site_file config.site_file
federation.site_report federation.account
journal store.journal
log store.logs
message messages.codec
network_file config.network_file
plan messages.plan
report messages.report
report_log store.report_log
sim.aurora_networks sim.aurora.networks
sim.queueing sim.las.queueing
sim.recorded sim.whatif.recorded
sim.themis_runs sim.themis.runs
spark.controller spark.guard.controller
spark.dealing spark.grouping.dealing
spark.feed spark.progress
spark.gate spark.plans.gate
spark.network.calibration spark.network.learning
spark.network.plan messages.plan
spark.network.snapshot views.network.snapshot
spark.network.stages spark.network.layout
spark.replay spark.quarantine.replay
spark.sic spark.fair.sic_operators
web.by_age web.why
web.costs web.guarded
web.plan_tail web.guarded
web.serve web.app
web.site web.guarded
web.typed_value web.why
"""
#: Old name to new name.
MOVED = {f"penstock.{old}": f"penstock.{new}" for old, new in map(str.split, _TABLE.strip().splitlines())}


class OldNames(MetaPathFinder, Loader):
    """Finds a module by its old name; what it holds is looked up in the new one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, if it has moved."""
        del path, target
        return spec_from_loader(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Say where it is now."""
        module.__dict__["__getattr__"] = names_of(module.__name__, MOVED[module.__name__])


def names_of(old: str, new: str) -> Callable[[str], object]:
    """Look-up of names that were in the module `old` and are in the module `new`."""

    def look_up(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(import_module(new), name, None)
        if found is None or isinstance(found, ModuleType):  # a module of this package is imported next
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warnings.warn(f"{old}.{name} is in {new} now", DeprecationWarning, stacklevel=2)
        return found

    return look_up
