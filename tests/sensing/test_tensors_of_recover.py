"""recover on tensors: the operator is written in torch, and nothing is copied to the host in the loop."""

from __future__ import annotations

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.sensing import GridFourier, Temporal

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.doubts
FRAMES, IMAGE = 10, (8, 6)


def problem():
    rng = np.random.default_rng(0)
    mask = rng.random((FRAMES, *IMAGE)) < 0.7
    maps = rng.standard_normal((5, *IMAGE)) + 1j * rng.standard_normal((5, *IMAGE))
    maps /= np.sqrt(np.sum(np.abs(maps) ** 2, axis=0))
    series = np.outer(rng.standard_normal(FRAMES), rng.standard_normal(48)).reshape(FRAMES, *IMAGE) + 0j
    series[2, 3, 3] += 4.0
    return mask, maps, np.fft.fft2(series[:, None] * maps, norm="ortho") * mask[:, None]


class Coils(torch.nn.Module):
    """A forward model as people write it in torch, with its adjoint."""

    def __init__(self, mask, maps):
        super().__init__()
        self.mask, self.maps = torch.tensor(mask[:, None]), torch.tensor(maps)

    def forward(self, x):
        return torch.fft.fft2(x[:, None] * self.maps, norm="ortho") * self.mask

    def adjoint(self, y):
        return (torch.fft.ifft2(y * self.mask, norm="ortho") * self.maps.conj()).sum(1)


@pytest.mark.parametrize("form", ["weights", "noise", "radii", "found"])
@pytest.mark.parametrize("of", ["module", "grid", "in time"])
def test_the_same_parts_as_numpys_and_no_copy_in_the_loop(form, of, monkeypatch):
    mask, maps, b = problem()
    given = {
        "weights": {"lambdas": (0.3, 0.05)},
        "noise": {"noise": 0.5},
        "radii": {"radii": (5.0, 3.0)},
        "found": {"stop": "prediction"},
    }
    settings = {"dtype": complex, "rng": 0, "norm": 1.0, "max_iter": 60, **given[form]}
    shape = (FRAMES, *IMAGE) if of == "module" else None
    if of == "module":
        module = Coils(mask, maps)
        pair = (lambda x: module(torch.tensor(x)).numpy(), lambda y: module.adjoint(torch.tensor(y)).numpy())
        known, operator = rw.recover(b, pair, shape, **settings), module
    else:
        operator = GridFourier(mask, maps)
        if of == "in time":
            operator = operator @ Temporal("fourier", operator.shape).inverse
        known = rw.recover(b, operator, **settings)

    def refuse(self, *args, **kwargs):
        raise AssertionError("a tensor was made an array of NumPy in the loop")

    def watch(record):
        monkeypatch.setattr(torch.Tensor, "__array__", refuse)
        monkeypatch.setattr(torch.Tensor, "numpy", refuse)
        return record.iteration < 40

    settings["callback"] = lambda record: record.iteration < 40
    known = rw.recover(b, pair if of == "module" else operator, shape, **settings)
    fit = rw.recover(
        torch.tensor(b), operator, shape, **{**settings, "callback": restoring(watch, monkeypatch)}
    )
    monkeypatch.undo()
    assert isinstance(fit.low_rank.u, torch.Tensor)
    size = float(np.max(np.abs(np.asarray(known.low_rank))))
    np.testing.assert_allclose(np.asarray(fit.low_rank), np.asarray(known.low_rank), atol=1e-10 * size)
    np.testing.assert_allclose(np.asarray(fit.sparse), np.asarray(known.sparse), atol=1e-10 * size)
    assert fit.relative_gap == pytest.approx(known.relative_gap, rel=1e-4, abs=1e-9)


def restoring(watch, monkeypatch):
    """The watch, which takes its prohibition back when the loop ends."""

    def see(record):
        more = watch(record)
        if not more:
            monkeypatch.undo()
        return more

    return see
