"""rankwolf's own solver."""

from __future__ import annotations

from functools import partial

from benchmarks.contestants.ours import solve_with

solve = partial(solve_with, "hybrid")
