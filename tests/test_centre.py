"""The centre of a table: where the cells that are no outliers say it is."""

from __future__ import annotations

import numpy as np
import pytest

from rankwolf import RobustPCA


def spoiled(seed, m=60, n=12):
    """Rank 3, noise 0.1, 5 % of the cells 10 too large; and which."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((m, 3)) @ rng.standard_normal((3, n)) + 0.1 * rng.standard_normal((m, n))
    wrong = rng.random((m, n)) < 0.05
    return data + 10.0 * wrong, wrong


@pytest.mark.parametrize("seed", [0, 1, 2, 13, 19, 22])
def test_no_column_as_a_whole_is_off(seed):
    """The refit kept the centre of the convex fit: medians up to 5σ, and twice as many outliers as there were."""
    data, wrong = spoiled(seed)
    cells = RobustPCA(random_state=0, n_threads=1).fit(data).score_cells(data)
    assert np.max(np.abs(np.median(cells, axis=0))) < 0.7
    found = np.abs(cells) > 3.29
    assert np.all(found[wrong]) and np.count_nonzero(found & ~wrong) <= 3
