"""Some coefficients of an orthogonal transform: ‖A‖ = 1, and A*A is a projection as in the paper's equation (1.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse

from rankwolf.sensing.base import Array, Products, Sensing, bad, check_shape, check_whole


class PartialDCT(Sensing):
    """Some coefficients of the orthonormal two-dimensional cosine transform of the whole matrix, C_m·X·C_nᵀ.

    ``kept`` is a boolean array of the matrix's shape. A*y = C_mᵀ·Y·C_n with Y sparse, so that a product with it costs p
    and two one-dimensional transforms for each column of the block, and A[u vᵀ] as much.

    >>> import numpy as np
    >>> from rankwolf.sensing import PartialDCT
    >>> A = PartialDCT.random(12, (4, 5), seed=0)
    >>> A.size, bool(np.allclose(A.apply(A.adjoint(np.arange(12.0))), np.arange(12.0)))
    (12, True)
    """

    def __init__(self, kept: Any) -> None:
        mask = _check_mask("kept", kept, 2, "PartialDCT")
        self._rows, self._columns = np.nonzero(mask)
        super().__init__((mask.shape[0], mask.shape[1]), self._rows.size)

    @classmethod
    def random(cls, size: int, shape: Any, seed: int) -> PartialDCT:
        """``size`` coefficients, drawn without replacement."""
        return cls(random_mask(size, check_shape(shape, "PartialDCT.random"), seed))

    def apply(self, matrix: Array) -> Array:
        """mn·log(mn) operations."""
        return np.asarray(scipy.fft.dctn(matrix, norm="ortho")[self._rows, self._columns])

    def adjoint(self, values: Array) -> Array:
        """The inverse transform of the coefficients with zeros for the others."""
        spectrum = np.zeros(self.shape, values.dtype)
        spectrum[self._rows, self._columns] = values
        return np.asarray(scipy.fft.idctn(spectrum, norm="ortho"))

    def apply_factors(self, left: Array, right: Array) -> Array:
        """The transform of u vᵀ is the product of theirs."""
        left, right = (scipy.fft.dct(factor, axis=0, norm="ortho") for factor in (left, right))
        return np.asarray(np.einsum("kr,kr->k", left[self._rows], right[self._columns]))

    def adjoint_products(self, values: Array) -> Products:
        """Transform the block, multiply by the sparse spectrum, transform back."""
        sparse = scipy.sparse.csr_array((values.real, (self._rows, self._columns)), shape=self.shape)
        transposed = sparse.T.tocsr()

        def times(spectrum: scipy.sparse.csr_array, block: Array) -> Array:
            product = spectrum @ scipy.fft.dct(block, axis=0, norm="ortho")
            return np.asarray(scipy.fft.idct(product, axis=0, norm="ortho"))

        return Products(lambda block: times(sparse, block), lambda block: times(transposed, block))

    @property
    def norm(self) -> float:
        """1."""
        return 1.0


class PartialFourier(Sensing):
    """Some coefficients of the unitary two-dimensional Fourier transform of each frame; rows of the matrix are frames.

    ``kept`` is a boolean array of shape (frames, height, width), zero frequency first (``np.fft.ifftshift`` turns a
    centred mask); the matrix is frames × (height·width). b is complex, frame after frame, in the order of ``kept``.

    Real matrices take the real transform, half the work. With Y the p coefficients as a sparse frames × pixels matrix
    and F the transform of one frame, A*y = Y·F̄: a product with it costs p and *one* transform, not one for each frame.

    >>> import numpy as np
    >>> from rankwolf.sensing import PartialFourier
    >>> A = PartialFourier(np.ones((3, 4, 5), dtype=bool))
    >>> X = np.arange(60.0).reshape(3, 20)
    >>> bool(np.allclose(A.real_adjoint(A.apply(X)), X))
    True
    """

    def __init__(self, kept: Any) -> None:
        mask = _check_mask("kept", kept, 3, "PartialFourier")
        self.frames, self.frame_shape = mask.shape[0], (mask.shape[1], mask.shape[2])
        super().__init__((self.frames, mask.shape[1] * mask.shape[2]), int(mask.sum()), np.complex128)
        t, y, x = np.nonzero(mask)
        self._places = np.ravel_multi_index((t, y, x), mask.shape)
        self._frame_of, self._frequency_of = t, np.ravel_multi_index((y, x), self.frame_shape)
        self._half_spectrum(t, y, x)

    @classmethod
    def random(cls, size: int, frames: int, frame_shape: Any, seed: int) -> PartialFourier:
        """``size`` coefficients, drawn without replacement from all frames."""
        height, width = check_shape(frame_shape, "PartialFourier.random")
        frames = check_whole("frames", frames, 1, "PartialFourier.random")
        return cls(random_mask(size, (frames, height, width), seed))

    def _half_spectrum(self, t: Array, y: Array, x: Array) -> None:
        """Where each coefficient is found in the real transform: itself, or the conjugate of its mirror image."""
        height, width = self.frame_shape
        self._half_shape = (self.frames, height, width // 2 + 1)
        self._mirrored = x > width // 2
        y = np.where(self._mirrored, -y % height, y)
        x = np.where(self._mirrored, width - x, x)
        self._half_places = np.ravel_multi_index((t, y, x), self._half_shape)
        # A frequency whose mirror image is not in the half counts twice in the inverse real transform.
        alone = (x == 0) | (2 * x == width)
        self._half_weights = np.where(alone, 1.0, 0.5)

    def _frames_of(self, matrix: Array) -> Array:
        return matrix.reshape(self.frames, *self.frame_shape)

    def apply(self, matrix: Array) -> Array:
        """mn·log(n) operations."""
        frames = self._frames_of(matrix)
        if np.iscomplexobj(frames):
            return np.asarray(scipy.fft.fft2(frames, norm="ortho").ravel()[self._places])
        values = scipy.fft.rfft2(frames, norm="ortho").ravel()[self._half_places]
        return np.where(self._mirrored, values.conj(), values)

    def adjoint(self, values: Array) -> Array:
        """The inverse transform of the coefficients with zeros for the others."""
        spectrum = np.zeros(self.frames * self.shape[1], np.complex128)
        spectrum[self._places] = values
        frames = scipy.fft.ifft2(self._frames_of(spectrum), norm="ortho")
        return np.asarray(frames).reshape(self.shape)

    def real_adjoint(self, values: Array) -> Array:
        """The real part of it, by the inverse real transform."""
        weighted = np.where(self._mirrored, values.conj(), values) * self._half_weights
        half = np.zeros(self._half_shape, np.complex128)
        flat = half.reshape(-1)
        # A place may take a coefficient and its mirror image: two assignments, each without repetition.
        flat[self._half_places[~self._mirrored]] = weighted[~self._mirrored]
        flat[self._half_places[self._mirrored]] += weighted[self._mirrored]
        frames = scipy.fft.irfft2(half, s=self.frame_shape, norm="ortho", overwrite_x=True)
        return np.asarray(frames).reshape(self.shape)

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[u vᵀ]: frame t is u_t times one transform."""
        spectrum = self._transform(right, scipy.fft.fft2)
        return np.asarray(np.einsum("kr,kr->k", left[self._frame_of], spectrum[self._frequency_of]))

    def adjoint_products(self, values: Array) -> Products:
        """Re(Y·F̄v) and Re(F̄·Yᵀu)."""
        sparse = scipy.sparse.csr_array((values, (self._frame_of, self._frequency_of)), shape=self.shape)
        transposed = sparse.T.tocsr()
        return Products(
            lambda block: np.asarray((sparse @ self._transform(block, scipy.fft.ifft2)).real),
            lambda block: np.asarray(self._transform(transposed @ block, scipy.fft.ifft2).real),
        )

    def _transform(self, block: Array, transform: Any) -> Array:
        """F or F̄ on the columns of ``block``."""
        images = block.reshape(*self.frame_shape, -1)
        return np.asarray(transform(images, axes=(0, 1), norm="ortho")).reshape(block.shape)

    @property
    def norm(self) -> float:
        """1."""
        return 1.0


def random_mask(size: int, shape: tuple[int, ...], seed: int) -> Array:
    """A boolean array with ``size`` entries set, every choice equally likely."""
    total = int(np.prod(shape))
    size, seed = check_whole("size", size, 1, "random_mask"), check_whole("seed", seed, 0, "random_mask")
    if size > total:
        raise bad("size", f"between 1 and {total}, the number of coefficients", repr(size), "random_mask")
    mask = np.zeros(total, dtype=bool)
    mask[np.random.default_rng(seed).permutation(total)[:size]] = True
    return mask.reshape(shape)


def _check_mask(name: str, mask: Any, ndim: int, where: str) -> Array:
    kept = np.asarray(mask)
    if kept.ndim != ndim or kept.dtype != np.bool_ or not kept.any():
        raise bad(name, f"a boolean array of {ndim} dimensions with at least one True",
                  f"shape {kept.shape}, dtype {kept.dtype}", where)  # fmt: skip
    return kept
