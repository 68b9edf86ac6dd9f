"""RobustPCA: scikit-learn's checks, robustness, missing values, frames, streaming."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwolf as rw
from rankwolf import RobustPCA
from rankwolf.weights.noise import OUTLIER_IN_SIGMAS


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


@pytest.mark.doubts("low-rank part is zero", "sparse part is zero", "λ_S is below the noise")
@parametrize_with_checks(
    [RobustPCA(random_state=0), RobustPCA(n_components=2, delta=1e-2, center=False, random_state=0)]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_nan_is_missing_and_infinity_is_refused():
    data, truth, _ = contaminated(outliers=0.0)
    model = RobustPCA(random_state=0).fit(data)
    hidden = np.isnan(data)
    assert np.sqrt(np.mean((model.impute(data) - truth)[hidden] ** 2)) < 0.2
    for bad in (np.inf, -np.inf):
        spoiled = data.copy()
        spoiled[0, 0] = bad
        for call in (RobustPCA().fit, RobustPCA().partial_fit, model.transform, model.partial_fit):
            with pytest.raises(ValueError, match="infinity"):
                call(spoiled)


def test_it_finds_what_plain_pca_does_not(fitted):
    model, data, truth, spoiled = fitted
    components = np.linalg.svd(truth - truth.mean(axis=0))[2][:3]
    filled = np.where(np.isnan(data), np.nanmean(data, axis=0), data)
    plain = PCA(3).fit(filled).components_
    robust_angle = np.degrees(subspace_angles(components.T, model.components_[:3].T)[0])
    plain_angle = np.degrees(subspace_angles(components.T, plain.T)[0])
    assert robust_angle < 3.0 < 20.0 < plain_angle
    seen = spoiled & ~np.isnan(data)
    outliers = model.outliers_.toarray() != 0
    assert np.mean(outliers[seen]) > 0.99
    assert np.mean(outliers[~spoiled]) < 0.003, "of Gaussian noise, one entry in a thousand is beyond 3.29σ"
    np.testing.assert_allclose(model.noise_scale_, 0.1, rtol=0.25)


def test_the_parts_fit_together(fitted):
    model, data, _, _ = fitted
    m, n = data.shape
    k = model.n_components_
    assert model.components_.shape == (k, n)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-8)
    assert np.all(np.diff(model.singular_values_) <= 0)
    assert model.low_rank_.shape == model.outliers_.shape == (m, n)
    np.testing.assert_allclose(model.low_rank_.s, model.singular_values_)
    assert model.gap_ >= 0
    assert model.relative_gap_ <= 1e-3
    assert model.n_iter_ >= 1
    assert model.n_features_in_ == n
    # The scores of the training rows are those of L, and S is the thresholded residual.
    low_rank = np.asarray(model.low_rank_)
    rows = model.inverse_transform(model.transform(data)) - model.mean_
    assert np.linalg.norm(rows - low_rank) < 0.04 * np.linalg.norm(low_rank)
    residual = np.nan_to_num(data - model.mean_ - low_rank)
    expected = np.where(np.abs(residual) > OUTLIER_IN_SIGMAS * model.noise_scale_, residual, 0.0)
    np.testing.assert_allclose(model.outliers_.toarray(), expected, atol=1e-10)


def test_without_a_refit_they_are_the_convex_optimum():
    data, _, _ = contaminated()
    model = RobustPCA(refit=False, random_state=0).fit(data)
    low_rank = np.asarray(model.low_rank_)
    rows = model.inverse_transform(model.transform(data)) - model.mean_
    assert np.linalg.norm(rows - low_rank) < 0.01 * np.linalg.norm(low_rank)
    residual = np.nan_to_num(data - model.mean_ - low_rank)
    expected = residual - np.clip(residual, -model.lambdas_[1], model.lambdas_[1])
    np.testing.assert_allclose(model.outliers_.toarray(), expected, atol=1e-10)
    refitted = RobustPCA(random_state=0).fit(data)
    assert np.all(refitted.singular_values_ > model.singular_values_[: refitted.n_components_])


@pytest.mark.parametrize("seed", range(3))
def test_few_columns_are_not_worse_than_plain_pca(seed):
    """500 × 6, rank 2, noise 0.1, no outliers: λ_S was ten times too large, and the error ten times that of PCA."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 6))
    data = truth + 0.1 * rng.standard_normal(truth.shape)
    model, plain = RobustPCA(random_state=0).fit(data), PCA(2).fit(data)
    errors = [np.linalg.norm(m.inverse_transform(m.transform(data)) - truth) for m in (model, plain)]
    assert errors[0] < 1.3 * errors[1]


def test_a_stream_keeps_in_mind_that_the_noise_differs_between_columns():
    """After its first batch it took the noise as even, and found directions of noise."""
    rng = np.random.default_rng(0)
    sizes = np.exp(0.8 * rng.standard_normal(40))
    directions = rng.standard_normal((3, 40))
    model = RobustPCA(random_state=0)
    for _ in range(6):
        model.partial_fit(
            rng.standard_normal((200, 3)) @ directions * 2.0 + sizes * rng.standard_normal((200, 40))
        )
    assert 3 <= model.n_components_ <= 4


def test_the_centre_is_not_a_component():
    """Around the medians of the columns, the offset from the true centre of L would be a third direction."""
    data, truth, _ = contaminated(seed=3, m=200, r=2, missing=0.1)
    model = RobustPCA(random_state=0).fit(data)
    centre = truth.mean(axis=0)
    assert np.linalg.norm(model.mean_ - centre) < 0.5 * np.linalg.norm(np.nanmedian(data, axis=0) - centre)
    assert np.all(model.singular_values_[2:] < 0.02 * model.singular_values_[0])
    assert np.linalg.norm(np.asarray(model.low_rank_).mean(axis=0)) < 0.05


def test_new_rows_are_scored_in_spite_of_outliers_and_gaps(fitted):
    model = fitted[0]
    rng = np.random.default_rng(5)
    scores = rng.standard_normal((50, model.n_components_)) * model.singular_values_ / 300**0.5
    clean = model.inverse_transform(scores)
    spoiled = clean.copy()
    spoiled[rng.random(clean.shape) < 0.05] = 100.0
    spoiled[rng.random(clean.shape) < 0.1] = np.nan
    errors = np.linalg.norm(model.transform(spoiled) - scores, axis=1)
    filled = np.where(np.isnan(spoiled), model.mean_, spoiled)
    plain = np.linalg.norm((filled - model.mean_) @ model.components_.T - scores, axis=1)
    assert np.median(errors) < 0.4 < 5.0 < np.median(plain)
    nothing = np.full((1, clean.shape[1]), np.nan)
    np.testing.assert_allclose(model.impute(nothing)[0], model.mean_)


def test_cells_and_rows_are_scored(fitted):
    model, data, truth, spoiled = fitted
    cells = model.score_cells(data)
    assert np.array_equal(np.isnan(cells), np.isnan(data))
    seen = spoiled & ~np.isnan(data)
    assert np.nanmin(np.abs(cells[seen])) > 20.0
    assert np.nanmedian(np.abs(cells[~spoiled])) < 1.0
    ordinary = model.score_samples(truth)
    strange = model.score_samples(truth[:, ::-1])
    assert strange.max() < np.median(ordinary)
    repaired = model.impute(data, outliers=True)
    assert np.quantile(np.abs(repaired - truth)[seen], 0.95) < 1.0
    kept = ~seen & ~np.isnan(data) & (np.abs(cells) < 1.0)
    assert np.array_equal(repaired[kept], data[kept])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(dtype):
    data = contaminated()[0].astype(dtype)
    model = RobustPCA(random_state=0).fit(data)
    for array in (
        model.components_,
        model.mean_,
        model.transform(data),
        model.outliers_,
        np.asarray(model.low_rank_),
    ):
        assert array.dtype == dtype
    assert model.partial_fit(data[:50]).transform(data).dtype == dtype
    assert model.inverse_transform(model.transform(data)).dtype == dtype


def test_integers_masked_arrays_and_a_column_that_was_never_seen():
    data, _, _ = contaminated(missing=0.0)
    counts = np.round(20 * data).astype(np.int32)
    assert RobustPCA(random_state=0).fit_transform(counts).dtype == np.float64
    masked = np.ma.masked_array(data, np.random.default_rng(0).random(data.shape) < 0.2)
    filled = np.where(masked.mask, np.nan, data)
    one, other = RobustPCA(random_state=0).fit(masked), RobustPCA(random_state=0).fit(filled)
    np.testing.assert_array_equal(one.components_, other.components_)
    filled[:, 4] = np.nan
    model = RobustPCA(random_state=0).fit(filled)
    assert model.mean_[4] == 0.0
    assert np.all(np.isfinite(model.impute(filled)))


@pytest.mark.parametrize("library", ["pandas", "pandas nullable", "pandas object", "polars"])
def test_frames(library):
    data, _, _ = contaminated(m=120, n=6, r=2)
    names = [f"sensor {i}" for i in range(6)]
    plain = pd.DataFrame(data, columns=names)
    none = data.astype(object)
    none[np.isnan(data)] = None
    frame = {
        "pandas": plain,
        "pandas nullable": plain.astype("Float64"),
        "pandas object": pd.DataFrame(none, columns=names),
        "polars": pl.DataFrame(none.tolist(), schema=names, orient="row", infer_schema_length=None),
    }[library]
    model = RobustPCA(random_state=0).fit(frame)
    assert list(model.feature_names_in_) == names
    expected = RobustPCA(random_state=0).fit(data)
    np.testing.assert_allclose(model.components_, expected.components_)
    np.testing.assert_allclose(model.transform(frame), expected.transform(data))
    kind = "polars" if library == "polars" else "pandas"
    scores = model.set_output(transform=kind).transform(frame)
    assert list(scores.columns) == [f"robustpca{i}" for i in range(model.n_components_)]
    assert list(model.get_feature_names_out()) == list(scores.columns)
    renamed = frame.rename(columns={"sensor 0": "x"}) if kind == "pandas" else frame.rename({"sensor 0": "x"})
    with pytest.raises(ValueError, match="feature names"):
        model.transform(renamed)


@pytest.mark.parametrize("refit", [True, False])
def test_a_fitted_model_keeps_the_kind_of_its_fit(refit):
    """set_params changes the next fit, not the scores of this one."""
    data, _, _ = contaminated(m=80)
    model = RobustPCA(refit=refit, random_state=0).fit(data)
    scores, cells = model.transform(data), model.score_cells(data)
    model.set_params(refit=not refit)
    np.testing.assert_array_equal(model.transform(data), scores)
    np.testing.assert_array_equal(model.score_cells(data), cells)
    assert model.refitted_ is refit and model.fit(data).refitted_ is not refit


@pytest.mark.doubts("low-rank part is zero", "sparse part is zero")
def test_pipelines_clones_pickles_and_grid_search():
    data, _, _ = contaminated(m=200, n=12, r=2)
    pipeline = make_pipeline(RobustScaler(), RobustPCA(random_state=0))
    scores = pipeline.fit_transform(data)
    assert scores.shape == (200, pipeline[-1].n_components_)
    model = pipeline[-1]
    again = clone(model).fit(RobustScaler().fit_transform(data))
    np.testing.assert_array_equal(again.components_, model.components_)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(data), model.transform(data))
    search = GridSearchCV(
        RobustPCA(random_state=0), {"delta": [1e-2, 3.0], "n_components": [1, 2]}, cv=2
    ).fit(data)
    assert search.best_params_ == {"delta": 1e-2, "n_components": 2}


def test_n_components_keeps_the_strongest():
    data, _, _ = contaminated()
    whole, cut = (RobustPCA(most, refit=False, random_state=0).fit(data) for most in (None, 2))
    assert cut.n_components_ == 2
    np.testing.assert_array_equal(cut.components_, whole.components_[:2])
    residual = np.nan_to_num(data - cut.mean_ - np.asarray(cut.low_rank_))
    limit = cut.lambdas_[1]
    np.testing.assert_allclose(
        cut.outliers_.toarray(), residual - np.clip(residual, -limit, limit), atol=1e-10
    )
    for wrong in (0, -1, 1.5, "two"):
        with pytest.raises(ValueError, match="n_components"):
            RobustPCA(wrong).fit(data)


def test_delta_is_checked_by_the_rule_of_decompose():
    X = contaminated()[0]
    rule = "'delta' parameter of RobustPCA must be 'auto' or a positive, finite number. Got 'autoo' instead."
    with pytest.raises(ValueError, match=rule):
        RobustPCA(delta="autoo").fit(X)
    with pytest.raises(ValueError, match=rule):
        RobustPCA(random_state=0).fit(X).set_params(delta="autoo").partial_fit(X)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"tol": -1.0}, "tol"),
        ({"method": "x"}, "method"),
        ({"max_iter": 0}, "max_iter"),
        ({"lambdas": (1,)}, "lambdas"),
    ],
)
def test_errors_name_the_estimator(settings, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of RobustPCA must be"):
        RobustPCA(**settings).fit(contaminated()[0])


def test_weights_are_passed_on():
    data, _, _ = contaminated(missing=0.0, offset=0.0)
    model = RobustPCA(lambdas=(5.0, 0.3), center=False, refit=False, random_state=0).fit(data)
    fit = rw.decompose(data, lambdas=(5.0, 0.3), rng=0)
    assert model.lambdas_ == (5.0, 0.3)
    np.testing.assert_allclose(np.asarray(model.low_rank_), np.asarray(fit.low_rank), atol=0.05)
    assert not np.any(model.mean_)


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise")
def test_an_unfinished_fit_warns_and_an_unfitted_model_says_so():
    data, _, _ = contaminated()
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        RobustPCA(method="fista", max_iter=1, tol=1e-9).fit(data)
    with pytest.raises(NotFittedError):
        RobustPCA().transform(data)
    with pytest.raises(ValueError, match="columns, one for each component"):
        RobustPCA(random_state=0).fit(data).inverse_transform(np.zeros((2, 19)))


@pytest.mark.doubts("low-rank part is zero")
def test_data_without_structure_has_no_components():
    noise = np.random.default_rng(0).standard_normal((200, 30))
    model = RobustPCA(center=False, random_state=0).fit(noise)
    assert model.transform(noise).shape == (200, 0)
    assert model.inverse_transform(model.transform(noise)).shape == noise.shape


@pytest.mark.parametrize("settings", [{}, {"delta": 5e-3}, {"center": False}])
def test_batches_come_close_to_the_whole(settings):
    data, truth, _ = contaminated(m=2000, n=40)
    whole = RobustPCA(random_state=0, **settings).fit(data)
    stream = RobustPCA(random_state=0, **settings)
    for batch in np.array_split(data, 20):
        stream.partial_fit(batch)
    assert stream.n_samples_seen_ == 2000
    assert np.degrees(subspace_angles(whole.components_[:3].T, stream.components_[:3].T)[0]) < 1.5
    errors = [
        np.linalg.norm(model.inverse_transform(model.transform(data)) - truth) for model in (whole, stream)
    ]
    assert errors[1] < 1.15 * errors[0]
    assert stream.low_rank_.shape == (100, 40)
    np.testing.assert_allclose(stream.lambdas_, whole.lambdas_, rtol=0.15)


def test_given_weights_grow_with_the_noise():
    data, truth, _ = contaminated(m=2000, n=40)
    stream = RobustPCA(lambdas=(1.6, 0.2), random_state=0)
    for batch in np.array_split(data, 20):
        stream.partial_fit(batch)
    np.testing.assert_allclose(stream.lambdas_, (1.6 * (2000**0.5 + 40**0.5) / (10.0 + 40**0.5), 0.2))
    components = np.linalg.svd(truth - truth.mean(axis=0), full_matrices=False)[2][:3]
    assert np.degrees(subspace_angles(components.T, stream.components_[:3].T)[0]) < 2.0


def test_a_stream_finds_a_direction_that_its_first_batch_did_not_have():
    rng = np.random.default_rng(3)
    directions = rng.standard_normal((3, 30))
    early = rng.standard_normal((200, 2)) @ directions[:2] + 0.1 * rng.standard_normal((200, 30))
    late = rng.standard_normal((400, 3)) @ directions + 0.1 * rng.standard_normal((400, 30))
    model = RobustPCA(center=False, random_state=0).partial_fit(early)
    assert np.all(model.singular_values_[2:] < 5.0)
    for batch in np.array_split(late, 8):
        model.partial_fit(batch)
    assert model.singular_values_[2] > 50.0
    assert np.degrees(subspace_angles(directions.T, model.components_[:3].T)[0]) < 6.0


def test_a_stream_learns_from_how_its_batches_differ():
    """Each batch has one direction inside, and a mean of its own along another, which only all of them show."""
    rng = np.random.default_rng(0)
    inside, between = np.linalg.qr(rng.standard_normal((20, 2)))[0].T
    model = RobustPCA(random_state=0)
    for _ in range(12):
        rows = 3.0 * rng.standard_normal((100, 1)) * inside + rng.standard_normal() * between
        model.partial_fit(rows + 0.1 * rng.standard_normal((100, 20)))
    assert model.n_components_ == 2
    for direction in (inside, between):
        assert np.linalg.norm(model.components_ @ direction) > 0.99


def test_forgetting_follows_a_change():
    rng = np.random.default_rng(4)
    old, new = rng.standard_normal((2, 1, 20))
    models = {
        forgetting: RobustPCA(1, forgetting=forgetting, center=False, random_state=0)
        for forgetting in (1.0, 0.5)
    }
    for direction in (old, new):
        for _ in range(6):
            batch = rng.standard_normal((60, 1)) @ direction + 0.05 * rng.standard_normal((60, 20))
            for model in models.values():
                model.partial_fit(batch)
    angles = {f: np.degrees(subspace_angles(new.T, model.components_.T)[0]) for f, model in models.items()}
    assert angles[0.5] < 3.0 < angles[1.0]
    with pytest.raises(ValueError, match="forgetting"):
        models[1.0].set_params(forgetting=1.5).partial_fit(batch)


def test_the_memory_of_a_stream_does_not_grow():
    data, _, _ = contaminated(m=4000, n=30)
    model = RobustPCA(random_state=0)
    sizes = []
    for batch in np.array_split(data, 20):
        model.partial_fit(batch)
        sizes.append(len(pickle.dumps(model)))
    assert max(sizes[10:]) < 1.2 * max(sizes[2:10])
    tracemalloc.start()
    for batch in np.array_split(data, 20):
        model.partial_fit(batch)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < data[:200].nbytes * 3


def test_importing_rankwolf_does_not_import_scikit_learn():
    code = "import sys, rankwolf; rankwolf.decompose; assert 'sklearn' not in sys.modules; rankwolf.RobustPCA"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_scikit_learn_the_remedy_is_named():
    code = (
        "import sys; sys.modules['sklearn'] = None; import rankwolf; rankwolf.decompose\n"
        "try:\n    rankwolf.RobustPCA\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == (
        "rankwolf.RobustPCA needs scikit-learn. Install it with: pip install 'rankwolf[sklearn]'\n"
    )
