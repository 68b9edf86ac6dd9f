"""The data sets on which the solvers are timed, and their short names."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.data import FACES
from benchmarks.harness.results import Row


@dataclass(frozen=True)
class Case:
    """A data set at one observed fraction; ``repeats`` for runs of seconds."""

    dataset: str
    rho: float
    extra: Row = field(default_factory=dict)
    repeats: int = 1

    @property
    def label(self) -> str:
        """The name in a table."""
        return str(self.extra.get("person", self.dataset))

    @property
    def parameters(self) -> Row:
        """For the data set's ``load``."""
        return {**self.extra, "rho": self.rho, "dtype": "float32"}

    @property
    def is_video(self) -> bool:
        """Not a face."""
        return self.dataset != "faces"


def cases(full: bool, data: tuple[str, ...] = ()) -> list[Case]:
    """All of the issue's data, or what fits into a few minutes; of ``data`` alone, if that names any."""
    people = FACES if full else FACES[:1]
    rhos = (1.0, 0.8, 0.6) if full else (1.0, 0.6)
    found = [Case("faces", rho, {"person": person}, repeats=5) for person in people for rho in rhos]
    found += [Case("lobby", rho) for rho in ((1.0, 0.8, 0.6) if full else (1.0,))]
    found += [Case("restaurant", rho) for rho in ((1.0, 0.8, 0.6) if full else ())]
    return [case for case in found if not data or case.label in data]
