"""b and the operator that measured it: the data of solvers for measurements, as a Source is that of entry-wise ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import scipy

from rankwolf.data.memory_shares import SMALL_THINGS
from rankwolf.data.summary import Summary
from rankwolf.data.workspace import Workspace
from rankwolf.ground.arrays import Array
from rankwolf.ground.blas import one_blas_thread
from rankwolf.ground.complaints import bad
from rankwolf.ground.deadline import current
from rankwolf.ground.machine import resident_memory
from rankwolf.ground.once import computed_once
from rankwolf.sensing import checks
from rankwolf.sensing.base import Products, Sensing

SINGLE = (np.dtype(np.float32), np.dtype(np.complex64))
# An operator's structure is used for products with A*y only if p is at most one in so many of mn. The ℓ1 norm needs
# every entry of A*y, so the dense matrix is there in any case, and with more measurements a product with it is as fast
# (measured for masks, cosines and Fourier).
SPARSE_COST = 8


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
        max_memory: int | None = None,
    ) -> None:
        self.sensing, self.shape, self.n_threads, self.passes = sensing, sensing.shape, n_threads, 0
        self.bytes_read = 0
        values = checks.check_measurements(b, sensing)
        self.dtype = _dtype_of_parts(values, sensing, dtype)
        self.real = self.dtype.kind == "f"
        if self.real and sensing.dtype.kind != "c":
            values = values.real
        complex_b = sensing.dtype.kind == "c" or not self.real
        single = self.dtype in SINGLE
        precision = (np.complex64 if single else np.complex128) if complex_b else self.dtype
        self.b: Array = values.astype(precision)
        self.workspace = Workspace(self._share_of(max_memory))
        with self.one_blas_thread():
            checks.check_linear(sensing, real=self.real)
            if dtype is None and self.real:
                checks.warn_if_complex(sensing, self.b)
            # An upper bound on ‖A‖: given, known, or estimated.
            if norm is not None:
                self.norm = checks.check_norm(sensing, norm, self.real)
            else:
                known = sensing.norm
                self.norm = checks.estimate_norm(sensing, self.real) if known is None else known

    def _share_of(self, max_memory: int | None) -> int | None:
        """Bytes for a method's arrays: ``max_memory`` less what is held now and 3 matrices for A, A* and a proof."""
        if max_memory is None:
            return None
        matrix = self.shape[0] * self.shape[1] * self.dtype.itemsize
        return max(max_memory - resident_memory() - 3 * matrix - SMALL_THINGS, 0)

    def allocate(self, width: int, dtype: Any = None) -> Array:
        """A new array of m rows of zeros, in memory or, where it does not fit the limit, in a file."""
        return self.workspace.zeros((self.shape[0], width), self.dtype if dtype is None else dtype)

    def gather(self, rows: Array) -> Array:
        """The array itself: what a source may have to fetch is here already."""
        return rows

    def spread(self, array: Array) -> Array:
        """A copy of a plain array, in memory or in a file as :meth:`allocate` decides, when a run is resumed."""
        rows = self.allocate(array.shape[1], array.dtype)
        rows[:] = array
        return rows

    def apply(self, matrix: Array) -> Array:
        """A[X] for a dense X."""
        current().check()
        self.passes += 1
        return self.sensing.apply(matrix).astype(self.b.dtype, copy=False)

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ], through the operator's structure where it has any."""
        current().check()
        self.passes += 1
        return self.sensing.apply_factors(left, right).astype(self.b.dtype, copy=False)

    def adjoint(self, values: Array) -> Array:
        """A*y, dense; its real part where L and S are real."""
        current().check()
        self.passes += 1
        return self.sensing.adjoint_on(values, self.real).astype(self.dtype, copy=False)

    def products(self, values: Array, dense: Array) -> Products:
        """Products with A*y, which is ``dense``, and with its adjoint; by the operator's structure where that pays."""
        structured = None
        if self.real and self.sensing.size * SPARSE_COST <= dense.size:
            structured = self.sensing.adjoint_products(values)
        return structured or Products(lambda block: dense @ block, lambda block: dense.conj().T @ block)

    @computed_once
    def row_bound(self) -> Array | float:
        """d with AA* ≼ diag(d), p numbers or one for all: the operator's own bound, or else ‖A‖²."""
        known = self.sensing.row_bound(self.real)
        return self.norm**2 if known is None else known

    @computed_once
    def summary(self) -> Summary:
        """‖b‖, p, and the largest measurement."""
        return Summary(float(np.linalg.norm(self.b)), self.b.size, 0, float(np.max(np.abs(self.b))))

    @property
    def observed_fraction(self) -> float:
        """ρ = p/(mn), at most 1. A complex measurement counts once."""
        return min(1.0, self.b.size / (self.shape[0] * self.shape[1]))

    def fingerprint(self) -> str:
        """A hash of b, the shape, the type and ‖A[X]‖ for a random X, to tell these measurements from others."""
        probe = checks.random_matrix(np.random.default_rng(0), self.shape, self.real)
        image = float(np.linalg.norm(self.sensing.apply(probe)))
        digest = hashlib.sha256(repr((self.shape, str(self.dtype), f"{image:.6g}")).encode())
        digest.update(self.b.astype(self.b.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    @contextmanager
    def one_blas_thread(self) -> Iterator[None]:
        """A context for the loop, with one thread for BLAS and ``n_threads`` for Fourier transforms."""
        with one_blas_thread(), scipy.fft.set_workers(self.n_threads):
            yield


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
