"""``decompose(rank=r)``: a convex fit of at least that rank, its leading directions refitted."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse

import rankwolf as rw
from rankwolf.cli import main
from rankwolf.data import Stored


def matrix(noise, rank=4, shape=(200, 80), outliers=0.1):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    spoiled = rng.random(shape) < outliers
    X = truth + noise * rng.standard_normal(shape)
    X[spoiled] += 20.0
    return truth, spoiled, X


def error(fit, truth):
    return np.linalg.norm(np.asarray(fit.low_rank) - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
def test_the_true_rank_gives_what_an_oracle_gets(noise):
    """Who knows the spoiled entries, and alternates least squares on the others from the truth."""
    truth, spoiled, X = matrix(noise)
    fit = rw.decompose(X, rank=4, rng=0)
    assert (fit.low_rank.rank, fit.status.name) == (4, "REFITTED")
    right = np.linalg.svd(truth, full_matrices=False)[2][:4].T
    for _ in range(20):
        left = np.array(
            [np.linalg.lstsq(right[~b], x[~b], rcond=None)[0] for x, b in zip(X, spoiled, strict=True)]
        )
        right = np.array(
            [np.linalg.lstsq(left[~b], x[~b], rcond=None)[0] for x, b in zip(X.T, spoiled.T, strict=True)]
        )
    oracle = np.linalg.norm(left @ right.T - truth) / np.linalg.norm(truth)
    assert error(fit, truth) <= 1.1 * oracle + 1e-12


@pytest.mark.parametrize("rank", [1, 3, 7, 20])
def test_any_rank_is_met(rank):
    """Also below and above the true one, and with missing entries."""
    _, _, X = matrix(0.5)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    with (
        pytest.warns(rw.RankwolfWarning, match=f"rank {rank}, of which at most")
        if rank > 4
        else nullcontext()
    ):
        assert rw.decompose(X, rank=rank, rng=0).low_rank.rank == rank


@pytest.mark.parametrize(("columns", "true", "rank"), [(6, 3, 5), (12, 6, 8), (4, 2, 3)])
def test_few_columns(columns, true, rank):
    """Down the path, where λ_S falls with λ_L, the rank fell again, and 3 directions came where 8 were asked for."""
    truth, _, X = matrix(0.2, true, (400, columns), 0.03)
    exact = error(rw.decompose(X, rank=true, rng=0), truth)
    with pytest.warns(rw.RankwolfWarning, match=f"rank {rank}, of which at most {true} directions"):
        fit = rw.decompose(X, rank=rank, rng=0)
    assert fit.low_rank.rank == rank
    assert exact < error(fit, truth) < 3.0 * exact


@pytest.mark.parametrize(("shape", "rank"), [((200, 80), 6), ((200, 80), 9), ((400, 12), 7)])
def test_fewer_directions_than_asked_for_are_said(shape, rank):
    """Without noise, a row was held back by an inverse that rounding had made negative: a LinAlgError."""
    truth, _, X = matrix(0.0, shape=shape, outliers=0.05)
    with pytest.warns(rw.RankwolfWarning, match="of which at most 4 directions"):
        fit = rw.decompose(X, rank=rank, rng=0)
    assert error(fit, truth) < 1e-10
    assert fit.passes < 200


@pytest.mark.parametrize("kind", ["disk", "dask", "sparse", "few stored", "float32", "turned"])
def test_wherever_the_matrix_lives(kind, tmp_path):
    truth, _, X = matrix(0.2)
    error_in_memory = error(rw.decompose(X, rank=4, rng=0), truth)
    np.save(tmp_path / "x.npy", X)
    rows, columns = np.nonzero(
        np.random.default_rng(1).random(X.shape) < (0.3 if kind == "few stored" else 0.6)
    )
    stored = scipy.sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
    sources = {
        "disk": lambda: np.load(tmp_path / "x.npy", mmap_mode="r"),
        "dask": lambda: pytest.importorskip("dask.array").from_array(X, chunks=(70, 80)),
        "sparse": lambda: stored,
        "few stored": lambda: stored,
        "float32": lambda: X.astype(np.float32),
        "turned": lambda: X.T,
    }
    fit = rw.decompose(sources[kind](), rank=4, rng=0)
    assert fit.low_rank.rank == 4
    far = {"sparse": 1.5, "few stored": 3.0}.get(kind, 1.05)
    assert error(fit, truth.T if kind == "turned" else truth) < far * error_in_memory


class Slow(Stored):
    """From the ``late``-th time on that it is read, a read takes a thousand seconds."""

    def __init__(self, X, clock, late=np.inf):
        super().__init__(X.shape, X.dtype)
        self.X, self.clock, self.late, self.reads = X, clock, late, 0

    def grain(self, axis):
        return 1 if axis == 0 else self.shape[1]

    def read(self, rows, columns):
        self.reads += 1
        if self.reads >= self.late:
            self.clock.now += 1000.0
        return self.X[rows, columns].copy()


@pytest.mark.doubts("time limit")
def test_the_time_is_kept_in_the_refit_too(clock):
    """When it is up in the refit, what the convex fit has found is returned, and says so."""
    X = matrix(0.1)[2]
    undisturbed = Slow(X, clock)
    whole = rw.decompose(undisturbed, rank=2, rng=0)
    for before_the_end in (0, 2, 4):
        data = Slow(X, clock, undisturbed.reads - before_the_end)
        fit = rw.decompose(data, rank=2, rng=0, max_seconds=100.0)
        if fit.status is rw.Status.REFITTED:
            assert before_the_end == 0, "the last pass may end late: there is nothing left to cut"
            continue
        assert fit.status is rw.Status.TIME_LIMIT
        assert fit.iterations == whole.iterations and fit.passes > fit.history[-1].passes, (
            "the refit had begun"
        )
        assert fit.low_rank.rank >= 2 and fit.relative_gap <= 1e-2


def test_an_estimator_with_as_many_components_has_the_same_low_rank_part():
    truth, _, X = matrix(0.1)
    for rank in (2, 4):
        model = rw.RobustPCA(rank, center=False, random_state=0).fit(X)
        fit = rw.decompose(X, rank=rank, rng=0)
        difference = np.linalg.norm(np.asarray(model.low_rank_) - np.asarray(fit.low_rank))
        assert difference < (0.02 if rank == 4 else 0.5) * np.linalg.norm(truth)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rank": 0}, "at least 1"),
        ({"rank": 2.5}, "whole number"),
        ({"rank": 80}, "below min"),
        ({"rank": 2, "radii": (1.0, 1.0)}, "exclude each other"),
        ({"rank": 2, "noise": 0.0}, "exclude each other"),
        ({"rank": 2, "delta": 0.1}, "exclude each other"),
        ({"rank": 2, "checkpoint": "x"}, "do not go together"),
        ({"rank": 2, "method": "fw-p"}, "fw-p"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        rw.decompose(matrix(0.1)[2], **settings)


def test_the_command(tmp_path, capsys):
    np.save(tmp_path / "x.npy", matrix(0.1)[2])
    words = ["decompose", str(tmp_path / "x.npy"), "-o", str(tmp_path / "out"), "--rank", "4", "--seed", "0"]
    assert main(words) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["rank"], summary["weights_from"]) == (4, "rank")
    said = capsys.readouterr()
    assert "outliers beside noise" in said.out and "stand out" not in said.err
    assert main([*words[:-3], "7", "--force", "--seed", "0"]) == 0
    assert "directions stand out from the noise" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--force", "--radii", "1", "1"])
    assert "not allowed with argument --rank" in capsys.readouterr().err
