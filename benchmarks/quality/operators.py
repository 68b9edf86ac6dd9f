"""Operators of other libraries as they are: ``python -m benchmarks operators``, a table of what was passed to recover.

Each case is a small series, low rank plus a few moving pixels, measured by an operator of a library that is installed
(SigPy, mri-nufft, PyLops, SciPy, torch), and the relative error of L + S. Those that are missing are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.results import table

FRAMES, SIDE = 12, 16


def series(complex_values: bool = True, image: tuple[int, ...] = (SIDE, SIDE)) -> Array:
    """(frames, …image): rank 2, and two pixels that move on from frame to frame."""
    rng = np.random.default_rng(0)
    X = np.tensordot(rng.standard_normal((FRAMES, 2)), rng.standard_normal((2, *image)), 1)
    flat = X.reshape(FRAMES, -1)
    for frame in range(FRAMES):
        flat[frame, [3 * frame, 5 * frame + 1]] += 8.0
    return X * (1.0 + 0.5j) if complex_values else X


def sigpy() -> tuple[str, Any, Any, Array]:
    import sigpy

    X = series()
    mask = np.asarray(np.random.default_rng(1).random(X.shape) < 0.6, complex)
    A = sigpy.linop.Multiply(X.shape, mask) * sigpy.linop.FFT(X.shape, axes=(1, 2))
    return "Multiply * FFT, b of its oshape", A * X, A, X


def sigpy_3d() -> tuple[str, Any, Any, Array]:
    import sigpy

    X = series(image=(6, 8, 8))
    A = sigpy.linop.Multiply(
        X.shape, (np.random.default_rng(1).random(X.shape) < 0.6) + 0j
    ) * sigpy.linop.FFT(X.shape, axes=(1, 2, 3))
    return "the same, frames of three dimensions", A * X, A, X


def mrinufft() -> tuple[str, Any, Any, Array]:
    import mrinufft

    X = series().astype(np.complex64)
    spokes = np.linspace(-0.5, 0.5, 2 * SIDE, endpoint=False)
    angles = np.arange(24) * np.pi * (5.0**0.5 - 1.0) / 2.0
    places = np.stack([np.outer(np.cos(angles), spokes), np.outer(np.sin(angles), spokes)], -1).reshape(-1, 2)
    A = mrinufft.get_operator("finufft")(places.astype(np.float32), shape=(SIDE, SIDE))
    return "get_operator('finufft'), one for every frame", np.stack([A.op(x) for x in X]), A, X


def pylops() -> tuple[str, Any, Any, Array]:
    import pylops

    X = series()
    keep = np.flatnonzero(np.random.default_rng(1).random(X.size) < 0.6)
    A = pylops.Restriction(X.size, keep, dtype=complex) @ pylops.signalprocessing.FFTND(
        X.shape, axes=(1, 2), norm="ortho"
    )
    return "Restriction @ FFTND, dims known", A @ X.ravel(), A, X


def scipy_operator() -> tuple[str, Any, Any, Array]:
    import scipy.sparse

    X = series(complex_values=False).reshape(FRAMES, -1)
    keep = np.flatnonzero(np.random.default_rng(1).random(X.size) < 0.6)
    A = scipy.sparse.eye_array(X.size, format="csr")[keep]
    return "a sparse matrix that acts on X.ravel(), with shape=", A @ X.ravel(), (A, X.shape), X


def functions() -> tuple[str, Any, Any, Array]:
    X = series()
    mask = np.random.default_rng(1).random(X.shape) < 0.6

    def forward(x: Array) -> Array:
        return np.asarray(mask * np.fft.fft2(x, norm="ortho"))

    def adjoint(y: Array) -> Array:
        return np.asarray(np.fft.ifft2(mask * y, norm="ortho"))

    return "a pair of functions, with shape=", forward(X), ((forward, adjoint), X.shape), X


def torch_module() -> tuple[str, Any, Any, Array]:
    import torch

    X = series()
    mask = torch.as_tensor(np.random.default_rng(1).random(X.shape) < 0.6)

    class Masked(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return mask * torch.fft.fft2(x, norm="ortho")

        def adjoint(self, y: Any) -> Any:
            return torch.fft.ifft2(mask * y, norm="ortho")

    module = Masked()
    return "a Module with adjoint, b a tensor, with shape=", module(torch.as_tensor(X)), (module, X.shape), X


CASES: dict[str, Callable[[], tuple[str, Any, Any, Array]]] = {
    "sigpy": sigpy,
    "sigpy, 3-D": sigpy_3d,
    "mri-nufft": mrinufft,
    "pylops": pylops,
    "scipy": scipy_operator,
    "functions": functions,
    "torch": torch_module,
}


def main() -> None:
    """Print the table."""
    rows = []
    for name, case in CASES.items():
        try:
            what, b, operator, X = case()
        except ImportError as missing:
            print(f"{name}: {missing}")
            continue
        given = operator if isinstance(operator, tuple) and isinstance(operator[1], tuple) else (operator,)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = rw.recover(b, *given, rng=0, dtype=complex if np.iscomplexobj(X) else float)
        low, sparse = fit.low_rank.toarray(), fit.sparse.toarray()
        error = np.linalg.norm(low + sparse - X.reshape(FRAMES, -1)) / np.linalg.norm(X)
        kind = type(fit.low_rank.u).__module__.split(".")[0]
        rows.append(
            [name, what, f"{error:.1e}", str(fit.low_rank.rank), str(fit.passes), kind, fit.status.name]
        )
    print(table(["library", "what was passed", "error", "rank", "products", "result", "status"], rows))


if __name__ == "__main__":
    main()
