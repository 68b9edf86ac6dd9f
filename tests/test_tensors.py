"""Tensors of torch: the same L and S as for NumPy's arrays, without a copy to the host in the loop."""

from __future__ import annotations

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.ground.arrays import to_numpy
from rankwolf.oracles import l1

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.doubts

FORMS = {
    "weights": {"delta": 1e-2},
    "radii": {"radii": (30.0, 40.0)},
    "noise": {"noise": 2.0},
    "pursuit": {"noise": 0.0},
    "rows": {"lambdas": (1.0, 2.0), "sparse": "rows"},
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_answer_as_for_numpy_and_no_copy_in_the_loop(form, monkeypatch):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        m, n = rng.integers(5, 60, 2)
        X = rng.standard_normal((m, 2)) @ rng.standard_normal((2, n)) + 0.1 * rng.standard_normal((m, n))
        X[rng.random((m, n)) < 0.1] += 5.0
        if seed % 2:
            X[rng.random((m, n)) < 0.3] = np.nan
            X[0, :] = X[:, 0].mean() if np.isfinite(X[:, 0].mean()) else 1.0
            X[:, 0] = 1.0
        known = rw.decompose(X, method="splitting", **FORMS[form])
        tensor = torch.tensor(X)
        steps = []

        def refuse(self, *args, **kwargs):
            raise AssertionError("a tensor was made an array of NumPy in the loop")

        def watch(record, steps=steps):
            with monkeypatch.context() as patch:
                patch.undo()
            steps.append(record)
            monkeypatch.setattr(torch.Tensor, "__array__", refuse)
            return True

        fit = rw.decompose(tensor, callback=watch, **FORMS[form])
        monkeypatch.undo()
        assert steps and isinstance(fit.low_rank.u, torch.Tensor) and fit.method == "splitting"
        size = max(float(np.nanmax(np.abs(X))), 1.0)
        assert np.allclose(np.asarray(fit.low_rank), np.asarray(known.low_rank), atol=1e-10 * size)
        assert np.allclose(np.asarray(fit.sparse), np.asarray(known.sparse), atol=1e-10 * size)
        assert fit.objective == pytest.approx(known.objective, rel=1e-10)


def test_thresholds_of_tensors_are_those_of_arrays():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.standard_normal(int(rng.integers(1, 50)))
        radius = rng.uniform(0.0, 1.5) * float(np.abs(x).sum())
        tensor = torch.tensor(x)
        assert l1.projection_threshold(tensor, radius) == pytest.approx(l1.projection_threshold(x, radius))
        assert l1.clip_level(tensor, radius) == pytest.approx(l1.clip_level(x, radius))
        assert np.allclose(to_numpy(l1.soft_threshold(tensor, 0.3)), l1.soft_threshold(x, 0.3))
