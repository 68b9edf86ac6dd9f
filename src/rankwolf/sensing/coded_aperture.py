"""Snapshots of a video through a moving mask (coded aperture compressive temporal imaging)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_whole
from rankwolf.sensing.base import Sensing


class CodedAperture(Sensing):
    """A camera that takes one picture for every B frames: the sum of the frames, each multiplied by its mask.

    ``masks`` are B real or boolean images, shape (B, height, width); every group of B frames passes through the same
    ones. ``snapshots`` is the number of pictures. The matrix has B·snapshots rows, one for each frame, and height·width
    columns. b is an array of shape (snapshots, height, width), or the same as a vector.

    A frame's pixel enters one pixel of one picture, so that AA* = diag(Σ_t mask_t²). A product costs mn operations.

    >>> import numpy as np
    >>> from rankwolf.sensing import CodedAperture
    >>> A = CodedAperture(np.array([[[1.0, 0.0]], [[1.0, 1.0]]]), snapshots=2)
    >>> A.apply(np.arange(8.0).reshape(4, 2))
    array([ 2.,  3., 10.,  7.])
    """

    def __init__(self, masks: Any, snapshots: int = 1) -> None:
        given = np.asarray(masks)
        if given.ndim != 3 or given.dtype.kind not in "biuf" or not np.all(np.isfinite(given)):
            got = f"shape {given.shape}, dtype {given.dtype}"
            raise bad("masks", "finite real numbers of shape (B, height, width)", got, "CodedAperture")
        if not np.any(given):
            raise bad("masks", "open somewhere", "zeros alone", "CodedAperture")
        self.snapshots = check_whole("snapshots", snapshots, 1, "CodedAperture")
        self.frame_shape = (given.shape[1], given.shape[2])
        self._masks = given.reshape(given.shape[0], -1).astype(np.float64)
        steps, pixels = self._masks.shape
        super().__init__((steps * self.snapshots, pixels), self.snapshots * pixels)

    def as_vector(self, b: Array) -> Array:
        """The measurements as a vector; ``b`` is one already, or has the shape (snapshots, height, width)."""
        if b.ndim == 1:
            return b
        if b.shape != (self.snapshots, *self.frame_shape):
            rule = f"a vector or pictures of shape {(self.snapshots, *self.frame_shape)}"
            raise bad("b", rule, f"shape {b.shape}", "recover")
        return b.ravel()

    def _like(self, array: Array) -> Array:
        return self._masks.astype(array.real.dtype, copy=False)

    def apply(self, matrix: Array) -> Array:
        """The pictures, one after the other, as a vector."""
        groups = matrix.reshape(self.snapshots, *self._masks.shape)
        return np.asarray(np.einsum("sbp,bp->sp", groups, self._like(matrix))).ravel()

    def adjoint(self, values: Array) -> Array:
        """For every frame, the picture that it is part of times its mask."""
        pictures = values.reshape(self.snapshots, 1, -1)
        return np.asarray(pictures * self._like(values)).reshape(self.shape)

    @property
    def norm(self) -> float:
        """The largest √Σ_t mask_t² of a pixel."""
        return float(np.max(self.row_bound(real=True)) ** 0.5)

    @property
    def semi_orthogonal(self) -> float | None:
        """c = Σ_t mask_t² where that is the same for every pixel, else None."""
        squares = self.row_bound(real=True)
        least, most = float(squares.min()), float(squares.max())
        return most if most - least <= 1e-14 * most else None

    def row_bound(self, real: bool) -> Array:
        """d = Σ_t mask_t² of every pixel of every picture: AA* = diag(d)."""
        return np.tile(np.sum(self._masks**2, axis=0), self.snapshots)
