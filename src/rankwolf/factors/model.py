"""The fit of a factor model by EM: rows completed by the row step, covariances turned into loadings by the column step.

It starts from clipped, standardised columns. On a long table the rounds run on a sample of the rows, and the last ones
on all of them, as passes of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwolf.data import Source, Sums, Task
from rankwolf.factors.columns import LEAST_VARIANCE, loadings_and_noise
from rankwolf.factors.parameters import Factors, FactorSettings
from rankwolf.factors.rows import CompletedRows, cells_that_count, completed, rows_of, standardised
from rankwolf.ground.arrays import Array

# 1.4826 times the median absolute deviation is the standard deviation of normal numbers.
MEDIAN_TO_DEVIATION = 1.4826
# The scale of a constant column, relative to its value: any other value is an outlier.
CONSTANT_SCALE = 1e-6
# Numbers of a block of rows: a few temporaries of it stay near the cache.
BLOCK_NUMBERS = 2**15
# Rows whose residuals tell how heavy the tails of columns are.
TAIL_ROWS = 1000
# The quantiles of |residual| that tell it, and those of Gaussian numbers.
TAIL_QUANTILES, GAUSSIAN_QUANTILES = (0.5, 0.9), (0.67449, 1.64485)
# Rows that stand for the scatter of a wide table, once batches follow.
MOST_FACTOR_ROWS = 256
DEFAULT = FactorSettings()


@dataclass
class RowSums(Sums):
    """Sums over completed rows z: their number, Σz, and Σ z zᵀ with the covariance of what was replaced."""

    count: int
    totals: Array
    products: Array


class CompleteRows(Task[RowSums]):
    """One round over all rows of a source. Which cells count is decided from the start, twice: no state is kept."""

    sees_all = True

    def __init__(self, factors: Factors, settings: FactorSettings) -> None:
        self.factors, self.settings = factors, settings

    def start(self) -> RowSums:
        """Zeros."""
        return empty_sums(len(self.factors.noise))

    def visit(self, sums: RowSums, tile: Any, *rows: Array) -> None:
        """Complete the rows of one tile, and add them up."""
        sums.add(sums_of_rows(decided_rows(tile, self.factors, self.settings)))


def empty_sums(columns: int) -> RowSums:
    """Sums without any rows."""
    return RowSums(0, np.zeros(columns), np.zeros((columns, columns)))


def decided_rows(
    rows: Array, factors: Factors, settings: FactorSettings = DEFAULT, live: Array | None = None
) -> CompletedRows:
    """New rows, completed. Which of their cells count is decided from nothing but the factors, unless it is given."""
    values, started = start_rows(rows, factors, settings)
    precise = values.shape[1] <= settings.precision_columns
    if live is not None:
        return completed(values, live, factors, precise)
    live = started
    made, rest = completed(values, live, factors, precise), np.arange(len(values))
    for _ in range(settings.decisions):
        near = cells_that_count(made, factors, settings.cut, precise)
        changed = rows_of(near != made.live)
        if not changed.size:
            break
        rest = rest[changed]
        live[rest] = near[changed]
        made = completed(values[rest], live[rest], factors, precise)
    return made if len(rest) == len(values) else completed(values, live, factors, precise)


def start_rows(rows: Array, factors: Factors, settings: FactorSettings) -> tuple[Array, Array]:
    """Standardised rows, and which of their cells count before any is predicted."""
    values = standardised(np.asarray(rows), factors)
    with np.errstate(invalid="ignore"):
        return values, np.abs(values) < factors.limits(settings.start_cut)


def sums_of_rows(made: CompletedRows) -> RowSums:
    """The sums of completed rows."""
    values = made.values
    return RowSums(len(values), values.sum(axis=0), values.T @ values + made.covariance)


@dataclass(frozen=True)
class Scatter:
    """What is kept of completed rows: how many, Σ z zᵀ about their mean as n × n ``matrix``, and its ``diagonal``.

    Of a wide table the matrix is F, with fewer rows than columns, and FᵀF differs from Σ z zᵀ in the diagonal alone.
    """

    rows: float
    matrix: Array
    diagonal: Array

    def faded(self, share: float) -> Scatter:
        """The scatter of rows that count less."""
        wide = self.matrix.shape[0] != self.matrix.shape[1]
        return Scatter(
            share * self.rows, (share**0.5 if wide else share) * self.matrix, share * self.diagonal
        )

    def plus(self, other: Scatter, apart: Array) -> Scatter:
        """The scatter of both; ``apart`` is the difference of their means."""
        rows = self.rows + other.rows
        between = (self.rows * other.rows / rows) ** 0.5 * apart
        diagonal = self.diagonal + other.diagonal + between**2
        if self.matrix.shape[0] == self.matrix.shape[1]:
            return Scatter(rows, self.matrix + other.matrix + np.outer(between, between), diagonal)
        stack = np.vstack([self.matrix, other.matrix, between])
        if len(stack) > MOST_FACTOR_ROWS:
            left = np.linalg.eigh(stack @ stack.T)[1]
            stack = left[:, -MOST_FACTOR_ROWS:].T @ stack
        return Scatter(rows, stack, diagonal)


def scatter_of_sums(sums: RowSums, center: bool) -> tuple[Scatter, Array]:
    """(scatter, mean) from the sums over rows; the mean stays zero without ``center``."""
    rows = float(sums.count)
    mean = sums.totals / rows if center else np.zeros_like(sums.totals)
    matrix = sums.products - rows * np.outer(mean, mean)
    return Scatter(rows, matrix, np.diag(matrix).copy()), mean


def scatter_of_rows(values: Array, unknown: Array, center: bool) -> tuple[Scatter, Array]:
    """The same from the completed rows themselves, for wide tables; ``unknown`` is the diagonal of what is replaced."""
    mean = values.mean(axis=0) if center else np.zeros(values.shape[1])
    moved = values - mean
    diagonal = np.sum(moved**2, axis=0) + unknown
    matrix = moved if len(moved) < moved.shape[1] else moved.T @ moved
    return Scatter(float(len(values)), matrix, diagonal), mean


def updated(
    factors: Factors, scatter: Scatter, shift: Array, most: int, settings: FactorSettings, first: bool = False
) -> Factors:
    """The factors after one column step; ``shift`` moves the centre."""
    rows, n = scatter.rows, len(scatter.diagonal)
    diagonal = np.maximum(scatter.diagonal / rows, LEAST_VARIANCE)
    if scatter.matrix.shape[0] == n:
        covariance = scatter.matrix / rows
        covariance[np.diag_indices(n)] = diagonal
    else:
        covariance = scatter.matrix / rows**0.5
    noise = 0.5 * diagonal if first else factors.noise
    prior = factors.strength * n / rows
    loadings, noise = loadings_and_noise(covariance, diagonal, noise, prior, most, settings.floor)
    centre = factors.centre + factors.scale * shift
    return replace(factors, centre=centre, loadings=loadings, noise=noise)


@dataclass(frozen=True)
class Fitted:
    """A fitted model, after so many ``rounds`` on the rows ``sample``. ``live``: their cells that count, if they are
    all rows."""

    factors: Factors
    scatter: Scatter
    rounds: int
    sample: Array
    live: Array | None


def fit_factors(
    source: Source,
    most: int | None,
    center: bool,
    rng: np.random.Generator,
    settings: FactorSettings = DEFAULT,
    cleaned: Callable[[Array, Array], Array] | None = None,
) -> Fitted:
    """The model of a dense table, with at most ``most`` directions.

    ``cleaned``: (numbers of rows, these rows standardised) -> rows to start from, in place of clipped ones.
    """
    m, n = source.user_shape
    count = max(settings.sample_rows[0], settings.sample_rows[1] * n)
    numbers, sample = _sample(source, count, rng)
    most = max(1, min(n - 1, m - 1)) if most is None else most
    run = _Rounds(sample, start_of(sample, center, settings), most, center, settings)
    run.begin(None if cleaned is None else cleaned(numbers, start_rows(sample, run.factors, settings)[0]))
    rounds, whole = run.until_settled(), len(sample) == m
    for _ in range(0 if whole or not run.precise else settings.full_rounds):
        run.update(*scatter_of_sums(_all_rows(source, run.factors, settings), center))
    return Fitted(run.factors, run.scatter, rounds, sample, run.live if whole else None)


def learn_batch(
    fitted: Fitted,
    rows: Array,
    forgetting: float,
    most: int | None,
    center: bool,
    settings: FactorSettings = DEFAULT,
) -> Fitted:
    """The model after one more batch of ``rows``; earlier rows count ``forgetting`` times as much as before.

    First all cells of the batch count but gross ones, so that it can teach a new direction; then those that the model
    which has learnt it calls near.
    """
    past, n = fitted.scatter.faded(forgetting), rows.shape[1]
    most = max(1, n - 1) if most is None else most
    factors = fitted.factors
    for number in range(settings.batch_rounds):
        live = start_rows(rows, factors, settings)[1] if number == 0 else None
        made = decided_rows(rows, factors, settings, live)
        # In units of the first centre, from which the earlier rows are counted.
        values = made.values + (factors.centre - fitted.factors.centre) / factors.scale
        made = replace(made, values=values)
        if past.matrix.shape[0] == n:
            batch, mean = scatter_of_sums(sums_of_rows(made), center)
        else:
            batch, mean = scatter_of_rows(values, made.covariance, center)
        scatter = past.plus(batch, mean)
        shift = mean * batch.rows / scatter.rows
        anew = replace(factors, centre=fitted.factors.centre)
        factors = updated(anew, scatter, shift, most, settings)
    return replace(fitted, factors=factors, scatter=scatter, live=None)


def _sample(source: Source, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """(numbers, rows) of at most ``count`` rows: random ones of a matrix in memory, spread ones elsewhere."""
    m = source.user_shape[0]
    if m <= count:
        return np.arange(m), np.ascontiguousarray(source.read_user_rows(0, m))
    rows = np.sort(rng.choice(m, count, replace=False)) if source.in_memory else source.spread_rows(count)
    return rows, np.ascontiguousarray(source.read_user(rows))


def _all_rows(source: Source, factors: Factors, settings: FactorSettings) -> RowSums:
    """The sums of one round over all rows: a pass, where tiles are rows of the user's matrix."""
    task = CompleteRows(factors, settings)
    if not source.transposed:
        with source.one_blas_thread():
            return source.run(task)
    sums = task.start()
    for block in source.user_blocks():
        task.visit(sums, block)
    return sums


def ascending(rows: Array) -> tuple[Array, Array]:
    """(the columns of ``rows`` as sorted rows, with NaN at their ends; how many numbers each has)."""
    columns = np.array(rows.T, rows.dtype, order="C")
    columns.sort(axis=1)
    return columns, np.count_nonzero(columns == columns, axis=1)


def medians(rows: Array) -> Array:
    """The median of each column without NaN; 0 where it has nothing else. A few columns are copied at a time."""
    found, step = np.zeros(rows.shape[1]), max(1, BLOCK_NUMBERS // len(rows))
    for first in range(0, len(found), step):
        columns, seen = ascending(rows[:, first : first + step])
        middles = [columns[np.arange(len(columns)), np.maximum(seen - k, 0) // 2] for k in (1, 0)]
        middles[1] = np.where(seen % 2 == 0, middles[1], middles[0])
        found[first : first + step] = np.where(seen > 0, 0.5 * middles[0] + 0.5 * middles[1], 0.0)
    return found


def start_of(sample: Array, center: bool, settings: FactorSettings) -> Factors:
    """Robust centres and scales of the columns; no loadings yet.

    The scale is that of the median absolute deviation. Where more than half of the cells are equal, that is zero: there
    it is the median step away from them, and a cell is known to a share of such a step, so that in columns of two
    values neither is an outlier.
    """
    n = sample.shape[1]
    middles, deviations = medians(sample), np.zeros(n)
    centre, resolution = middles if center else np.zeros(n), np.zeros(n)
    step = max(1, BLOCK_NUMBERS // len(sample))
    for first in range(0, n, step):
        part = slice(first, first + step)
        deviations[part] = medians(np.abs(sample[:, part] - centre[part]))
    for j in np.flatnonzero(deviations == 0.0).tolist():
        steps = np.abs(sample[:, j] - centre[j])
        steps = steps[steps > 0.0]
        resolution[j] = settings.step if steps.size else 0.0
        constant = CONSTANT_SCALE / MEDIAN_TO_DEVIATION * max(abs(float(middles[j])), CONSTANT_SCALE)
        deviations[j] = np.median(steps) if steps.size else constant
    scale = np.where(np.isnan(sample).all(axis=0), 1.0, MEDIAN_TO_DEVIATION * deviations)
    ones, wide = np.ones(n), n > min(len(sample), settings.precision_columns)
    # Where columns are far more than rows, a weaker prior keeps every direction of noise.
    strength = settings.significant if wide else settings.strength
    return Factors(centre, scale, np.zeros((n, 0)), ones, resolution, ones, ones, strength)


class _Rounds:
    """The rounds of EM on a sample: which cells count is kept from one to the next."""

    def __init__(
        self, sample: Array, start: Factors, most: int, center: bool, settings: FactorSettings
    ) -> None:
        self.sample, self.factors, self.most = sample, start, most
        self.center, self.settings = center, settings
        self.precise = sample.shape[1] <= settings.precision_columns

    def begin(self, cleaned: Array | None) -> None:
        """The first loadings: from ``cleaned`` rows, or from rows that are clipped, with zeros where cells miss."""
        rows, self.live = start_rows(self.sample, self.factors, self.settings)
        share = np.ones(rows.shape[1])
        if cleaned is None:
            clip = self.settings.start_clip
            cleaned = np.clip(rows, -clip, clip)
            cleaned[np.isnan(cleaned)] = 0.0
            share = np.maximum(np.mean(self.sample == self.sample, axis=0), 1.0 / len(rows))
        squares = np.sum(cleaned**2, axis=0)
        if self.precise:
            products = cleaned.T @ cleaned
            products[np.diag_indices(len(products))] = squares / share
            scatter = Scatter(float(len(rows)), products, squares / share)
        else:
            scatter = scatter_of_rows(cleaned, squares / share - squares, False)[0]
        still = np.zeros(rows.shape[1])
        for number in range(self.settings.start_steps):
            self.update(scatter, still, first=number == 0)

    def update(self, scatter: Scatter, shift: Array, first: bool = False) -> None:
        """One column step."""
        self.scatter = scatter
        self.factors = updated(self.factors, scatter, shift, self.most, self.settings, first)

    def until_settled(self) -> int:
        """Rounds until the covariance settles; returns their number."""
        fewest, more = self.settings.rounds
        number, dead = 0, 0.0
        while number < fewest + more * dead:
            before = self.factors
            self._round(number)
            dead = 1.0 - np.count_nonzero(self.live) / self.live.size
            if number > self.settings.free_rounds + 1 and self._settled(before, 1.0 - (1.0 - dead) ** 2):
                break
            number += 1
        return number

    def _settled(self, before: Factors, rate: float) -> bool:
        """Whether the last round changed little since ``before``; EM converges at about this ``rate``."""
        settings, noise = self.settings, self.factors.noise
        change = np.mean(np.abs(noise / before.noise - 1.0))
        limits = np.mean(np.abs(self.factors.limits(settings.cut) / before.limits(settings.cut) - 1.0))
        if limits > settings.limit_change:
            return False
        if not self.precise:
            return bool(change < settings.most_change)
        if change > settings.noise_change:
            return False
        after = self.factors.covariance()
        root = np.sqrt(np.diag(after))
        change = np.mean(np.abs(after - before.covariance()) / np.outer(root, root))
        return bool(change < min(settings.most_change, settings.settled * (1.0 / max(rate, 1e-9) - 1.0)))

    def _round(self, number: int) -> None:
        settings, factors, n = self.settings, self.factors, self.sample.shape[1]
        sums = empty_sums(n if self.precise else 0)
        ratios, kept, unknown = [], [], np.zeros(n)
        for rows in self._blocks():
            block = standardised(self.sample[rows], factors, np.float32)
            made = completed(block, self.live[rows], factors, self.precise)
            if number >= settings.free_rounds:
                self.live[rows] = cells_that_count(made, factors, settings.cut, self.precise, settings.back)
            if rows.start < TAIL_ROWS:
                ratios.append(np.abs(made.ratios[: TAIL_ROWS - rows.start]))
                ratios[-1].ravel()[np.flatnonzero(~made.live[: TAIL_ROWS - rows.start])] = np.nan
            if self.precise:
                sums.add(sums_of_rows(made))
            else:
                kept.append(made.values)
                unknown += made.covariance
        size, power = tails_of(np.vstack(ratios), factors.resolution, settings)
        if number <= settings.free_rounds:
            power = factors.power
        else:  # half-way, or tails and cells that count would change each other in turn
            size, power = 0.5 * (size + factors.size), 0.5 * (power + factors.power)
        self.factors = replace(factors, size=size, power=power)
        if self.precise:
            self.update(*scatter_of_sums(sums, self.center))
        else:
            self.update(*scatter_of_rows(np.vstack(kept), unknown, self.center))

    def _blocks(self) -> Iterator[slice]:
        m, n = self.sample.shape
        step = max(1, BLOCK_NUMBERS // n)
        return (slice(k, min(k + step, m)) for k in range(0, m, step))


def tails_of(ratios: Array, resolution: Array, settings: FactorSettings) -> tuple[Array, Array]:
    """(size, power) of each column: |residual|/deviation has the quantiles of size·|Gaussian|^power.

    From the middle and the ninth decile of the cells that count; lighter tails than Gaussian count as such. Early in a
    fit outliers enlarge the deviations, but hardly the middle: ``size`` takes that back. In columns of few values,
    whose residuals are no continuous numbers, both are 1.
    """
    columns, seen = ascending(ratios)
    middle, high = (
        columns[np.arange(len(columns)), np.maximum((share * seen).astype(int) - 1, 0)]
        for share in TAIL_QUANTILES
    )
    usable = (middle > 0.0) & (high > 0.0) & (resolution == 0.0)
    middle, high = np.where(usable, middle, 1.0), np.where(usable, high, 1.0)
    low, top = GAUSSIAN_QUANTILES
    power = np.clip(np.log(high / middle) / np.log(top / low), 1.0, settings.most_power)
    size = np.clip(middle / low**power, *settings.sizes)
    return np.where(usable, size, 1.0), np.where(usable, power, 1.0)


def significant_directions(fitted: Fitted, most: int, seen: float, settings: FactorSettings = DEFAULT) -> int:
    """How many directions a full prior on loadings leaves: what stands out of the noise.

    Where the share ``seen`` of the cells was observed, seen² of the pairs of cells say how two columns go together.

    A weaker prior, which predicts better, also keeps directions of noise, and takes these out of D. So the noise of a
    column is here the variance that all other columns leave of it, 1/Ω_jj: an upper bound of D_j, close to it where
    there are many columns.
    """
    factors = fitted.factors
    known = 1.0 / factors.noise - np.sum(factors.gain * factors.loadings, axis=1) / factors.noise
    factors = replace(factors, strength=settings.significant / max(seen, 0.1) ** 2, noise=1.0 / known)
    shift = np.zeros(len(known))
    return int(updated(factors, fitted.scatter, shift, most, settings).loadings.shape[1])
