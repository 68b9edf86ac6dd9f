"""Upper bounds on a norm by factorisation: true, tight, and cheap where only a height was asked for."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

import rankwolf as rw
from rankwolf.data.open import check_source, open_source
from rankwolf.data.workspace import Workspace
from rankwolf.ground.low_rank import LowRank
from rankwolf.problem import Penalized
from rankwolf.solvers import certificate
from rankwolf.solvers.certificate import certify


def crowded(n, gap=0.0, seed=0):
    """Y whose ten largest singular values lie within 1e-5 of each other, just above or far above the rest; ‖Y‖₂."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.sort(rng.random(n))
    values[-10:] = 1.0 + gap + 1e-5 * np.sort(rng.random(10))
    return (basis * values**0.5) @ basis.T, values[-1] ** 0.5


class Proof:
    """The proof for M = Y at L = 0 with a clip that nothing reaches: all of it is the norm of Y.

    λ_L is half of that norm, so that the lower bound falls as the norm that is proved grows.
    """

    def __init__(self, Y, norm, factor=None):
        self.norm, self.problem = norm, Penalized(0.5 * norm, 100.0)
        self.dot, self.squared = (float(np.sum(Y * Y)),) * 2
        self.goal = None if factor is None else self.bound(factor)
        source = check_source(open_source(Y, None, 1))
        zero, rng = LowRank.zeros(Y.shape), np.random.default_rng(0)
        self.found, _ = certify(self.problem, source, zero, 100.0, None, rng, self.goal)

    def bound(self, factor):
        """The lower bound of somebody who has proved ``factor`` times the true norm."""
        return self.problem.lower_bound(self.dot, self.squared, factor * self.norm, 100.0)


@pytest.fixture
def factorisations(monkeypatch):
    """How often LAPACK was asked to factorise: that is the cost, which no result shows."""
    made, before = [], scipy.linalg.lapack.dpotrf
    monkeypatch.setattr(scipy.linalg.lapack, "dpotrf", lambda *a, **k: made.append(1) or before(*a, **k))
    return made


@pytest.mark.parametrize("gap", [0.0, 1.0])
@pytest.mark.parametrize("n", [1, 12, 300])
def test_without_a_goal_it_is_tight(n, gap):
    Y, _ = crowded(max(n, 12), gap)
    Y = Y[:, :n]
    proof = Proof(Y, np.linalg.norm(Y, 2))
    assert proof.found.proved
    assert proof.bound(1.0 + 1e-6) <= proof.found.lower_bound <= proof.bound(1.0 - 1e-12)


@pytest.mark.parametrize("gap", [0.0, 1.0])
@pytest.mark.parametrize("factor", [0.5, 0.99, 1.001, 1.1, 3.0])
def test_a_goal_is_met_exactly_where_it_can_be(factor, gap, factorisations):
    Y, norm = crowded(400, gap)
    proof = Proof(Y, norm, factor)
    assert proof.found.lower_bound <= proof.bound(1.0 - 1e-12), "no bound is above that of the true norm"
    assert (proof.found.lower_bound >= proof.goal) == (factor > 1.0)
    assert 1 <= len(factorisations) <= (5 if factor > 1.0 else 1)
    if factor > 1.0:
        assert proof.found.lower_bound >= proof.bound(1.0 + 0.3 * (factor - 1.0))
    else:
        assert proof.bound(1.05) <= proof.found.likely_bound <= proof.goal
        assert proof.found.witness.shape[1] >= 8
        assert np.max(np.linalg.norm(Y @ proof.found.witness, axis=0)) > 0.9**0.5 * norm


def test_a_goal_that_nothing_meets_is_given_up():
    Y, norm = crowded(12)
    proof = Proof(Y, norm, 0.0)
    assert 0.0 <= proof.found.lower_bound < proof.goal


def test_nothing_has_no_norm():
    proof = Proof(np.zeros((4, 3)), 1.0, 1.0)
    assert (proof.found.lower_bound, proof.found.witness.shape) == (0.0, (3, 0))


def test_beyond_4096_columns_a_proof_is_exact_where_the_run_has_cost_as_much():
    m, n = 6000, 5000

    def affords(rank, passes=10**6, most=n * n * 16):
        source = SimpleNamespace(shape=(m, n), dtype=np.dtype(np.float64), n_threads=1, in_memory=True,
                                 passes=passes, workspace=Workspace(most))  # fmt: skip
        return certificate.affords_exact(source, rank)

    exact, a_pass = m * n**2 + 4 * n**3 // 3, m * n * certificate.PASS_OPERATIONS
    rank = exact // (3 * a_pass)
    assert rank > 8
    assert affords(rank + 1, passes=3) and not affords(rank, passes=3)
    assert affords(8) and not affords(8, passes=0)
    assert not affords(8, most=n * n * 16 - 1)


def test_a_longer_run_ends_with_a_proof_beyond_the_columns(monkeypatch):
    # More than 4096 columns and as many rows would take minutes.
    monkeypatch.setattr(certificate, "EXACT_COLUMNS", 10)
    data = np.random.default_rng(1).standard_normal((60, 40))
    fit = rw.decompose(data, lambdas=(6.0, 0.9), tol=1e-4, rng=0, n_threads=1)
    assert fit.gap_is_proved
    monkeypatch.setattr(certificate, "EXACT_COLUMNS", 4096)
    always = rw.decompose(data, lambdas=(6.0, 0.9), tol=1e-4, rng=0, n_threads=1)
    assert fit.objective == pytest.approx(always.objective, rel=1e-4)


def test_the_blocks_of_a_proof_make_room_for_its_gram_matrix():
    """Before: what the threads had added up stayed in their memory beside the copy, half as much again."""
    program = """
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from rankwolf.data import InMemory
from rankwolf.platform import peak_memory, resident_memory
from rankwolf.passes import GramOfDual
source = InMemory(np.zeros((4, 6000), np.float32), None, 2, transposed=False)
task = GramOfDual(np.zeros((6000, 0), np.float32), 1.0, None, source)
before = resident_memory()
def filled(number):
    np.ones(3 * 2**20)[:1].sum()  # after other work in the thread
    sums = task.start()
    for block in sums.blocks:
        block += 1.0
    return sums
with ThreadPoolExecutor(2) as pool:
    total, other = pool.map(filled, range(2))
total.add(other)
del other
assert total.take_gram()[7, 5] == 2.0
print((peak_memory() - before) / (8 * 6000**2))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 1.15
