"""Operators and what they are given: a wrong shape is an error in our words, not NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.sensing import CodedAperture, Entries, Gaussian, PartialFourier, Sensing, Weighting

OPERATORS = [
    Entries(np.eye(6, 4, dtype=bool)),
    Gaussian(10, (6, 4), seed=0),
    PartialFourier.random(20, 6, (2, 2), seed=0),
    CodedAperture(np.ones((3, 2, 2)), snapshots=2),
    Weighting(np.ones((6, 4))),
]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
def test_a_wrong_shape_is_named(operator):
    for method, wrong in (("apply", (4, 7)), ("apply", (24,)), ("adjoint", (3,)), ("adjoint", (2, 2))):
        with pytest.raises(
            ValueError, match=rf"parameter of {type(operator).__name__}.{method} must be of shape"
        ):
            getattr(operator, method)(np.ones(wrong))


@pytest.mark.parametrize("what", ["apply", "adjoint"])
def test_an_operator_of_ones_own_that_returns_another_shape(what):
    class Wrong(Sensing):
        def __init__(self):
            super().__init__((5, 4), 20)

        def apply(self, matrix):
            return matrix if what == "apply" else matrix.ravel()

        def adjoint(self, values):
            return values.reshape(5, 4) if what == "apply" else values

    with pytest.raises(ValueError, match=rf"'sensing' parameter of recover must be an operator whose {what}"):
        rw.recover(np.ones(20), Wrong(), delta=1e-2)


def test_ragged_lists_are_refused():
    ragged = [[[0.1, 0.2]], [[0.1, 0.2], [0.3, 0.4]]]
    for make in (CodedAperture, Weighting, Entries, lambda mask: PartialFourier(mask, time="first")):
        with pytest.raises(ValueError, match="rectangular array of numbers"):
            make(ragged)


def test_ragged_spokes_are_refused():
    pytest.importorskip("finufft")
    with pytest.raises(ValueError, match="'points' parameter of NonCartesian must be a rectangular array"):
        rw.sensing.NonCartesian([[[0.1, 0.2]], [[0.1, 0.2], [0.3, 0.4]]], (8, 8), units="cycles")
