"""Nesterov's sequence, by which the accelerated methods weigh their momentum."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Momentum:
    """t₀ = 1, t_{k+1} = (1 + √(1 + 4t_k²))/2; ``factor`` is (t_k − 1)/t_{k+1}, and 0 at first.

    >>> Momentum().next().next().factor.__round__(4)
    0.2818
    """

    t: float = 1.0
    factor: float = 0.0

    def next(self) -> Momentum:
        """The next element of the sequence: line 5 of Algorithm 8, and the factor of lines 6 and 7."""
        t = (1.0 + (1.0 + 4.0 * self.t**2) ** 0.5) / 2.0
        return Momentum(t, (self.t - 1.0) / t)
