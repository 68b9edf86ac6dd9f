"""FISTA, Algorithm 8: ISTA from a point that is extrapolated by Nesterov's momentum."""

from __future__ import annotations

from rankwolf.ground.momentum import Momentum
from rankwolf.solvers.ista import Ista


class Fista(Ista):
    """Algorithm 8: ISTA with Nesterov's momentum.

    ``restart`` drops the momentum whenever the objective grew (O'Donoghue and Candès, 2015). ``restart=False`` is
    Algorithm 8 as printed. Cost of an iteration: that of :class:`Ista`.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> rw.decompose(X, delta=0.01, method=rw.solvers.Fista(restart=False), rng=0).low_rank.rank
    1
    """

    name = "fista"

    def __init__(self, restart: bool = True, bounds: bool = True) -> None:
        super().__init__(bounds)
        self.restart = restart

    def next_momentum(self, momentum: Momentum, grew: bool) -> Momentum:
        """Lines 5 to 7: the next element of Nesterov's sequence, or its start after an objective that grew."""
        return Momentum() if self.restart and grew else momentum.next()
