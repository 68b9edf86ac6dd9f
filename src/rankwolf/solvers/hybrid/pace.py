"""How far and how fast a step goes: momentum, length, boldness, and what happens after an overshoot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rankwolf.ground.momentum import Momentum
from rankwolf.solvers.hybrid.settings import HybridSettings


@dataclass(frozen=True)
class Move:
    """One way to make the next pass. The default is the careful one, which cannot raise the objective.

    ``momentum``: the share of the last move that is added to both factors. ``bold``: rows step by the inverse of their
    live share. ``length``: s of the threshold step. ``from_best``: the pass starts at the best point, not the last one.
    """

    momentum: float = 0.0
    bold: bool = False
    length: float = 1.0
    from_best: bool = False


@dataclass
class Pace:
    """The rule for the moves, in four parts.

    *Length*: s = caution / live share, at least 1, as long as steps are bold. *Momentum* grows as Nesterov's sequence
    does, up to a limit. *After an overshoot* the pass is repeated with the careful move, and the sequence starts anew;
    an overshoot without momentum means that bold steps are too long here, and they are given up until the level ends.
    *After an overshoot of the careful move* the step before had gone too far, and the pass starts at the best point.
    """

    momentum: float = 0.0
    sequence: Momentum = field(default_factory=Momentum)
    length: float = 1.0
    bold: bool = True
    decrease: float = 0.0

    def start_anew(self, momentum: float) -> None:
        """Begin with another objective: bold steps again, and this momentum in the first pass; the length stays."""
        self.momentum, self.sequence, self.decrease, self.bold = momentum, Momentum(), 0.0, True

    def moves(self, settings: HybridSettings, best_was_long: bool) -> Iterator[Move]:
        """The moves to try one after another; the caller asks for the next one if the last one overshot.

        ``best_was_long``: the threshold step at the best point was longer than 1.
        """
        bold = self.bold and settings.bold_rows
        long = self.bold and self.length > 1.0
        yield Move(self.momentum, bold, self.length if long else 1.0)
        if self.momentum > 0.0 or self.bold:
            self.sequence = Momentum()
            if self.momentum == 0.0:
                self.bold = False
            yield Move()
        if best_was_long:
            self.bold = False
            yield Move(from_best=True)

    def update(self, settings: HybridSettings, live: float, observed: float, decrease: float) -> None:
        """Set length and momentum of the next pass, after one that lowered the objective by ``decrease``.

        ``live`` and ``observed`` are shares of all entries.
        """
        if settings.bold_threshold:
            self.length = max(1.0, settings.caution / max(live, settings.least_live * observed))
        self.decrease = decrease
        self.sequence = self.sequence.next()
        self.momentum = min(self.sequence.factor, settings.momentum)
