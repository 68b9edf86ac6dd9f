"""The sums that passes make of G = clip(P_Ω(M − L), ±limit), S and a dual point Y: the kernels' arrays, with names.

The compiled kernels add to a plain array, whose places they name (:mod:`rankwolf.kernels.tile_loops`); everybody else
asks by the properties below.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankwolf.data import Sums
from rankwolf.ground.arrays import Array
from rankwolf.kernels import tile_loops


@dataclass
class ClippedSums(Sums):
    """The sums of ``kernels.clip_residual``: of G, S and M."""

    values: Array

    @property
    def g_squared(self) -> float:
        """‖G‖²_F: with S = D − G this is the misfit ‖P_Ω(L + S − M)‖²."""
        return float(self.values[tile_loops.G_SQUARED])

    @property
    def s_norm(self) -> float:
        """‖S‖₁."""
        return float(self.values[tile_loops.S_NORM])

    @property
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""
        return round(float(self.values[tile_loops.NONZEROS]))

    @property
    def g_dot_m(self) -> float:
        """⟨G, M⟩."""
        return float(self.values[tile_loops.G_DOT_M])

    @property
    def sign_dot_m(self) -> float:
        """⟨sign S, M⟩."""
        return float(self.values[tile_loops.SIGN_DOT_M])


def add_clipped(
    values: Array, g_squared: float, s_norm: float, nonzeros: int, g_dot_m: float, sign_dot_m: float
) -> None:
    """Add the sums of one tile to the array of :class:`ClippedSums`, as ``kernels.clip_residual`` does."""
    values[tile_loops.G_SQUARED] += g_squared
    values[tile_loops.S_NORM] += s_norm
    values[tile_loops.NONZEROS] += nonzeros
    values[tile_loops.G_DOT_M] += g_dot_m
    values[tile_loops.SIGN_DOT_M] += sign_dot_m


@dataclass
class DualSums(ClippedSums):
    """The sums of G, S and M, followed by those of ``kernels.clip_dual``: of Y and M."""

    @property
    def clipped_values(self) -> Array:
        """The part of the array that belongs to G and S."""
        return self.values[:CLIPPED_VALUES]

    @property
    def dual_values(self) -> Array:
        """The part of the array that belongs to Y."""
        return self.values[CLIPPED_VALUES:]

    @property
    def y_squared(self) -> float:
        """‖Y‖²_F."""
        return float(self.dual_values[tile_loops.Y_SQUARED])

    @property
    def y_dot_m(self) -> float:
        """⟨Y, M⟩."""
        return float(self.dual_values[tile_loops.Y_DOT_M])

    def add_dual(self, squared: float, dot_m: float) -> None:
        """Add a tile's ‖Y‖² and ⟨Y, M⟩."""
        self.dual_values[tile_loops.Y_SQUARED] += squared
        self.dual_values[tile_loops.Y_DOT_M] += dot_m


# Lengths of the arrays of ClippedSums and of DualSums.
CLIPPED_VALUES, DUAL_VALUES = 5, 7
