"""What the page of ``rankwolf decompose`` says about S, added up from parts, against S as a whole."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from rankwolf import files
from rankwolf.report.outliers import LISTED, Outliers, coloured


def add_parts(outliers, dense, step, columns=False):
    m, n = dense.shape
    for first in range(0, n if columns else m, step):
        part = slice(first, min(first + step, n if columns else m))
        rows, across = (slice(0, m), part) if columns else (part, slice(0, n))
        outliers.add(rows, across, dense[rows, across])


def test_the_profile_of_outliers():
    dense = np.zeros((400, 500))
    dense[3, 7], dense[3, 8], dense[200, 7], dense[399, 499] = -5.0, 1.0, 2.0, 0.5
    labels = files.Labels(None, [f"r{k}" for k in range(400)])
    outliers = Outliers(dense.shape, labels, np.full(400, 100), np.full(500, 400))
    add_parts(outliers, dense, 150)
    rows, columns = outliers.rows(), outliers.columns()
    assert [line.name for line in rows] == ["r3", "r200", "r399"]
    assert (rows[0].total, rows[0].share, rows[0].largest, rows[0].where) == (6.0, 0.02, -5.0, "column 7")
    assert (columns[0].name, columns[0].where) == ("column 7", "r3")
    assert outliers.places() == [(3, 7), (200, 7), (3, 8), (399, 499)]
    assert outliers.map().shape == (160, 240)
    assert outliers.map()[1, 3] == -5.0
    assert outliers.map()[-1, -1] == 0.5
    assert np.count_nonzero(outliers.map()) == 3
    red, blue = coloured(np.array([[9.0, -9.0]]), 9.0)[0]
    assert red[0] > red[2]
    assert blue[2] > blue[0]


@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_in_parts_as_by_brute_force(columns, step, seed):
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 60, 2)
    dense = np.where(rng.random((m, n)) < rng.choice([0.0, 0.1, 0.9]), rng.integers(-9, 9, (m, n)), 0)
    dense = dense + np.where(dense != 0, rng.random((m, n)) * 0.01, 0.0)  # no ties
    outliers = Outliers((m, n), files.Labels(None, None), np.full(m, n), np.full(n, m))
    add_parts(outliers, dense, step, columns)
    for lines, matrix in ((outliers.rows(), dense), (outliers.columns(), dense.T)):
        totals = np.abs(matrix).sum(axis=1)
        order = np.argsort(-totals, kind="stable")[:LISTED]
        order = [i for i in order if totals[i] > 0.0]
        assert [line.total for line in lines] == pytest.approx(totals[order])
        assert [line.share for line in lines] == pytest.approx(np.mean(matrix != 0, axis=1)[order])
        tops = np.argmax(np.abs(matrix), axis=1)
        assert [line.largest for line in lines] == pytest.approx([matrix[i, tops[i]] for i in order])
        assert [line.where.rsplit(" ", 1)[1] for line in lines] == [str(tops[i]) for i in order]
    flat = np.argsort(-np.abs(dense), axis=None, kind="stable")[: min(LISTED, np.count_nonzero(dense))]
    assert outliers.places() == [divmod(int(k), int(n)) for k in flat]


def test_dense_and_sparse_parts_say_the_same():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((300, 400)) < 0.1, rng.standard_normal((300, 400)), 0.0)
    found = []
    for part in (dense, scipy.sparse.csr_array(dense)):
        outliers = Outliers(dense.shape, files.Labels(None, None), np.full(300, 400), np.full(400, 300))
        outliers.add(slice(0, 300), slice(0, 400), part)
        found.append((outliers.rows(), outliers.columns(), outliers.places(), outliers.map().tolist()))
    assert found[0] == found[1]


def test_zeros_that_are_stored_are_no_outliers():
    zeros = scipy.sparse.csr_array(
        (np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2)
    )
    outliers = Outliers((2, 2), files.Labels(None, None), np.full(2, 2), np.full(2, 2))
    outliers.add(slice(0, 2), slice(0, 2), zeros)
    assert (len(outliers.rows()), len(outliers.columns()), outliers.places()) == (1, 1, [(1, 1)])
