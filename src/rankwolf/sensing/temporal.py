"""A unitary transform along time, for series whose changes are sparse in frequency: ``A @ transform.inverse``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from rankwolf.ground.arrays import Array, like, namespace
from rankwolf.ground.complaints import check_choice, check_shape
from rankwolf.ground.low_rank import LowRank
from rankwolf.sensing.base import Sensing


class Temporal(Sensing):
    """The unitary Fourier or cosine transform of every column of a frames × pixels matrix.

    ``recover(b, A @ T.inverse)`` finds L and S with b ≈ A[T*(L + S)], where T is the transform. S is then sparse in
    temporal frequency, where a motion that beats or drifts has few coefficients. For L nothing changes, because a
    unitary T does not change the nuclear norm. :meth:`frames` turns L, S or their sum back into a series:

    >>> import numpy as np
    >>> from rankwolf.sensing import Temporal
    >>> T = Temporal("cosine", (4, 3))
    >>> X = np.arange(12.0).reshape(4, 3)
    >>> bool(np.allclose(T.frames(T.apply(X).reshape(4, 3)), X))
    True

    With ``"fourier"`` the coefficients are complex, and so are L and S. A product costs O(mn·log m), a fast transform
    of each column.
    """

    takes_tensors = True

    def __init__(self, kind: str, shape: Any, *, inverted: bool = False) -> None:
        self.kind = check_choice("kind", kind, ("fourier", "cosine"), "Temporal")
        m, n = check_shape(shape, "Temporal")
        complex_valued = kind == "fourier"
        super().__init__((m, n), m * n, np.complex128 if complex_valued else np.float64)
        self._inverted, self.complex_unknown = inverted, complex_valued and inverted
        self.sparsifies = inverted

    @property
    def inverse(self) -> Temporal:
        """T* = T⁻¹, from coefficients to the series."""
        return Temporal(self.kind, self.shape, inverted=not self._inverted)

    def _transform(self, matrix: Any, back: bool) -> Any:
        if not isinstance(matrix, np.ndarray):
            xp = namespace(matrix)
            if self.kind == "fourier":
                return (xp.fft.ifft if back else xp.fft.fft)(matrix, axis=0, norm="ortho")
            basis = like(scipy.fft.dct(np.eye(self.shape[0]), axis=0, norm="ortho"), matrix)
            return (basis.T if back else basis) @ matrix
        if self.kind == "fourier":
            return np.asarray((scipy.fft.ifft if back else scipy.fft.fft)(matrix, axis=0, norm="ortho"))
        return np.asarray((scipy.fft.idct if back else scipy.fft.dct)(matrix, axis=0, norm="ortho"))

    def apply(self, matrix: Any) -> Any:
        """The coefficients of every column, mn numbers; for an inverse, the series of these coefficients."""
        return self._transform(matrix, back=self._inverted).reshape(-1)

    def adjoint(self, values: Any) -> Any:
        """The inverse transform, which is the adjoint of a unitary one."""
        return self._transform(values.reshape(self.shape), back=not self._inverted)

    def frames(self, part: Any) -> Array:
        """The series, frames × pixels, whose coefficients are ``part``: L, S, or an array such as their sum."""
        if isinstance(part, LowRank):
            u = self._transform(part.u * part.s, back=True)
            return np.asarray(u @ part.vt)
        return np.asarray(self._transform(np.asarray(part), back=True))

    @property
    def semi_orthogonal(self) -> float:
        """c = 1: AA* = I."""
        return 1.0
