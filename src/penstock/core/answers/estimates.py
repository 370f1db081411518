r"""Estimates from weighted rows: a value, its standard error, and an interval.

A gate keeps row $i$ with probability $p_i$, independently, and gives it the weight $w_i = 1 / p_i$. That is
Poisson sampling, and the estimators of Horvitz and Thompson apply. With sums over the rows that were kept,

$$\hat\theta = \sum w y, \qquad \hat V(\hat\theta) = \sum w (w - 1) y^2$$

estimate a total ($y = 1$: a count) and its variance without bias. A ratio $R = \sum w a / \sum w b$ ($b = 1$: a mean)
is nearly unbiased; to first order its variance is

$$\hat V(\hat R) = \left(\frac{n}{n - 1}\right)^2 \frac{\sum w (w - 1) (a - \hat R b)^2}{(\sum w b)^2}$$

(one $n / (n - 1)$ because the ratio is estimated too, one because each row moves it towards itself, as in the
jackknife). Rows of weight 1 add nothing to a variance. If only such rows are left, the error is unknown, not 0. A group
may have lost every row that was left to chance, in one batch of several, and no row shows it.

**Intervals.** Where few rows are kept an estimate is skewed, and a symmetric interval lies too low. The variance of a
total of numbers that are not negative grows in step with the total itself, so it contains all $\theta$ for which

$$(\hat\theta - \theta)^2 \le q^2 \, \frac{\hat V}{\hat\theta} \, \theta$$

(a score interval: Wilson's, carried over). Rows of weight 1 are left out of it and added afterwards, and a total is at
least that of the rows seen. Means and ratios have the same interval. Where values have both signs it is symmetric,
$\pm q$ errors. A share of rows, a mean of 0 and 1, has Wilson's own,

$$(\hat R - R)^2 \le q^2 \, \kappa \, R (1 - R), \qquad \kappa = \frac{\sum w (w - 1)}{(\sum w)^2}$$

For a condition that few rows meet, the weights of such rows are uncertain: strata with low keep shares are rarely
seen. So `PRIOR` rows with the mean weight of the group are added.

Where no row, or every row, of those left meets a condition, others may still differ. So the error of a count under a
condition is at least that of one row with the mean weight of the group. The error of a share is at least what one row
in $1 / \kappa$ more would give, $\hat R (1 - \hat R) \ge \kappa / (1 + \kappa)^2$.

$q$ is the normal quantile for counts and shares, where only one number is unknown. For the rest it is that of Student's
distribution, because the variance is estimated too. The degrees of freedom are those of rows that weigh the same
(Kish): $n = (\sum g)^2 / \sum g^2$ with $g = w (w - 1)$; one less for a ratio.

Equal rows, or a single one, do not show how others differ: errors are unknown then, not 0.

**Rows that share a coin** stay or go together. Such a *cluster* counts like one row, with $\sum \sqrt{w (w - 1)} \, y$
over its rows in the place of $\sqrt{w (w - 1)} \, y$. If weights differ within it and $y$ has one sign, that is an
upper bound. Of two rows with a common coin the one with the lower weight is there whenever the other is.

The equations are written once, over any kind of `Numbers`: arrays here, columns in `penstock.spark.answers`.

>>> import numpy as np
>>> from penstock.core.answers.sums import Arrays, summed
>>> sums = summed(np.array([1.0, 4.0, 4.0, 4.0]), np.array([10.0, 2.0, 3.0, 4.0]))
>>> [round(float(number), 2) for number in total(sums, Quantile(0.95), Arrays())]
[46.0, 18.65, 19.0, 171.65, 4.0, 3.0]
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

from penstock.core.answers.sums import Numbers, Sums
from penstock.core.settings import number

#: Quantiles of Student's distribution are series in one over the degrees of freedom, good from here up.
LEAST_FREEDOM = 1.0
#: The maximum relative rounding error of sums of squares.
ROUNDING = 1e-12
#: Rows added to those that meet a condition, for their weights; Wilson adds as many, $q^2$.
PRIOR = 4.0


class Answer(NamedTuple):
    """An estimate: NumPy arrays, or columns. Unknown values are NaN, or null."""

    estimate: Any  #: the estimate
    error: Any  #: its standard error
    low: Any  #: lower end of the interval
    high: Any  #: upper end of the interval
    rows: Any  #: rows behind it
    effective_rows: Any  #: the equivalent number of rows of one weight; all of them if none was left to chance


@dataclass(frozen=True)
class Quantile:
    """How many errors an interval reaches to either side.

    >>> round(Quantile(0.95).normal, 3)
    1.96
    >>> [round(Quantile(0.95).student(freedom), 2) for freedom in (2, 10, 1000)]
    [4.27, 2.23, 1.96]
    """

    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse an invalid confidence."""
        number("confidence", self.confidence, 0.5, 0.999)

    @property
    def normal(self) -> float:
        """That of the normal distribution."""
        return NormalDist().inv_cdf(0.5 + self.confidence / 2.0)

    def student(self, freedom: Any) -> Any:  # noqa: ANN401 - a number, an array or a column
        """That of Student's distribution, as a series (Abramowitz and Stegun, 26.7.5)."""
        z = self.normal
        terms = (
            (z**3 + z) / 4.0,
            (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
            (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
            (79.0 * z**9 + 776.0 * z**7 + 1482.0 * z**5 - 1920.0 * z**3 - 945.0 * z) / 92160.0,
        )
        inverse = 1.0 / freedom
        tail = inverse * 0.0
        for term in reversed(terms):
            tail = (tail + term) * inverse
        return tail + z


class Found(NamedTuple):
    """The parts of an interval: the estimate, the part of it left to chance, its error and the scale of the error."""

    estimate: Any
    sampled: Any
    error: Any
    scale: Any
    q: Any
    effective_rows: Any
    known: Any


def total(sums: Sums, quantile: Quantile, numbers: Numbers, *, counted: bool = False) -> Any:  # noqa: ANN401 - see Numbers
    """A total; `counted` if every a is 0 or 1 and every b is 1, so that only a number of rows is unknown."""
    n = numbers.ratio(sums.g * sums.g, sums.gg)
    sampled, variance = sums.a - sums.certain, sums.aa
    scale = numbers.ratio(sums.aa, sampled)
    if counted:
        # The variance of a row of the group, per represented row.
        common = numbers.ratio(sums.bb, sums.b - sums.certain_b)
        variance = numbers.larger((common + 1.0) * common, sums.aa)
        more = (common + 1.0) * PRIOR
        scale = numbers.ratio(sums.aa + more * common, sampled + more)
        q, known = quantile.normal, sums.g > 0.0
    else:
        q, known = quantile.student(numbers.larger(n, LEAST_FREEDOM)), sums.aa > 0.0

    def told(found: Found) -> Answer:
        low, high = _score(sums, found, numbers)
        low = numbers.choose(sums.least >= 0.0, numbers.larger(low, sums.seen), low)
        low = numbers.choose(found.sampled == 0.0, found.estimate, low)  # or rounding might put it above
        high = numbers.choose((sums.least < 0.0) & (sums.most <= 0.0), -numbers.larger(-high, -sums.seen), high)
        return _told(sums, found, (low, high), numbers)

    return numbers.given(Found(sums.a, sampled, numbers.sqrt(variance), scale, q, n, known), told)


def ratio(sums: Sums, quantile: Quantile, numbers: Numbers) -> Any:  # noqa: ANN401 - see Numbers
    """A ratio of totals, or with b = 1 a mean; its error is unknown where the rows left to chance are one or alike."""
    estimate = numbers.ratio(sums.a, sums.b)
    n = numbers.ratio(sums.g * sums.g, sums.gg)
    size = sums.aa + estimate * estimate * sums.bb
    spread = size - estimate * sums.ab * 2.0
    # Just below two, because of rounding for two rows of one weight; just above 0, to exclude rounding errors.
    known = (n - 1.0 >= LEAST_FREEDOM - ROUNDING) & (spread > size * ROUNDING)
    variance = numbers.ratio(spread * n * n, (n - 1.0) * (n - 1.0) * sums.b * sums.b)
    q = quantile.student(numbers.larger(n - 1.0, LEAST_FREEDOM))
    found = Found(estimate, estimate, numbers.sqrt(variance), numbers.ratio(variance, estimate), q, n, known)
    return numbers.given(found, lambda found: _told(sums, found, _score(sums, found, numbers), numbers))


def share(sums: Sums, quantile: Quantile, numbers: Numbers) -> Any:  # noqa: ANN401 - see Numbers
    """A share of rows: every a is 0 or 1, and every b is 1."""
    share_of = numbers.ratio(sums.a, sums.b)
    n = numbers.ratio(sums.g * sums.g, sums.gg)
    chance = numbers.ratio(sums.bb, sums.b * sums.b)
    spread = numbers.larger(share_of * (1.0 - share_of), numbers.ratio(chance, (chance + 1.0) * (chance + 1.0)))
    error = numbers.sqrt(spread * chance)

    def told(found: Found) -> Answer:
        c = found.scale * found.q * found.q
        half = numbers.sqrt(c * found.estimate * (1.0 - found.estimate) + c * c / 4.0)
        middle = found.estimate + c / 2.0
        return _told(sums, found, ((middle - half) / (c + 1.0), (middle + half) / (c + 1.0)), numbers)

    return numbers.given(Found(share_of, share_of, error, chance, quantile.normal, n, sums.g > 0.0), told)


def _score(sums: Sums, found: Found, numbers: Numbers) -> tuple[Any, Any]:
    """Both ends: the score interval if all values have one sign, the symmetric one otherwise."""
    shift, reach = found.scale * found.q * found.q / 2.0, found.error * found.q
    half = numbers.sqrt(shift * (shift + found.sampled * 2.0))
    skewed = (sums.least >= 0.0) | (sums.most <= 0.0)
    low = numbers.choose(skewed, found.estimate + shift - half, found.estimate - reach)
    return low, numbers.choose(skewed, found.estimate + shift + half, found.estimate + reach)


def _told(sums: Sums, found: Found, ends: tuple[Any, Any], numbers: Numbers) -> Answer:
    """The answer, with null for unknown values and invalid weights."""

    def told(value: Any) -> Any:  # noqa: ANN401 - arrays or columns
        return numbers.choose((sums.wrong == 0) & found.known, value, numbers.unknown)

    return Answer(
        numbers.choose(sums.wrong == 0, found.estimate, numbers.unknown),
        told(found.error),
        told(ends[0]),
        told(ends[1]),
        sums.rows,
        numbers.choose(sums.g == 0.0, sums.rows, found.effective_rows),
    )
