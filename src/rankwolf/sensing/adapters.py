"""Operators of other libraries, on arrays of any number of dimensions: (frames, …image) in, their own shape out.

``recover`` recognises operators of SigPy, PyLops and mri-nufft, pairs of functions, and modules of torch with an
``adjoint``. L and S are matrices with a row for each frame.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import index
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array, is_on_device, like, to_numpy
from rankwolf.ground.complaints import bad
from rankwolf.sensing.base import Sensing, real_part


class Shaped(Sensing):
    """Two functions between arrays: of shape (frames, …image), and of the shape of the measurements.

    ``device`` is a tensor if the functions take tensors; they then get tensors, and tensors stay what they are.
    ``dtypes``: what the functions want as images and as measurements, None for whatever comes. Cost: that of the two
    functions.

    >>> import numpy as np
    >>> from rankwolf.sensing import Shaped
    >>> A = Shaped(lambda x: x.sum(axis=0), lambda y: np.stack([y, y]), (2, 3, 4), (3, 4))
    >>> A.shape, A.size, A.apply(np.ones((2, 12))).max()
    ((2, 12), 12, np.float64(2.0))
    """

    def __init__(
        self,
        forward: Callable[[Any], Any],
        backward: Callable[[Any], Any],
        image_shape: tuple[int, ...],
        data_shape: tuple[int, ...] | None = None,
        dtype: Any = None,
        *,
        dtypes: tuple[Any, Any] = (None, None),
        device: Any = None,
        complex_unknown: bool = False,
    ) -> None:
        image = check_image_shape(image_shape)
        self.image_shape, self._dtypes, self.device = image, dtypes, device
        self._forward, self._backward = forward, backward
        self.takes_tensors, self.complex_unknown = device is not None, complex_unknown
        if data_shape is None or dtype is None:
            first = to_numpy(forward(self._given(np.zeros(image), dtypes[0])))
            if first.dtype.kind not in "biufc":
                rule = "a pair (forward, adjoint) whose first function gives numbers"
                raise bad("sensing", rule, f"dtype {first.dtype}", "recover")
            data_shape, dtype = first.shape, np.result_type(first.dtype, np.float64)
        self.data_shape = tuple(int(n) for n in data_shape)
        super().__init__((image[0], prod(image[1:])), prod(self.data_shape), dtype)

    def _given(self, array: Any, dtype: Any) -> Any:
        if isinstance(array, np.ndarray):
            array = np.array(array, dtype)  # a copy: a function may overwrite its argument
            return array if self.device is None else like(array, self.device)
        return array

    def _call(self, function: Callable[[Any], Any], array: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        found = function(self._given(array.reshape(shape), dtype))
        return np.array(to_numpy(found)) if isinstance(array, np.ndarray) else found

    def apply(self, matrix: Any) -> Any:
        """What ``forward`` makes of the frames, as a vector."""
        values = self._call(self._forward, matrix, self.image_shape, self._dtypes[0]).reshape(-1)
        if values.shape[0] != self.size:
            rule = f"a function with {self.size} values for every matrix"
            raise bad("sensing", rule, f"{values.shape[0]} values", "recover")
        return values

    def adjoint(self, values: Any) -> Any:
        """What ``backward`` makes of the measurements, a row for each frame."""
        found = self._call(self._backward, values, self.data_shape, self._dtypes[1])
        if prod(found.shape) != self.shape[0] * self.shape[1]:
            rule = f"a pair (forward, adjoint) whose second function gives a {self.shape[0]} × {self.shape[1]} matrix"
            raise bad("sensing", rule, f"an array of shape {tuple(found.shape)}", "recover")
        return found.reshape(self.shape)

    def real_adjoint(self, values: Any) -> Any:
        """Re(A*y)."""
        return real_part(self.adjoint(values))

    def as_vector(self, b: Array) -> Array:
        """Measurements in the operator's own shape, as a vector; a vector as it is."""
        if b.size == self.size and (b.ndim == 1 or squeezed(b.shape) == squeezed(self.data_shape)):
            return b.ravel()
        raise bad("b", f"of shape {self.data_shape}, or a vector", f"shape {b.shape}", "recover")


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without axes of length 1."""
    return tuple(n for n in shape if n != 1)


def check_image_shape(shape: Any) -> tuple[int, ...]:
    """(frames, …image), two dimensions at least."""
    try:
        found = tuple(index(n) for n in shape)
    except TypeError:
        found = ()
    if len(found) < 2 or min(found) < 1:
        raise bad("shape", "(frames, …image), two or more whole numbers", repr(shape), "recover")
    return found


def recognised(sensing: Any, shape: Any, b: Any) -> Sensing | None:
    """The operator of another library as one of ours; None where it is of no known kind."""
    if all(hasattr(sensing, name) for name in ("ishape", "oshape", "H")) and callable(sensing):
        return _agree(_from_sigpy(sensing), shape)
    if all(callable(getattr(sensing, name, None)) for name in ("op", "adj_op")):
        return _from_mrinufft(sensing, shape, b)
    if hasattr(sensing, "dims") and hasattr(sensing, "dimsd") and hasattr(sensing, "rmatvec"):
        return _from_pylops(sensing, shape)
    forward, backward = (
        sensing if isinstance(sensing, tuple) else (sensing, getattr(sensing, "adjoint", None))
    )
    if not (callable(forward) and callable(backward)) or hasattr(sensing, "matvec"):
        return None
    if shape is None:
        raise bad(
            "shape", "given, as (frames, …image), for an operator that does not know it", "None", "recover"
        )
    return Shaped(forward, backward, check_image_shape(shape), device=_device(sensing, b))


def _agree(found: Shaped, shape: Any) -> Shaped:
    if shape is not None and prod(check_image_shape(shape)) != found.shape[0] * found.shape[1]:
        rule = f"that of the images which sensing measures, {found.image_shape}"
        raise bad("shape", rule, str(shape), "recover")
    return found


def _device(sensing: Any, b: Any) -> Any:
    """A tensor for functions that take tensors: b, or for a module of torch an empty one on its device."""
    first = b[0] if isinstance(b, list | tuple) and len(b) else b
    if is_on_device(first):
        return first
    if callable(getattr(sensing, "parameters", None)) and callable(getattr(sensing, "named_modules", None)):
        import torch

        return next(iter(sensing.parameters()), torch.empty(0))
    return None


def _from_sigpy(operator: Any) -> Shaped:
    """A Linop: ``ishape`` is (frames, …image)."""
    shape = tuple(operator.ishape)
    if len(shape) < 2:
        rule = "an operator on arrays (frames, …image)"
        remedy = "sigpy.linop.Diag or Hstack joins the operators of frames; a list of them will do."
        raise bad("sensing", rule, f"ishape {list(shape)}", "recover", remedy)
    dtypes = (np.complex128, np.complex128)
    adjoint = operator.H
    return Shaped(
        operator, adjoint, shape, tuple(operator.oshape), np.complex128, dtypes=dtypes, complex_unknown=True
    )


def _from_mrinufft(operator: Any, shape: Any, b: Any) -> Shaped:
    """An operator on one image serves every frame, of ``shape`` or of ``b``; a list of operators has one for each."""
    image = tuple(operator.shape)
    single = np.dtype(getattr(operator, "cpx_dtype", np.complex64))
    first = np.asarray(operator.op(np.zeros(image, single)))
    parts = b if isinstance(b, list | tuple) else [b]
    frames = max(1, sum(prod(np.shape(part)) for part in parts) // first.size)
    wanted = check_image_shape((frames, *image) if shape is None else shape)
    frames = wanted[0]
    if prod(wanted[1:]) != prod(image):
        raise bad("shape", f"(frames, {', '.join(map(str, image))})", str(shape), "recover")

    def forward(series: Array) -> Array:
        return np.stack([np.asarray(operator.op(frame.reshape(image))) for frame in series])

    def backward(values: Array) -> Array:
        return np.stack([np.asarray(operator.adj_op(frame)).reshape(image) for frame in values])

    return Shaped(
        forward,
        backward,
        (frames, *image),
        (frames, *first.shape),
        np.complex128,
        dtypes=(single, single),
        complex_unknown=True,
    )


def _from_pylops(operator: Any, shape: Any) -> Shaped:
    """``dims`` is (frames, …image), unless ``shape`` says it."""
    dims = tuple(operator.dims)
    if shape is None and len(dims) < 2:
        rule = "given, as (frames, …image), for an operator that knows no frames"
        raise bad("shape", rule, "None", "recover", "Or give the operator dims=(frames, …image).")
    given = dims if shape is None else check_image_shape(shape)
    if prod(given) != prod(dims):
        raise bad(
            "shape", f"that of {prod(dims)} numbers, as the operator's dims {dims}", str(shape), "recover"
        )
    kind = np.dtype(operator.dtype)

    def parts(product: Callable[[Array], Any], array: Array) -> Array:
        flat = array.ravel()
        if kind.kind != "c" and np.iscomplexobj(flat):
            return np.asarray(product(flat.real.copy())) + 1j * np.asarray(product(flat.imag.copy()))
        return np.asarray(product(flat))

    return Shaped(
        lambda x: parts(operator.matvec, x),
        lambda y: parts(operator.rmatvec, y),
        given,
        tuple(operator.dimsd),
        np.result_type(kind, np.float64),
        complex_unknown=False,
    )
