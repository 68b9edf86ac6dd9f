"""b and the operator that measured it: the data of solvers for measurements, as a Source is that of entry-wise ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar

import numpy as np
import scipy

from rankwolf.data.summary import Summary
from rankwolf.data.workspace import Workspace
from rankwolf.ground.arrays import Array, is_on_device, like, namespace, to_numpy
from rankwolf.ground.blas import one_blas_thread
from rankwolf.ground.complaints import bad
from rankwolf.ground.deadline import current
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.once import computed_once
from rankwolf.sensing import checks
from rankwolf.sensing.base import Products, Sensing
from rankwolf.sensing.weighting import Weighting

SINGLE = (np.dtype(np.float32), np.dtype(np.complex64))
# An operator's structure is used for products with A*y only if p is at most one in so many of mn. The ℓ1 norm needs
# every entry of A*y, so the dense matrix is there in any case, and with more measurements a product with it is as fast
# (measured for masks, cosines and Fourier).
SPARSE_COST = 8
# Rounds in which the density of samples is found, more of which change the steps little; and by which factor it must
# make them longer to be worth its products.
DENSITY_ROUNDS, MUCH_LONGER = 4, 1.5
# An operator is made a matrix only if it has at most so many rows.
MOST_ROWS = 1000


class Measurements:
    """b = A[M], M real or complex. ``passes`` counts products with A and with A*, apart from those of the checks.

    This is the one place where a complex operator meets a real unknown: with Re⟨·, ·⟩ as the inner product of
    measurements, the adjoint of A on real matrices is Re(A*y), and every formula of the paper holds as it stands.

    ``dtype`` is the type of L and S; ``real`` says that it is not complex. With ``dtype=None`` it is complex where the
    operator says so (``complex_unknown``), or where A is real and b has imaginary parts. Otherwise it is real, with a
    warning where real matrices explain too little of b.
    """

    kind: ClassVar[str] = "measurements"

    def __init__(
        self,
        b: Any,
        sensing: Sensing,
        norm: float | None = None,
        n_threads: int = 1,
        dtype: Any = None,
    ) -> None:
        self.sensing, self.shape, self.n_threads, self.passes = sensing, sensing.shape, n_threads, 0
        self.bytes_read = 0
        self.device = device_of(b, sensing)
        values = checks.check_measurements(b, sensing)
        self.dtype = _dtype_of_parts(values, sensing, dtype)
        self.real = self.dtype.kind == "f"
        if self.real and sensing.dtype.kind != "c":
            values = values.real
        self.complex_b = sensing.dtype.kind == "c" or not self.real
        single = self.dtype in SINGLE
        precision = (np.complex64 if single else np.complex128) if self.complex_b else self.dtype
        self.size, self._precision = values.size, np.dtype(precision)
        self.b: Any = self.native(values)
        self.held: Array | None = None
        self._rows: Array | None = None
        self.summary = Summary(float(np.linalg.norm(values)), values.size, 0, float(np.max(np.abs(values))))
        self.workspace = Workspace()
        with self.one_blas_thread():
            checks.check_linear(sensing, real=self.real)
            if dtype is None and self.real:
                checks.warn_if_complex(sensing, values)
            # An upper bound on ‖A‖: given, known, or estimated.
            if norm is not None:
                self.norm = checks.check_norm(sensing, norm, self.real)
            else:
                known = sensing.norm
                self.norm = checks.estimate_norm(sensing, self.real) if known is None else known

    def native(self, values: Array) -> Any:
        """A vector of measurements in the type, the library and on the device of b."""
        values = values.astype(self._precision, copy=False)
        return values.copy() if self.device is None else like(values, self.device)

    def without(self, held: Array) -> Measurements:
        """The same measurements without those where ``held`` is True; its products count for itself."""
        part = copy(self)
        part.held, part.passes = held, 0
        return part

    def zeros(self) -> Any:
        """A matrix of zeros in the type of L and S, in double precision at least, where b is."""
        zero = np.zeros(self.shape, np.result_type(self.dtype, np.float64))
        return zero if self.device is None else like(zero, self.device)

    def as_state(self, part: Any) -> Any:
        """L or S, in whatever form, as an array like :meth:`zeros`."""
        if self.device is None:
            return np.asarray(part).astype(np.result_type(self.dtype, np.float64))
        if isinstance(part, LowRank):
            part = (part.u * part.s) @ part.vt
        return part if is_on_device(part) else like(np.asarray(part), self.device)

    def allocate(self, width: int, dtype: Any = None) -> Array:
        """A new array of m rows of zeros."""
        return np.zeros((self.shape[0], width), self.dtype if dtype is None else dtype)

    def gather(self, rows: Array) -> Array:
        """The array itself: what a source may have to fetch is here already."""
        return rows

    def spread(self, array: Array) -> Array:
        """A copy of a plain array, when a run is resumed."""
        return np.array(array)

    def apply(self, matrix: Array) -> Array:
        """A[X] for a dense X."""
        current().check()
        self.passes += 1
        return cast(self.sensing.apply(matrix), self.b)  # type: ignore[no-any-return]

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ], through the operator's structure where it has any."""
        current().check()
        self.passes += 1
        return cast(self.sensing.apply_factors(left, right), self.b)  # type: ignore[no-any-return]

    def adjoint(self, values: Array) -> Array:
        """A*y, dense; its real part where L and S are real."""
        current().check()
        self.passes += 1
        found = self.sensing.adjoint_on(values, self.real)
        return found.astype(self.dtype, copy=False) if isinstance(found, np.ndarray) else found

    def products(self, values: Array, dense: Array) -> Products:
        """Products with A*y, which is ``dense``, and with its adjoint; by the operator's structure where that pays."""
        structured = None
        if self.real and self.sensing.size * SPARSE_COST <= dense.size:
            structured = self.sensing.adjoint_products(values)
        return structured or Products(lambda block: dense @ block, lambda block: dense.conj().T @ block)

    @property
    def one_field(self) -> bool:
        """Whether A maps real matrices to real measurements, or complex to complex ones."""
        return self.real != self.complex_b

    def as_matrix(self, most_entries: int) -> Array | None:
        """A as a matrix that acts on ``X.ravel()``, if that has at most ``most_entries`` entries and few rows; or None.

        For a complex A on real matrices: the rows of its real part, then those of its imaginary part. One product with
        A* for each row, which are not counted as passes, unless the operator has its matrix at hand.
        """
        units = [1.0] if self.one_field else [1.0, 1j]
        rows = self.size * len(units)
        if self._rows is not None:
            return self._rows
        if self.device is not None or rows > MOST_ROWS or rows * self.shape[0] * self.shape[1] > most_entries:
            return None
        known = self.sensing.matrix() if self.one_field else None
        if known is not None:
            self._rows = known.astype(np.result_type(self.dtype, np.float64))
            return self._rows
        matrix = np.empty((rows, self.shape[0] * self.shape[1]), np.result_type(self.dtype, np.float64))
        for place in range(rows):
            unit = np.zeros(self.size, np.result_type(self._precision, np.float64))
            unit[place % self.size] = units[place // self.size]
            matrix[place] = self.sensing.adjoint_on(unit, self.real).ravel().conj()
        self._rows = matrix
        return matrix

    @computed_once
    def row_bound(self) -> Array | float:
        """d with AA* ≼ diag(d), p numbers or one for all: the operator's own bound, or else an estimate.

        Where samples crowd, as in the middle of k-space, ‖A‖² is far too large for the others. So d is found as the
        density of samples is, by d ← d·|AA*(1/d)| a few times (Pipe and Menon, 1999), and scaled by an estimate of the
        norm so that AA* ≼ diag(d). It is taken where that makes steps longer on average. About 70 products with A and
        as many with A*, which are not counted.
        """
        known = self.sensing.row_bound(self.real)
        if known is not None:
            return known
        if self.device is not None or self.size < 2:
            return self.norm**2
        A, real, density = self.sensing, self.real, np.ones(self.size)
        y = np.random.default_rng(0).standard_normal(self.size)
        with self.one_blas_thread():
            for _ in range(DENSITY_ROUNDS):
                image = np.abs(A.apply(A.adjoint_on(1.0 / density, real)))
                density = density * np.maximum(image, 1e-6 * float(image.max()))
            root = density**-0.5
            scale = checks.estimate_norm(Weighting(root[None]) @ A, real) ** 2
            plain, scaled = (float(np.linalg.norm(A.adjoint_on(x, real))) for x in (y, root * y))
        bound: Array = density * scale
        longer = scaled**2 / scale > MUCH_LONGER * plain**2 / self.norm**2
        return bound if longer and np.all(np.isfinite(bound)) else self.norm**2

    @property
    def observed_fraction(self) -> float:
        """ρ = p/(mn), at most 1. A complex measurement counts once."""
        return min(1.0, self.size / (self.shape[0] * self.shape[1]))

    def fingerprint(self) -> str:
        """A hash of b, the shape, the type and ‖A[X]‖ for a random X, to tell these measurements from others."""
        probe = checks.random_matrix(np.random.default_rng(0), self.shape, self.real)
        image = float(np.linalg.norm(self.sensing.apply(probe)))
        digest = hashlib.sha256(repr((self.shape, str(self.dtype), f"{image:.6g}")).encode())
        values = to_numpy(self.b)
        digest.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    @contextmanager
    def one_blas_thread(self) -> Iterator[None]:
        """A context for the loop, with one thread for BLAS and ``n_threads`` for Fourier transforms."""
        with one_blas_thread(), scipy.fft.set_workers(self.n_threads):
            yield


def cast(values: Any, to: Any) -> Any:
    """``values`` in the type of ``to``, without a copy where they have it."""
    if isinstance(values, np.ndarray):
        return values.astype(to.dtype, copy=False)
    return namespace(values).astype(values, to.dtype, copy=False)


def device_of(b: Any, sensing: Sensing) -> Any:
    """A tensor on the device of the loop, where the operator takes tensors and b is one; None for NumPy."""
    parts = b if isinstance(b, list | tuple) and len(b) else [b]
    return parts[0] if sensing.takes_tensors and is_on_device(parts[0]) else None


def _dtype_of_parts(b: Array, sensing: Sensing, dtype: Any) -> np.dtype[Any]:
    """The type of L and S: ``dtype``, if it is given and allowed, or else the one that the operator and b call for."""
    only_complex = sensing.dtype.kind != "c" and np.iscomplexobj(b) and bool(np.any(b.imag))
    if dtype is None:
        return np.dtype(np.complex128 if sensing.complex_unknown or only_complex else np.float64)
    try:
        asked: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        asked = np.dtype(object)
    if asked not in (*SINGLE, np.dtype(np.float64), np.dtype(np.complex128)):
        rule = "None, float, complex, or one of float32, float64, complex64 and complex128"
        raise bad("dtype", rule, repr(dtype), "recover")
    if only_complex and asked.kind == "f":
        raise bad(
            "b", "real where the operator, L and S are", f"dtype {b.dtype}", "recover", "See dtype=complex."
        )
    return asked
