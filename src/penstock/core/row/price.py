r"""The price of work: under overload, refuse the rows that cost most per unit of weight.

Refusing one row of 6 ms frees as much time as refusing sixty of 0.1 ms. A row passes while its cost per unit of weight
stays under a price. The price falls while rows wait longer than a set share of the target and rises otherwise:

$$\text{refuse if}\quad \hat w / \text{weight} > \pi\,\bar w\,e^{\beta (1 - q/\tau)}, \qquad
\pi \leftarrow \pi\,e^{g\,(\sigma - q/\tau)}$$

An idle operator accepts any row. A small share of refused rows passes anyway (`FLOOR`), chosen by the row's identity
and with the weight of all. So no class of rows disappears from the answers, and falling costs are noticed.
"""

import math

#: Share of the target at which the price does not change.
SET_POINT = 0.7
#: The effect of one row on the price, and of the current queue.
GAIN, BEND = 0.01, 0.5
#: The price in mean costs stays within this factor of 1 either way.
LIMIT = 32.0
#: Share of too expensive rows that pass anyway.
FLOOR = 0.01


class Price:
    """A price, in mean costs per unit of weight, that follows the queue.

    >>> price = Price(target_s=1.0)
    >>> price.refuses(relative_cost=10.0, queuing_s=0.0)
    False
    >>> for _ in range(100):  # rows wait three times the target: the price falls by e^-2.3
    ...     price.follow(queuing_s=3.0)
    >>> price.refuses(relative_cost=10.0, queuing_s=3.0), price.refuses(relative_cost=0.5, queuing_s=3.0)
    (True, False)
    """

    reason = "costly row under overload"

    def __init__(self, target_s: float) -> None:
        self._target_s = target_s
        self._price = LIMIT

    def follow(self, queuing_s: float) -> None:
        """Move the price by one row's predicted queuing latency."""
        step = GAIN * (SET_POINT - queuing_s / self._target_s)
        self._price = min(max(self._price * math.exp(step), 1.0 / LIMIT), LIMIT)

    def refuses(self, relative_cost: float, queuing_s: float) -> bool:
        """Whether a row at this cost (in mean costs per unit of weight) is too expensive now."""
        return queuing_s > 0.0 and relative_cost > self._price * math.exp(BEND * (1.0 - queuing_s / self._target_s))
