"""RobustPCA: the robust factor model as a scikit-learn estimator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, OutlierMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwolf import plots
from rankwolf.data import Source
from rankwolf.data.labelled import tensor_on_cpu, with_names
from rankwolf.data.open import check_source, open_source, stays_where_it_is
from rankwolf.data.tiles import dense_with_nan, is_sparse
from rankwolf.factors.components import check_components, components_of
from rankwolf.factors.convex import convex_start, sparse_factors
from rankwolf.factors.model import (
    DEFAULT,
    Fitted,
    decided_rows,
    fit_factors,
    learn_batch,
    significant_directions,
)
from rankwolf.factors.output import dressed
from rankwolf.factors.rows import CompletedRows, log_likelihoods, standardised
from rankwolf.factors.saving import read_model, write_model
from rankwolf.factors.scatter import core_factors, distances
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import RankwolfWarning, bad, check_number, check_threads
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.table_frame import Frame
from rankwolf.weights.noise import OUTLIER_IN_SIGMAS

# Where more than this share of a column is called an outlier, the column is probably not what the model takes it for.
MANY = 0.2
# Entries of a block of rows whose cells are scored together.
BLOCK_ENTRIES = 2**15
# With contamination="auto" a row is an outlier beyond the distance that one in forty normal ones has: the median
# and so many times the step from there to the ninth decile, which is 1.2816 standard deviations.
ROW_DEVIATIONS, NINTH_DECILE = 1.96, 1.2816


class RobustPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Principal components of tables with gross outliers and missing values: a robust factor model.

    A row is x = mean + V u + e, with u ~ N(0, I) and a noise of its own for each column, except for cells that are
    outliers. Each cell is judged by what the other cells of its row predict. NaN (None in a data frame) marks a
    missing cell. Columns may have any units: they are scaled inside. In a column of which more than half is one value
    (counts, two values), the other values are no outliers for being rare. Where a column has heavier tails than a
    normal one, its own tails say what is far.

    Parameters
    ----------
    n_components : int, float or None
        None: all components that stand out of the noise, at least one. A whole number: exactly this many, weak ones
        included, and the model has no more directions. A share such as 0.9: as few as explain that much of the
        variance.
    center : bool
        Fit a robust centre; False takes zero for it.
    contamination : "auto" or float
        The share of rows that ``predict`` calls outliers. ``"auto"``: those beyond what one in forty normal rows
        exceeds.
    whiten : bool
        Divide the scores by their standard deviations.
    convex : bool or dict
        True: solve the convex problem :func:`rankwolf.decompose` for the scaled table first, keep the certified result
        as ``decomposition_``, and start from its L; a dict has further arguments of it. It helps where whole patches of
        a table are wrong. Otherwise the start is the clipped table. A scipy.sparse matrix of observed entries always
        starts from the convex problem.
    implicit : {"missing", "zeros"}
        What it means that a scipy.sparse matrix does not store an entry: it was not observed (ratings), or it is zero
        (counts; with ``center=False``).
    columns : {"all", "numeric"} or list of names
        Which columns of a data frame; with ``"all"`` one of dates or words is an error that names it, ``"numeric"``
        leaves such columns out.
    forgetting : float
        The weight of earlier rows is multiplied by this at each :meth:`partial_fit`: 1 forgets nothing.
    random_state : int, RandomState, Generator or None
        For the sample of rows on which the model of a long table is begun, and for :meth:`sample`.
    n_threads : int, optional
        Default: every core.

    Attributes
    ----------
    components_ : array, one row for each component
        Orthonormal directions in the units of the data, the strongest first.
    explained_variance_, explained_variance_ratio_, singular_values_ : array
        The variance along each component, without outliers; as a share of the variance of all columns; and
        √((rows − 1)·variance), as PCA's.
    mean_, scale_, noise_variance_ : array (n_features,)
        The centre, the robust scale and the variance of the noise of each column.
    low_rank_ : LowRank
        L, without the centre, for the rows of the last ``fit`` or ``partial_fit``.
    outliers_ : scipy.sparse.csr_array
        X − mean − L for the same rows, in the cells that score beyond ±3.29, else 0.
    outlier_rows_ : array of int
        The numbers of the rows that are outliers as a whole.
    offset_ : float
        ``decision_function`` is ``score_samples`` less this.
    decomposition_ : Decomposition or None
        The convex fit of the scaled table, with its certificate, where there was one.
    n_components_, n_features_in_, n_samples_seen_, n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from rankwolf import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 20)) + 0.1 * rng.standard_normal((200, 20))
    >>> X[3, 5], X[7, 2] = 50.0, np.nan
    >>> model = RobustPCA(random_state=0).fit(X)
    >>> model.components_.shape, model.transform(X[:4]).shape, bool(model.outliers_[3, 5] > 40.0)
    ((2, 20), (4, 2), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")]
    }

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        center: bool = True,
        contamination: float | str = "auto",
        whiten: bool = False,
        convex: bool | dict[str, Any] = False,
        implicit: str = "missing",
        columns: Any = "all",
        forgetting: float = 1.0,
        random_state: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.contamination = contamination
        self.whiten = whiten
        self.convex = convex
        self.implicit = implicit
        self.columns = columns
        self.forgetting = forgetting
        self.random_state = random_state
        self.n_threads = n_threads

    # ------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to X: an array, masked array, data frame or sparse matrix.

        A memory map, an HDF5 or Zarr array stays on the disk, and a dask.array on its workers; ``low_rank_`` and
        ``outliers_`` are here in memory all the same.
        """
        check_components(self.n_components)
        self._check_contamination()
        source = check_source(self._opened(X, reset=True), "RobustPCA")
        check_components(self.n_components, source.user_shape)
        seed = np.random.default_rng(self._seed())
        self.decomposition_ = None
        if source.sparse:
            self._fitted, self.decomposition_ = sparse_factors(
                source, self._most, self.center, self.convex, seed
            )
        else:
            start = None
            if self.convex:
                start, self.decomposition_ = convex_start(source, self.center, self.convex, seed)
            self._fitted = fit_factors(source, self._most, self.center, seed, DEFAULT, start)
        self.n_iter_, self.n_samples_seen_ = self._fitted.rounds, source.user_shape[0]
        self._set_model(source.dtype, source.observed_fraction)
        self._set_parts(source, self._fitted.live, first=True)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a batch of rows and forget the rows: memory does not grow with the number of batches.

        The first call is :meth:`fit`; after a fit, X is learnt in addition to the rows of that fit. The scales of the
        columns, and what counts as a central row, stay those of the first call. A sparse batch is made dense.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X)
        forgetting = check_number("forgetting", self.forgetting, where="RobustPCA")
        if forgetting > 1.0:
            raise bad("forgetting", "at most 1", repr(self.forgetting), "RobustPCA")
        source = check_source(self._opened(X, reset=False), "RobustPCA")
        rows = source.read_user_rows(0, source.user_shape[0])
        self._fitted = learn_batch(self._fitted, rows, forgetting, self._most, self.center)
        self.n_samples_seen_ += source.user_shape[0]
        self._set_model(self.components_.dtype, source.observed_fraction)
        self._set_parts(source, None, first=False)
        return self

    @property
    def _most(self) -> int | None:
        return int(self.n_components) if isinstance(self.n_components, Integral) else None

    def _set_model(self, dtype: Any, seen: float) -> None:
        """Components and noise from the fitted factors, of a table of which this share was ``seen``."""
        self._seen = seen
        factors, most = self._fitted.factors, self._most
        strong = factors.loadings.shape[1]
        if most is None:
            found = significant_directions(self._fitted, max(1, strong), seen)
            strong = max(1, min(strong, found)) if strong else 0
        share = check_components(self.n_components)
        made = components_of(factors, strong, max(1, strong) if share is None else share)
        self._components = made.kept(share)
        self.components_ = self._components.vectors.astype(dtype)
        self.explained_variance_ = self._components.variances
        self.explained_variance_ratio_ = self._components.variances / max(made.total, 1e-300)
        self.singular_values_ = np.sqrt(
            self._components.variances * max(self._fitted.scatter.rows - 1.0, 1.0)
        )
        self.n_components_ = len(self.components_)
        self.mean_, self.scale_ = factors.centre.astype(dtype), factors.scale
        self.noise_variance_ = factors.noise * factors.scale**2

    def _set_parts(self, source: Source, live: Array | None, first: bool) -> None:
        """L, the outliers among cells, columns and rows, and what a central row is, from all rows of ``source``."""
        whole = first and source.user_shape[0] == len(self._fitted.sample)
        completed, shares = self._set_cells(source, live, whole)
        if first:
            self._core = self._fitted.factors
        if first and len(self._fitted.sample):
            central = completed if whole else _completed_sample(self._fitted)
            most = min(self._most or len(shares), max(1, min(central.shape) - 1))
            self._core = core_factors(self._fitted.factors, central, most, DEFAULT)
        self._set_offset(source, first)
        self._warn_of_columns(shares, source.frame)

    def _set_cells(self, source: Source, live: Array | None, keep: bool) -> tuple[Array, Array]:
        """Scores and ``outliers_`` of all rows; returns (completed rows if ``keep``, share of outliers by column)."""
        (m, n), factors = source.user_shape, self._fitted.factors
        pieces, residuals = [], []
        flagged, seen, limits = np.zeros(n), np.zeros(n), factors.limits(OUTLIER_IN_SIGMAS)
        scores, completed = np.empty((m, self.n_components_)), np.empty((m if keep else 0, n))
        for start, rows in _row_blocks(source):
            stop = start + len(rows)
            made = decided_rows(rows, factors, DEFAULT, None if live is None else live[start:stop])
            scores[start:stop] = found = self._components.scores(made, factors)
            # NaN, a missing cell, is beyond nothing.
            at = np.nonzero(np.abs(made.ratios) > limits)
            flagged += np.bincount(at[1], minlength=n)
            seen += np.count_nonzero(rows == rows, axis=0)
            low = np.sum(found[at[0]] * self._components.vectors[:, at[1]].T, axis=1)
            residuals.append(rows[at] - factors.centre[at[1]] - low)
            pieces.append((at[0] + start, at[1]))
            if keep:
                completed[start:stop] = made.values
        places = tuple(np.concatenate([piece[k] for piece in pieces]) for k in (0, 1))
        entries = np.concatenate(residuals).astype(source.dtype)
        self.outliers_ = scipy.sparse.csr_array((entries, places), shape=(m, n))
        self._scores, self._frame = scores.astype(source.dtype, copy=False), source.frame
        self._low_rank: Any = None
        return completed, flagged / np.maximum(seen, 1.0)

    @property
    def low_rank_(self) -> LowRank:
        """L, without the centre, for the rows of the last ``fit`` or ``partial_fit``; made when first asked for."""
        check_is_fitted(self)
        if vars(self).get("_low_rank") is None:
            if "_scores" not in vars(self):
                raise AttributeError(
                    "low_rank_ is not kept by RobustPCA.save: it belongs to the rows of the fit."
                )
            made = LowRank.from_factors(self._scores, self.components_.T)
            self._low_rank = made.labelled(self._frame)
        kept: LowRank = self._low_rank
        return kept

    def _set_offset(self, source: Source, first: bool) -> None:
        """From which score on a row of the fit is an outlier, and which rows are."""
        across = np.concatenate([self._distances(rows) for _, rows in _row_blocks(source)])
        if first and self.contamination == "auto":
            middle, high = np.quantile(across, [0.5, 0.9])
            self.offset_ = -float(middle + ROW_DEVIATIONS / NINTH_DECILE * (high - middle))
        elif first:
            self.offset_ = float(np.percentile(-across, 100.0 * float(self.contamination)))
        self.outlier_rows_ = np.flatnonzero(-across < self.offset_)

    def _warn_of_columns(self, shares: Array, frame: Frame | None) -> None:
        many = np.flatnonzero(shares > MANY)
        if many.size:
            names = [str(name) for name in vars(self).get("feature_names_in_", range(len(shares)))]
            listed = ", ".join(f"{names[j]} ({shares[j]:.0%})" for j in many[:5].tolist())
            more = f" and {many.size - 5} more" if many.size > 5 else ""
            warnings.warn(
                f"RobustPCA: more than a fifth of the cells are outliers in these columns: {listed}{more}. Such a "
                "column is probably a mixture or no number at all; leave it out or transform it.",
                RankwolfWarning,
                stacklevel=4,
            )

    # ------------------------------------------------------------ scores and rows

    def transform(self, X: Any) -> Array:
        """Scores of the rows of X in the components: outliers do not count, and missing cells are predicted."""
        check_is_fitted(self)
        source = self._opened(X, reset=False)
        made = [self._components.scores(block, self._fitted.factors) for _, block in self._completed(source)]
        found = np.vstack(made)
        if self.whiten:
            found /= self._deviations
        return found.astype(self.components_.dtype, copy=False)

    def inverse_transform(self, X: Any) -> Array:
        """The rows that have the scores X: X·``components_`` + ``mean_``."""
        check_is_fitted(self)
        scores = np.asarray(X, self.components_.dtype)
        if scores.ndim != 2 or scores.shape[1] != self.n_components_:
            wanted = f"scores with {self.n_components_} columns, one for each component"
            raise bad("X", wanted, f"shape {scores.shape}", "inverse_transform")
        if self.whiten:
            scores = scores * self._deviations.astype(scores.dtype)
        rows: Array = scores @ self.components_ + self.mean_
        return rows

    @property
    def _deviations(self) -> Array:
        return np.sqrt(np.maximum(self._components.spreads, np.finfo(np.float64).tiny))

    def impute(self, X: Any, *, outliers: bool = False) -> Any:
        """X with the missing cells filled in; with ``outliers`` also those that score beyond ±3.29.

        A table comes back as a table, with its index and columns, unless ``set_output`` says otherwise.
        """
        check_is_fitted(self)
        source, factors = self._opened(X, reset=False), self._fitted.factors
        filled = []
        for rows, made in self._completed(source):
            wrong, values = np.isnan(rows), made.values
            if outliers:
                wrong |= np.abs(made.ratios) > factors.limits(OUTLIER_IN_SIGMAS)
                values = decided_rows(rows, factors, DEFAULT, made.live & ~wrong).values
            filled.append(np.where(wrong, factors.centre + factors.scale * values, rows).astype(rows.dtype))
        return dressed(self, np.vstack(filled), source.frame)

    def score_cells(self, X: Any) -> Any:
        """How far each cell is from what the others of its row predict, as a z-score; NaN where missing.

        Of normal noise one cell in a thousand is beyond ±3.29, which is what ``outliers_`` and :meth:`impute` call an
        outlier; in a column with heavier tails, the scores are taken back accordingly. Like :meth:`impute`, this makes
        a dense table of the size of X, even of a sparse matrix. A table comes back as a table.
        """
        cells, frame = self._cells(X)
        return dressed(self, cells, frame)

    def _cells(self, X: Any) -> tuple[Array, Frame | None]:
        check_is_fitted(self)
        source = self._opened(X, reset=False)
        cells = [
            np.where(rows == rows, self._fitted.factors.calibrated(made.ratios), np.nan)
            for rows, made in self._completed(source)
        ]
        return np.vstack(cells).astype(self.components_.dtype, copy=False), source.frame

    def plot_outliers(self, X: Any, ax: Any = None) -> Any:
        """Draw the :meth:`score_cells` of X, red above the low-rank part and blue below it; needs matplotlib.

        Returns the axes. Of more than 400 rows or columns, the most outlying ones are shown, in their order.
        """
        cells, frame = self._cells(X)
        return plots.outliers(cells, ax, threshold=OUTLIER_IN_SIGMAS, frame=frame)

    def score_samples(self, X: Any) -> Array:
        """Minus the Mahalanobis distance of each row under V Vᵀ + noise, as fitted to the most central rows.

        Every cell counts, outlying ones too. A row with missing cells is judged by the others.
        """
        check_is_fitted(self)
        source = self._opened(X, reset=False)
        return -np.concatenate([self._distances(rows) for _, rows in _row_blocks(source)])

    def _distances(self, rows: Array) -> Array:
        return distances(standardised(rows, self._core), self._core, DEFAULT)

    def decision_function(self, X: Any) -> Array:
        """``score_samples`` less ``offset_``: negative for rows that are outliers."""
        scores = self.score_samples(X)
        return np.asarray(scores - self.offset_)

    def predict(self, X: Any) -> Array:
        """−1 for rows that are outliers, 1 for the others."""
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of a row, as that of ``FactorAnalysis``: the log-density of its cells that count.

        Each cell that does not count costs as much as one at the limit; so ``GridSearchCV`` can choose
        ``n_components``.
        """
        check_is_fitted(self)
        source, factors = self._opened(X, reset=False), self._fitted.factors
        total = sum(
            float(log_likelihoods(made, rows == rows, factors, DEFAULT.cut).sum())
            for rows, made in self._completed(source)
        )
        return total / source.user_shape[0]

    def sample(self, n_samples: int = 1) -> Array:
        """``n_samples`` rows drawn from the model, without outliers."""
        check_is_fitted(self)
        rng, factors = np.random.default_rng(self._seed()), self._fitted.factors
        rows = rng.standard_normal((n_samples, factors.loadings.shape[1])) @ factors.loadings.T
        rows += np.sqrt(factors.noise) * rng.standard_normal(rows.shape)
        return np.asarray(factors.centre + factors.scale * rows).astype(self.components_.dtype)

    def get_covariance(self) -> Array:
        """The covariance V Vᵀ + noise of the model, n_features × n_features, in the units of the data."""
        check_is_fitted(self)
        factors = self._fitted.factors
        return np.asarray(factors.scale[:, None] * factors.covariance() * factors.scale)

    def get_precision(self) -> Array:
        """The inverse of :meth:`get_covariance`."""
        check_is_fitted(self)
        factors = self._fitted.factors
        return np.asarray(factors.precision / factors.scale[:, None] / factors.scale)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one ``.npz`` file (no pickle): what new rows and batches need, not L and S."""
        check_is_fitted(self)
        keep = ("n_components", "center", "contamination", "whiten", "implicit", "forgetting")
        about = {
            "parameters": {name: getattr(self, name) for name in keep},
            "offset": self.offset_,
            "dtype": self.components_.dtype.name,
            "samples": self.n_samples_seen_,
            "seen": self._seen,
        }
        write_model(
            path, self._fitted, self._core, about, np.asarray(vars(self).get("feature_names_in_", []))
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model that :meth:`save` wrote; a ValueError where the file is something else."""
        fitted, core, about, features = read_model(path)
        model = cls(**about["parameters"])
        model._fitted, model._core, model.decomposition_ = fitted, core, None
        model.offset_, model.n_samples_seen_ = float(about["offset"]), int(about["samples"])
        model.n_iter_, model.n_features_in_ = fitted.rounds, len(core.scale)
        if features.size:
            model.feature_names_in_ = features.astype(object)
        model._set_model(np.dtype(about["dtype"]), float(about["seen"]))
        return model

    # ------------------------------------------------------------ scikit-learn's conventions

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return "components_" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _seed(self) -> Any:
        """What :func:`numpy.random.default_rng` takes: the Generator that was given, or a number from a RandomState."""
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_contamination(self) -> None:
        if isinstance(self.contamination, str):
            good = self.contamination == "auto"
        else:
            good = 0.0 < check_number("contamination", self.contamination, where="RobustPCA") <= 0.5
        if not good:
            raise bad(
                "contamination", '"auto" or a share of at most 0.5', repr(self.contamination), "RobustPCA"
            )

    def _completed(self, source: Source) -> Iterator[tuple[Array, CompletedRows]]:
        """(rows, these rows completed) for blocks of the rows of a source."""
        for _, rows in _row_blocks(source):
            yield rows, decided_rows(rows, self._fitted.factors)

    def _opened(self, X: Any, *, reset: bool) -> Source:
        """X as a source, checked by scikit-learn, which also compares its columns with those of the fit.

        With ``reset`` it remembers the columns of X as those of the fit.
        """
        threads = check_threads(self.n_threads, "RobustPCA")
        X, frame = with_names(tensor_on_cpu(X, "RobustPCA"), self.columns, "RobustPCA")
        if not isinstance(X, list | tuple) and stays_where_it_is(X):
            source = open_source(X, None, threads, where="RobustPCA")
            source.frame = frame
            validate_data(self, X, reset=reset, skip_check_array=True)
            return source
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.result_type(X.dtype, np.float32)), np.nan)
        data = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
        )
        source = open_source(data, None, threads, self.implicit, where="RobustPCA")
        source.frame = frame
        if self.center and source.implicit_zeros:
            remedy = "Subtracting a centre would leave no zeros."
            raise bad("center", "False with implicit='zeros'", "True", "RobustPCA", remedy)
        return source


def _row_blocks(source: Source) -> Iterator[tuple[int, Array]]:
    """(first row, rows) of dense blocks of whole rows, NaN where nothing was observed, a few hundred at a time."""
    start, step = 0, max(1, BLOCK_ENTRIES // source.user_shape[1])
    for block in source.user_blocks():
        for first in range(0, block.shape[0], step):
            rows = block[first : first + step]
            yield start + first, dense_with_nan(scipy.sparse.csr_array(rows)) if is_sparse(rows) else rows
        start += block.shape[0]


def _completed_sample(fitted: Fitted) -> Array:
    """The rows of the sample, completed a block at a time."""
    rows, step = fitted.sample, max(1, BLOCK_ENTRIES // fitted.sample.shape[1])
    blocks = [decided_rows(rows[k : k + step], fitted.factors).values for k in range(0, len(rows), step)]
    return np.vstack(blocks)
