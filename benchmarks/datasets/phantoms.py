"""Rendered series for dynamic MRI: a beating heart with contrast, one that breathes as well, enhancing lesions.

Frames are rows. None of them was looked at when the rivals' settings were published, and none is the brain series.
"""

from __future__ import annotations

import numpy as np

from benchmarks.data import Array


def ellipse(side: int, y: float, x: float, height: float, width: float) -> Array:
    """1 inside, 0 outside, with an edge as wide as a pixel; places are in hundredths of the image."""
    rows, columns = np.mgrid[:side, :side] * (100.0 / side)
    inside = 1.0 - np.hypot((rows - y) / height, (columns - x) / width)
    return np.asarray(np.clip(inside * min(height, width) * side / 100.0 + 0.5, 0.0, 1.0))


def bolus(frame: float, arrival: float, width: float) -> float:
    """Contrast that rises, peaks at 1 and washes out."""
    since = max(frame - arrival, 0.0) / width
    return float(since * np.exp(1.0 - since))


def texture(side: int, seed: int, decay: float) -> Array:
    """Smooth noise of unit variance, its spectrum falling like a power of frequency."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side))) + 1.0 / side
    white = np.fft.fft2(np.random.default_rng(seed).standard_normal((side, side)))
    field = np.fft.ifft2(white / frequency**decay).real
    return np.asarray(field / field.std())


def heart(
    side: int, frames: int = 40, period: float = 10.0, breath: float = 0.0, grain: float = 0.0
) -> Array:
    """It beats every ``period`` frames; ``breath`` is how far lungs and heart move, in hundredths of the image."""
    field, series = grain * texture(side, 0, 1.2), []
    torso = 0.50 * ellipse(side, 50, 50, 39, 45) - 0.15 * ellipse(side, 50, 50, 36, 42)
    for frame in range(frames):
        down = breath * np.sin(2.0 * np.pi * frame / 17.3)
        beat = 0.5 + 0.5 * np.cos(2.0 * np.pi * frame / period)
        radius = 6.6 + 3.1 * beat
        wall = float(np.hypot(radius, 7.8))  # the wall keeps its area
        lungs = (1.0 - 0.75 * ellipse(side, 45 + down, 26, 20, 12)) * (
            1.0 - 0.75 * ellipse(side, 45 + down, 77, 17, 9)
        )
        body = torso * lungs + 0.25 * ellipse(side, 78, 50, 5.5, 5.5)
        body = (body + 0.10 * ellipse(side, 69 + down, 69, 7, 11)) * (1.0 + field)
        left, muscle = ellipse(side, 52 + down, 56, radius, radius), ellipse(side, 52 + down, 56, wall, wall)
        right = ellipse(side, 44 + down, 41, 6.3 + 2.3 * beat, 4.7 + 2.3 * beat) * (1.0 - muscle)
        image = body * (1.0 - np.maximum(muscle, right)) + left * (0.3 + bolus(frame, 12, 7))
        image = (
            image + (muscle - left) * (0.3 + 0.35 * bolus(frame, 17, 21)) + right * (0.3 + bolus(frame, 4, 5))
        )
        series.append(image.ravel())
    return np.array(series)


def lesions(side: int, frames: int = 30, seed: int = 1) -> Array:
    """A still, textured body in which twelve regions take up contrast at their own pace."""
    rng = np.random.default_rng(seed)
    body = ellipse(side, 50, 50, 40, 33) * (0.6 + 0.12 * texture(side, seed, 1.4))
    regions = []
    for _ in range(12):
        (y, x), (height, width) = rng.uniform(30, 70, 2), rng.uniform(3, 14, 2)
        arrival, pace, most = rng.uniform(2, 12), rng.uniform(3, 14), rng.uniform(0.2, 1.0)
        regions.append((ellipse(side, y, x, height, width), arrival, pace, most))
    series = []
    for frame in range(frames):
        image = body.copy()
        for region, arrival, pace, most in regions:
            since = max(frame - arrival, 0.0) / pace
            image = image + body * region * most * (1.0 - np.exp(-since)) * np.exp(-0.15 * since)
        series.append(image.ravel())
    return np.array(series)


def phantoms(side: int) -> dict[str, Array]:
    """All of them by name."""
    return {
        "heart": heart(side),
        "breathing heart": heart(side, 48, 9.0, 3.0, 0.15),
        "lesions": lesions(side),
    }
