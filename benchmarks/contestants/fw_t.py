"""The paper's Algorithm 6."""

from __future__ import annotations

from functools import partial

from benchmarks.contestants.ours import solve_with

solve = partial(solve_with, "fw-t")
