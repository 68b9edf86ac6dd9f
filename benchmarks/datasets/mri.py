"""Dynamic MRI: the brain series of the data folder, sampled along lines through the centre of k-space.

Golden-angle lines, rounded to the grid, as in Lin and Fessler (2019): from line to line, across frames, the angle
advances by π(√5 − 1)/2. One coil and real images, or eight synthetic coils and images with a smooth phase.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.io

from benchmarks.data import Array, MissingDataError, folder
from rankwolf.sensing import PartialFourier, Sense, Sensing, Temporal

COILS = 8


@dataclass(frozen=True)
class Series:
    """b = A[truth]; ``transform`` is along time, for S."""

    truth: Array
    b: Array
    sensing: Sensing
    transform: Temporal

    def error(self, images: Array) -> float:
        """‖X − X₀‖_F/‖X₀‖_F."""
        return float(np.linalg.norm(images - self.truth) / np.linalg.norm(self.truth))


def brain() -> Array:
    """24 frames of 128 × 128 pixels as rows, largest value 1."""
    path = folder() / "mri" / "brain_T2_T1.mat"
    if not path.exists():
        raise MissingDataError(f"mri: {path} is not there. Set RANKWOLF_DATA to the folder that holds it.")
    images = scipy.io.loadmat(path)["X"]
    frames: Array = np.ascontiguousarray(np.moveaxis(images, 2, 0)).reshape(images.shape[2], -1)
    return np.asarray(frames / frames.max())


def smaller(frames: Array, side: int) -> Array:
    """The lowest frequencies alone: the same images with fewer pixels."""
    before = round(frames.shape[1] ** 0.5)
    if before == side:
        return frames
    spectrum = np.fft.fftshift(np.fft.fft2(frames.reshape(-1, before, before)), axes=(1, 2))
    cut = (before - side) // 2
    kept = np.fft.ifftshift(spectrum[:, cut : cut + side, cut : cut + side], axes=(1, 2))
    images = np.fft.ifft2(kept).real
    return np.asarray((images / images.max()).reshape(len(frames), -1))


def radial_mask(frames: int, side: int, lines: int) -> Array:
    """(frames, side, side), zero frequency first."""
    mask = np.zeros((frames, side, side), bool)
    radius = np.arange(-side, side + 1) * 0.5
    for line in range(frames * lines):
        angle = line * np.pi * (5.0**0.5 - 1.0) / 2.0
        y = np.round(radius * np.sin(angle)).astype(int)
        x = np.round(radius * np.cos(angle)).astype(int)
        inside = (np.abs(y) < side // 2) & (np.abs(x) < side // 2)
        mask[line // lines, y[inside] % side, x[inside] % side] = True
    return mask


def coils_and_phase(side: int, coils: int = COILS) -> tuple[Array, Array]:
    """Maps (coils, side, side) around the image with Σ|map|² = 1, and a phase of modulus 1."""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    maps = []
    for angle in 2.0 * np.pi * np.arange(coils) / coils:
        distance = (y - 1.1 * np.sin(angle)) ** 2 + (x - 1.1 * np.cos(angle)) ** 2
        maps.append(np.exp(-distance / 0.8 + 1j * (angle + x * np.cos(angle) + y * np.sin(angle))))
    stacked = np.stack(maps)
    phase = np.exp(1j * (1.5 * x + 2.0 * y**2 + 0.5 * np.sin(3.0 * x * y)))
    return stacked / np.sqrt(np.sum(np.abs(stacked) ** 2, axis=0)), phase


def series(lines: int, coils: int = 1, frames: int | None = None) -> Series:
    """The brain series, without noise."""
    return measured(brain()[:frames], lines, coils)


def rat() -> Array:
    """The rat's heart: moduli of 8 frames of 192 × 192 pixels as rows, largest value 1."""
    path = folder() / "mri" / "rat_cine.mat"
    if not path.exists():
        raise MissingDataError(f"mri: {path} is not there. Set RANKWOLF_DATA to the folder that holds it.")
    images = next(x for x in scipy.io.loadmat(path).values() if isinstance(x, np.ndarray) and x.ndim == 3)
    side = min(images.shape[:2])
    frames = np.abs(np.moveaxis(images[:side, :side], 2, 0)).reshape(images.shape[2], -1)
    return np.asarray(frames / frames.max())


def cartesian_mask(frames: int, side: int, lines: int) -> Array:
    """Whole lines of k-space: a few in the middle, the others at random, more often near the middle."""
    rng, mask = np.random.default_rng(0), np.zeros((frames, side, side), bool)
    distance = np.abs(np.fft.fftfreq(side, 1.0 / side))
    chance = 1.0 / (1.0 + (distance / (0.1 * side)) ** 2)
    for frame in mask:
        frame[distance <= lines // 8] = True
        left = np.flatnonzero(~frame[:, 0])
        count = max(lines - int(frame[:, 0].sum()), 0)
        frame[rng.choice(left, count, replace=False, p=chance[left] / chance[left].sum())] = True
    return mask


def measured(
    truth: Array, lines: int, coils: int = 1, decibels: float = 0.0, sampling: str = "radial"
) -> Series:
    """A series along lines, with noise so far below b; with several coils it is given a smooth phase."""
    side = round(truth.shape[1] ** 0.5)
    mask = (cartesian_mask if sampling == "cartesian" else radial_mask)(len(truth), side, lines)
    if coils == 1:
        fourier = PartialFourier(mask, time="first")
        return Series(truth, noisy(fourier.apply(truth), decibels), fourier, Temporal("fourier", truth.shape))
    maps, phase = coils_and_phase(side, coils)
    sense = Sense(mask, maps, time="first")
    truth = truth * phase.ravel()
    return Series(truth, noisy(sense.apply(truth), decibels), sense, Temporal("fourier", truth.shape))


def noisy(b: Array, decibels: float) -> Array:
    """b with complex Gaussian noise of ``decibels`` below it; b itself for 0."""
    if decibels == 0.0:
        return b
    rng, size = np.random.default_rng(0), float(np.linalg.norm(b)) / b.size**0.5 * 10.0 ** (-decibels / 20.0)
    noise = rng.standard_normal(b.size) + 1j * rng.standard_normal(b.size)
    return np.asarray(b + size * 0.5**0.5 * noise)
