"""Dynamic MRI from a seventeenth of k-space: ``python examples/dynamic_mri.py``, half a minute; needs matplotlib.

A rendered heart beats while contrast agent flows in: 40 frames of 96 × 96 pixels with a phase, seen by eight coils.
Of each frame's k-space five lines through the centre are measured, at angles that differ from frame to frame, with
noise. Three pictures: the missing coefficients set to zero (with the coils combined), L + S with S sparse in the images
themselves, and L + S with S sparse in temporal frequency. Nothing is tuned: the last is ``recover`` at its defaults.

``python examples/dynamic_mri.py --series mine.mat --name X`` does the same with a series of your own, an array
(height, width, frames) in a Matlab or NumPy file, sampled in the same way: the brain series of the project's data
folder, say.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwolf as rw
from rankwolf.sensing import Sense, Temporal

FRAMES, SIDE, PERIOD, LINES, COILS, NOISE = 40, 96, 10, 5, 8, 0.01
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


def render() -> Array:
    """frames × height × width, real."""
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
    return np.array(frames)


def load(path: Path, name: str) -> Array:
    """A series of your own, time last in the file, as frames × height × width, its largest modulus 1."""
    if path.suffix == ".mat":
        import scipy.io

        images = scipy.io.loadmat(path, variable_names=[name])[name]
    else:
        images = np.load(path, allow_pickle=False)
    return np.moveaxis(images, 2, 0) / np.abs(images).max()


def coil_maps(height: int, width: int) -> Array:
    """Coils around the image, (coils, height, width), with Σ|map|² = 1. A scanner's come from a calibration."""
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    angle = (2.0 * np.pi * np.arange(COILS) / COILS)[:, None, None]
    distance = (y - 1.1 * np.sin(angle)) ** 2 + (x - 1.1 * np.cos(angle)) ** 2
    maps = np.exp(-distance / 0.8 + 1j * (angle + x * np.cos(angle) + y * np.sin(angle)))
    return np.asarray(maps / np.sqrt(np.sum(np.abs(maps) ** 2, axis=0)))


def phase(height: int, width: int) -> Array:
    """A smooth phase, as every image of a scanner has one."""
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    return np.asarray(np.exp(1j * (1.5 * x + 2.0 * y**2)))


def lines_through_the_centre(frames: int, height: int, width: int) -> Array:
    """Which coefficients are measured, (frames, height, width), zero frequency first: the angle is a golden one."""
    mask = np.zeros((frames, height, width), bool)
    along = np.linspace(-0.5, 0.5, 2 * max(height, width), endpoint=False)
    for line in range(frames * LINES):
        angle = line * np.pi * (5.0**0.5 - 1.0) / 2.0
        y = np.round(along * height * np.sin(angle)).astype(int)
        x = np.round(along * width * np.cos(angle)).astype(int)
        mask[line // LINES, y % height, x % width] = True
    return mask


def error(images: Array, truth: Array) -> float:
    """‖X − X₀‖_F/‖X₀‖_F."""
    return float(np.linalg.norm(images - truth) / np.linalg.norm(truth))


def draw(pictures: dict[str, Array], path: Path) -> None:
    """Moduli: two frames, five times their error, and a line of pixels over time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    truth = pictures["truth"]
    frames, top = len(truth), 0.9 * np.abs(truth).max()
    early, late = (3 * frames) // 8, frames // 2
    row = int(np.argmax(np.sum(np.var(np.abs(truth), axis=0), axis=1)))  # where most happens
    figure, axes = plt.subplots(4, len(pictures), figsize=(2.6 * len(pictures), 9.6), layout="constrained")
    for axis, (name, images) in zip(axes.T, pictures.items(), strict=True):
        panels = (images[early], images[late], 5.0 * (images - truth)[late], images[:, row])
        for panel, picture in zip(axis, panels, strict=True):
            panel.imshow(np.abs(picture), cmap="gray", vmin=0.0, vmax=top,
                         aspect="auto" if picture is panels[3] else "equal")  # fmt: skip
            panel.set_xticks([])
            panel.set_yticks([])
        axis[0].set_title(name)
        axis[2].set_visible(name not in ("truth", "L", "S"))
    for panel, name in zip(
        axes[:, 0], (f"frame {early}", f"frame {late}", "", "time ↓, one line"), strict=True
    ):
        panel.set_ylabel(name)
    axes[2, 1].set_ylabel("5 × error")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Measure, reconstruct three times, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("dynamic_mri.png"))
    parser.add_argument("--series", type=Path, help="a .mat or .npy file with (height, width, frames)")
    parser.add_argument("--name", default="X", help="of the variable in a .mat file")
    options = parser.parse_args()
    rng, started = np.random.default_rng(0), time.perf_counter()

    images = render() if options.series is None else load(options.series, options.name)
    shape = images.shape
    images = images * phase(*shape[1:])
    truth = images.reshape(shape[0], -1)

    # What a scanner gives: k-space of every coil where the mask is True. A[X] and A* are all that recover needs.
    A = Sense(lines_through_the_centre(*shape), coil_maps(*shape[1:]))
    noise = rng.standard_normal(A.size) + 1j * rng.standard_normal(A.size)
    b = A.apply(truth) + NOISE * np.abs(truth).max() / 2.0**0.5 * noise
    print(f"{A}, {COILS * truth.size / A.size:.1f}-fold under-sampled")

    plain = rw.recover(b, A, stop="prediction", rng=0)
    transform = Temporal("fourier", A.shape)
    fit = rw.recover(b, A @ transform.inverse, rng=0)
    print(fit)

    L, S = transform.frames(fit.low_rank), transform.frames(fit.sparse)
    found = {"truth": truth, "zero-filled": A.adjoint(b)}
    found |= {"S in the images": np.asarray(plain.low_rank) + np.asarray(plain.sparse)}
    found |= {"S in frequency": L + S, "L": L, "S": S}
    for name in ("zero-filled", "S in the images", "S in frequency"):
        print(f"relative error, {name:15} {error(found[name], truth):.4f}")
    draw({name: picture.reshape(shape) for name, picture in found.items()}, options.output)
    print(f"{options.output}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
