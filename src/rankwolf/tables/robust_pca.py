"""RobustPCA: the decomposition as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwolf import plots
from rankwolf.api.decompose import decompose_quietly
from rankwolf.api.settings import check_delta
from rankwolf.data import Source
from rankwolf.data.centred import centred
from rankwolf.data.column_statistics import column_medians
from rankwolf.data.labelled import tensor_on_cpu, with_names
from rankwolf.data.open import open_source, stays_where_it_is
from rankwolf.data.tiles import is_sparse
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import (
    BadParameterError,
    RankwolfWarning,
    bad,
    check_number,
    check_threads,
)
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.table_frame import Frame
from rankwolf.result.decomposition import Decomposition
from rankwolf.result.doubts import doubts_of_parts
from rankwolf.result.residual import observed_entries, residual, sparse_part
from rankwolf.tables.batches import SeenRows, Totals, advance
from rankwolf.tables.centre import cleaned_mean, refit_with_centre
from rankwolf.tables.components import (
    check_components,
    count_to_keep,
    signs_of,
    tidied,
    total_variance,
    variances,
)
from rankwolf.tables.output import dressed
from rankwolf.tables.scorer import Scorer
from rankwolf.weights.noise import (
    OUTLIER_IN_SIGMAS,
    Noise,
    freedom_of,
    leverages_of,
    measure,
    noise_of_residual,
    weights_for_noise,
)
from rankwolf.weights.paper import PAPER_DELTA, paper_rule

# Rows from which the spread of the residual is measured.
NOISE_ROWS = 2000
# Without a refit, singular values of L up to this share of λ_L are dropped: the iteration has not removed them yet.
WEAKEST = 1e-2
# The gap of the first fit, from which only the centre is taken; and how many fits are made at most until it settles.
ROUGH_TOL, MOST_CENTRES = 1e-2, 3


class NotConverged(RankwolfWarning, ConvergenceWarning):  # type: ignore[misc]
    """A fit ended at a limit. It is also scikit-learn's ConvergenceWarning, so that filters for either class work."""


class RobustPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Principal components of data with gross outliers and missing values: X ≈ mean + L + S, L low-rank, S sparse.

    Rows are samples; NaN (None in a data frame) marks a missing entry. The fit solves a convex problem to a certified
    gap (:func:`rankwolf.decompose`); new rows are scored by the robust row-local step, so outliers in them do not
    spoil their scores. Columns of different units should be scaled first, robustly.

    Parameters
    ----------
    n_components : int, float or None
        None: all components that the fit finds. A whole number: at most this many, the strongest; no component of noise
        is added to reach it (:func:`rankwolf.decompose` with ``rank=`` does that). As for PCA, a number above
        min(n_samples, n_features) is an error. A share such as 0.9: as few as explain that much of the variance.
    delta : "auto" or float
        How much is called noise: ``"auto"`` measures the noise in X and sets both weights from it; a number is δ of the
        paper's rule, smaller keeps more components. See the page on weights, and :func:`rankwolf.select_delta`.
    lambdas : (λ_L, λ_S), optional
        The weights themselves, instead of ``delta``. In a stream they are those of the first batch: λ_L then grows with
        the spectral norm of noise, √rows + √columns.
    center : bool
        Subtract a robust centre, the mean of the rows after outliers are clipped and missing entries filled in. Costs
        a second fit, sometimes a third, and up to three more refits. In a sparse matrix it is subtracted from the
        stored entries.
    implicit : {"missing", "zeros"}
        What it means that a scipy.sparse matrix does not store an entry: it was not observed (ratings), or it is zero
        (counts; with ``center=False``).
    columns : {"all", "numeric"} or list of names
        Which columns of a data frame; with ``"all"`` one of dates or words is an error that names it, ``"numeric"``
        leaves such columns out.
    method, tol, max_iter, verbose
        As for :func:`rankwolf.decompose`: ``tol`` is the certified relative gap.
    refit : bool
        Fit L again without shrinkage, at the rank that was found, on the entries that are not outliers
        (:meth:`rankwolf.Decomposition.refit`): smaller errors, ``outliers_`` with one in a thousand entries of pure
        noise instead of one in twenty. False: L and S are the certified optimum of the convex problem.
    forgetting : float
        The weight of earlier rows is multiplied by this at each :meth:`partial_fit`: 1 forgets nothing, at 0.9 they
        count a tenth less with each call.
    random_state : int, RandomState or None
        Start of the singular-vector computations.
    n_threads : int, optional
        Default: every core.

    Attributes
    ----------
    components_ : array, one row for each component
        Orthonormal directions, the strongest first.
    singular_values_ : array
        Of L (of all rows seen, after ``partial_fit``).
    explained_variance_ : array
        The variance of the scores along each component, s²/(rows − 1), where s is the singular value without shrinkage:
        ``singular_values_`` after a refit, ``singular_values_`` + λ_L otherwise.
    explained_variance_ratio_ : array
        The same as a share of the variance of the table without its outliers. That variance has all components that
        were found and the noise in it, whether or not ``n_components`` cut some off.
    mean_ : array (n_features,)
        The robust centre; zeros without centering.
    low_rank_ : LowRank
        L, without the centre, for the rows of the last ``fit`` or ``partial_fit``.
    outliers_ : scipy.sparse.csr_array
        X − mean − L for the same rows, where it is beyond ±3.29·``noise_scale_``, else 0. Without ``refit`` it is S, by
        how much X − mean − L exceeds ±λ_S.
    refitted_ : bool
        Whether L is a refit: the ``refit`` of the last ``fit``.
    n_components_, n_features_in_, n_samples_seen_, n_iter_ : int
    gap_, relative_gap_ : float
        Distance of the last ``fit`` from the optimum, certified; before a refit, and before ``n_components`` cut
        anything off.
    lambdas_ : (λ_L, λ_S)
    noise_scale_ : float
        The standard deviation of the residual, robustly.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwolf import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 20)) + 0.1 * rng.standard_normal((200, 20))
    >>> X[3, 5], X[7, 2] = 50.0, np.nan
    >>> model = RobustPCA(n_components=2, random_state=0).fit(X)
    >>> model.components_.shape, model.transform(X[:4]).shape, bool(model.outliers_[3, 5] > 40.0)
    ((2, 20), (4, 2), True)
    """

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        delta: float | str = "auto",
        lambdas: tuple[float, float] | None = None,
        center: bool = True,
        implicit: str = "missing",
        columns: Any = "all",
        method: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        refit: bool = True,
        verbose: bool = False,
        forgetting: float = 1.0,
        random_state: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.delta = delta
        self.lambdas = lambdas
        self.center = center
        self.implicit = implicit
        self.columns = columns
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.refit = refit
        self.verbose = verbose
        self.forgetting = forgetting
        self.random_state = random_state
        self.n_threads = n_threads

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decompose X: an array, masked array, data frame or sparse matrix.

        A memory map, an HDF5 or Zarr array stays on the disk, and a dask.array on its workers; ``low_rank_`` and
        ``outliers_`` are here in memory all the same.
        """
        check_components(self.n_components)
        check_delta(self.delta, "RobustPCA")
        source = self._opened(X, reset=True)
        m, n = source.user_shape
        check_components(self.n_components, (m, n))
        self.mean_ = column_medians(source) if self.center else np.zeros(n, source.dtype)
        fit, table = self._decompose(source)
        if not fit.status.converged:
            warnings.warn(f"RobustPCA: {fit.status.value} Raise max_iter or tol.", NotConverged, stacklevel=2)
        assert fit.lambdas is not None
        self.lambdas_ = fit.lambdas
        self.n_iter_, self.gap_, self.relative_gap_ = fit.iterations, fit.gap, fit.relative_gap
        self.refitted_ = bool(self.refit)
        parts = fit.refit() if self.refitted_ and not self.center else fit
        if self.refitted_ and self.center:
            parts, table, self.mean_ = refit_with_centre(fit, source, self.mean_)
        found = tidied(parts.low_rank, 0.0 if self.refitted_ else WEAKEST * self.lambdas_[0])
        self.low_rank_, noise = found, self._noise_of_residual(found, table)
        sigma = noise.sigma if parts.noise_scale is None else parts.noise_scale
        self._set_components(found.s, np.asarray(found.vt), sigma, m)
        if self.n_components_ < found.rank:
            self.low_rank_ = found.first(self.n_components_)
            noise = self._noise_of_residual(self.low_rank_, table)
            sigma = noise.sigma
        low_rank, self.noise_scale_ = self.low_rank_, sigma
        cut = low_rank.rank < parts.low_rank.rank
        self.outliers_ = self._outliers(table) if cut else parts.sparse.to_scipy()
        totals = Totals(m, table.summary.observed, table.summary.norm**2, noise)
        self._seen_rows = SeenRows(totals, self.mean_, low_rank.s + self._shrinkage, np.asarray(low_rank.vt))
        self.n_samples_seen_ = self._first_rows = m
        for doubt in doubts_of_parts(fit):
            warnings.warn(f"RobustPCA: {doubt}", RankwolfWarning, stacklevel=2)
        return self

    @property
    def _shrinkage(self) -> float:
        """By how much the convex problem shrank the singular values of L: λ_L, or 0 after a refit."""
        return 0.0 if self.refitted_ else self.lambdas_[0]

    def _outliers(self, table: Source) -> Any:
        """S = T(M − ``low_rank_``) as a CSR array, M being ``table``, from which the centre is subtracted already.

        T keeps what is beyond 3.29σ after a refit, and soft-thresholds at λ_S otherwise.
        """
        if self.refitted_:
            return sparse_part(table, self.low_rank_, OUTLIER_IN_SIGMAS * self.noise_scale_, shrinks=False)
        return sparse_part(table, self.low_rank_, self.lambdas_[1])

    def _decompose(self, source: Source) -> tuple[Decomposition, Source]:
        """(fit, centred source). Sets ``mean_``, which moves from the medians to the mean of the cleaned rows.

        The medians of the columns are not the centre of L, and the difference would be a component of its own, with
        equal scores for all rows. So the first fit is a rough one, and the centre of the next is the mean of its
        cleaned rows, L + clip(M − L), until √m·‖shift‖ < λ_L/2: a smaller shift is not seen beside λ_L.
        """
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        lambdas, bound = self.lambdas, np.inf
        for attempt in range(1, MOST_CENTRES + 1 if self.center else 2):
            rough = self.center and attempt == 1
            table = centred(source, self.mean_)
            if bound < np.inf:
                table.set_bound(bound)
            try:
                fit = decompose_quietly(
                    table,
                    lambdas=lambdas,
                    delta=self.delta,
                    method=self.method,
                    max_iter=self.max_iter,
                    rng=seed,
                    tol=max(self.tol, ROUGH_TOL) if rough else self.tol,
                    n_threads=self.n_threads,
                    verbose=self.verbose,
                )
            except BadParameterError as error:  # the user called RobustPCA
                raise BadParameterError(error.name, "RobustPCA", error.words) from None
            assert fit.lambdas is not None
            lambdas, bound = fit.lambdas, table.bound
            if attempt == MOST_CENTRES or not self.center:
                break
            shift = cleaned_mean(table, fit.low_rank, lambdas[1])
            if not rough and source.user_shape[0] ** 0.5 * np.linalg.norm(shift) < 0.5 * lambdas[0]:
                break
            self.mean_ = (self.mean_ + shift).astype(self.mean_.dtype)
        return fit, table

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a batch of rows and forget the rows: memory does not grow with the number of batches.

        The first call is :meth:`fit`; after a fit, X is learnt in addition to the rows of that fit. Components that the
        first batch cannot tell from noise are learnt only slowly later, so give it a hundred rows or more. A later
        batch costs a few fits of its rows and a few SVDs of (components + batch) × features. A sparse batch is made
        dense, with NaN where nothing is stored.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X)
        forgetting = check_number("forgetting", self.forgetting, where="RobustPCA")
        if forgetting > 1.0:
            raise bad("forgetting", "at most 1", repr(self.forgetting), "RobustPCA")
        source = self._opened(X, reset=False)
        m, dtype = source.user_shape[0], self.components_.dtype
        self._seen_rows = advance(
            self._seen_rows,
            source.read_user_rows(0, m),
            self._weights,
            forgetting=forgetting,
            center=self.center,
            most=self.n_components if isinstance(self.n_components, Integral) else None,
        )
        self.lambdas_ = self._weights(self._seen_rows.totals)
        self.mean_ = self._seen_rows.mean.astype(dtype)
        self.noise_scale_ = self._seen_rows.totals.noise.sigma
        keep = np.flatnonzero(self._seen_rows.values > self.lambdas_[0])
        vectors = signs_of(self._seen_rows.vectors[keep])[:, None] * self._seen_rows.vectors[keep]
        values, rows = self._seen_rows.values[keep] - self._shrinkage, self._seen_rows.totals.rows
        self._set_components(values, vectors.astype(dtype), self.noise_scale_, rows)
        scores = self._scorer.scores(source)
        self.low_rank_ = LowRank.from_factors(scores, self.components_.T).labelled(source.frame)
        self.outliers_ = self._outliers(centred(source, self.mean_))
        self.n_samples_seen_ += m
        return self

    def transform(self, X: Any) -> Array:
        """Scores of the rows of X in the components: robust against outliers, missing entries left out."""
        check_is_fitted(self)
        return self._scorer.scores(self._opened(X, reset=False))

    @property
    def _scorer(self) -> Scorer:
        """A :class:`Scorer` with the present components, noise and weights."""
        return Scorer(
            self.components_,
            self.singular_values_,
            self.mean_,
            self.noise_scale_,
            rows=self._seen_rows.totals.rows,
            lambdas=self.lambdas_,
            shrinkage=self._shrinkage,
            convex=not self.refitted_,
        )

    def inverse_transform(self, X: Any) -> Array:
        """The rows that have the scores X: X·``components_`` + ``mean_``."""
        check_is_fitted(self)
        scores = np.asarray(X, self.components_.dtype)
        if scores.ndim != 2 or scores.shape[1] != self.n_components_:
            wanted = f"scores with {self.n_components_} columns, one for each component"
            raise bad("X", wanted, f"shape {scores.shape}", "inverse_transform")
        return self._scorer.with_scores(scores)

    def impute(self, X: Any, *, outliers: bool = False) -> Any:
        """X with the missing entries filled in; with ``outliers`` also those that score beyond ±3.29.

        A table comes back as a table, with its index and columns, unless ``set_output`` says otherwise.
        """
        check_is_fitted(self)
        scorer, source = self._scorer, self._opened(X, reset=False)
        data = source.read_user_rows(0, source.user_shape[0])
        wrong = np.isnan(data)
        if outliers:
            wrong |= np.abs(scorer.in_sigmas(data, source)) > OUTLIER_IN_SIGMAS
        return dressed(self, np.where(wrong, scorer.with_scores(scorer.scores(source)), data), source.frame)

    def score_cells(self, X: Any) -> Any:
        """How far each entry is from the low-rank part, in standard deviations of the noise; NaN where missing.

        Of Gaussian noise one entry in a thousand is beyond ±3.29, which is what ``outliers_`` and :meth:`impute` call
        an outlier. Like :meth:`impute` and :meth:`score`, this makes a dense table of the size of X, even of a sparse
        matrix. A table comes back as a table, with its index and columns.
        """
        cells, frame = self._cells(X)
        return dressed(self, cells, frame)

    def _cells(self, X: Any) -> tuple[Array, Frame | None]:
        check_is_fitted(self)
        source = self._opened(X, reset=False)
        data = source.read_user_rows(0, source.user_shape[0])
        return self._scorer.in_sigmas(data, source), source.frame

    def plot_outliers(self, X: Any, ax: Any = None) -> Any:
        """Draw the :meth:`score_cells` of X, red above the low-rank part and blue below it; needs matplotlib.

        Returns the axes. Of more than 400 rows or columns, the most outlying ones are shown, in their order.
        """
        cells, frame = self._cells(X)
        return plots.outliers(cells, ax, threshold=OUTLIER_IN_SIGMAS, frame=frame)

    def score_samples(self, X: Any) -> Array:
        """How ordinary each row is: minus the mean Huber loss (limit 2) of its :meth:`score_cells`."""
        cells = np.abs(self._cells(X)[0])
        loss = np.where(cells <= 2.0, 0.5 * cells * cells, 2.0 * cells - 2.0)
        seen = ~np.isnan(cells)
        return np.asarray(
            -np.sum(np.where(seen, loss, 0.0), axis=1) / np.maximum(np.count_nonzero(seen, axis=1), 1)
        )

    def score(self, X: Any, y: Any = None) -> float:
        """How well entries are predicted from the others in their row: 1 − Σ|x − fit| / Σ|x − centre|.

        Each fifth of the entries is hidden in turn and predicted from the rest, so a larger number of components does
        not win by itself, and ``GridSearchCV`` can choose ``delta`` or ``n_components``.
        """
        check_is_fitted(self)
        source = self._opened(X, reset=False)
        return self._scorer.predicted_share(source.read_user_rows(0, source.user_shape[0]))

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

    def _weights(self, totals: Totals) -> tuple[float, float]:
        """(λ_L, λ_S) for the rows that ``totals`` counts, by the rule that a fit of all of them would use."""
        n = self.n_features_in_
        if self.lambdas is not None:
            growth = (totals.rows**0.5 + n**0.5) / (self._first_rows**0.5 + n**0.5)
            return growth * float(self.lambdas[0]), float(self.lambdas[1])
        fraction = totals.observed / (totals.rows * n)
        delta = check_delta(self.delta, "RobustPCA")
        if delta is None and totals.noise.sigma > 0.0:
            return weights_for_noise(totals.noise, (totals.rows, n), fraction)
        delta = PAPER_DELTA if delta is None else delta
        return paper_rule(delta, totals.squares**0.5, fraction, max(totals.rows, n))

    def _set_components(self, values: Array, vectors: Array, sigma: float, rows: float) -> None:
        """Set the attributes about components: those that ``n_components`` keeps, and the variance that they explain.

        ``values`` are the singular values of L for ``rows`` rows, ``sigma`` is the noise beside L.
        """
        explained = variances(values + self._shrinkage, rows)
        total = total_variance(explained, sigma, self.n_features_in_)
        shares = explained / total if total > 0.0 else explained
        count = count_to_keep(check_components(self.n_components), shares)
        self.components_, self.singular_values_, self.n_components_ = vectors[:count], values[:count], count
        self.explained_variance_, self.explained_variance_ratio_ = explained[:count], shares[:count]

    def _noise_of_residual(self, low_rank: LowRank, table: Source) -> Noise:
        """The noise in M − L, from at most NOISE_ROWS rows, evenly spaced; the shrinkage of L is undone first.

        For a dense table this includes how the noise differs between rows and columns, which :meth:`partial_fit` needs.
        """
        rows, (m, n) = table.spread_rows(NOISE_ROWS), table.user_shape
        plain = LowRank(low_rank.u[rows], low_rank.s + self._shrinkage, low_rank.vt)
        rest = residual(table.read_user(rows), *plain.factors())
        entries = observed_entries(rest)
        freedom = freedom_of(low_rank.rank, (m, n), m * max(entries.size / rows.size, 1.0))
        leverages = leverages_of(np.asarray(low_rank.vt).T, freedom)
        if is_sparse(rest):
            noise = measure(entries, freedom, leverages=leverages)
        else:
            noise = noise_of_residual(rest, freedom, leverages=leverages)
        return replace(noise, rank=low_rank.rank)
