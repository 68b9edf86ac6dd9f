"""rw.path: every point is certified, the fits are those of decompose, and the way down is cheap."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse

import rankwolf as rw
from rankwolf.cli.main import main


def mixture(seed=0, m=120, n=60, rank=3, noise=0.05, corrupted=0.05):
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    data += noise * rng.standard_normal((m, n))
    data[rng.random((m, n)) < corrupted] += 8.0
    return data


@pytest.fixture(scope="module")
def found():
    return rw.path(mixture(), rng=0, n_threads=1)


def test_points_agree_with_decompose_at_the_same_delta(found):
    for point in found.points:
        alone = rw.decompose(mixture(), delta=point.delta, tol=1e-4, rng=0, n_threads=1)
        assert point.lambdas == pytest.approx(alone.lambdas)
        # Both objectives lie between the optimum and their own gaps above it.
        lowest = alone.objective - alone.gap
        assert lowest <= point.objective * (1.0 + 1e-9)
        assert point.objective * (1.0 - point.relative_gap) <= alone.objective * (1.0 + 1e-9)
        assert point.relative_gap <= 1e-2
        residual = np.linalg.norm(mixture() - np.asarray(alone.low_rank) - np.asarray(alone.sparse))
        assert alone.residual == pytest.approx(residual)
        assert point.relative_residual * np.linalg.norm(mixture()) == pytest.approx(residual, rel=0.05)


def test_rank_comes_from_below_and_the_plateau_is_the_truth(found):
    assert np.all(np.diff(found.deltas) < 0)
    assert np.all(np.diff(found.ranks) >= 0)
    assert np.count_nonzero(found.ranks == 3) >= 4
    assert np.all(np.diff([point.relative_residual for point in found.points]) < 0)
    assert found.passes == sum(point.passes for point in found.points)


def test_the_way_down_is_cheaper_than_its_points_one_by_one(found):
    alone = sum(
        rw.decompose(mixture(), delta=point.delta, tol=1e-2, rng=0, n_threads=1).passes
        for point in found.points
    )
    assert found.passes < 0.6 * alone


def test_fit_is_warm_and_reaches_its_tolerance(found):
    between = float(np.sqrt(found.deltas[2] * found.deltas[3]))
    cold = rw.decompose(mixture(), delta=between, rng=0, n_threads=1)
    before = found.source.passes
    warm = found.fit(between, rng=0)
    assert warm.relative_gap <= 1e-3
    assert warm.objective == pytest.approx(cold.objective, rel=1e-3)
    assert warm.passes - before < cold.passes
    assert found.nearest(between).delta in found.deltas


def test_shows_itself(found):
    assert "rank" in repr(found)
    assert repr(found).count("\n") == len(found.points) + 1
    assert found._repr_html_().count("<tr>") == len(found.points) + 1
    axes = found.plot()
    assert axes.get_xlabel() == "δ"
    assert found.plot(ax=axes) is axes
    frame = pytest.importorskip("pandas") and found.to_frame()
    assert frame["rank"].tolist() == found.ranks.tolist()
    assert frame.index.tolist() == found.deltas.tolist()
    assert frame["share"].tolist() == [point.share for point in found.points]


def test_every_number_of_a_point_is_in_the_frame_and_in_json(found):
    names = {field.name for field in dataclasses.fields(rw.PathPoint)} - {"start"}
    assert set(found.to_frame().reset_index().columns) == names
    said = json.loads(json.dumps(found.as_dict()))["points"]
    assert all(set(point) == names for point in said)
    assert [point["status"] for point in said] == [point.status.name for point in found.points]
    assert [tuple(point["lambdas"]) for point in said] == [point.lambdas for point in found.points]


def test_on_every_source(tmp_path):
    data = mixture(1, 90, 40)
    options = {"deltas": [0.1, 0.03], "rng": 0, "n_threads": 1}
    expected = rw.path(data, **options)
    np.save(tmp_path / "x.npy", data)
    assert rw.path([tmp_path / "x.npy"], **options).ranks.tolist() == expected.ranks.tolist()
    array = pytest.importorskip("dask.array").from_array(data, chunks=(30, 40))
    assert rw.path(array, **options).ranks.tolist() == expected.ranks.tolist()
    holes = np.random.default_rng(0).random(data.shape) < 0.5
    dense = rw.path(np.where(holes, np.nan, data), deltas=[0.2, 0.1], rng=0, n_threads=1)
    stored = rw.path(
        scipy.sparse.csr_array(np.where(holes, 0.0, data)), deltas=[0.2, 0.1], rng=0, n_threads=1
    )
    for mine, theirs in zip(stored.points, dense.points, strict=True):
        assert mine.objective == pytest.approx(theirs.objective, rel=1e-2)


def test_ends_at_max_rank_and_at_the_time():
    data = mixture(2)
    found = rw.path(data, deltas=[0.1, 0.01, 1e-3, 1e-4], max_rank=5, rng=0, n_threads=1)
    assert len(found.points) < 4
    assert found.ranks[-1] > 5
    assert np.all(found.ranks[:-1] <= 5)
    assert len(rw.path(data, deltas=[0.1, 0.01], max_seconds=1e-6, rng=0, n_threads=1).points) == 1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("deltas", {"deltas": []}),
        ("deltas", {"deltas": 0.1}),
        ("deltas", {"deltas": [0.1, -1.0]}),
        ("tol", {"tol": -1.0}),
        ("max_rank", {"max_rank": 0}),
        ("X", {}),
    ],
)
def test_complains(name, options):
    data = np.full((3, 3), np.nan) if name == "X" else mixture()
    with pytest.raises(ValueError, match=f"'{name}' parameter of path"):
        rw.path(data, **options)


def test_command_prints_the_same_points_and_draws(tmp_path, capsys):
    np.save(tmp_path / "x.npy", mixture())
    picture = tmp_path / "path.png"
    arguments = ["path", str(tmp_path / "x.npy"), "--deltas", "0.1", "0.02", "--threads", "1"]
    assert main([*arguments, "--json", "--plot", str(picture)]) == 0
    said = json.loads(capsys.readouterr().out)
    expected = rw.path(mixture(), deltas=[0.1, 0.02], rng=0, n_threads=1)
    assert [point["rank"] for point in said["points"]] == expected.ranks.tolist()
    assert picture.read_bytes()[1:4] == b"PNG"
    assert main([*arguments, "--plot", str(picture)]) == 2
    assert main([*arguments, "--plot", str(tmp_path / "path.xyz")]) == 2
    assert main(["path", str(tmp_path / "x.npy"), "--deltas", "-1"]) == 2
