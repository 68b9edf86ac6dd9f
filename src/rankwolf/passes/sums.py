"""The sums that passes make of G = clip(P_Ω(M − L), ±limit), S and a dual point Y: the kernels' arrays, with names.

The compiled kernels add to a plain array. The meaning of each of its places is defined here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankwolf.data import Sums
from rankwolf.ground.arrays import Array


@dataclass
class ClippedSums(Sums):
    """The sums of ``kernels.clip_residual``: of G, S and M."""

    values: Array

    @property
    def g_squared(self) -> float:
        """‖G‖²_F: with S = D − G this is the misfit ‖P_Ω(L + S − M)‖²."""
        return float(self.values[0])

    @property
    def s_norm(self) -> float:
        """‖S‖₁."""
        return float(self.values[1])

    @property
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""
        return round(float(self.values[2]))

    @property
    def g_dot_m(self) -> float:
        """⟨G, M⟩."""
        return float(self.values[3])

    @property
    def sign_dot_m(self) -> float:
        """⟨sign S, M⟩."""
        return float(self.values[4])


def add_clipped(
    values: Array, g_squared: float, s_norm: float, nonzeros: int, g_dot_m: float, sign_dot_m: float
) -> None:
    """Add the sums of one tile to the array of :class:`ClippedSums`, as ``kernels.clip_residual`` does."""
    values += (g_squared, s_norm, nonzeros, g_dot_m, sign_dot_m)


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
        return float(self.dual_values[0])

    @property
    def y_dot_m(self) -> float:
        """⟨Y, M⟩."""
        return float(self.dual_values[1])

    def add_dual(self, squared: float, dot_m: float) -> None:
        """Add a tile's ‖Y‖² and ⟨Y, M⟩."""
        self.dual_values[0] += squared
        self.dual_values[1] += dot_m


# Lengths of the arrays of ClippedSums and of DualSums.
CLIPPED_VALUES, DUAL_VALUES = 5, 7
