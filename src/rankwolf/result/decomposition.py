"""What a run gives back: the two parts, how good they are, why the run ended, and a record of each iteration."""

from __future__ import annotations

import html
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf, nan
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf import plots
from rankwolf.data import Source
from rankwolf.data.measurements import Measurements
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.matrix import Matrix
from rankwolf.ground.plural import number_of
from rankwolf.problem import Problem
from rankwolf.result.sparse_part import SparsePart, StoredSparse, sparse_part_of
from rankwolf.solvers.refit import refit
from rankwolf.solvers.refit_measured import refit_measured


class Status(Enum):
    """Why a run ended: a sentence for people, a name for programs.

    >>> from rankwolf import Status
    >>> Status.TIME_LIMIT.value, Status.TIME_LIMIT.converged
    ('The time limit was reached.', False)
    """

    GAP_REACHED = "The certified relative gap is at or below tol."
    PAPER_RULE = "The objective changed by at most tol, relatively, in five iterations in a row."
    PREDICTED = (
        "The pair predicts held-out measurements best, and the run ended before the optimum: see stop."
    )
    ITERATION_LIMIT = "The iteration limit was reached."
    TIME_LIMIT = "The time limit was reached."
    CALLBACK = "The callback asked to stop."
    NO_PROGRESS = (
        "Neither the objective nor the certificate improves any more at this floating-point precision."
    )
    REFITTED = "L and S were fitted again without shrinkage, at the rank that was found."
    NOT_FINITE = "The objective is not finite any more; data of another scale may help."

    @property
    def converged(self) -> bool:
        """Whether the run ended because it reached what was asked for."""
        return self in (Status.GAP_REACHED, Status.PAPER_RULE, Status.PREDICTED, Status.REFITTED)

    @property
    def is_limit(self) -> bool:
        """Whether the run ended at a limit: of iterations, of time, or of what the precision allows."""
        return self in (Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.NO_PROGRESS)


class NotRefittedError(ValueError):
    """The observed entries are too few for a refit."""


@dataclass(frozen=True)
class Record:
    """The numbers of one iteration. ``gap`` is the objective less the best lower bound so far.

    That bound rests on Ritz values, and is too high where the solver's vectors missed a direction; the gap of the
    :class:`Decomposition` is certified. Memory: 13 numbers an iteration.

    >>> import numpy as np, rankwolf as rw
    >>> fit = rw.decompose(np.eye(30) + 1.0, delta=0.05, rng=0)
    >>> len(fit.history) == fit.iterations, fit.history[-1].passes > 0
    (True, True)
    """

    iteration: int
    passes: int
    objective: float
    gap: float
    relative_gap: float
    rank: int
    nonzeros: int
    step_size: float
    sparse_step_size: float
    surrogate_gap: float
    seconds: float
    bytes_read: int = 0
    """Bytes read from the disk so far; 0 for data in memory."""
    stage: int = 0
    """1 once ``method="auto"`` has changed to splitting, 0 before."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """M ≈ L + S, with a bound on how far the pair is from the optimum.

    ``objective`` is evaluated anew for the pair that is returned; ``gap`` is its distance to a certified lower bound,
    so the optimum lies in [objective − gap, objective]. ``gap_is_proved`` is False where the clipped residual G was too
    large for a factorisation to bound ‖G‖₂; the gap then rests on a converged Lanczos process, see
    :mod:`rankwolf.solvers.certificate`.

    It unpacks into its two parts, ``L, S = rw.decompose(X)``, and can be pickled, copied, saved and plotted.

    Memory: (m + n)·r numbers for L. For entries S is usually not stored, but computed from L and the data, row by row,
    when it is asked for.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 41.0), np.ones(30))
    >>> X[3, 5] += 100.0
    >>> fit = rw.decompose(X, delta=0.01, rng=0)
    >>> fit.low_rank.rank, int(np.argmax(np.abs(fit.sparse[3]))), fit.status.name
    (1, 5, 'GAP_REACHED')
    >>> fit.relative_gap <= 1e-3
    True
    """

    low_rank: LowRank
    sparse: SparsePart
    objective: float
    gap: float
    relative_gap: float
    gap_is_proved: bool
    status: Status
    iterations: int
    passes: int
    seconds: float
    method: str
    problem: Problem
    history: tuple[Record, ...]
    noise_scale: float | None = None
    """σ, the standard deviation of M − L without outliers, from a refit or from ``delta="auto"``; None if unknown."""
    residual: float = nan
    """‖P_Ω(L + S − M)‖_F, or ‖A[L + S] − b‖ for measurements; of a refit, over the entries that are no outliers."""
    source: Source | None = field(default=None, repr=False, compare=False)
    """Where the entries are; None for measurements, for a loaded result, and for one unpickled from a dask.array."""
    measurements: Measurements | None = field(default=None, repr=False, compare=False)
    """What ``recover`` was given; None for entries, and for a result that was loaded or unpickled."""

    convex: Decomposition | None = field(default=None, repr=False, compare=False)
    """Of an estimate that ``decompose`` refitted: the optimum of the convex problem, with its certificate."""

    def __getstate__(self) -> dict[str, Any]:
        """All fields but the measurements: an operator may be made of functions that cannot be pickled."""
        return {**vars(self), "measurements": None}

    def __iter__(self) -> Iterator[Matrix]:
        """L, then S: ``L, S = rw.decompose(X)``."""
        yield from (self.low_rank, self.sparse)

    def refit(self, *, keep_rank: bool = False) -> Decomposition:
        """A new result with L and S fitted again without shrinkage, at the rank that was found.

        The convex problem takes λ_L off every singular value, which is half or more of the error of most fits; and with
        λ_S = 2σ, S holds one in twenty entries that are only noise. In the new result, L is the least-squares fit to
        the entries within 3.29σ of it, which are chosen anew in each round, and σ is ``noise_scale``. S is M − L where
        that is beyond 3.29σ: the outliers, at their full size. Of entries with Gaussian noise alone, one in a thousand
        is called an outlier.

        ``objective`` is ½Σ(M − L)² over the other entries. The problem is not convex: ``gap`` is infinite, nothing
        is certified. Weights, iterations and history are those of this fit. Directions that are too weak beside the
        noise to be worth keeping unshrunk are dropped, unless ``keep_rank``. Cost: about 10 passes, each of 6 to 8
        products with V, and memory for n·r² numbers.

        From measurements, L at its rank and S on its support are the least-squares fit to b
        (:mod:`rankwolf.solvers.refit_measured`), by 30 to 300 products with A and A*; ``objective`` is
        ½‖b − A[L + S]‖². With more unknowns than measurements, as in most of MRI, σ stays as it was.

        >>> import numpy as np, rankwolf as rw
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 100))
        >>> fit = rw.decompose(truth + 0.1 * rng.standard_normal(truth.shape), rng=0, refit=False)
        >>> def error(L):
        ...     return np.linalg.norm(np.asarray(L) - truth) / np.linalg.norm(truth)
        >>> refitted = fit.refit()
        >>> round(error(fit.low_rank) / error(refitted.low_rank)), round(refitted.noise_scale, 2)
        (2, 0.1)
        """
        started = time.perf_counter()
        source = self.source
        if self.measurements is not None:
            return self._refit_measured(self.measurements, started)
        if source is None:
            raise ValueError(
                "This result cannot be refitted: its data is not at hand (it was loaded or unpickled). "
                "Refit before saving."
            )
        weight = 0.0 if self.lambdas is None or self.status is Status.REFITTED else self.lambdas[0]
        seen = source.as_solver_sees(self.low_rank.on_host())
        try:
            found = refit(source, seen, weight, keep_rank=keep_rank)
        except np.linalg.LinAlgError:
            raise NotRefittedError(
                "This result cannot be refitted: the observed entries do not determine its low-rank part."
            ) from None
        low_rank = source.as_user_sees(found.low_rank)
        sparse = sparse_part_of(source, low_rank, found.limit, found.outliers, shrinks=False)
        low_rank = low_rank.like(source.device)
        fit = replace(self, low_rank=low_rank, sparse=sparse, noise_scale=found.sigma)
        return fit._refitted(found.misfit_squared, source.passes, started)

    def _refit_measured(self, data: Measurements, started: float) -> Decomposition:
        sparse = np.asarray(self.sparse).astype(data.dtype, copy=False)
        found = refit_measured(data, self.low_rank, sparse, self.noise_scale)
        sigma = self.noise_scale if found.sigma is None else found.sigma
        stored = StoredSparse(scipy.sparse.csr_array(found.sparse))
        fit = replace(self, low_rank=found.low_rank, sparse=stored, noise_scale=sigma)
        return fit._refitted(found.misfit_squared, data.passes, started)

    def _refitted(self, misfit_squared: float, passes: int, started: float) -> Decomposition:
        """This result with the numbers of a refit that began at ``started``: nothing is certified any more."""
        return replace(
            self,
            objective=0.5 * misfit_squared,
            gap=inf,
            relative_gap=inf,
            gap_is_proved=False,
            status=Status.REFITTED,
            passes=passes,
            seconds=self.seconds + time.perf_counter() - started,
            residual=misfit_squared**0.5,
        )

    @property
    def lambdas(self) -> tuple[float, float] | None:
        """(λ_L, λ_S) where the problem had weights, else None."""
        return self._pair_of("lambdas")

    @property
    def radii(self) -> tuple[float, float] | None:
        """(τ_L, τ_S) where ‖L‖_* and ‖S‖₁ were bounded, else None."""
        return self._pair_of("radii")

    @property
    def noise(self) -> tuple[float, float] | None:
        """(λ, ε) where the misfit was bounded by ε, else None; λ is the weight of ‖S‖₁ beside ‖L‖_*."""
        return self._pair_of("noise")

    def _pair_of(self, parameter: str) -> tuple[float, float] | None:
        return self.problem.pair if self.problem.parameter == parameter else None

    def __repr__(self) -> str:
        m, n = self.low_rank.shape
        share = self.sparse.nonzeros / max(1, m * n)
        return (
            f"Decomposition of {m} × {n} by {self.method} ({self.problem})\n"
            f"  L of rank {self.low_rank.rank}, S with {number_of(self.sparse.nonzeros, 'nonzero')} ({share:.1%})\n"
            f"  objective {self.objective:.6g}, {self._quality}\n"
            f"  {number_of(self.iterations, 'iteration')}, {number_of(self.passes, 'pass', 'passes')}, "
            f"{self.seconds:.2f} s\n"
            f"  {self.status.value}"
        )

    def _repr_html_(self) -> str:
        """The lines of ``repr`` as a small table, for notebooks."""
        head, *lines = repr(self).splitlines()
        rows = "".join(f"<tr><td>{html.escape(line.strip())}</td></tr>" for line in lines)
        return f"<table><thead><tr><th>{html.escape(head)}</th></tr></thead><tbody>{rows}</tbody></table>"

    def plot(self, panel: str | None = None, ax: Any = None) -> Any:
        """Draw L, S, the singular values and the convergence in one figure, or one of them on ``ax``.

        ``panel`` is ``"low_rank"``, ``"sparse"``, ``"singular_values"`` or ``"convergence"``. Needs matplotlib. Returns
        the figure, or the axes of one panel. At most 400 × 400 entries of L and S are computed.
        """
        return plots.decomposition(self, panel, ax)

    @property
    def _quality(self) -> str:
        """Words for the relative gap, or for the noise or the residual of a refit, which has no gap."""
        if self.status is Status.REFITTED and self.noise_scale is None:
            return f"residual {self.residual:.4g}"
        if self.status is Status.REFITTED:
            return f"noise {self.noise_scale:.4g}"
        return f"relative gap {self.relative_gap:.2g}"

    def as_dict(self) -> dict[str, Any]:
        """The numbers and words of the result that JSON can hold, without the matrices and the history."""
        return {
            **self.problem.describe(),
            "method": self.method,
            "rank": self.low_rank.rank,
            "nonzeros": self.sparse.nonzeros,
            "objective": self.objective,
            "gap": self.gap,
            "relative_gap": self.relative_gap,
            "gap_is_proved": self.gap_is_proved,
            "status": self.status.name,
            "status_says": self.status.value,
            "iterations": self.iterations,
            "passes": self.passes,
            "noise_scale": self.noise_scale,
            "residual": self.residual,
        }

    def save(self, path: str | os.PathLike[str], *, with_sparse: bool = True) -> None:
        """Write the result, S as compressed rows, to one ``.npz`` file (no pickle), which appears when it is whole.

        Without S the file has (m + n)·r numbers. That is enough where the data is kept elsewhere, as a video is: S can
        be computed from it again, and the loaded S, asked for its entries, raises an error that says how.
        """
        from rankwolf.result.saving import save  # that module makes results of files, and imports this one

        save(self, path, with_sparse)
