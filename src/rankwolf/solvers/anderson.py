"""Anderson acceleration of a fixed-point iteration z ← T(z): the combination of the last steps that moves least.

A splitting method for a piecewise linear problem soon does the same linear map again and again, and then creeps. From
the last points zᵢ and their images T(zᵢ), the weights α with Σα = 1 that make Σ αᵢ(T(zᵢ) − zᵢ) shortest give a point
Σ αᵢT(zᵢ) that skips the creeping (Anderson, 1965; for Douglas-Rachford: Fu, Zhang and Boyd, 2020). It is a guess. Plain
steps never grow, because T is nonexpansive: where the step after a guess is longer than the one before, the run goes
back and goes on without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array, flat, inner, like, namespace

# How many points are kept, how often a combination is tried, and the ridge on its weights, relative to the steps. On
# random problems of three kinds 16 points took fewer iterations than 8, and 24 about as many as 16.
KEPT, EVERY, RIDGE = 16, 4, 1e-10
# A combination of larger weights leads far away, where a short step means nothing: it is not taken.
MOST_WEIGHT = 100.0
# No more numbers than these are kept: 256 MB.
MOST_NUMBERS = 2**25


@dataclass
class Anderson:
    """The last steps T(z) − z, each as one vector of real numbers, and the images T(z), each a list of arrays.

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
        step = flat([s * (b - a) for a, b, s in zip(point, image, scales, strict=True) if s])
        length = inner(step, step) ** 0.5
        if self.saved is not None and length > self.plain:  # the guess was bad
            image = self.saved
            self.reset()
            return image
        self.saved, self.plain, self.count = None, length, self.count + 1
        self.steps, self.images = [*self.steps, step][-KEPT:], [*self.images, image][-KEPT:]
        if self.count % EVERY or len(self.steps) < 3 or length == 0.0:
            return image
        xp = namespace(step)
        rows, eye = xp.stack(self.steps), like(np.eye(len(self.steps)), step)
        gram = rows @ rows.T
        gram = gram + RIDGE * xp.sum(gram * eye) * eye
        alpha = list(map(float, xp.linalg.solve(gram, xp.ones_like(gram[0]))))
        total = sum(alpha)
        if sum(map(abs, alpha)) > MOST_WEIGHT * abs(total):
            return image
        self.saved = image
        return [
            sum(a / total * x[k] for a, x in zip(alpha, self.images, strict=True)) for k in range(len(image))
        ]
