"""Anderson acceleration of a fixed-point iteration z ← T(z): the combination of the last steps that moves least.

A splitting method for a piecewise linear problem soon does the same linear map again and again, and then creeps. From
the last points zᵢ and their images T(zᵢ), the weights α with Σα = 1 that make Σ αᵢ(T(zᵢ) − zᵢ) shortest give a point
Σ αᵢT(zᵢ) that skips the creeping (Anderson, 1965; for Douglas-Rachford: Fu, Zhang and Boyd, 2020). It is a guess: where
the next step is longer than the last plain one, the run goes back and goes on without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array, inner

# How many points are kept, how often a combination is tried, and the ridge on its weights, relative to the steps.
KEPT, EVERY, RIDGE = 8, 4, 1e-10
# No more numbers than these are kept: 256 MB.
MOST_NUMBERS = 2**25


@dataclass
class Anderson:
    """The last steps T(z) − z and images T(z), each a list of arrays.

    ``saved`` is the plain image that a guess replaced, ``plain`` the length of the last step of a plain point.
    """

    steps: list[Any] = field(default_factory=list)
    images: list[Any] = field(default_factory=list)
    saved: Any = None
    plain: float = np.inf
    count: int = 0

    def reset(self) -> None:
        """Forget the points: the map has changed."""
        self.steps, self.images, self.saved, self.count = [], [], None, 0

    def next(self, point: list[Array], image: list[Array], scales: list[float]) -> list[Array]:
        """Where to go on from ``point`` with T(point) = ``image``: there, at a combination, or back.

        ``scales`` are the units of the arrays; those with scale 0 are linear functions of the others and go along.
        """
        if 2 * KEPT * sum(prod(x.shape) for x in point) > MOST_NUMBERS:
            return image
        steps = [s * (b - a) for a, b, s in zip(point, image, scales, strict=True) if s]
        length = sum(inner(x, x) for x in steps) ** 0.5
        if self.saved is not None and length > 2.0 * self.plain:  # the guess was bad
            image = self.saved
            self.reset()
            return image
        self.saved, self.plain, self.count = None, length, self.count + 1
        self.steps, self.images = [*self.steps, steps][-KEPT:], [*self.images, image][-KEPT:]
        if self.count % EVERY or len(self.steps) < 3 or length == 0.0:
            return image
        gram = np.array([[sum(map(inner, a, b)) for b in self.steps] for a in self.steps])
        gram += RIDGE * np.trace(gram) * np.eye(len(gram))
        alpha = np.linalg.solve(gram, np.ones(len(gram)))
        alpha /= alpha.sum()
        self.saved = image
        return [
            sum(float(a) * x[k] for a, x in zip(alpha, self.images, strict=True)) for k in range(len(image))
        ]
