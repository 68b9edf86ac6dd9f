"""Rendered series for dynamic MRI: hearts that beat and breathe, contrast agent, lesions, speech, relaxation.

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


def wander(frames: int, seed: int, pace: float) -> Array:
    """A smooth curve that never repeats, between about -1 and 1: breathing or speaking without a period."""
    rng = np.random.default_rng(seed)
    time = np.arange(frames)
    waves = [
        np.sin(2.0 * np.pi * time / (pace * rng.uniform(0.6, 1.7)) + rng.uniform(0, 6.28)) for _ in range(4)
    ]
    return np.asarray(np.sum(waves, axis=0) / 2.5)


def perfusion(side: int, frames: int = 50, seed: int = 2) -> Array:
    """Gated, so that the heart does not beat, but breathing is free and without a period while contrast flows in."""
    breath, still = 5.0 * wander(frames, seed, 14.0), texture(side, seed, 1.3)
    series = []
    for frame in range(frames):
        down = breath[frame]
        torso = 0.45 * ellipse(side, 50, 50, 38 + 0.2 * down, 45)
        lungs = (1.0 - 0.8 * ellipse(side, 46 + down, 25, 19, 12)) * (
            1.0 - 0.8 * ellipse(side, 46 + down, 78, 16, 9)
        )
        image = torso * lungs * (1.0 + 0.08 * still) + 0.3 * ellipse(side, 80, 50, 5, 5)
        image = image + 0.2 * ellipse(side, 72 + 1.2 * down, 33, 11, 17) * (1.0 + 0.6 * bolus(frame, 25, 18))
        muscle, left = ellipse(side, 51 + down, 57, 13, 13), ellipse(side, 51 + down, 57, 8.5, 8.5)
        right = ellipse(side, 45 + down, 39, 9, 6) * (1.0 - muscle)
        image = image * (1.0 - np.maximum(muscle, right)) + left * (0.15 + 1.1 * bolus(frame, 14, 6))
        image = (
            image
            + (muscle - left) * (0.15 + 0.45 * bolus(frame, 18, 15))
            + right * (0.15 + bolus(frame, 6, 5))
        )
        series.append(image.ravel())
    return np.array(series)


def speech(side: int, frames: int = 45, seed: int = 3) -> Array:
    """A head in profile whose tongue, jaw and lips move without a period; brightness does not change."""
    tongue, jaw, lips = (wander(frames, seed + k, pace) for k, pace in enumerate((9.0, 12.0, 7.0)))
    still = texture(side, seed, 1.4)
    series = []
    for frame in range(frames):
        head = 0.7 * ellipse(side, 45, 52, 42, 36) * (1.0 + 0.1 * still)
        head = head - 0.35 * ellipse(side, 28, 55, 17, 24) * (1.0 + 0.3 * still)
        mouth = ellipse(side, 62 + 2.0 * jaw[frame], 33, 9, 20)
        body = ellipse(side, 65 + 3.5 * tongue[frame] + jaw[frame], 36 + 3.0 * tongue[frame], 7, 11)
        image = head * (1.0 - mouth) + 0.8 * body
        image = image + 0.5 * ellipse(side, 60 - 2.0 * lips[frame], 13, 3, 3)
        image = image + 0.5 * ellipse(side, 69 + 2.0 * lips[frame] + 2.0 * jaw[frame], 14, 3, 3)
        series.append(np.maximum(image, 0.0).ravel())
    return np.array(series)


def relaxation(side: int, frames: int = 24, seed: int = 4) -> Array:
    """A still head of five tissues, each with its own recovery and decay: brightness changes everywhere."""
    rng = np.random.default_rng(seed)
    tissues = [ellipse(side, 50, 50, 44, 36), ellipse(side, 50, 50, 39, 31)]
    tissues += [ellipse(side, *rng.uniform(38, 62, 2), *rng.uniform(4, 15, 2)) for _ in range(6)]
    fields = [1.0 + 0.15 * texture(side, seed + k, 1.4) for k in range(len(tissues))]
    rates = rng.uniform(0.03, 0.35, (len(tissues), 2))
    series = []
    for frame in range(frames):
        image = np.zeros((side, side))
        for tissue, field, (decay, rise) in zip(tissues, fields, rates, strict=True):
            colour = (1.0 - 0.9 * np.exp(-rise * (frame + 2))) * np.exp(-decay * frame * 0.5)
            image = image * (1.0 - tissue) + tissue * field * colour
        series.append(image.ravel())
    return np.array(series)


def grainy(frames: Array, deviation: float = 0.02, seed: int = 5) -> Array:
    """With noise of its own in every frame, as a series that was scanned has."""
    noise = np.random.default_rng(seed).standard_normal(frames.shape)
    return np.asarray(frames + deviation * frames.max() * noise)


def phantoms(side: int) -> dict[str, Array]:
    """All of them by name."""
    return {
        "heart": heart(side),
        "breathing heart": heart(side, 48, 9.0, 3.0, 0.15),
        "lesions": lesions(side),
        "perfusion": perfusion(side),
        "grainy perfusion": grainy(perfusion(side)),
        "speech": speech(side),
        "relaxation": relaxation(side),
    }
