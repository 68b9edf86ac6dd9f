"""RobustPCA for those who know PCA: explained variances, shares, tables that come back as tables, pictures."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.decomposition import PCA

import rankwolf as rw

NAMES = [f"c{k}" for k in range(12)]


def clean(m=600):
    """Standard deviations 5, 3 and 1 along three directions of twelve, noise of 0.2."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((12, 12)))[0][:3]
    return rng.standard_normal((m, 3)) * [5.0, 3.0, 1.0] @ directions + 0.2 * rng.standard_normal((m, 12))


def spoiled():
    rng, data = np.random.default_rng(1), clean()
    data[rng.random(data.shape) < 0.05] += 30.0
    data[5, 5] = np.nan
    return data


@cache
def of_all_components():
    return rw.RobustPCA(random_state=0).fit(clean())


def table():
    return pd.DataFrame(spoiled(), index=pd.date_range("2020", periods=600), columns=NAMES)


def test_without_outliers_the_variances_are_those_of_pca():
    model, pca = rw.RobustPCA(random_state=0).fit(clean()), PCA(3).fit(clean())
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=0.015)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=0.015)
    np.testing.assert_allclose(model.explained_variance_, model.singular_values_**2 / 599)
    # Scores are drawn to zero as far as the noise asks for, the weakest component most.
    np.testing.assert_allclose(
        np.var(model.transform(clean()), axis=0, ddof=1), model.explained_variance_, rtol=0.1
    )


def test_noise_is_a_part_of_the_variance_too():
    data = clean() + 0.5 * np.random.default_rng(2).standard_normal((600, 12))
    model, pca = rw.RobustPCA(random_state=0).fit(data), PCA(3).fit(data)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=0.02)
    assert np.sum(model.explained_variance_ratio_) < 0.95


def test_with_outliers_they_are_those_of_the_clean_table():
    pca = PCA(3).fit(clean())
    for settings in ({}, {"refit": False}):
        model = rw.RobustPCA(random_state=0, **settings).fit(spoiled())
        rtol = 0.02 if not settings else 0.1  # the convex fit clips what the noise adds
        np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=rtol)
    fooled = PCA(3).fit(np.nan_to_num(spoiled())).explained_variance_ratio_
    assert abs(fooled[0] - pca.explained_variance_ratio_[0]) > 0.1


@pytest.mark.parametrize(
    ("n_components", "count"), [(None, 3), (1, 1), (2, 2), (12, 3), (0.5, 1), (0.9, 2), (0.98, 3), (0.999, 3)]
)
def test_a_number_a_share_or_none(n_components, count):
    model = rw.RobustPCA(n_components, random_state=0).fit(clean())
    whole = of_all_components()
    assert model.n_components_ == count
    assert model.components_.shape == (count, 12) and model.transform(clean()).shape == (600, count)
    # What is explained does not depend on how much of it is kept.
    np.testing.assert_allclose(model.explained_variance_ratio_, whole.explained_variance_ratio_[:count])
    if isinstance(n_components, float) and n_components < 0.98:
        assert model.n_components_ == PCA(n_components, svd_solver="full").fit(clean()).n_components_
        assert np.sum(model.explained_variance_ratio_) >= n_components


@pytest.mark.parametrize("n_components", [0, -1, 1.0, 1.5, True, "mle", np.nan])
def test_other_numbers_of_components_are_refused(n_components):
    with pytest.raises(ValueError, match="None, a whole number of at least 1, or a share"):
        rw.RobustPCA(n_components).fit(clean())


@pytest.mark.parametrize(("rows", "columns"), [(600, 9), (9, 12)])
@pytest.mark.parametrize("begin", ["fit", "partial_fit", "fit_transform"])
def test_more_components_than_a_table_has_are_refused_as_by_pca(rows, columns, begin):
    data = clean()[:rows, :columns]
    with pytest.raises(ValueError, match=r"min\(n_samples, n_features\)=9"):
        PCA(10).fit(data)
    model = rw.RobustPCA(10, random_state=0)
    with pytest.raises(
        ValueError, match=r"at most min\(n_samples, n_features\) = 9\. Got 10 instead\. None keeps"
    ):
        getattr(model, begin)(data)


def test_a_later_batch_may_have_fewer_rows_than_there_are_components():
    model = rw.RobustPCA(3, random_state=0).fit(clean()[:300]).partial_fit(clean()[300:302])
    assert model.n_components_ == 3


def test_a_stream_explains_as_much():
    model = rw.RobustPCA(0.9, random_state=0).fit(clean()[:300]).partial_fit(clean()[300:])
    assert model.n_components_ == 2
    pca = PCA(2).fit(clean())
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=0.05)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=0.05)


def test_signs_do_not_depend_on_how_a_component_was_found():
    """The entry of largest magnitude is positive: in a fit, in that of the negative table, and in a stream."""
    model, turned = of_all_components(), rw.RobustPCA(random_state=0).fit(-clean())
    np.testing.assert_allclose(turned.components_, model.components_, atol=1e-6)
    stream = rw.RobustPCA(random_state=0)
    for batch in np.array_split(clean(), 3):
        stream.partial_fit(batch)
    for components in (model.components_, stream.components_):
        assert np.all(np.max(components, axis=1) == np.max(np.abs(components), axis=1))


def test_tables_are_filled_in_and_scored_as_tables():
    model = rw.RobustPCA(random_state=0).fit(table())
    filled, cells = model.impute(table()), model.score_cells(table())
    for made in (filled, cells):
        assert made.index.equals(table().index) and made.columns.tolist() == NAMES
    assert not filled.isna().any(axis=None) and np.isnan(cells.iloc[5, 5])
    known = table().notna()
    assert ((filled == table()) & known).to_numpy().sum() == known.to_numpy().sum()
    np.testing.assert_array_equal(
        filled.to_numpy(), rw.RobustPCA(random_state=0).fit(spoiled()).impute(spoiled())
    )
    assert model.low_rank_.to_frame().index.equals(table().index)


def test_set_output_is_honoured():
    pl = pytest.importorskip("polars")
    model = rw.RobustPCA(random_state=0).fit(table())
    model.set_output(transform="polars")
    assert isinstance(model.impute(table()), pl.DataFrame) and model.impute(table()).columns == NAMES
    model.set_output(transform="default")
    assert isinstance(model.score_cells(table()), np.ndarray)
    model.set_output(transform="pandas")
    assert model.impute(table()).index.equals(table().index)
    arrays = rw.RobustPCA(random_state=0).fit(spoiled())
    assert isinstance(arrays.impute(spoiled()), np.ndarray)
    with sklearn.config_context(transform_output="pandas"):
        assert arrays.impute(spoiled()).columns.tolist() == [f"x{k}" for k in range(12)]
    polars = pl.DataFrame(spoiled(), schema=NAMES)
    assert isinstance(rw.RobustPCA(random_state=0).fit(polars).impute(polars), pl.DataFrame)
    xr = pytest.importorskip("xarray")
    array = xr.DataArray(spoiled(), dims=("time", "sensor"))
    assert rw.RobustPCA(random_state=0).fit(array).score_cells(array).dims == ("time", "sensor")


def test_columns_without_numbers_are_left_out_when_asked():
    words = table().assign(city="Rome")
    model = rw.RobustPCA(columns="numeric", random_state=0).fit(words)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.transform(words).shape == (600, 3)
    assert model.impute(words).columns.tolist() == NAMES


def test_the_picture_of_outliers_names_rows_and_columns():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    model = rw.RobustPCA(random_state=0).fit(table())
    axes = Figure().subplots()
    assert model.plot_outliers(table().head(30), axes) is axes
    count = int((model.score_cells(table().head(30)).abs() > 3.29).to_numpy().sum())
    assert axes.get_title().endswith(f"{count} beyond 3.29")
    assert [label.get_text() for label in axes.get_xticklabels()] == NAMES
    assert axes.get_yticklabels()[0].get_text() == "2020-01-01"
    # Of many rows, the most outlying ones.
    many = Figure().subplots()
    model.plot_outliers(table(), many)
    assert many.images[0].get_array().shape == (400, 12) and "400 × 12 most outlying" in many.get_title()
    cells = np.abs(np.nan_to_num(model.score_cells(table()).to_numpy())).max(axis=1)
    shown = np.abs(np.nan_to_num(np.asarray(many.images[0].get_array()))).max(axis=1)
    np.testing.assert_array_equal(np.sort(shown), np.sort(cells)[-400:])


def test_verbose_prints_the_table(capsys):
    rw.decompose(clean(), rng=0, verbose=True, callback=lambda record: record.iteration < 2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:3] == ["Iteration", "Passes", "Objective"] and len(lines) == 5
    rw.RobustPCA(random_state=0, verbose=True).fit(clean())
    assert "Relative gap" in capsys.readouterr().out
    rw.decompose(clean(), rng=0)
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="'verbose' parameter of decompose must be True or False"):
        rw.decompose(clean(), verbose="yes")
