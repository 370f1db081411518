"""Reads a control row in Python, as Catalyst does at the gate."""

from collections.abc import Sequence

from penstock.core.control.bucket_costs import BUCKETS
from penstock.spark.plans.control_row import _BOUND, _RULES, _SIC, _SIC_UNIT, VERSION, ControlRow  # its layout


def from_numbers(numbers: Sequence[int]) -> ControlRow:
    """The row that `to_numbers` wrote, without the time to make it."""
    bound_s, grace_s, fresh_s = (number / 1e6 for number in numbers[_BOUND:_RULES])
    return ControlRow(
        numbers[VERSION],
        tuple(numbers[:BUCKETS]),
        (bound_s, grace_s, fresh_s),
        rules=numbers[_RULES],
        sic=tuple(number * _SIC_UNIT for number in numbers[_SIC:]),
    )
