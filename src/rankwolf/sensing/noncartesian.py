"""Fourier coefficients at any place of k-space, radial or spiral, through the package finufft (extra ``mri``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import as_numbers, bad, check_choice, check_number, check_shape
from rankwolf.ground.extras import needed
from rankwolf.sensing.axes import AxisOrder
from rankwolf.sensing.base import Sensing

# The length of one period of k-space in each unit.
PERIOD = {"cycles": 1.0, "radians": 2.0 * np.pi}
# By how much positions may be beyond one period, relatively: 2π in float32 is.
ROUNDING = 1e-6


class NonCartesian(Sensing):
    """(1/√pixels)·Σ_x X_t(x)·exp(−i k·x) at the positions k of frame t, for one coil or with ``maps``.

    ``points`` has shape (frames, …, 2), the row's frequency before the column's, in ``units`` of ``"cycles"`` a pixel
    (−½ to ½) or ``"radians"`` a pixel (−π to π). k-space is periodic: positions outside of this period are folded into
    it, and those more than one period from the origin are refused, as they are in other units most likely. The origin
    of the image is its middle, pixel (height // 2, width // 2). Every frame has the same number of positions. ``maps``
    has shape (coils, height, width).

    b is an array of shape (frames, …), with ``maps`` (frames, coils, …), where … are the middle axes of ``points``. Or
    it is a vector, frame after frame, with ``maps`` all frames of the first coil, then of the second, …

    ``accuracy`` is the relative accuracy of a transform, and about that of ⟨A[X], y⟩ = ⟨X, A*y⟩. ‖A‖ is not known;
    ``recover`` estimates it. A density compensation is not needed.

    Cost of a product: one non-uniform FFT for each frame and coil, O(pixels·log pixels + positions·log²(1/accuracy)).

    >>> import numpy as np
    >>> from rankwolf.sensing import NonCartesian
    >>> points = np.random.default_rng(0).uniform(-0.5, 0.5, (4, 30, 2))
    >>> A = NonCartesian(points, (8, 8), units="cycles")
    >>> A.shape, A.size
    ((4, 64), 120)
    """

    def __init__(
        self, points: Any, frame_shape: Any, *, units: str, maps: Any = None, accuracy: float = 1e-9
    ) -> None:
        where = "NonCartesian"
        period = PERIOD[check_choice("units", units, tuple(PERIOD), where)]
        self._points = _checked_points(points, where) * (2.0 * np.pi / period)
        if np.max(np.abs(self._points)) > 2.0 * np.pi * (1.0 + ROUNDING):
            raise bad(
                "points",
                f"within one period of the origin, from {-period:.3g} to {period:.3g} for units={units!r}",
                f"positions up to {np.max(np.abs(points)):.4g}",
                where,
            )
        self.frame_shape = check_shape(frame_shape, where)
        self._samples_shape = np.asarray(points).shape[1:-1]
        height, width = self.frame_shape
        self._maps = np.ones((1, height, width), np.complex128)
        self._has_maps = self.complex_unknown = maps is not None
        if maps is not None:
            self._maps = AxisOrder("first", False, where).maps(maps, self.frame_shape).astype(np.complex128)
        self._accuracy = check_number("accuracy", accuracy, where=where)
        self.frames, samples, self.coils = len(self._points), self._points.shape[1], len(self._maps)
        super().__init__((self.frames, height * width), self.coils * self.frames * samples, np.complex128)
        self._plans = {kind: self._plan(kind) for kind in (1, 2)}

    def _plan(self, kind: int) -> Any:
        """A plan of finufft for all coils of a frame: type 2 goes from images to k-space, type 1 back."""
        return needed("finufft").Plan(
            kind,
            self.frame_shape,
            n_trans=len(self._maps),
            eps=self._accuracy,
            isign=1 if kind == 1 else -1,
            nthreads=scipy.fft.get_workers(),
        )

    def as_vector(self, b: Array) -> Array:
        """The measurements of shape (frames, …), or (frames, coils, …), as a vector; a vector as it is."""
        if b.ndim == 1:
            return b
        coils = (self.coils,) if self._has_maps else ()
        wanted = (self.frames, *coils, *self._samples_shape)
        if b.shape != wanted:
            raise bad("b", f"a vector or k-space of shape {wanted}", f"shape {b.shape}", "recover")
        return np.moveaxis(b.reshape(self.frames, self.coils, -1), 1, 0).ravel()

    def groups(self, real: bool) -> Array:
        """All coils at one place of k-space."""
        return np.tile(np.arange(self.size // self.coils), self.coils)

    def apply(self, matrix: Array) -> Array:
        """The Fourier sums: all frames of the first coil, then of the second, …"""
        values = np.empty((self.coils, self.frames, self._points.shape[1]), np.complex128)
        plan, scale = self._plans[2], self.shape[1] ** -0.5
        for t, frame in enumerate(matrix.reshape(self.frames, *self.frame_shape)):
            plan.setpts(*np.ascontiguousarray(self._points[t].T))
            values[:, t] = np.reshape(plan.execute(self._batch(frame * self._maps)), (self.coils, -1))
        values *= scale
        return values.ravel()

    def adjoint(self, values: Array) -> Array:
        """The adjoint transforms, times the conjugate maps, added up over the coils."""
        series = np.empty((self.frames, *self.frame_shape), np.complex128)
        plan, scale = self._plans[1], self.shape[1] ** -0.5
        samples = values.reshape(self.coils, self.frames, -1).astype(np.complex128)
        for t in range(self.frames):
            plan.setpts(*np.ascontiguousarray(self._points[t].T))
            images = plan.execute(self._batch(samples[:, t])).reshape(self._maps.shape)
            series[t] = np.sum(self._maps.conj() * images, axis=0) * scale
        return series.reshape(self.shape)

    def _batch(self, values: Array) -> Array:
        """The images or samples of all coils as finufft takes them: those of a single coil have no axis for coils."""
        return np.ascontiguousarray(values[0] if self.coils == 1 else values)


def _checked_points(points: Any, where: str) -> Array:
    """k-space positions as an array of shape (frames, samples, 2); an error unless they are finite numbers."""
    given = as_numbers("points", points, where)
    if given.ndim < 3 or given.shape[-1] != 2 or given.dtype.kind not in "iuf" or not given.size:
        raise bad(
            "points",
            "k-space positions of shape (frames, …, 2), the row's frequency before the column's",
            f"shape {given.shape}, dtype {given.dtype}",
            where,
        )
    if not np.all(np.isfinite(given)):
        raise bad("points", "finite", "NaN or infinite positions", where)
    return given.reshape(given.shape[0], -1, 2).astype(np.float64)
