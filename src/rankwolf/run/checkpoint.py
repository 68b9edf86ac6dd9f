"""Checkpoints: where a run was, saved in one file from time to time, so that another process can go on from there.

The file has the solver's state, the records, the random generator and what is needed to refuse other data or another
problem. It is replaced in one step: whatever ends the process, the last whole checkpoint stays. A resumed run makes the
steps that the undisturbed one would have made, from the same numbers.

The file is as large as the state. That of the hybrid and of alternating regressions is a few (m + n)·r numbers. The
Frank-Wolfe methods keep a residual, and the proximal ones two matrices S, each as large as the data in floats. They are
saved, and not made again from L, because they would then lack the rounding that they have gathered, and the resumed run
would differ.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from rankwolf.data import Data, Summary
from rankwolf.data.measurements import Measurements
from rankwolf.files.address import Address, RefusedError
from rankwolf.files.npz import new_archive, opened_archive
from rankwolf.files.schema import CHECKPOINT, is_count, is_not_negative, is_size
from rankwolf.ground.complaints import BadParameterError, bad
from rankwolf.ground.whole import whole
from rankwolf.problem import FORMS, Problem
from rankwolf.run.packing import Packer, Unpacker
from rankwolf.solvers.base import Solver


@dataclass(frozen=True)
class Saved:
    """The description of the run in a checkpoint; the arrays of its state are read later."""

    path: Path
    about: dict[str, Any]

    @property
    def summary(self) -> Summary:
        """What the first pass over the data found."""
        return Summary(**self.about["summary"])

    @property
    def problem(self) -> Problem:
        """The problem that the run solves, with its weights, radii or bound."""
        *pair, sparse = self.about["problem"]
        return FORMS[self.about["form"]](*pair, sparse=sparse)

    def check_settings(self, settings: dict[str, Any]) -> None:
        """Raise unless the settings (problem, method and the like) are those of the saved run."""
        before, now = self.about["settings"], json.loads(json.dumps(settings))
        for name in {**before, **now}:
            if before.get(name) != now.get(name):
                raise ValueError(
                    f"The checkpoint {str(self.path)!r} is of a run with other settings: {name} was {before.get(name)} "
                    f"and is {now.get(name)}. Give the same, another checkpoint, or remove this one."
                )

    def check_data(self, data: Data) -> None:
        """Raise unless the data is that of the saved run, as far as its fingerprint tells."""
        m, n = data.shape
        # Of entries at most mn are observed. Measurements may be more than that: those of several coils often are.
        too_many = data.kind != Measurements.kind and self.summary.observed > m * n
        if too_many or data.fingerprint() != self.about["fingerprint"]:
            raise ValueError(
                f"The checkpoint {str(self.path)!r} is of a run on other data, of {self.about['shape']}. "
                "Give the same data, another checkpoint, or remove this one."
            )


def read(path: str | os.PathLike[str]) -> Saved:
    """The description in a checkpoint, if its entries are of the right kinds and sizes; else a ValueError."""
    address = Address(Path(path))
    with opened_archive(address, CHECKPOINT) as file:
        saved = Saved(address.path, file.about)
        summary = saved.summary
        sizes = (summary.norm, summary.largest, *saved.problem.pair)
        counts = (summary.observed, summary.infinite)
        if (
            not all(map(is_size, sizes))
            or not all(map(is_count, counts))
            or not is_not_negative(summary.bound)
        ):
            raise ValueError("its numbers cannot be")
    return saved


class Checkpoint:
    """Saves a run every so many passes or seconds; ``saved``, if any, is the run that it is resumed from."""

    def __init__(
        self,
        path: Path,
        settings: dict[str, Any],
        saved: Saved | None = None,
        *,
        every_passes: int | None = None,
        every_seconds: float | None = None,
    ) -> None:
        self.path, self.saved, self._settings = path, saved, settings
        self._every_passes, self._every_seconds = every_passes, every_seconds
        self._last_pass, self._last_time = 0, time.monotonic()
        self._resumed = False

    def is_due(self, passes: int) -> bool:
        """Whether enough passes or seconds have gone since the last save."""
        if self._every_passes is not None:
            return passes - self._last_pass >= self._every_passes
        return time.monotonic() - self._last_time >= (self._every_seconds or 0.0)

    def save(
        self,
        problem: Problem,
        data: Data,
        state: Any,
        progress: dict[str, Any],
        rng: np.random.Generator,
    ) -> None:
        """Replace the file. Arrays of the state are written block by block; those on a cluster are fetched first."""
        with whole(self.path) as temporary, new_archive(temporary) as file:
            about = {
                "format": CHECKPOINT.format,
                "settings": self._settings,
                "shape": f"{data.shape[0]} × {data.shape[1]}",
                "fingerprint": data.fingerprint() if self.saved is None else self.saved.about["fingerprint"],
                "form": problem.parameter,
                "problem": [*problem.pair, problem.sparse],
                "summary": asdict(data.summary),
                "passes": data.passes,
                "bytes_read": data.bytes_read,
                "rng": {"kind": type(rng.bit_generator).__name__, "state": _plain(rng.bit_generator.state)},
                "progress": progress,
                "state": Packer(file, data).pack(state),
            }
            file.writestr(f"{CHECKPOINT.about}.json", json.dumps(about))
        self.saved = Saved(self.path, about)
        self._last_pass, self._last_time = data.passes, time.monotonic()

    def restore(
        self,
        saved: Saved,
        problem: Problem,
        data: Data,
        solver: Solver[Any, Any],
        rng: np.random.Generator,
    ) -> tuple[Any, dict[str, Any]]:
        """(state, progress) of the saved run; ``rng`` and the counts of ``data`` are set to where they were."""
        about = saved.about
        before, now = about["rng"].get("kind"), type(rng.bit_generator).__name__
        if before != now:
            raise bad("rng", f"a {before}, as in the checkpoint", f"a {now}")
        address = Address(self.path)
        with opened_archive(address, CHECKPOINT) as file:
            rng.bit_generator.state = _arrays(about["rng"]["state"])
            state = Unpacker(file, data, solver.states, rng).unpack(about["state"])
            if not isinstance(state, solver.states):
                raise TypeError("its state is of another method")
        data.passes, data.bytes_read = about["passes"], about["bytes_read"]
        self._resumed = True
        with self.blamed():
            state = solver.restore(problem, data, state)
        self._last_pass = data.passes
        return state, about["progress"]

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """A context for work on a state: in a resumed run, its errors become a ValueError that names the file.

        Each number and array of the file was checked when it was read; whether they fit together, only the solver
        finds out.
        """
        try:
            yield
        except (BadParameterError, RefusedError):
            raise
        except (
            ArithmeticError, AttributeError, LookupError, NotImplementedError, NumbaError, TypeError, ValueError
        ) as error:  # fmt: skip
            if not self._resumed:
                raise
            plain = isinstance(error, ValueError)
            said = str(error) if plain else f"what it holds does not fit together ({type(error).__name__})."
            raise ValueError(
                f"The run cannot go on from the checkpoint {str(self.path)!r}: {said}"
            ) from error


def _plain(value: Any) -> Any:
    """The state of a random generator, in which some kinds keep arrays, as JSON."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return {"array": value.tolist(), "dtype": value.dtype.str} if isinstance(value, np.ndarray) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"array", "dtype"}:
        return np.array(value["array"], value["dtype"])
    return {key: _arrays(item) for key, item in value.items()} if isinstance(value, dict) else value
