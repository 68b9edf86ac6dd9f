"""Linear measurements of a matrix, with adjoints: one contract (:class:`Sensing`), one file per kind."""

from rankwolf.sensing.base import Products, Sensing
from rankwolf.sensing.combined import Composition, Stack
from rankwolf.sensing.entries import Entries
from rankwolf.sensing.gaussian import Gaussian
from rankwolf.sensing.linear import FunctionSensing, LinearSensing, as_sensing, sensing_matrices
from rankwolf.sensing.measurements import Measurements
from rankwolf.sensing.orthogonal import PartialDCT, PartialFourier
from rankwolf.sensing.orthonormal import Orthonormal, orthonormalize

__all__ = [
    "Composition",
    "Entries",
    "FunctionSensing",
    "Gaussian",
    "LinearSensing",
    "Measurements",
    "Orthonormal",
    "PartialDCT",
    "PartialFourier",
    "Products",
    "Sensing",
    "Stack",
    "as_sensing",
    "orthonormalize",
    "sensing_matrices",
]
