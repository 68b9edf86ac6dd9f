"""The type of an array, and the one inner product."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def inner(x: Any, y: Any) -> float:
    """Re⟨x, y⟩, the real inner product of arrays of one size; a complex number counts as a pair of real ones."""
    if isinstance(x, np.ndarray):
        return float(np.vdot(x, y).real)
    xp = namespace(x)
    return float(xp.sum(xp.real(xp.conj(x) * y) if is_complex(x) else x * y))


def namespace(x: Any) -> Any:
    """The array API of the library that ``x`` belongs to: NumPy, or torch's or CuPy's through ``array-api-compat``."""
    if isinstance(x, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(x)


def is_complex(x: Any) -> bool:
    """Whether the entries of ``x`` are complex numbers."""
    return bool(
        np.iscomplexobj(x) if isinstance(x, np.ndarray) else namespace(x).isdtype(x.dtype, "complex floating")
    )


def flat(arrays: list[Any]) -> Any:
    """One vector of the real numbers in some arrays; a complex number is a pair of them."""
    xp = namespace(arrays[0])
    parts = [part for x in arrays for part in ((xp.real(x), xp.imag(x)) if is_complex(x) else (x,))]
    join = np.concatenate if xp is np else xp.concat
    return join([xp.reshape(part, (-1,)) for part in parts])


def conjugate_transpose(x: Any) -> Any:
    """x^H, without a copy of real numbers."""
    return namespace(x).conj(x).T if is_complex(x) else x.T


def library(x: Any) -> str:
    """The name of the library that an array belongs to, without importing it."""
    return type(x).__module__.split(".", 1)[0]


def is_on_device(x: Any) -> bool:
    """Whether ``x`` is a dense array of torch or CuPy, which stays where it is."""
    return library(x) in ("torch", "cupy") and type(x).__name__ in ("Tensor", "Parameter", "ndarray")


def to_numpy(x: Any) -> Array:
    """The numbers of an array of any library in the memory of the host, without a copy where they are there already."""
    if library(x) == "torch":
        x = x.detach()
        return np.asarray((x.float() if str(x.dtype) == "torch.bfloat16" else x).cpu().numpy())
    return np.asarray(x.get() if library(x) == "cupy" else x)


def like(x: Array, device: Any) -> Any:
    """A NumPy array as one of the library and on the device of ``device``."""
    xp = namespace(device)
    return xp.asarray(x, device=device.device) if xp is not np else x
