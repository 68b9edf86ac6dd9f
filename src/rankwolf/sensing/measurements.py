"""b and the operator that measured it: to the solvers for measurements what a Source is to the entry-wise ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import scipy.fft
from threadpoolctl import threadpool_limits

from rankwolf.sensing import checks
from rankwolf.sensing.base import SCALE, Array, Products, Sensing, bad
from rankwolf.sources.base import Summary

# The ℓ1 norm needs Re(A*y) entry by entry, so the dense matrix is there in any case; a product with it is as fast as
# one by an operator's structure as long as p is above an eighth of mn (measured for masks, cosines and Fourier).
SPARSE_COST = 8


class Measurements:
    """b = A[M] with a real M. ``passes`` counts products with A and with A* once the checks are done.

    Here is the one place where a complex operator meets a real unknown: with Re⟨·, ·⟩ as the inner product of
    measurements, the adjoint of A on real matrices is Re(A*y), and every formula of the paper holds as it stands.
    """

    def __init__(self, b: Any, sensing: Sensing, norm: float | None = None, n_threads: int = 1) -> None:
        self.sensing, self.shape, self.n_threads, self.passes = sensing, sensing.shape, n_threads, 0
        self.bytes_read = 0
        self.b = check_measurements(b, sensing)
        with self.one_blas_thread():
            checks.check_linear(sensing)
            # An upper bound on ‖A‖: given, known, or estimated.
            if norm is not None:
                self.norm = checks.check_norm(sensing, norm)
            else:
                self.norm = checks.estimate_norm(sensing) if sensing.norm is None else sensing.norm

    def apply(self, matrix: Array) -> Array:
        """A[X] for a dense real X."""
        self.passes += 1
        return self.sensing.apply(matrix).astype(self.b.dtype, copy=False)

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ], through the operator's structure where it has any."""
        self.passes += 1
        return self.sensing.apply_factors(left, right).astype(self.b.dtype, copy=False)

    def adjoint(self, values: Array) -> Array:
        """Re(A*y), dense."""
        self.passes += 1
        return self.sensing.real_adjoint(values).astype(np.float64, copy=False)

    def products(self, values: Array, dense: Array) -> Products:
        """Products with Re(A*y) = ``dense``, through the operator's structure where it has any and that pays."""
        structured = None
        if self.sensing.size * SPARSE_COST <= dense.size:
            structured = self.sensing.adjoint_products(values)
        return structured or Products(lambda block: dense @ block, lambda block: dense.T @ block)

    @cached_property
    def summary(self) -> Summary:
        """‖b‖, p, and the largest measurement."""
        return Summary(float(np.linalg.norm(self.b)), self.b.size, 0, float(np.max(np.abs(self.b))))

    @property
    def observed_fraction(self) -> float:
        """ρ = p/(mn), at most 1. A complex measurement counts once."""
        return min(1.0, self.b.size / (self.shape[0] * self.shape[1]))

    @contextmanager
    def one_blas_thread(self) -> Iterator[None]:
        """Around the loop: one thread for BLAS, all that the run may use for Fourier transforms."""
        with threadpool_limits(1, user_api="blas"), scipy.fft.set_workers(self.n_threads):
            yield


def check_measurements(b: Any, sensing: Sensing, where: str = "recover") -> Array:
    """b as p finite numbers of the operator's kind."""
    if np.ma.is_masked(b):
        raise bad("b", "an array without masked entries", f"{np.ma.getmaskarray(b).sum()} of them", where,
                  "Leave a missing measurement out of b and out of the operator.")  # fmt: skip
    try:
        values = np.asarray(b)
    except ValueError as error:
        raise bad("b", "an array of numbers", f"{type(b).__name__} ({error})", where) from error
    if values.dtype.kind not in "biufc":
        raise bad("b", "an array of numbers", f"dtype {values.dtype}", where)
    if values.shape != (sensing.size,):
        rule = f"of shape ({sensing.size},), one number for each measurement of the operator"
        raise bad("b", rule, f"shape {values.shape}", where)
    wrong = values.size - int(np.count_nonzero(np.isfinite(values)))
    if wrong:
        raise bad("b", "finite", f"{wrong} of {values.size} measurements NaN or infinite", where,
                  "Leave a missing measurement out of b and out of the operator.")  # fmt: skip
    if values.dtype.kind == "c" and sensing.dtype.kind != "c":
        if np.any(values.imag):
            raise bad("b", "real, as the operator's measurements are", f"dtype {values.dtype}", where)
        values = values.real
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest and not SCALE[0] <= largest <= SCALE[1]:
        raise bad("b", f"of a scale between {SCALE[0]:g} and {SCALE[1]:g}", f"entries up to {largest:.3g}", where,
                  "Multiply A and b by a constant first.")  # fmt: skip
    return values.astype(np.complex128 if sensing.dtype.kind == "c" else np.float64)
