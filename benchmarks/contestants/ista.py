"""The paper's Algorithm 7, as fast as we can make it."""

from __future__ import annotations

from functools import partial

from benchmarks.contestants.ours import solve_with

solve = partial(solve_with, "ista")
