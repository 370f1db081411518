r"""Keep shares as integers: the form in which a keep table reaches the gate.

A coin is a number from 0 to $2^{63} - 1$; a row passes when its coin is at most its bucket's threshold
$\theta = \lfloor 2^{63} s \rfloor - 1$. The lowest three bits of a threshold say for which of eight reasons the
bucket's rows are shed: they change the share by less than $2^{-59}$ and spare the gate a second look-up. Six of the
reasons are the table's own; the others are that of a batch's size (`core.control.batch_size`) and that of a row's age
(`core.control.backlog`).

A table that sheds some rows keeps others for certain, and a weight of 1 would not tell these from rows of a time when
nothing was shed. If only such rows are left of a group, nobody could say whether there were others. So a bucket that
is kept whole beside others that are not has a threshold of its own, `CERTAIN`, which lets every row through and makes
its weight the next number above 1.

Kept apart from the gate, because a Spark worker reads a table at every micro-batch and must start fast.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.messages.plan import KeepTable

#: The threshold that lets everything through.
KEEP_ALL = 2**63 - 1
#: The same where other rows are shed, and what a row weighs that passes it: 2**63 / (CERTAIN + 1), as doubles have it.
CERTAIN = 2**63 - 2**11 - 1
CERTAIN_WEIGHT = 1.0 + 2.0**-52
#: Reasons that a gate can tell apart, and the bits that number them.
MOST_REASONS = 8
REASON_BITS = MOST_REASONS - 1
#: The numbers of the two reasons that no table has: of a row's age, and of a batch's size.
BACKLOG_NUMBER, SIZE_NUMBER = MOST_REASONS - 1, MOST_REASONS - 2


def thresholds(table: KeepTable) -> NDArray[np.int64]:
    """The threshold of each bucket.

    >>> table = KeepTable("source", keep=(0.0, 0.5, 1.0), reasons=("first", "second", ""))
    >>> [hex(number) for number in thresholds(table)]
    ['-0x8', '0x3ffffffffffffff9', '0x7ffffffffffff7ff']
    >>> thresholds(KeepTable("source", keep=(1.0, 1.0), reasons=("",))) == KEEP_ALL
    array([ True,  True])
    """
    names = reasons(table)
    numbers = np.array([names.index(reason) if reason else 0 for reason in table.reasons], np.int64)
    scaled = np.asarray(table.keep) * 2.0**63
    certain = scaled >= CERTAIN + 1
    whole = np.where(certain, 0.0, scaled).astype(np.int64) - 1
    limit = np.int64(KEEP_ALL if certain.all() else CERTAIN)
    return np.where(certain, limit, (whole & ~np.int64(REASON_BITS)) | numbers)


def scaled(limits: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Thresholds of a batch of which only a share fits: all of them lower in proportion, for the batch's size.

    >>> [hex(number) for number in scaled(np.array([KEEP_ALL, 2**62 - 7, -8]), 0.5)]
    ['0x3ffffffffffffffe', '0x1ffffffffffffffe', '-0x2']
    >>> scaled(np.array([KEEP_ALL]), 1.0)[0] == KEEP_ALL
    np.True_
    """
    if share >= 1.0:
        return limits
    whole = ((limits + 1.0) * share).astype(np.int64) - 1
    return np.maximum(whole, -1) & ~np.int64(REASON_BITS) | np.int64(SIZE_NUMBER)


def reasons(table: KeepTable) -> tuple[str, ...]:
    """The reasons of a table in the order in which thresholds number them."""
    names = tuple(dict.fromkeys(reason for reason in table.reasons if reason))
    if len(names) > SIZE_NUMBER:
        raise PenstockError.setting("reasons", len(names), f"at most {SIZE_NUMBER} different ones in a table")
    return names
