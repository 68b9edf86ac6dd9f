"""Maps of coils from the k-space itself, where none are given."""

from __future__ import annotations

import numpy as np

from rankwolf.ground.arrays import Array

# The share of each side of k-space, in its middle, of which maps are made: they are smooth.
MIDDLE = 0.2


def estimated_maps(kspace: Array) -> Array:
    """Maps (coils, …image) from k-space (frames, coils, …image) with zeros where nothing was measured.

    The frames are averaged where they were measured, the middle fifth of that is smoothed by a Hann window, and each
    coil's image is divided by the root of the sum of squares of all coils. That is the simplest known way; ESPIRiT
    gives better maps at the edge of the body. Zero frequency first, as in :class:`~rankwolf.sensing.GridFourier`.

    >>> import numpy as np
    >>> coil = np.fft.fft2(np.ones((8, 8)))
    >>> maps = estimated_maps(np.array([[coil, 2j * coil]]))
    >>> maps.shape, bool(np.allclose(np.sum(np.abs(maps) ** 2, axis=0), 1.0))
    ((2, 8, 8), True)
    """
    axes = tuple(range(1, kspace.ndim - 1))
    seen = np.any(kspace != 0.0, axis=1, keepdims=True)
    mean = np.sum(kspace, axis=0) / np.maximum(np.sum(seen, axis=0), 1)
    for axis in axes:
        side = mean.shape[axis]
        frequency = np.abs(np.fft.fftfreq(side))
        cut = max(0.5 * MIDDLE, 2.0 / side)
        window = np.where(frequency < cut, 0.5 + 0.5 * np.cos(np.pi * frequency / cut), 0.0)
        mean = mean * np.reshape(window, [-1 if k == axis else 1 for k in range(mean.ndim)])
    images = np.fft.ifftn(mean, axes=axes, norm="ortho")
    size = np.sqrt(np.sum(np.abs(images) ** 2, axis=0))
    maps: Array = images / np.maximum(size, 1e-9 * float(size.max() or 1.0))
    return maps
