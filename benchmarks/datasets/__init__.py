"""One file for each data set: ``load(seed=…, …)`` gives a :class:`Dataset`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from benchmarks import data
from benchmarks.data import Array
from benchmarks.harness import judge


@dataclass(frozen=True)
class Dataset:
    """A matrix, what is observed of it (None: all that is not NaN), the weights, and the true L as factors if known."""

    name: str
    matrix: Array
    observed: Array | None
    weights: tuple[float, float]
    truth: tuple[Array, Array] | None = None

    @property
    def small(self) -> bool:
        """Whether a few dense copies in float64 do no harm."""
        return self.matrix.size <= 10_000_000


def load(name: str, **parameters: Any) -> Dataset:
    """The data set that ``benchmarks/datasets/<name>.py`` makes."""
    dataset: Dataset = import_module(f"benchmarks.datasets.{name}").load(**parameters)
    return dataset


def recorded(name: str, rho: float, dtype: str, seed: int) -> Dataset:
    """One of the paper's data sets, with the paper's weights for it."""
    matrix, observed = data.masked(name, rho, seed, dtype)
    return Dataset(name, matrix, observed, judge.paper_weights(matrix, observed, data.DELTA[name]))
