"""Why a run ends: every status, the limits, the callback; and that a seed fixes every byte."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
import reference

import rankwolf as rw
from rankwolf.solvers import Fista, FrankWolfe, FrankWolfeProjection, FrankWolfeThresholding

WEIGHTS = ["fw-t", "fw", "ista", "fista", "auto"]
RADII = ["fw-p", "fw", "auto"]


def data(m=40, n=30, seed=1, **settings):
    return reference.corrupted(seed, m, n, **settings)[0]


def run(method="fista", M=None, **settings):
    form = {} if settings.keys() & {"radii", "noise"} else {"delta": 0.05}
    settings = {**form, "rng": 0, "n_threads": 1, **settings}
    return rw.decompose(data() if M is None else M, method=method, **settings)


# ---------------------------------------------------------------- the statuses


@pytest.mark.doubts("most of it is noise")
@pytest.mark.parametrize("method", ["fw-t", "ista", "fista", "auto"])
@pytest.mark.parametrize("tol", [0.2, 3e-2, 5e-3])
def test_gap_reached(method, tol):
    fit = run(method, tol=tol, delta=0.15)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.status.converged
    assert fit.relative_gap <= tol
    assert fit.iterations < 1000


@pytest.mark.doubts("most of it is noise")
@pytest.mark.parametrize("method", RADII)
def test_gap_reached_with_radii(method):
    fit = rw.decompose(data(), radii=(60.0, 150.0), method=method, tol=0.1, max_iter=3000, rng=0)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.relative_gap <= 0.1


@pytest.mark.doubts("most of it is noise")
@pytest.mark.parametrize("method", WEIGHTS)
@pytest.mark.parametrize("tol", [3e-2, 1e-3])
def test_paper_rule(method, tol):
    """|g(x^{k+1}) − g(x^k)| / g(x^k) ≤ ε for five iterations in a row, and not earlier; g(x⁰) = ½‖M‖²."""
    values = [0.5 * np.sum(data() ** 2)]
    see = lambda record: values.append(record.objective)  # noqa: E731 - the last record of the result is judged anew
    fit = run(method, stop="paper", tol=tol, max_iter=3000, callback=see)
    assert fit.status is rw.Status.PAPER_RULE
    assert fit.status.converged
    values = np.array(values)
    quiet = np.abs(np.diff(values)) <= tol * values[:-1]
    assert quiet[-5:].all()
    for end in range(5, quiet.size):
        assert not quiet[end - 5 : end].all(), "it could have ended earlier"


@pytest.mark.doubts("low-rank part is zero", "sparse part is zero")
def test_the_papers_rule_counts_the_first_step():
    """Where L = S = 0 is the answer nothing ever changes: five iterations, not six."""
    M = data()
    for method in ("fw-t", "ista", "fista", "fw"):
        fit = rw.decompose(M, lambdas=(1e4, 1e4), method=method, stop="paper", tol=1e-3)
        assert fit.iterations == 5


@pytest.mark.doubts("iteration limit")
def test_the_papers_rule_does_not_look_at_the_gap():
    fit = run("fista", stop="paper", tol=1e-9, max_iter=12)
    assert fit.status is rw.Status.ITERATION_LIMIT
    assert fit.iterations == 12


@pytest.mark.doubts("low-rank part is zero", "most of it is noise", "iteration limit")
@pytest.mark.parametrize("method", WEIGHTS)
@pytest.mark.parametrize("most", [1, 2, 7])
def test_iteration_limit(method, most):
    fit = run(method, tol=0.0, max_iter=most)
    assert fit.status is rw.Status.ITERATION_LIMIT
    assert not fit.status.converged
    assert fit.iterations == len(fit.history) == most


@pytest.mark.doubts("low-rank part is zero", "most of it is noise", "λ_S is below the noise", "time limit")
def test_time_limit_ends_before_the_first_step_that_would_be_late():
    fit = run("fw-t", tol=0.0, max_iter=10**9, max_seconds=1e-9)
    assert fit.status is rw.Status.TIME_LIMIT
    assert fit.iterations == 0
    fit = run("ista", M=data(200, 100), tol=0.0, delta=1e-3, max_iter=10**9, max_seconds=0.3)
    assert fit.status is rw.Status.TIME_LIMIT
    assert fit.history[-1].seconds >= 0.3
    assert all(record.seconds < 0.3 for record in fit.history[:-1])


@pytest.mark.doubts("time limit")
def test_time_limit_by_a_clock_that_is_known(clock):
    """Passes look at the clock as well."""
    fit = run("fista", tol=0.0, max_seconds=2.0)
    assert fit.status is rw.Status.TIME_LIMIT
    assert 2 < fit.iterations < 70
    assert fit.history[-1].seconds >= 2.0 > fit.history[-2].seconds


@pytest.mark.doubts("iteration limit")
def test_the_clock_stands_still_during_callbacks(clock):
    def slow(record):
        clock.now += 1000.0

    fit = run("fista", tol=0.0, max_iter=8, max_seconds=10.0, callback=slow)
    assert fit.status is rw.Status.ITERATION_LIMIT
    assert fit.iterations == 8
    assert fit.seconds < 10.0


@pytest.mark.doubts("most of it is noise")
@pytest.mark.parametrize("method", WEIGHTS)
def test_a_callback_that_returns_false_stops(method):
    seen = []

    def third_time(record):
        seen.append(record)
        return len(seen) < 3

    fit = run(method, tol=0.0, callback=third_time)
    assert fit.status is rw.Status.CALLBACK
    assert fit.iterations == 3
    assert repr(tuple(seen[:-1])) == repr(fit.history[:-1])
    assert seen[-1].iteration == fit.history[-1].iteration  # which is judged anew


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("answer", [None, 0, "", True, np.False_])
def test_only_false_stops(answer):
    fit = run(tol=0.0, max_iter=4, callback=lambda _: answer)
    assert fit.iterations == 4


class Boasting(FrankWolfeThresholding):
    """FW-T that promises a gap of zero, always or after one iteration."""

    def __init__(self, after=None):
        super().__init__()
        self.after = after

    def report(self, problem, state):
        report = super().report(problem, state)
        boasts = self.after is None or state.iteration == self.after
        return replace(report, lower_bound=report.objective) if boasts else report


def test_a_callbacks_false_counts_when_a_promised_gap_is_not_proved():
    """The solver promises a gap of zero, the proof fails, and the callback wants to stop: it stops."""
    fit = run(Boasting(), tol=1e-6, max_iter=50, callback=lambda record: record.iteration < 2)
    assert fit.status is rw.Status.CALLBACK
    assert fit.iterations == 2
    assert fit.relative_gap > 1e-3, "and the promise is not what is reported"


@pytest.mark.doubts("most of it is noise")
def test_a_promise_that_is_not_kept_does_not_end_a_run():
    M = data()
    fit = run(Boasting(), M, tol=2e-2, max_iter=2000)
    assert fit.status is rw.Status.GAP_REACHED
    lower, upper, _ = reference.optimum(M, np.ones(M.shape, bool), fit.lambdas)
    assert fit.objective - fit.gap <= upper
    assert fit.objective <= lower * (1 + 2.05e-2)


@pytest.mark.doubts("iteration limit")
def test_a_promise_that_is_not_kept_is_forgotten():
    """One false bound does not make every later gap look small: after the proof that fails, what is proved counts."""
    honest = run("fw-t", tol=1e-6, max_iter=9)
    fit = run(Boasting(after=4), tol=1e-6, max_iter=9)
    assert fit.history[3].gap == 0.0
    for record, expected in zip(fit.history[4:], honest.history[4:], strict=True):
        assert record.gap == pytest.approx(expected.gap, rel=0.5)
    assert fit.gap == pytest.approx(honest.gap, rel=1e-6)


def test_an_exception_in_a_callback_is_the_callers():
    def broken(record):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(callback=broken)


@pytest.mark.doubts("improves any more", "most of it is noise")
@pytest.mark.parametrize("method", ["ista", "fista", "auto"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_progress_where_the_precision_ends(method, dtype):
    """tol = 0 cannot be certified: the run says so long before the iteration limit."""
    fit = run(method, data(20, 12).astype(dtype), tol=0.0, delta=0.2, max_iter=20000)
    assert fit.status in (rw.Status.NO_PROGRESS, rw.Status.GAP_REACHED)
    assert fit.iterations < 5000
    assert fit.relative_gap < 1e-5


class Faulty(Fista):
    """FISTA whose objective is lost in the third iteration."""

    def report(self, problem, state):
        report = super().report(problem, state)
        return replace(report, objective=np.nan) if state.iteration == 3 else report


@pytest.mark.doubts("not finite", "most of it is noise")
def test_not_finite():
    """No input that passes the checks is known to end so; a solver with a fault would."""
    fit = run(Faulty(), tol=0.0)
    assert fit.status is rw.Status.NOT_FINITE
    assert fit.iterations == 3


@pytest.mark.doubts("iteration limit")
def test_a_limit_that_is_met_with_the_gap_reached_is_no_failure():
    """The proof at the end can be better than the promise: then the run has what was asked for."""
    for most in range(1, 30):
        fit = run("fw-t", tol=0.05, delta=0.15, max_iter=most)
        assert fit.status is (
            rw.Status.GAP_REACHED if fit.relative_gap <= 0.05 else rw.Status.ITERATION_LIMIT
        )


# ---------------------------------------------------------------- neither words nor threads change the answer


def fingerprint(fit):
    """Everything but the clock, to the last bit."""
    records = [{**asdict(record), "seconds": 0.0} for record in fit.history]
    L, S = fit.low_rank, fit.sparse.to_scipy()
    arrays = (L.u, L.s, L.vt, S.data, S.indices, S.indptr)
    return (
        [a.tobytes() for a in arrays],
        repr(records),
        fit.objective,
        fit.gap,
        fit.status,
        fit.iterations,
        fit.passes,
    )


CASES = [(method, {}) for method in WEIGHTS] + [(method, {"radii": (60.0, 150.0)}) for method in RADII]


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize(("method", "settings"), CASES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_the_same_seed_gives_the_same_bytes(method, settings, dtype):
    M = (np.abs(data(3000, 40, seed=2)) * 20).astype(dtype)
    settings = {"max_iter": 6, "tol": 1e-6, **settings}
    for threads in (1, 2):
        first = run(method, M, n_threads=threads, **settings)
        for rng in (0, np.random.default_rng(0)):
            assert fingerprint(
                run(method, M, **{**settings, "n_threads": threads, "rng": rng})
            ) == fingerprint(first)


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize(("method", "settings"), [case for case in CASES if case[0].startswith("fw")])
def test_the_number_of_threads_does_not_change_the_iterates(method, settings):
    """Their sums are added in an order that the tiles fix. A proof's large sums are not: there is one for a thread."""
    M = data(9000, 40, seed=3, observed=0.9)
    settings = {"max_iter": 6, "tol": 0.0, **settings}
    one, two = (run(method, M, **{**settings, "n_threads": threads}) for threads in (1, 2))
    # With radii the last digit of S's threshold comes from a proof's sums.
    exact = 3 if "radii" in settings else 6
    assert fingerprint(one)[0][:exact] == fingerprint(two)[0][:exact]
    records = [[replace(record, seconds=0.0) for record in fit.history[:-1]] for fit in (one, two)]
    assert repr(records[0]) == repr(records[1])
    assert one.objective == pytest.approx(two.objective, rel=1e-12)
    assert one.relative_gap == pytest.approx(two.relative_gap, abs=1e-9)


@pytest.mark.doubts("most of it is noise", "iteration limit")
def test_a_callback_does_not_change_the_run():
    quiet, watched = run("fw-t", max_iter=20), run("fw-t", max_iter=20, callback=lambda record: None)
    assert fingerprint(quiet) == fingerprint(watched)


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("solver", [FrankWolfe(), FrankWolfeProjection()])
def test_a_solver_object_keeps_no_state_of_a_run(solver):
    M = data()
    runs = [
        rw.decompose(M, radii=(60.0, 150.0), method=solver, max_iter=9, rng=0, n_threads=1) for _ in range(2)
    ]
    assert fingerprint(runs[0]) == fingerprint(runs[1])
