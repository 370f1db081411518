r"""The latency budget: a check that holds the average over every long stretch, not only since the start.

The paper's running average is unbounded slack $S = \sum (\tau - q)$: a row passes while $q \le \tau + S$. Three changes
make it a guarantee for the present:

- a limit, $S \le b\,\tau$: calm hours save at most b rows' worth of credit. So any n successive rows that the budget
  admits while it is not in debt wait at most $(n + b)\,\tau$ in total;
- patience: in debt, rows still pass while $q \le \varphi\,\tau\,D / (D - S)$. Each of them pays back. The deeper the
  debt, the shorter the waits that pass, but some always do: no state is stuck;
- a floor: a debt beyond `DEBT_ROWS` rows' worth is forgiven, so a long stall does not starve the rows after it.

The budget is kept in predicted latencies and corrected with measured ones (`correct`), so it balances in measured
waits, even with wrong estimates.
"""

from penstock.core.settings import duration_s

#: Aim this much below the target, to stay within it.
MARGIN = 0.97
#: Maximum credit, in rows' worth of the target.
DEPTH_ROWS = 32.0
#: Maximum debt, in rows' worth of the target.
DEBT_ROWS = 1024.0
#: In debt, rows that wait less than this share of the target pass; at a debt of this many rows, less than half of it.
PATIENCE, PATIENCE_ROWS = 0.9, 64.0


class LatencyBudget:
    """Slack that rows fill when they wait less than the target and spend when they wait more.

    >>> budget = LatencyBudget(target_s=1.0)
    >>> budget.refuses(32.1), budget.refuses(32.0)  # a full budget: the aim of 0.97 plus 32 rows' worth of it
    (True, False)
    >>> budget.correct(32.0)  # rows waited 32 s longer in all than predicted: a little debt
    >>> budget.refuses(0.9), budget.refuses(0.8)
    (True, False)
    >>> budget.correct(1e9)  # deep in debt, only very short waits pass and pay back
    >>> budget.refuses(0.06), budget.refuses(0.05)
    (True, False)
    """

    reason = "latency budget spent"

    def __init__(self, target_s: float) -> None:
        self.aim_s = duration_s("target_s", target_s) * MARGIN
        self._brim_s = self.aim_s * DEPTH_ROWS
        self._bottom_s = -self.aim_s * DEBT_ROWS
        self._patience_s = target_s * PATIENCE
        self._patience_debt_s = self.aim_s * PATIENCE_ROWS
        self._slack_s = self._brim_s

    def refuses(self, queuing_s: float) -> bool:
        """Whether the budget cannot pay for a row that waits this long."""
        if queuing_s <= self.aim_s + self._slack_s:
            return False
        debt_s = max(-self._slack_s, 0.0)
        return queuing_s > self._patience_s * self._patience_debt_s / (self._patience_debt_s + debt_s)

    def record(self, queuing_s: float) -> None:
        """Record a row that passed with this predicted latency."""
        self._slack_s = self._within(self._slack_s + (self.aim_s - queuing_s))

    def correct(self, error_s: float) -> None:
        """Record by how much waits exceeded the prediction (negative: less)."""
        self._slack_s = self._within(self._slack_s - error_s)

    def _within(self, slack_s: float) -> float:
        return min(max(slack_s, self._bottom_s), self._brim_s)
