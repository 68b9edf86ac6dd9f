"""Whatever a user hands in: every dtype, order and shape works, and what cannot work says so before any work."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose

import rankwolf as rw
from rankwolf.solvers import FrankWolfe
from rankwolf.solvers.observed import MATRICES

WEIGHTS = ["fw-t", "fw", "ista", "fista", "auto"]
RADII = ["fw-p", "fw", "ista", "fista", "auto"]


def pixels(m=40, n=25, seed=0):
    """Whole numbers that fit every integer type: a gradient, a bright object, and no noise."""
    rng = np.random.default_rng(seed)
    M = np.add.outer(np.arange(m) % 50, np.arange(n))
    M[rng.random((m, n)) < 0.1] += 50
    return M


def fit(X, method="fista", **settings):
    return rw.decompose(
        X, **{"delta": 0.02, "method": method, "max_iter": 12, "rng": 0, "n_threads": 1, **settings}
    )


# ---------------------------------------------------------------- types and orders

DTYPES = [
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "float32", "float64", "longdouble", ">f8", ">f4", ">u2", ">i4",
]  # fmt: skip


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_order_gives_the_answer_of_float64(dtype, wide, order):
    M = pixels() > 40 if dtype == "bool" else pixels()
    M = M.T if wide else M
    X = np.array(M.astype(dtype), order=order)
    before = X.copy()
    for method in ("fista", "fw-t"):
        expected = fit(M.astype(np.float64), method)
        got = fit(X, method)
        # Leading singular values of FW-T's gradients nearly coincide, so that rounding changes its path.
        assert got.objective == pytest.approx(expected.objective, rel=1e-4 if method == "fista" else 5e-3)
        scale = M.max()
        total = np.asarray(got.low_rank, np.float64) + np.asarray(got.sparse, np.float64)
        if method == "fista":
            assert_allclose(
                total, np.asarray(expected.low_rank) + np.asarray(expected.sparse), atol=2e-3 * scale
            )
        assert got.low_rank.shape == got.sparse.shape == M.shape
    assert np.array_equal(X, before), "the caller's data is not touched"


@pytest.mark.doubts("iteration limit")
def test_small_types_stay_small_and_large_ones_keep_their_precision():
    M = pixels()
    for dtype in ("bool", "uint8", "int16", "uint16", "float32"):
        assert fit((M > 40) if dtype == "bool" else M.astype(dtype)).low_rank.dtype == np.float32
    for dtype in ("int32", "int64", "float64"):
        assert fit(M.astype(dtype)).low_rank.dtype == np.float64


@pytest.mark.doubts("iteration limit")
def test_uint8_does_not_wrap_around():
    """5 − 10 is not 251: S has both signs."""
    M = np.full((30, 20), 10, np.uint8)
    M[3, 4], M[5, 6] = 0, 255
    S = np.asarray(fit(M, delta=0.01, max_iter=50).sparse)
    assert S[3, 4] < -5
    assert S[5, 6] > 200


@pytest.mark.doubts("most of it is noise", "sparse part is zero", "λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("method", WEIGHTS)
def test_views_of_every_kind_give_the_answer_of_a_copy(method):
    big = np.random.default_rng(1).standard_normal((80, 60))
    unaligned = np.frombuffer(bytearray(1 + 40 * 30 * 8), np.float64, offset=1).reshape(40, 30)
    unaligned[:] = big[:40, :30]
    read_only = big[:40, :30].copy()
    read_only.flags.writeable = False
    views = [
        big[::2, ::2], big[::-2, 1::2], big[::2, ::-2], big.T[::2, ::2], big[:40, :30], big[10:50, 5:35].T,
        unaligned, unaligned.T, read_only, np.asfortranarray(read_only), np.broadcast_to(big[:1, :30], (40, 30)),
    ]  # fmt: skip
    for view in views:
        before = view.copy()
        got, expected = fit(view, method), fit(view.copy(order="C"), method)
        assert np.array_equal(np.asarray(got.low_rank), np.asarray(expected.low_rank))
        assert np.array_equal(np.asarray(got.sparse), np.asarray(expected.sparse))
        assert np.array_equal(view, before)


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
def test_a_read_only_memory_map(tmp_path):
    M = np.random.default_rng(2).standard_normal((50, 30)).astype(np.float32)
    np.save(tmp_path / "x.npy", M)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.array_equal(np.asarray(fit(mapped).low_rank), np.asarray(fit(M).low_rank))


@pytest.mark.doubts("iteration limit")
def test_lists_and_tuples_are_arrays_too():
    M = pixels(6, 5)
    for X in (M.tolist(), tuple(map(tuple, M)), M[:, ::-1][:, ::-1]):
        assert fit(X).objective == fit(M).objective


# ---------------------------------------------------------------- what is missing


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("method", WEIGHTS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_mask_nan_and_masked_array_say_the_same(method, order):
    M, seen = reference.corrupted(3, 30, 20, observed=0.7)
    M = np.array(M, order=order)
    hidden, before = np.where(seen, M, np.inf), M.copy()
    fits = [
        fit(M, method, observed=seen),
        fit(M, method, observed=np.asfortranarray(seen)),
        fit(M, method, observed=seen.tolist()),
        fit(np.where(seen, M, np.nan), method),
        fit(hidden, method, observed=seen),
        fit(np.ma.array(hidden, mask=~seen), method),
        fit(np.ma.masked_invalid(np.where(seen, M, np.nan)), method),
    ]
    for other in fits[1:]:
        assert np.array_equal(np.asarray(other.low_rank), np.asarray(fits[0].low_rank))
        assert np.array_equal(np.asarray(other.sparse), np.asarray(fits[0].sparse))
        assert other.lambdas == fits[0].lambdas
    assert np.array_equal(M, before), "the caller's data is not touched"


@pytest.mark.doubts("most of it is noise", "iteration limit")
def test_the_ways_of_missing_add_up():
    M, seen = reference.corrupted(4, 30, 20, observed=0.9)
    two = np.random.default_rng(0).random(M.shape) < 0.9
    three = np.random.default_rng(1).random(M.shape) < 0.9
    combined = fit(np.ma.array(np.where(seen, M, np.nan), mask=~two), observed=three)
    assert combined.objective == fit(M, observed=seen & two & three).objective


@pytest.mark.doubts("λ_S is below the noise", "iteration limit")
def test_integers_with_a_mask():
    M, seen = pixels().astype(np.uint8), np.random.default_rng(0).random((40, 25)) < 0.7
    for method in ("fista", "fw-t"):
        got = fit(M, method, observed=seen)
        expected = fit(np.where(seen, M, np.nan).astype(np.float64), method)
        assert got.objective == pytest.approx(expected.objective, rel=1e-4 if method == "fista" else 5e-3)
        assert not np.any(np.asarray(got.sparse)[~seen])


@pytest.mark.doubts("iteration limit")
def test_empty_rows_and_columns_are_filled_with_zeros():
    M, seen = reference.corrupted(5, 30, 20)
    seen[4], seen[:, 7] = False, False
    got = fit(M, observed=seen)
    assert_allclose(got.low_rank[4], 0.0, atol=1e-12)
    assert_allclose(got.low_rank[:, 7], 0.0, atol=1e-12)


@pytest.mark.doubts("iteration limit")
def test_the_default_weights_are_the_papers():
    M, seen = reference.corrupted(6, 30, 20, observed=0.6)
    assert fit(M, observed=seen, delta=0.03).lambdas == pytest.approx(
        reference.weights_for(M, seen, 0.03), rel=1e-12
    )


# ---------------------------------------------------------------- small and flat matrices


@pytest.mark.doubts(
    "low-rank part is zero",
    "sparse part is zero",
    "λ_S is below the noise",
    "iteration limit",
    "radii hold all",
)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2), (3, 40), (40, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_thin_matrices_work(shape, dtype):
    M = (10 * np.random.default_rng(7).random(shape) + 1).astype(dtype)
    for method in WEIGHTS:
        got = fit(M, method, max_iter=300)
        assert np.all(np.isfinite(np.asarray(got.low_rank)))
        assert got.objective <= 0.5 * np.sum(M.astype(float) ** 2)
        assert got.low_rank.shape == shape
    for method in RADII:
        got = rw.decompose(M, radii=(5.0, 3.0), method=method, max_iter=50, rng=0)
        assert got.low_rank.nuclear_norm <= 5.0 * (1 + 1e-5)
        assert np.abs(np.asarray(got.sparse)).sum() <= 3.0 * (1 + 1e-5)


@pytest.mark.parametrize("shape", [(12, 8), (8, 12), (1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("method", WEIGHTS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_an_all_zero_matrix_is_zero_plus_zero(shape, method, dtype):
    got = rw.decompose(np.zeros(shape, dtype), method=method)
    assert got.status is rw.Status.GAP_REACHED
    assert got.objective == got.gap == got.relative_gap == 0.0
    assert got.low_rank.rank == got.sparse.nonzeros == 0
    assert not np.any(np.asarray(got.low_rank))
    assert not np.any(np.asarray(got.sparse))


@pytest.mark.parametrize("method", RADII)
def test_an_all_zero_matrix_with_radii(method):
    got = rw.decompose(np.zeros((6, 4)), radii=(1.0, 1.0), method=method)
    assert got.objective == got.gap == 0.0
    assert got.low_rank.rank == got.sparse.nonzeros == 0


@pytest.mark.doubts("sparse part is zero")
@pytest.mark.parametrize("value", [1, 255, -7.5])
@pytest.mark.parametrize("method", ["fw-t", "ista", "fista", "auto"])
def test_a_constant_matrix_is_low_rank(value, method):
    got = fit(np.full((30, 20), value), method, delta=0.01, max_iter=300)
    assert got.status is rw.Status.GAP_REACHED
    assert got.low_rank.rank == 1
    assert_allclose(np.asarray(got.low_rank), value, rtol=0.05)


@pytest.mark.doubts("sparse part is zero")
def test_zero_outside_and_one_entry_observed():
    seen = np.zeros((8, 6), bool)
    seen[3, 2] = True
    got = fit(np.full((8, 6), 4.0), observed=seen, max_iter=200)
    assert got.low_rank[3][2] + got.sparse[3][2] == pytest.approx(4.0, abs=got.lambdas[1] * 1.001)


# ---------------------------------------------------------------- scale


@pytest.mark.doubts("λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(scale, np.float64) for scale in (1e-55, 1e-30, 1e-18, 1e18, 1e30, 1e55)]
    + [(scale, np.float32) for scale in (1e-30, 1e-18, 1e18, 1e30)],
)
@pytest.mark.parametrize("method", WEIGHTS)
def test_the_scale_of_the_data_does_not_matter(scale, dtype, method):
    M, _ = reference.corrupted(8, 20, 15)
    expected = fit(M.astype(dtype).astype(np.float64), method)
    got = fit((M * scale).astype(dtype), method)
    assert got.relative_gap == pytest.approx(expected.relative_gap, rel=0.02, abs=1e-5)
    assert_allclose(np.asarray(got.low_rank) / scale, np.asarray(expected.low_rank), atol=1e-3)


@pytest.mark.doubts(
    "low-rank part is zero", "sparse part is zero", "λ_S is below the noise", "iteration limit"
)
@pytest.mark.parametrize("method", WEIGHTS)
@pytest.mark.parametrize("reach", [1e-11, 1e-6, 1e3, 1e11])
def test_extreme_weights_end_without_a_warning(method, reach):
    M, _ = reference.corrupted(9, 20, 15)
    for dtype in (np.float64, np.float32):
        norm = float(np.linalg.norm(M))
        got = rw.decompose(
            M.astype(dtype), lambdas=(reach * norm, reach * norm), method=method, max_iter=30, rng=0
        )
        assert np.isfinite(got.objective)
        if method != "fw":  # its first steps are as long as the crude bounds U_L and U_S
            assert got.objective <= 0.5 * norm**2 * (1 + 1e-5)
        if reach > 1.0:
            assert got.low_rank.rank == got.sparse.nonzeros == 0
            assert got.status is rw.Status.GAP_REACHED


@pytest.mark.doubts("part is zero", "iteration limit", "radii hold all", "below the noise")
@pytest.mark.parametrize("method", RADII)
@pytest.mark.parametrize("reach", [1e-11, 1e3, 1e11])
def test_extreme_radii_end_without_a_warning(method, reach):
    M, _ = reference.corrupted(9, 20, 15)
    for dtype in (np.float64, np.float32):
        tau = reach * float(np.linalg.norm(M))
        got = rw.decompose(M.astype(dtype), radii=(tau, tau), method=method, max_iter=30, rng=0)
        assert np.isfinite(got.objective)
        assert got.low_rank.nuclear_norm <= tau * (1 + 1e-5)


# ---------------------------------------------------------------- what is refused

GOOD = np.arange(12.0).reshape(4, 3)


def with_entry(value):
    X = GOOD.copy()
    X[1, 2] = value
    return X


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ("video.mp4", "'X' .* array.*'video.mp4'"),
        (b"abc", "'X' .* array"),
        (None, "'X' .* real numbers"),
        ({}, "'X' .* real numbers"),
        (3.0, r"'X' .* two-dimensional.*shape \(\)"),
        (np.arange(5.0), r"'X' .* two-dimensional.*shape \(5,\)"),
        (np.zeros((2, 3, 4)), r"'X' .* two-dimensional.*shape \(2, 3, 4\).*Reshape"),
        (np.zeros((0, 4)), r"'X' .* at least one row.*shape \(0, 4\)"),
        (np.zeros((4, 0)), r"'X' .* at least one row.*shape \(4, 0\)"),
        ([[1.0, 2.0], [3.0]], "'X' .* rectangular"),
        (GOOD + 1j, "'X' .* real numbers.*complex128"),
        (GOOD.astype(object), "'X' .* real numbers.*object"),
        (GOOD.astype("U5"), "'X' .* real numbers"),
        (np.zeros((3, 3), "datetime64[s]"), "'X' .* real numbers"),
        (with_entry(np.inf), "'X' .* finite.*1 infinite.*NaN marks"),
        (with_entry(-np.inf).astype(np.float32), "'X' .* finite"),
        (np.full((3, 3), np.nan), "'X' .* observed in at least one"),
        (np.ma.masked_all((3, 3)), "'X' .* observed in at least one"),
        (GOOD * 1e200, "'X' .* scale.*Divide by a constant"),
        (GOOD * 1e-200, "'X' .* scale.*Divide by a constant"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_data_that_cannot_be_decomposed(X, words):
    with pytest.raises(ValueError, match=words) as caught:
        rw.decompose(X)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("The 'X' parameter of decompose must be ")


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (np.ones((3, 4), bool), r"'observed' .* shape of X, \(4, 3\).*shape \(3, 4\)"),
        (np.ones(12, bool), r"'observed' .* shape of X"),
        (np.ones((4, 3)), "'observed' .* boolean.*float64"),
        (np.ones((4, 3), int), "'observed' .* boolean"),
        (np.zeros((4, 3), bool), "'X' .* observed in at least one"),
        ("all", "'observed' .* boolean"),
    ],
)
def test_masks_that_do_not_fit(observed, words):
    with pytest.raises(ValueError, match=words):
        rw.decompose(GOOD, observed=observed)
    with pytest.raises(ValueError, match=words):
        rw.decompose(np.ma.array(GOOD, mask=GOOD > 100), observed=observed)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lambdas": (-1.0, 1.0)}, "'lambdas' .* positive.*-1.0"),
        ({"lambdas": (1.0, 0.0)}, "'lambdas' .* positive"),
        ({"lambdas": (1.0, np.nan)}, "'lambdas' .* finite"),
        ({"lambdas": (np.inf, 1.0)}, "'lambdas' .* finite"),
        ({"lambdas": (1.0,)}, "'lambdas' .* pair"),
        ({"lambdas": 1.0}, "'lambdas' .* pair"),
        ({"lambdas": "12"}, "'lambdas' .* number"),
        ({"lambdas": (1e-30, 1.0)}, "'lambdas' .* factor"),
        ({"lambdas": (True, True)}, "'lambdas' .* number"),
        ({"radii": (1.0, -1.0)}, "'radii' .* at least 0"),
        ({"radii": (1e300, 1.0)}, "'radii' .* factor"),
        ({"radii": (1.0, 1.0), "lambdas": (1.0, 1.0)}, "'lambdas' and 'radii' .* exclude"),
        ({"delta": 0.0}, "'delta' .* 'auto' or a positive, finite number"),
        ({"delta": -1e-3}, "'delta' .* 'auto' or a positive, finite number"),
        ({"delta": np.inf}, "'delta' .* 'auto' or a positive, finite number"),
        ({"delta": "autoo"}, "'delta' .* 'auto' or a positive, finite number. Got 'autoo' instead."),
        ({"delta": 1e-20}, "delta"),
        ({"tol": -1e-3}, "'tol' .* at least 0"),
        ({"tol": np.nan}, "'tol' .* finite"),
        ({"tol": None}, "'tol' .* number"),
        ({"tol": 10**400}, "'tol' .* finite"),
        ({"stop": "never"}, "'stop' .* 'gap', 'paper'"),
        ({"stop": None}, "'stop' .* 'gap', 'paper'"),
        ({"max_iter": 0}, "'max_iter' .* whole number"),
        ({"max_iter": 2.5}, "'max_iter' .* whole number"),
        ({"max_iter": True}, "'max_iter' .* whole number"),
        ({"max_seconds": 0}, "'max_seconds' .* positive"),
        ({"max_seconds": -1.0}, "'max_seconds' .* positive"),
        ({"n_threads": 0}, "'n_threads' .* whole number"),
        ({"n_threads": 1.5}, "'n_threads' .* whole number"),
        ({"callback": 3}, "'callback' .* callable"),
        ({"rng": "x"}, "'rng' .* Generator"),
        ({"rng": -1}, "'rng' .* at least 0"),
        ({"method": "pca"}, "'method' .* 'fw-t'.*'pca'"),
        ({"method": ["fw"]}, "'method' .* name"),
        ({"method": None}, "'method' .* name"),
        ({"method": FrankWolfe}, "'method' .* name"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense(settings, words):
    with pytest.raises(ValueError, match=words) as caught:
        rw.decompose(GOOD, **settings)
    assert "\n" not in str(caught.value)


def test_settings_are_checked_before_the_data_is_read():
    """The data is bad as well here, and would be complained about."""
    bad = with_entry(np.inf)
    for settings in ({"max_iter": -1}, {"rng": -1}, {"method": "pca"}, {"lambdas": (0, 0)}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            rw.decompose(bad, **settings)


@pytest.mark.parametrize("method", ["fw-p"])
def test_weights_with_a_method_for_radii(method):
    with pytest.raises(ValueError, match=f"'{method}' does not solve .* weights") as caught:
        rw.decompose(GOOD, lambdas=(1.0, 1.0), method=method)
    for fitting in ("'fw-t'", "'fw'", "'ista'", "'fista'"):
        assert fitting in str(caught.value)
    assert "'fw-p'," not in str(caught.value)


def test_radii_with_a_method_for_weights():
    with pytest.raises(ValueError, match=r"'fw-t' does not solve .* radii") as caught:
        rw.decompose(GOOD, radii=(1.0, 1.0), method="fw-t")
    assert "'fw-p'" in str(caught.value)
    assert "'fw'" in str(caught.value)


@pytest.mark.doubts("iteration limit")
def test_a_solver_object_carries_its_settings():
    got = rw.decompose(GOOD, radii=(5.0, 5.0), method=FrankWolfe(step="line-search"), max_iter=20)
    assert got.method == "fw"
    objectives = [record.objective for record in got.history]
    assert objectives == sorted(objectives, reverse=True)
    with pytest.raises(ValueError, match=r"'step' .* 'open-loop', 'line-search'"):
        FrankWolfe(step="armijo")


# ---------------------------------------------------------------- sums and memory


@pytest.mark.doubts("low-rank part is zero", "sparse part is zero")
@pytest.mark.parametrize("method", ["fw-t", "fw", "fista", "auto"])
def test_sums_of_single_precision_data_are_kept_in_double_precision(method):
    """Four million float32 squares: one by one, a float32 sum would be off in the third digit."""
    X = np.full((20000, 200), 0.1, np.float32)
    X[::7] = 3.0
    half_norm = 0.5 * float(np.sum(X.astype(np.float64) ** 2))
    got = rw.decompose(X, lambdas=(1e5, 1e5), method=method, max_iter=1, rng=0)
    assert got.low_rank.rank == got.sparse.nonzeros == 0
    assert got.objective == pytest.approx(half_norm, rel=2e-7)
    assert got.history[0].objective == pytest.approx(half_norm, rel=2e-7)


@pytest.mark.doubts("λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize(
    ("dtype", "order", "masked", "size"),
    [
        (np.uint8, "C", False, 4),
        (np.uint8, "F", False, 4),
        (np.uint16, "C", True, 4),
        (np.float32, "C", False, 4),
        (np.float32, "F", True, 4),
        (np.float64, "C", False, 8),
    ],
)
def test_no_float64_copy_of_the_data(dtype, order, masked, size):
    """FW-T keeps as many matrices as it says, in single precision unless the data is double."""
    rng = np.random.default_rng(0)
    X = np.array(rng.integers(0, 200, (20000, 300)), dtype=dtype, order=order)
    observed = np.array(rng.random(X.shape) < 0.9, order=order) if masked else None
    fit(X[:200], "fw-t", max_iter=2, observed=None if observed is None else observed[:200])  # compile first
    tracemalloc.start()
    try:
        got = fit(X, "fw-t", max_iter=4, observed=observed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert got.iterations == 4
    assert peak / X.size < (MATRICES + 0.5) * size


def test_a_problem_that_was_made_beforehand():
    rng = np.random.default_rng(0)
    X = np.outer(rng.standard_normal(30), rng.standard_normal(20)) + 0.1 * rng.standard_normal((30, 20))
    problem = rw.problem.Penalized(2.0, 0.3)
    one, other = (
        rw.decompose(X, rng=0, **parts) for parts in ({"problem": problem}, {"lambdas": (2.0, 0.3)})
    )
    assert one.objective == other.objective
    assert one.lambdas == other.lambdas == (2.0, 0.3)
    sensing = rw.sensing.Entries(np.ones(X.shape, np.bool_))
    there = rw.recover(X.ravel(), sensing, problem=problem, rng=0)
    assert there.objective == pytest.approx(one.objective, rel=2e-3)
    with pytest.raises(ValueError, match="'problem' parameter of decompose must be a form"):
        rw.decompose(X, problem=(2.0, 0.3))
    for call, where in ((rw.decompose, "decompose"), (lambda X, **p: rw.recover(X, sensing, **p), "recover")):
        with pytest.raises(
            ValueError, match=f"'problem' and 'radii' parameters of {where} exclude each other"
        ):
            call(X, problem=problem, radii=(1.0, 1.0))
