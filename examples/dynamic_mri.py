"""Dynamic MRI from an eighth of k-space: ``python examples/dynamic_mri.py``, 20 seconds; needs matplotlib.

A rendered heart beats while contrast agent flows in: 40 frames of 96 × 96 pixels. Of each frame's Fourier transform an
eighth is measured, at places that differ from frame to frame, with noise. Three reconstructions: the missing
coefficients set to zero; a low-rank matrix alone; a low-rank plus a sparse one, where L takes the steady anatomy and S
the contrast and the beating. Each of the last two has the best of the same four weights λ_L.

The phantom is real-valued and has one coil. For a scanner's images, which have a phase and several coils,
``rankwolf.sensing.Sense(mask, maps)`` takes the place of ``PartialFourier(mask)``, and L and S are complex.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwolf as rw
from rankwolf.sensing import PartialFourier

FRAMES, SIDE, PERIOD = 40, 96, 10
FRACTION, NOISE = 1 / 8, 0.02
WEIGHTS = (0.001, 0.002, 0.004, 0.008)  # λ_L/‖b‖
Array = np.ndarray[Any, np.dtype[Any]]


def ellipse(y: float, x: float, height: float, width: float) -> Array:
    """1 inside, 0 outside, with an edge as wide as a pixel; sides are in hundredths of the image."""
    rows, columns = np.mgrid[:SIDE, :SIDE] * (100.0 / SIDE)
    inside: Array = 1.0 - np.hypot((rows - y) / height, (columns - x) / width)
    return np.asarray(np.clip(inside * min(height, width) * SIDE / 100.0 + 0.5, 0.0, 1.0))


def contrast(frame: int, arrival: float, width: float) -> float:
    """A bolus: it rises, peaks at 1 and washes out."""
    since = max(frame - arrival, 0.0) / width
    return float(since * np.exp(1.0 - since))


def render() -> tuple[Array, Array]:
    """(frames × pixels, the pixels that are always inside the left ventricle)."""
    torso = ellipse(50, 50, 39, 45)
    body = 0.50 * torso - 0.15 * ellipse(50, 50, 36, 42)
    body = body * (1.0 - 0.75 * ellipse(45, 26, 20, 12)) * (1.0 - 0.75 * ellipse(45, 77, 17, 9))  # lungs
    body = body + 0.25 * ellipse(78, 50, 5.5, 5.5) + 0.10 * ellipse(69, 69, 7, 11)  # spine, liver
    frames = []
    for frame in range(FRAMES):
        beat = 0.5 + 0.5 * np.cos(2.0 * np.pi * frame / PERIOD)
        radius = 6.6 + 3.1 * beat
        outside = np.hypot(radius, 7.8)  # the wall keeps its area
        ventricle, heart = ellipse(52, 56, radius, radius), ellipse(52, 56, outside, outside)
        right = ellipse(44, 41, 6.3 + 2.3 * beat, 4.7 + 2.3 * beat) * (1.0 - heart)
        image = body * (1.0 - np.maximum(heart, right))
        image = image + ventricle * (0.3 + 1.00 * contrast(frame, 12, 7))
        image = image + (heart - ventricle) * (0.3 + 0.35 * contrast(frame, 17, 21))
        frames.append(image + right * (0.3 + 1.00 * contrast(frame, 4, 5)))
    return np.array(frames).reshape(FRAMES, -1), ellipse(52, 56, 5.5, 5.5).ravel() == 1.0


def sampling(rng: np.random.Generator) -> PartialFourier:
    """The 9 × 9 lowest frequencies of every frame, and others at random, an eighth in all."""
    frequency = np.abs(np.fft.fftfreq(SIDE, 1.0 / SIDE))
    centre = np.maximum(frequency[:, None], frequency[None, :]) <= 4
    others = (FRACTION - centre.mean()) / (1.0 - centre.mean())
    return PartialFourier(centre | (rng.random((FRAMES, SIDE, SIDE)) < others))


def reconstruct(b: Array, A: PartialFourier, truth: Array, sparse: bool) -> tuple[float, rw.Decomposition]:
    """The best of four weights, and its error."""
    norm = float(np.linalg.norm(b))
    fits = []
    for weight in WEIGHTS:
        lambda_L = weight * norm
        # A λ_S above max|A*b| keeps S at zero; otherwise the ratio of the theory for random subspaces.
        lambda_S = lambda_L / SIDE if sparse else 2.0 * float(np.abs(A.real_adjoint(b)).max())
        fit = rw.recover(b, A, lambdas=(lambda_L, lambda_S), tol=0.02, rng=0)
        fits.append((error(np.asarray(fit.low_rank) + np.asarray(fit.sparse), truth), fit))
    return min(fits, key=lambda pair: pair[0])


def error(image: Array, truth: Array) -> float:
    """‖X − X₀‖_F/‖X₀‖_F."""
    return float(np.linalg.norm(image - truth) / np.linalg.norm(truth))


def draw(images: dict[str, Array], parts: dict[str, Array], ventricle: Array, path: Path) -> None:
    """Two frames, a line through the heart over time, and contrast in the left ventricle."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = {**images, **parts}
    figure, axes = plt.subplots(4, len(columns), figsize=(2.1 * len(columns), 8.4), layout="constrained")
    for axis, (name, matrix) in zip(axes.T, columns.items(), strict=True):
        frames, top = matrix.reshape(FRAMES, SIDE, SIDE), 0.5 if name == "S" else 1.1
        style: dict[str, Any] = {"vmin": -top if name == "S" else 0.0, "vmax": top}
        style["cmap"] = "RdBu_r" if name == "S" else "gray"
        axis[0].set_title(name)
        axis[0].imshow(frames[15], **style)
        axis[1].imshow(frames[20], **style)
        axis[2].imshow(frames[:, SIDE // 2], aspect="auto", **style)
        for panel in axis[:3]:
            panel.set_xticks([])
            panel.set_yticks([])
    for panel, name in zip(axes[:3, 0], ("frame 15", "frame 20", "time ↓, one line"), strict=True):
        panel.set_ylabel(name)
    grid = axes[3, 0].get_gridspec()
    for panel in axes[3]:
        panel.remove()
    curves = figure.add_subplot(grid[3, :])
    for name, matrix in images.items():
        bold: dict[str, Any] = {"color": "black", "linewidth": 3, "alpha": 0.35} if name == "truth" else {}
        curves.plot(matrix[:, ventricle].mean(axis=1), label=name, **bold)
    curves.set_xlabel("frame")
    curves.set_ylabel("left ventricle")
    curves.legend(ncols=2)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Measure, reconstruct three times, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("dynamic_mri.png"))
    options = parser.parse_args()
    rng, started = np.random.default_rng(0), time.perf_counter()
    truth, ventricle = render()
    A = sampling(rng)
    noise = rng.standard_normal(A.size) + 1j * rng.standard_normal(A.size)
    b = A.apply(truth) + NOISE / 2.0**0.5 * noise
    print(f"{A}, {A.shape[0] * A.shape[1] / A.size:.1f}-fold under-sampled")
    low_rank_error, low_rank_fit = reconstruct(b, A, truth, sparse=False)
    both_error, both_fit = reconstruct(b, A, truth, sparse=True)
    L, S = np.asarray(both_fit.low_rank), np.asarray(both_fit.sparse)
    images = {"truth": truth, "zero-filled": A.real_adjoint(b)}
    images |= {"L alone": np.asarray(low_rank_fit.low_rank), "L + S": L + S}
    print(f"relative error  zero-filled {error(images['zero-filled'], truth):.4f}")
    print(f"                L alone     {low_rank_error:.4f}   (rank {low_rank_fit.low_rank.rank})")
    print(f"                L + S       {both_error:.4f}   (rank {both_fit.low_rank.rank}, "
          f"{both_fit.sparse.nonzeros / S.size:.1%} of S not zero)")  # fmt: skip
    draw(images, {"L": L, "S": S}, ventricle, options.output)
    print(f"{options.output}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
