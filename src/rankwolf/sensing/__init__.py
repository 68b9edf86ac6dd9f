"""Linear measurements of a matrix, with adjoints: one contract (:class:`Sensing`), one file for each kind of operator.

An operator knows its shape, its norm where that is known, and how to apply itself and its adjoint. It holds no
measurements: those are ``rankwolf.data.measurements.Measurements``.
"""

from rankwolf.sensing.adapters import Shaped
from rankwolf.sensing.base import Products, Sensing
from rankwolf.sensing.coded_aperture import CodedAperture
from rankwolf.sensing.combined import Blocks, Composition, Stack
from rankwolf.sensing.cosines import PartialDCT
from rankwolf.sensing.entries import Entries
from rankwolf.sensing.fourier import PartialFourier, Sense
from rankwolf.sensing.gaussian import Gaussian
from rankwolf.sensing.images import GridFourier
from rankwolf.sensing.linear import LinearSensing, as_sensing, sensing_matrices
from rankwolf.sensing.noncartesian import NonCartesian
from rankwolf.sensing.orthonormal import Orthonormal, orthonormalize
from rankwolf.sensing.temporal import Temporal
from rankwolf.sensing.weighting import Weighting

__all__ = [
    "Blocks",
    "CodedAperture",
    "Composition",
    "Entries",
    "Gaussian",
    "GridFourier",
    "LinearSensing",
    "NonCartesian",
    "Orthonormal",
    "PartialDCT",
    "PartialFourier",
    "Products",
    "Sense",
    "Sensing",
    "Shaped",
    "Stack",
    "Temporal",
    "Weighting",
    "as_sensing",
    "orthonormalize",
    "sensing_matrices",
]
