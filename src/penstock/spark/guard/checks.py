"""Settings of a guard, checked one by one: the value as it is used, or one line that says what is accepted."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Self

from pyspark.sql import Column

from penstock.core.balanced.policy import Balanced
from penstock.core.control.policies import BaseLine, FullKnowledge, LoadAware, Machines, Policy
from penstock.core.control.targets import MeanQueueLatency, Target, Throughput
from penstock.core.loop.binding import Start
from penstock.core.settings import one_of
from penstock.errors import PenstockError
from penstock.spark.row_columns import WEIGHT, RowColumns


class Control(NamedTuple):
    """The target of a guard, and its policy."""

    target: Target
    policy: Policy
    backlog: str  #: `keep` or `thin`
    row_gate: Callable[[], Machines] | None  #: makes the machines of a row gate, on a worker; None if there is none

    @classmethod
    def of(cls, target: object, policy: object, backlog: object, *, row_gate: object) -> Self:
        """Check the settings and their combination."""
        held, thin = usable_target(target), one_of("backlog", backlog, ("keep", "thin")) == "thin"
        if thin and held.fresh_s is None:
            accepted = f"'keep' with {type(held).__name__}"
            raise PenstockError.setting("backlog", backlog, accepted, "it does not depend on the age of rows")
        chosen = LoadAware() if policy is None else usable_policy(policy, row_gate=row_gate)
        # Made here, so that a target this policy cannot hold is refused before a query runs.
        chosen.planner(held)
        return cls(held, chosen, str(backlog), row_gate_machines(row_gate, held, chosen))

    @property
    def seed(self) -> int:
        """The seed of the hash that selects rows."""
        return int(getattr(self.policy, "seed", 0))

    @property
    def by_length(self) -> bool:
        """Whether plans depend on the length of work."""
        return not isinstance(self.target, Throughput) and not isinstance(self.policy, BaseLine)

    def start(self) -> Start:
        """The settings for the first batches."""
        rate = self.target.rows_per_s if isinstance(self.target, Throughput) else None
        return Start(time.time(), self.target.fresh_s if self.backlog == "thin" else None, rate)


def usable_target(target: object) -> Target:
    """The target, if it is one."""
    if not hasattr(target, "allowance") or isinstance(target, type):
        raise PenstockError.setting(
            "target", target, "MeanQueueLatency, MaxLag, Throughput or Deadline", "such as MeanQueueLatency('2 s')"
        )
    return target  # type: ignore[return-value]  # checked by its shape


def usable_policy(policy: object, *, row_gate: object) -> Policy:
    """The policy, if it is one that a gate can follow."""
    if not hasattr(policy, "planner") or isinstance(policy, type):
        raise PenstockError.setting("policy", policy, "a policy such as LoadAware(), RandomShed() or Balanced()")
    if isinstance(policy, FullKnowledge) and policy.cost_column is None:
        raise PenstockError("cost_column is missing: FullKnowledge needs the column with each row's true cost")
    if isinstance(policy, LoadAware) and policy.variant == "paper" and not row_gate:
        raise PenstockError.setting(
            "variant",
            policy.variant,
            "'penstock', or row_gate=True",
            "LAS as published sheds row by row, not batch by batch",
        )
    return policy  # type: ignore[return-value]  # checked by its shape


def row_gate_machines(row_gate: object, target: Target, policy: Policy) -> Callable[[], Machines] | None:
    """A function that makes the machines of a row gate on a worker; None without a row gate."""
    if row_gate is not True and row_gate is not False:
        raise PenstockError.setting("row_gate", row_gate, "True or False")
    if not row_gate:
        return None
    if not isinstance(target, MeanQueueLatency):
        raise PenstockError.setting("row_gate", row_gate, "it only together with a target of MeanQueueLatency")
    machines = getattr(policy, "machines", None)
    if machines is None or isinstance(policy, FullKnowledge):
        raise PenstockError.setting(
            "row_gate", row_gate, "it only together with a policy that sheds row by row, as LoadAware"
        )
    return partial(machines, target)


def column_name(setting: str, given: object) -> str:
    """The name of a column."""
    if not isinstance(given, str) or not given:
        raise PenstockError.setting(setting, given, "the name of a column")
    return given


def column_names(setting: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """The names of columns, given as one or as several."""
    names = tuple(given) if isinstance(given, list | tuple) else (given,)
    return tuple(column_name(setting, name) for name in names)


def columns_of(
    policy: Policy,
    *,
    key: str | Sequence[str] = (),
    row: str | Sequence[str],
    arrival: str | None,
    keep: str | Column | None,
    weight: str | None,
    weight_setting: str = "weight",
) -> RowColumns:
    """The columns that gate and probe share, by a user's settings; a `Balanced` policy may name the key instead."""
    names, by_policy = column_names("key", key), isinstance(policy, Balanced) and column_names("key", policy.key)
    if names and by_policy and names != by_policy:
        other = f"it once, to the guard or to Balanced: {', '.join(by_policy)}"
        raise PenstockError.setting("key", ", ".join(names), other)
    if arrival is not None and not isinstance(arrival, str):
        raise PenstockError.setting("arrival", arrival, "the name of a column")
    if not (keep is None or (isinstance(keep, str) and keep.strip()) or hasattr(keep, "alias")):
        raise PenstockError.setting("keep", keep, "a condition in SQL such as \"tier = 'gold'\", or a column")
    made = column_name(weight_setting, WEIGHT if weight is None else weight)
    if "." in made or "`" in made:
        raise PenstockError.setting(weight_setting, made, "a name without dots and backticks")
    columns = RowColumns(
        key=names or by_policy or (),
        row=column_names("row", row),
        arrival=arrival,
        keep=keep,
        cost=policy.cost_column if isinstance(policy, FullKnowledge) else None,
        weight=made,
        weight_named=weight is not None,
        weight_setting=weight_setting,
        worth=policy.worth if isinstance(policy, Balanced) else None,
    )
    columns.refuse_overlap()
    return columns


def guard_name(given: object) -> str:
    """A name that can be part of a metric's."""
    if not isinstance(given, str) or not given.isidentifier():
        raise PenstockError.setting("name", given, "a name of letters, digits and underscores")
    return given


def check_operator(function: object, form: object) -> None:
    """Refuse a value that is not a function, and an unknown form."""
    one_of("form", form, ("arrow", "pandas", "row"))
    if not callable(function):
        raise PenstockError.setting("function", function, "a function over record batches, data frames or rows")
