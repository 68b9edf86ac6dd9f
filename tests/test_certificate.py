"""Upper bounds on a norm by factorisation: true, tight, and cheap where only a height was asked for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.data.open import check_source, open_source
from rankwolf.data.workspace import Workspace
from rankwolf.run import certificate
from rankwolf.run.certificate import _largest_norm, _norm_by_factors


def crowded(n, gap=0.0, seed=0):
    """C whose ten largest eigenvalues lie within 1e-5 of each other, just above or far above the rest."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.sort(rng.random(n))
    values[-10:] = 1.0 + gap + 1e-5 * np.sort(rng.random(10))
    gram = (basis * values) @ basis.T
    return np.asfortranarray(gram + gram.T) / 2.0, values[-1] ** 0.5


@pytest.fixture
def factorisations(monkeypatch):
    made, before = [], certificate._is_below
    monkeypatch.setattr(certificate, "_is_below", lambda *words: made.append(words) or before(*words))
    return made


@pytest.mark.parametrize("gap", [0.0, 1.0])
@pytest.mark.parametrize("n", [1, 12, 300])
def test_without_a_goal_it_is_tight(n, gap):
    gram, norm = crowded(max(n, 12), gap)
    gram, norm = (gram[:n, :n], np.linalg.eigvalsh(gram[:n, :n])[-1] ** 0.5) if n < 12 else (gram, norm)
    kept = gram.copy()
    found = _norm_by_factors(gram, 1e-10)
    assert norm <= found.upper <= (1.0 + 1e-6) * norm
    np.testing.assert_array_equal(gram, kept)


@pytest.mark.parametrize("gap", [0.0, 1.0])
@pytest.mark.parametrize("factor", [0.5, 0.99, 1.001, 1.1, 3.0])
def test_a_goal_is_met_exactly_where_it_can_be(factor, gap, factorisations):
    gram, norm = crowded(400, gap)
    found = _norm_by_factors(gram, 1e-10, lambda length: 7.0 - length, 7.0 - factor * norm)
    assert found.upper >= norm
    assert (found.upper <= factor * norm) == (factor > 1.0)
    assert len(factorisations) <= (5 if factor > 1.0 else 1)
    if factor > 1.0:
        assert found.upper - norm <= 0.3 * (factor - 1.0) * norm
    else:
        assert factor * norm <= found.likely <= 1.05 * norm
        assert found.witness.shape[1] >= 8
        assert np.max(np.sum(found.witness * (gram @ found.witness), axis=0)) > 0.9 * norm**2


def test_the_largest_norm_for_a_goal():
    assert _largest_norm(lambda length: 5.0 - length, 3.0, 100.0) == pytest.approx(2.0)
    assert _largest_norm(lambda length: 5.0 - length, 6.0, 100.0) == pytest.approx(0.0, abs=1e-12)
    assert _largest_norm(lambda length: 5.0 - length, -1e9, 100.0) == pytest.approx(100.0)


def test_nothing_has_no_norm():
    found = _norm_by_factors(np.zeros((3, 3)), 1e-10, lambda length: -length, -1.0)
    assert (found.upper, found.witness.shape) == (0.0, (3, 0))


def test_beyond_4096_columns_a_proof_is_exact_where_the_run_has_cost_as_much(monkeypatch):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((60, 40))
    monkeypatch.setattr(certificate, "EXACT_COLUMNS", 10)
    source = check_source(open_source(data, None, 1))
    exact = 60 * 40**2 + 4 * 40**3 // 3
    a_pass = 60 * 40 * certificate.PASS_OPERATIONS
    source.passes = 3
    rank = exact // (3 * a_pass)
    assert certificate.affords_exact(source, max(rank + 1, 8))
    source.passes = 0
    assert not certificate.affords_exact(source, 8)
    source.passes = 10**6
    assert certificate.affords_exact(source, 8)
    source.workspace = Workspace(40 * 40 * 16 - 1)
    assert not certificate.affords_exact(source, 8)
    source.workspace = Workspace(40 * 40 * 16)
    assert certificate.affords_exact(source, 8)


def test_a_longer_run_ends_with_a_proof_beyond_the_columns(monkeypatch):
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
from rankwolf.ground.machine import peak_memory, resident_memory
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
