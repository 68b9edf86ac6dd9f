"""What is odd about a result is said, with the remedy; where all is well, nothing is."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from test_weights import mixture

import rankwolf as rw
from rankwolf.ground.complaints import RankwolfWarning
from rankwolf.result.doubts import doubts

NOISE = np.random.default_rng(0).standard_normal((200, 50))


def said(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(issubclass(warning.category, RankwolfWarning) for warning in caught)
    assert all(warning.filename == __file__ for warning in caught), "a warning names the caller's line"
    return [str(warning.message) for warning in caught]


def test_noise_that_small_weights_put_into_both_parts_is_not_returned_without_a_word():
    """The default of old: rank 29 of 50, and 81 % of the entries in S."""
    messages = said(lambda: rw.decompose(NOISE, delta=1e-3, rng=0))
    assert len(messages) == 2
    assert "most of it is noise" in messages[0]
    assert "of the entries: λ_S is below the noise" in messages[1]
    assert all("Give a larger delta." in message for message in messages)


def test_nothing_in_l_and_nothing_in_s():
    (message,) = said(lambda: rw.decompose(NOISE, rng=0))
    assert "low-rank part is zero" in message
    assert "smaller delta" in message
    exact = np.outer(np.arange(1.0, 60.0), np.arange(1.0, 40.0))
    assert any(
        "sparse part is zero" in text for text in said(lambda: rw.decompose(exact, lambdas=(5.0, 500.0)))
    )


@pytest.mark.parametrize(
    ("limit", "remedy"),
    [({"max_iter": 1}, "Raise max_iter or tol."), ({"max_seconds": 1e-6}, "Raise max_seconds")],
)
def test_a_limit_that_was_hit(limit, remedy):
    data, _ = mixture(0, 80, 60, 2, 0.1, 0.05)
    messages = said(lambda: rw.decompose(data, rng=0, tol=1e-9, **limit))
    assert remedy in messages[-1]
    assert "certified gap" in messages[-1]


@pytest.mark.parametrize(
    "setting", [(300, 200, 3, 0.3, 0.1), (500, 12, 3, 0.1, 0.05), (100, 100, 5, 1.0, 0.0)]
)
def test_silence_where_all_is_well(setting):
    data, _ = mixture(0, *setting)
    assert said(lambda: rw.decompose(data, rng=0)) == []
    assert said(lambda: rw.decompose(data, rng=0).refit()) == []
    assert said(lambda: rw.RobustPCA(random_state=0).fit(data)) == []
    assert said(lambda: rw.decompose(np.zeros((5, 4)))) == []


def test_recover_says_the_same():
    b = np.random.default_rng(1).standard_normal(300)
    sensing = rw.sensing.PartialDCT.random(300, (30, 20), seed=0)
    assert any("low-rank part is zero" in text for text in said(lambda: rw.recover(b, sensing, delta=10.0)))


def test_the_sentences_are_those_of_the_command(capsys, tmp_path):
    from rankwolf.cli.main import main
    from rankwolf.cli.words import in_options

    np.save(tmp_path / "noise.npy", NOISE)
    main(
        [
            "decompose",
            str(tmp_path / "noise.npy"),
            "-o",
            str(tmp_path / "out"),
            "--delta",
            "1e-3",
            "--seed",
            "0",
        ]
    )
    printed = capsys.readouterr().err
    with pytest.warns(RankwolfWarning):
        fit = rw.decompose(NOISE, delta=1e-3, rng=0)
    said = doubts(fit)
    assert len(said) == 2
    assert all(in_options(doubt) in printed for doubt in said)


@pytest.mark.parametrize("shape", [(1000, 20), (300, 100), (500, 8)])
def test_clean_gaussian_data_has_next_to_no_outliers(shape):
    """S at λ_S = 2σ had 5 %."""
    rng = np.random.default_rng(0)
    low_rank = 2.0 * rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    data = low_rank + rng.standard_normal(shape)
    assert rw.decompose(data, rng=0).refit().sparse.nonzeros <= 0.003 * data.size
    model = rw.RobustPCA(random_state=0).fit(data)
    assert np.mean(np.abs(model.score_cells(data)) > 3.29) <= 0.003
    assert np.count_nonzero(model.impute(data, outliers=True) != data) <= 0.003 * data.size
    assert model.outliers_.nnz <= 0.003 * data.size
