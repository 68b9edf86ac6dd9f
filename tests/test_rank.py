"""``decompose(rank=r)``: the place on the path that has the rank, refitted."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.cli import main


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
    """Also below and above the true one, where the path jumps, and with missing entries."""
    _, _, X = matrix(0.5)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    assert rw.decompose(X, rank=rank, rng=0).low_rank.rank == rank


def test_fewer_directions_than_asked_for_are_said():
    truth, _, X = matrix(0.0)
    with pytest.warns(rw.RankwolfWarning, match="where rank=6 was asked for"):
        fit = rw.decompose(X, rank=6, rng=0)
    assert error(fit, truth) < 1e-10
    assert fit.passes < 400


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
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["rank"] == 4
    assert "outliers beside noise" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*words, "--force", "--radii", "1", "1"])
    assert "not allowed with argument --rank" in capsys.readouterr().err
