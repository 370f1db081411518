"""Measured numbers of the OSG experiments beside the stated ones, each with its tolerance."""

from collections.abc import Callable
from typing import Any

from penstock.sim.figure import Claim, Saying

# Tolerances of measured numbers around stated ones.
OSG = 0.05  #: of the speed-up of OSG
OSG_SMALL = 0.03  #: of the speed-up of OSG where the stated one is below 1.1
_KNOWN = 0.10  #: of the stated speed-up of Full Knowledge
GAIN = 0.05  #: of Round-Robin's completion time
GAIN_SMALL = 0.03  #: the same where the stated gain is 4 percent
_PLACE = 1  #: points of the x axis by which a peak may lie beside


def number(what: str, paper: float, measured: float, near: float) -> Claim:
    """A number that is near the stated one."""
    return Saying(f"{what} (within {near})", f"{paper}").measured(f"{measured:.2f}", abs(measured - paper) <= near)


def known(what: str, paper: float, measured: float) -> Claim:
    """A speed-up of Full Knowledge that is near the stated one."""
    holds = abs(measured / paper - 1.0) <= _KNOWN
    return Saying(f"{what} (within {_KNOWN:.0%})", f"{paper}").measured(f"{measured:.2f}", holds)


def gain(what: str, paper: float, measured: float, near: float) -> Claim:
    """A gain that is near the stated one."""
    holds = abs(measured - paper) <= near
    return Saying(f"{what} (within {100 * near:.0f} points)", f"{paper:.0%}").measured(f"{measured:.1%}", holds)


def place(what: str, paper: float, measured: float, places: list[Any], show: Callable[[Any], str]) -> Claim:
    """A peak that lies where it is stated, or one point beside."""
    beside = abs(places.index(measured) - places.index(paper))
    return Saying(f"{what} (or one beside)", show(paper)).measured(show(measured), beside <= _PLACE)
