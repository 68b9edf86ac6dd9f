"""What a result says about its two parts: figures, records, words, statuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference

import rankwolf as rw


def make(method="fista", m=30, n=20, dtype=np.float64, observed=0.8, **settings):
    M, seen = reference.corrupted(1, m, n, observed=observed)
    form = {} if settings.keys() & {"radii", "noise", "problem"} else {"delta": 0.05}
    settings = {**form, "max_iter": 25, "tol": 1e-4, "rng": 0, "n_threads": 1, **settings}
    return M, seen, rw.decompose(M.astype(dtype), observed=seen, method=method, **settings)


METHODS = [("fista", {}), ("fw-t", {}), ("fw", {}), ("fw-p", {"radii": (30.0, 40.0)}), ("hybrid", {})]


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_the_figures_are_those_of_the_pair(method, settings):
    M, seen, fit = make(method, **settings)
    L, S = np.asarray(fit.low_rank), np.asarray(fit.sparse)
    value = (
        reference.objective(M, seen, L, S, fit.lambdas) if fit.lambdas else reference.misfit(M, seen, L, S)
    )
    assert fit.objective == pytest.approx(value, rel=1e-9)
    assert fit.relative_gap == pytest.approx(fit.gap / fit.objective)
    assert (fit.lambdas is None) != (fit.radii is None)
    assert fit.method == method
    assert fit.seconds > 0.0
    assert fit.passes >= fit.iterations


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_one_record_per_iteration(method, settings):
    heard = []
    _, _, fit = make(method, callback=heard.append, **settings)
    assert [record.iteration for record in fit.history] == list(range(1, fit.iterations + 1))
    assert all(a.passes < b.passes for a, b in zip(fit.history, fit.history[1:], strict=False))
    assert all(a.seconds <= b.seconds for a, b in zip(fit.history, fit.history[1:], strict=False))
    for record in fit.history:
        assert np.isfinite([record.objective, record.gap, record.relative_gap]).all()
        # A record's lower bound is below every objective. On its path the hybrid knows few directions yet.
        if method != "hybrid" or record.iteration > fit.iterations // 2:
            assert record.objective - record.gap <= fit.objective * (1 + 1e-9)
        assert 0 <= record.rank <= 20, "a rank is never above the shorter side"
        assert 0 <= record.nonzeros <= 600
        if method in ("fw", "fw-t", "fw-p"):
            assert 0.0 <= record.step_size <= 1.0
    last = heard[-1]  # as it was in the run: that of the history is judged anew
    # FW's t_L is an upper bound on the norm of L; radii are met with 1e-7 of them to spare.
    assert fit.objective <= last.objective * (1 + 1e-6)
    if method == "fista":
        assert fit.low_rank.rank == last.rank
    if method in ("fw-t", "fw-p"):
        assert np.isfinite(last.surrogate_gap)


@pytest.mark.doubts("most of it is noise", "iteration limit")
def test_repr_is_short_and_says_what_matters():
    _, _, fit = make()
    lines = repr(fit).splitlines()
    assert len(lines) <= 6
    assert max(map(len, lines)) <= 110
    for words in (
        "30 × 20",
        "fista",
        "rank",
        "nonzeros",
        "objective",
        "gap",
        "iterations",
        fit.status.value,
    ):
        assert words in repr(fit)
    assert "τ_L = 30" in repr(make("fw-p", radii=(30.0, 40.0))[2])
    assert repr(fit.low_rank).startswith("LowRank(30 × 20, rank ")
    assert "nonzeros" in repr(fit.sparse)


@pytest.mark.doubts("iteration limit")
def test_a_result_cannot_be_changed():
    _, _, fit = make()
    with pytest.raises(AttributeError):
        fit.objective = 0.0
    with pytest.raises(AttributeError):
        fit.history[0].gap = 0.0


def test_statuses_are_sentences():
    for status in rw.Status:
        assert status.value.endswith(".")
        assert " " in status.value
        assert status.value[0].isupper()
    assert {status for status in rw.Status if status.converged} == {
        rw.Status.GAP_REACHED,
        rw.Status.PAPER_RULE,
        rw.Status.PREDICTED,
        rw.Status.REFITTED,
    }


@pytest.mark.doubts("iteration limit")
def test_replace_keeps_the_rest():
    """A frozen dataclass like any other."""
    _, _, fit = make()
    assert replace(fit, method="other").objective == fit.objective
