"""RobustPCA: scikit-learn's conventions, robustness, units, missing cells, rows as anomalies, frames, streams."""

from __future__ import annotations

import pickle
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.linalg import subspace_angles
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankwolf import RobustPCA
from rankwolf.ground.complaints import RankwolfWarning


def contaminated(seed=0, m=300, n=20, r=3, outliers=0.05, missing=0.2, noise=0.1, offset=2.0):
    """Data with known truth: L + offset, noise, gross outliers, missing entries; and which entries were spoiled."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((m, r)) @ rng.standard_normal((r, n)) + offset * rng.standard_normal(n)
    data = truth + noise * rng.standard_normal((m, n))
    spoiled = rng.random((m, n)) < outliers
    data[spoiled] += rng.choice([-1.0, 1.0], np.count_nonzero(spoiled)) * rng.uniform(10.0, 30.0)
    data[rng.random((m, n)) < missing] = np.nan
    return data, truth, spoiled


@pytest.fixture(scope="module")
def fitted():
    data, truth, spoiled = contaminated()
    return RobustPCA(random_state=0).fit(data), data, truth, spoiled


@pytest.mark.filterwarnings("ignore::rankwolf.RankwolfWarning")
@parametrize_with_checks([RobustPCA(random_state=0), RobustPCA(n_components=1, whiten=True, random_state=0)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("seed", range(4))
def test_outliers_gaps_and_noise_as_an_oracle_would(seed):
    """The error of L against least squares that knows which cells are spoiled, its rank and its centre."""
    data, truth, spoiled = contaminated(seed)
    model = RobustPCA(random_state=0).fit(data)
    assert model.n_components_ == 3
    good = ~spoiled & ~np.isnan(data)
    directions = np.linalg.svd(truth - truth.mean(axis=0))[2][:3]
    middle = truth.mean(axis=0)
    oracle = np.stack(
        [
            np.linalg.lstsq(directions[:, ok].T, (row - middle)[ok], rcond=None)[0] @ directions
            for row, ok in zip(data, good, strict=True)
        ]
    )
    found = model.inverse_transform(model.transform(data))
    errors = [np.linalg.norm(each - truth) for each in (found, oracle + middle)]
    assert errors[0] < 1.25 * errors[1]
    flagged = model.outliers_.toarray() != 0
    assert np.mean(flagged[spoiled & ~np.isnan(data)]) > 0.99
    assert np.mean(flagged[good]) < 0.008
    np.testing.assert_allclose(np.sqrt(model.noise_variance_), 0.1, rtol=0.5)


def test_the_parts_fit_together(fitted):
    model, data, _, _ = fitted
    k = model.n_components_
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-8)
    assert np.all(np.max(model.components_, axis=1) == np.max(np.abs(model.components_), axis=1))
    rows = model.inverse_transform(model.transform(data)) - model.mean_
    # Of a new row the cells that count are decided anew, and a few rows have other ones.
    assert np.mean(np.abs(rows - np.asarray(model.low_rank_)) < 0.02) > 0.98
    cells = model.score_cells(data)
    np.testing.assert_array_equal(np.isnan(cells), np.isnan(data))
    S = model.outliers_.toarray()
    at = S != 0
    np.testing.assert_allclose(S[at], (data - model.mean_ - np.asarray(model.low_rank_))[at], atol=1e-8)
    precision = model.get_precision() @ model.get_covariance()
    np.testing.assert_allclose(precision, np.eye(data.shape[1]), atol=1e-6)
    drawn = model.sample(4000)
    np.testing.assert_allclose(np.cov(drawn.T), model.get_covariance(), atol=0.7)
    filled = model.impute(data)
    assert not np.isnan(filled).any()
    np.testing.assert_array_equal(filled[~np.isnan(data)], data[~np.isnan(data)])


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_units_do_not_matter(load):
    X = load().data
    scales = 10.0 ** np.random.default_rng(0).integers(-6, 7, X.shape[1])
    one, other = (RobustPCA(random_state=0).fit(each) for each in (X, X * scales))
    np.testing.assert_array_equal(one.outliers_.toarray() != 0, other.outliers_.toarray() != 0)
    np.testing.assert_allclose(one.score_samples(X), other.score_samples(X * scales), rtol=1e-6)
    assert one.outliers_.nnz < 0.02 * X.size


@pytest.mark.parametrize("seed", range(4))
def test_five_sensors_have_as_many_flags_beside_a_column_of_counts(seed):
    """24 planted cells; a wrong cell of a row of five could explain the others, and up to 20 more were flagged."""
    rng, m = np.random.default_rng(seed), 400
    walk = np.cumsum(rng.standard_normal((m, 2)), axis=0)
    clean = walk @ rng.standard_normal((2, 5))
    noise = np.array([0.05, 0.1, 0.05, 0.15, 0.07]) * clean.std(axis=0)
    X = clean + noise * rng.standard_normal((m, 5))
    places = rng.choice(X.size, 24, replace=False)
    X.ravel()[places] += rng.choice([-1.0, 1.0], 24) * rng.uniform(6.0, 15.0, 24) * np.tile(noise, m)[places]
    for table in (X, np.column_stack([X, rng.poisson(3.0 + np.abs(walk[:, 0]))])):
        model = RobustPCA(random_state=0).fit(table)
        assert abs(model.outliers_.nnz - 24) <= 5
        assert abs(np.count_nonzero(np.abs(model.score_cells(table)) > 3.29) - 24) <= 5


def test_the_score_is_the_likelihood_that_factor_analysis_has():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 2)) @ rng.standard_normal((2, 7)) + 0.5 * rng.standard_normal((2000, 7))
    expected = FactorAnalysis(2).fit(X).score(X)
    units = 10.0 ** np.arange(7)
    assert RobustPCA(2, random_state=0).fit(X).score(X) == pytest.approx(expected, abs=0.01)
    scaled = RobustPCA(2, random_state=0).fit(X * units)
    assert scaled.score(X * units) == pytest.approx(expected - np.log(units).sum(), abs=0.01)
    rows, model = X[:50].copy(), RobustPCA(2, random_state=0).fit(X)
    rows[:, 1] = np.nan  # the marginal density of the six others
    seen = np.arange(7) != 1
    normal = multivariate_normal(model.mean_[seen], model.get_covariance()[np.ix_(seen, seen)])
    assert model.score(rows) == pytest.approx(normal.logpdf(rows[:, seen]).mean(), abs=0.05)


def test_a_share_of_the_variance_is_explained_as_with_pca():
    X = np.random.default_rng(0).standard_normal((300, 8)) * np.arange(1, 9)
    for share in (0.5, 0.9, 0.99):
        model, plain = RobustPCA(share, random_state=0).fit(X), PCA(share).fit(X)
        assert abs(model.n_components_ - plain.n_components_) <= 1
        assert model.explained_variance_ratio_.sum() >= share
    whole = RobustPCA(8, random_state=0).fit(X)
    np.testing.assert_allclose(whole.explained_variance_ratio_.sum(), 1.0)


def test_columns_are_taken_for_what_they_are():
    """Two values, constants, counts, heavy tails and an unrelated column stay quiet beside five sensors."""
    rng = np.random.default_rng(0)
    m = 600
    signal = np.cumsum(rng.standard_normal((m, 2)), axis=0)
    sensors = signal @ rng.standard_normal((2, 5)) + 0.1 * rng.standard_normal((m, 5))
    bad = rng.choice(5 * m, 15, replace=False)
    sensors.ravel()[bad] += rng.choice([-1.0, 1.0], 15) * 3.0
    others = [
        rng.random(m) < 0.04, rng.random(m) < 0.5, np.full(m, 7.0), rng.poisson(0.3, m), rng.poisson(40.0, m),
        rng.standard_t(2.5, m), np.exp(rng.standard_normal(m)),
    ]  # fmt: skip
    alone = RobustPCA(random_state=0).fit(sensors)
    beside = RobustPCA(random_state=0).fit(np.column_stack([sensors, *others]))
    for model in (alone, beside):
        flagged = model.outliers_.toarray()[:, :5] != 0
        assert flagged.ravel()[bad].mean() > 0.9 and flagged.sum() < 30
    quiet = (beside.outliers_.toarray() != 0)[:, 5:].mean(axis=0)
    assert np.all(quiet[:4] < 0.005) and np.all(quiet < 0.06), quiet


def test_a_column_that_is_mostly_outliers_is_named():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 6)) + 0.01 * rng.standard_normal((400, 6))
    X[rng.random(400) < 0.25, 4] += 50.0
    with pytest.warns(RankwolfWarning, match=r"fifth .* columns: e \(\d\d%\)"):
        RobustPCA(random_state=0).fit(pd.DataFrame(X, columns=list("abcdef")))


@pytest.mark.parametrize(("n_components", "width"), [(1, 1), (7, 7), (12, 12), (None, 3), (0.9, None)])
def test_how_many_components(n_components, width):
    data, _, _ = contaminated(n=12)
    model = RobustPCA(n_components, random_state=0).fit(data)
    scores = model.transform(data)
    assert scores.shape[1] == model.n_components_ == len(model.components_)
    assert width in (None, scores.shape[1])
    np.testing.assert_allclose(
        model.components_ @ model.components_.T, np.eye(model.n_components_), atol=1e-7
    )


@pytest.mark.parametrize("bad", [0, -1, 1.0, 1.5, True, "all", 13])
def test_other_numbers_of_components_are_refused(bad):
    with pytest.raises(ValueError, match="'n_components' parameter of RobustPCA"):
        RobustPCA(bad).fit(contaminated(n=12)[0])


def test_noise_alone_has_one_component():
    X = np.random.default_rng(0).standard_normal((200, 10))
    model = RobustPCA(random_state=0).fit(X)
    assert model.n_components_ == 1
    assert make_pipeline(RobustPCA(), StandardScaler()).fit_transform(X).shape == (200, 1)


def test_whitened_scores_have_unit_variance_and_come_back():
    data, _, _ = contaminated(missing=0.0, outliers=0.0)
    model = RobustPCA(whiten=True, random_state=0).fit(data)
    scores = model.transform(data)
    np.testing.assert_allclose(scores.var(axis=0), 1.0, rtol=0.1)
    plain = RobustPCA(random_state=0).fit(data)
    np.testing.assert_allclose(
        model.inverse_transform(scores), plain.inverse_transform(plain.transform(data)), atol=1e-9
    )


def test_variances_are_those_of_pca_on_a_clean_table():
    data, _, _ = contaminated(m=2000, missing=0.0, outliers=0.0)
    spoiled = np.where(np.random.default_rng(1).random(data.shape) < 0.03, data + 40.0, data)
    model, plain = RobustPCA(random_state=0).fit(spoiled), PCA(3).fit(data)
    np.testing.assert_allclose(model.explained_variance_, plain.explained_variance_, rtol=0.05)
    np.testing.assert_allclose(model.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=0.05)
    assert subspace_angles(model.components_.T, plain.components_.T)[0] < 0.02


def test_rows_are_anomalies_by_their_distance():
    """Rows whose cells are each ordinary, but not together; and predictions by a given share."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 15)) + 0.3 * rng.standard_normal((500, 15))
    X[:25] = np.column_stack([rng.permutation(column)[:25] for column in X.T])
    truth = np.arange(500) < 25
    model = RobustPCA(contamination=0.05, random_state=0).fit(X)
    assert roc_auc_score(truth, -model.score_samples(X)) > 0.99
    assert np.mean(model.predict(X) == -1) == pytest.approx(0.05, abs=0.002)
    assert set(model.outlier_rows_) == set(np.flatnonzero(model.fit_predict(X) == -1))
    np.testing.assert_allclose(model.decision_function(X), model.score_samples(X) - model.offset_)
    gaps = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    assert roc_auc_score(truth, -model.score_samples(gaps)) > 0.95
    covariance = model._core.covariance()
    z = (X[:5] - model._core.centre) / model._core.scale
    by_hand = np.sqrt(np.einsum("ij,jk,ik->i", z, np.linalg.inv(covariance), z))
    np.testing.assert_allclose(-model.score_samples(X[:5]), by_hand, rtol=1e-8)


@pytest.mark.parametrize("bad", [0.0, 0.6, "much", -1])
def test_contamination_is_checked(bad):
    with pytest.raises(ValueError, match="contamination"):
        RobustPCA(contamination=bad).fit(np.eye(5))


def test_likelihood_chooses_the_number_of_components():
    data, _, _ = contaminated(m=200, n=12, outliers=0.02)
    search = GridSearchCV(RobustPCA(random_state=0), {"n_components": [1, 2, 3, 8]}, cv=3).fit(data)
    assert search.best_params_ == {"n_components": 3}


def test_pipelines_clones_pickles_and_generators():
    data, _, _ = contaminated(m=120, n=8, r=2)
    model = make_pipeline(StandardScaler(), RobustPCA(random_state=0)).fit(data)[-1]
    again = clone(model).fit(StandardScaler().fit_transform(data))
    np.testing.assert_array_equal(again.components_, model.components_)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(data), model.transform(data))
    one, other = (RobustPCA(random_state=np.random.default_rng(5)).fit(data) for _ in range(2))
    np.testing.assert_array_equal(one.sample(3), other.sample(3))


def test_what_is_no_number_is_refused():
    data, _, _ = contaminated(m=50, n=5)
    model = RobustPCA(random_state=0).fit(data)
    for bad in (np.inf, -np.inf):
        spoiled = np.where(np.arange(5) == 2, bad, data)
        for call in (RobustPCA().fit, RobustPCA().partial_fit, model.transform, model.partial_fit):
            with pytest.raises(ValueError, match="infinity"):
                call(spoiled)
    with pytest.raises(NotFittedError):
        RobustPCA().transform(data)
    with pytest.raises(ValueError, match="scores with"):
        model.inverse_transform(np.zeros((3, 9)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(dtype):
    data = contaminated()[0].astype(dtype)
    model = RobustPCA(random_state=0).fit(data)
    parts = [model.transform(data), model.components_, model.impute(data), model.score_cells(data)]
    parts += [model.inverse_transform(model.transform(data)), model.outliers_, model.low_rank_]
    assert {part.dtype for part in parts} == {np.dtype(dtype)}


def test_frames_keep_their_names_and_set_output_is_honoured():
    pl = pytest.importorskip("polars")
    data, _, _ = contaminated(m=120, n=6, r=2)
    frame = pd.DataFrame(data, columns=list("abcdef"), index=pd.date_range("2020-01-01", periods=120))
    model = RobustPCA(columns="numeric", random_state=0).fit(frame.assign(city="Rome"))
    assert list(model.feature_names_in_) == list("abcdef")
    filled = model.impute(frame)
    assert filled.index.equals(frame.index) and not filled.isna().any(axis=None)
    assert model.low_rank_.to_frame().index.equals(frame.index)
    np.testing.assert_array_equal(filled.to_numpy(), RobustPCA(random_state=0).fit(data).impute(data))
    scores = model.set_output(transform="pandas").transform(frame)
    assert list(scores.columns) == [f"robustpca{i}" for i in range(model.n_components_)]
    model.set_output(transform="polars")
    assert isinstance(model.score_cells(frame), pl.DataFrame)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.rename(columns={"a": "x"}))
    none = frame.astype(object).where(frame.notna(), None)
    np.testing.assert_allclose(RobustPCA(random_state=0).fit(none).components_, model.components_)


def test_the_picture_of_outliers_names_columns():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    data, _, _ = contaminated(m=60, n=6, r=2)
    frame = pd.DataFrame(data, columns=list("abcdef"))
    model = RobustPCA(random_state=0).fit(frame)
    axes = model.plot_outliers(frame, Figure().subplots())
    assert axes.get_title().endswith(
        f"{int((model.score_cells(frame).abs() > 3.29).to_numpy().sum())} beyond 3.29"
    )
    assert [label.get_text() for label in axes.get_xticklabels()] == list("abcdef")


@pytest.mark.parametrize("kind", ["memory map", "hdf5", "dask", "masked", "fortran"])
def test_wherever_the_table_lives(kind, tmp_path):
    """More rows than the sample, so that passes over all of them run."""
    data, _, _ = contaminated(m=4000, n=10, r=2)
    np.save(tmp_path / "x.npy", data)
    if kind == "dask":
        da = pytest.importorskip("dask.array")
        X = da.from_array(data, chunks=(700, 10))
    elif kind == "hdf5":
        X = h5py.File(tmp_path / "x.h5", "w").create_dataset("x", data=data)
    else:
        X = {
            "memory map": np.load(tmp_path / "x.npy", mmap_mode="r"),
            "masked": np.ma.masked_invalid(data),
            "fortran": np.asfortranarray(data),
        }[kind]
    model, expected = RobustPCA(random_state=0).fit(X), RobustPCA(random_state=0).fit(data)
    assert subspace_angles(model.components_.T, expected.components_.T)[0] < 0.01
    np.testing.assert_allclose(model.noise_variance_, expected.noise_variance_, rtol=0.3)
    assert model.low_rank_.shape == model.outliers_.shape == (4000, 10)
    assert abs(model.outliers_.nnz - expected.outliers_.nnz) < 0.06 * expected.outliers_.nnz


def test_wide_tables_need_no_square_matrix():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 900))
    data = truth + 0.2 * rng.standard_normal(truth.shape)
    hidden, spoiled = rng.random(truth.shape) < 0.1, rng.random(truth.shape) < 0.03
    data[spoiled] += 8.0
    shown = np.where(hidden, np.nan, data)
    model = RobustPCA(random_state=0).fit(shown)
    assert model.n_components_ == 3
    flagged = model.outliers_.toarray() != 0
    assert flagged[spoiled & ~hidden].mean() > 0.99 and flagged[~spoiled].mean() < 0.005
    assert np.sqrt(np.mean((model.impute(shown) - truth)[hidden] ** 2)) < 0.1
    batch = truth[:20] + 0.2 * rng.standard_normal((20, 900))
    model.partial_fit(batch)
    assert model.n_components_ == 3 and model.low_rank_.shape == (20, 900)


def test_a_sparse_matrix_starts_from_the_convex_problem():
    data, truth, spoiled = contaminated(m=300, n=60, missing=0.6)
    seen = ~np.isnan(data)
    sparse = scipy.sparse.csr_array((data[seen], np.nonzero(seen)), shape=data.shape)
    model = RobustPCA(random_state=0).fit(sparse)
    assert model.decomposition_.relative_gap <= 1e-3
    assert np.sqrt(np.mean((model.impute(sparse) - truth)[~seen] ** 2)) < 0.25
    flagged = model.outliers_.toarray() != 0
    assert flagged[spoiled & seen].mean() > 0.97 and flagged[~spoiled].mean() < 0.01
    counts = scipy.sparse.csr_array(np.random.default_rng(0).poisson(0.5, (80, 12)).astype(float))
    assert RobustPCA(implicit="zeros", center=False, random_state=0).fit(counts).decomposition_ is None
    with pytest.raises(ValueError, match="'center' parameter"):
        RobustPCA(implicit="zeros").fit(counts)


def test_a_convex_start_keeps_its_certificate_and_finds_the_same():
    data, _, _ = contaminated()
    model = RobustPCA(convex={"tol": 1e-2}, random_state=0).fit(data)
    assert 0.0 <= model.decomposition_.relative_gap <= 1e-2
    plain = RobustPCA(random_state=0).fit(data)
    assert plain.decomposition_ is None
    assert subspace_angles(model.components_.T, plain.components_.T)[0] < 0.02
    with pytest.raises(ValueError, match="'tol' parameter of RobustPCA"):
        RobustPCA(convex={"tol": -1.0}).fit(data)


@pytest.mark.filterwarnings("ignore::rankwolf.RankwolfWarning")
def test_batches_come_close_to_the_whole_and_forget():
    data, _, _ = contaminated(m=1200)
    stream = RobustPCA(random_state=0)
    for batch in np.array_split(data, 6):
        stream.partial_fit(batch)
    whole = RobustPCA(random_state=0).fit(data)
    assert stream.n_samples_seen_ == 1200 and stream.n_components_ in (3, 4)
    assert subspace_angles(stream.components_[:3].T, whole.components_.T)[0] < 0.03
    np.testing.assert_allclose(stream.explained_variance_[:3], whole.explained_variance_, rtol=0.1)
    np.testing.assert_allclose(stream.mean_, whole.mean_, atol=0.05)

    rng = np.random.default_rng(4)
    old, new = rng.standard_normal((2, 1, 20))
    models = {f: RobustPCA(1, forgetting=f, center=False, random_state=0) for f in (1.0, 0.5)}
    for direction in (old, new):
        for _ in range(6):
            batch = rng.standard_normal((60, 1)) @ direction + 0.05 * rng.standard_normal((60, 20))
            for model in models.values():
                model.partial_fit(batch)
    angles = {f: np.degrees(subspace_angles(new.T, model.components_.T)[0]) for f, model in models.items()}
    assert angles[0.5] < 5.0 < angles[1.0]
    with pytest.raises(ValueError, match="forgetting"):
        models[1.0].set_params(forgetting=1.5).partial_fit(batch)


def test_a_saved_model_scores_fills_and_learns_as_before(tmp_path):
    data, _, _ = contaminated(m=150, n=8, r=2)
    frame = pd.DataFrame(data, columns=list("abcdefgh"))
    model = RobustPCA(3, whiten=True, random_state=0).fit(frame)
    model.save(tmp_path / "model.npz")
    again = RobustPCA.load(tmp_path / "model.npz")
    assert again.get_params()["whiten"] and list(again.feature_names_in_) == list("abcdefgh")
    for name in ("transform", "impute", "score_cells", "predict"):
        np.testing.assert_array_equal(getattr(again, name)(frame), getattr(model, name)(frame))
    both = [each.partial_fit(frame[:50]).components_ for each in (again, model)]
    np.testing.assert_array_equal(*both)
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    (tmp_path / "text.npz").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "model.npz") as old, zipfile.ZipFile(tmp_path / "many.npz", "w") as new:
        for name in old.namelist():  # a parameter that no estimator has: once a TypeError
            new.writestr(name, old.read(name).replace(b'"whiten"', b'"whited"'))
    for name in ("other.npz", "text.npz", "many.npz"):
        with pytest.raises(ValueError, match=r"'path' parameter of RobustPCA\.load must be a model"):
            RobustPCA.load(tmp_path / name)


def test_without_scikit_learn_the_remedy_is_named():
    code = (
        "import sys; sys.modules['sklearn'] = None; import rankwolf; rankwolf.decompose\n"
        "try:\n    rankwolf.RobustPCA\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "needs scikit-learn. Install it with: pip install 'rankwolf[sklearn]'" in done.stdout
