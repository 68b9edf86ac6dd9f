"""The constants of the hybrid in one place, each with its reason.

``python -m benchmarks.ablation`` switches each heuristic off and counts the passes that it saves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

# Pairs of a clip level, in λ_S, and the largest share of the whole step.
RowSteps = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class HybridSettings:
    """How the hybrid steps, starts and proves. The defaults were chosen on recorded data: ``benchmarks.ablation``."""

    # Spare columns of the basis Q: this share of the rank, and at least so many.
    probe_share: float = 0.25
    least_probes: int = 8
    # After a step that brought directions into L, so many for each one that was nearly long enough, which is longer
    # than ``near`` times λ_L. A flat spectrum has many of these, and few probes would find them one by one.
    probes_for_each: float = 3.0
    near: float = 0.9

    # Steps longer than 1 by the inverse of the live share: in the rows' step (1), in the threshold step (3).
    bold_rows: bool = True
    bold_threshold: bool = True
    # Steps of the rows in a pass. The whole step is bold: it takes the live entries of a row as spread evenly over the
    # directions of V. A short one comes first, and shows how curved the row's objective really is: the next ones are no
    # longer than that allows.
    row_steps: RowSteps = ((1.0, 0.5), (1.0, 1.0), (1.0, 1.0))
    # The same where the weights follow every pass: their prices are read off V, and rows that are fitted further than V
    # make them swing.
    following_row_steps: RowSteps = ((1.0, 0.5), (1.0, 1.0))
    # Whether they are: without it each step has the whole of its share.
    measures_rows: bool = True
    # The same for the first fit of the rows to a factor that they have not seen.
    first_row_steps: RowSteps = ((8.0, 1.0), (2.0, 1.0), (1.0, 1.0))
    # A row, or a matrix, with fewer live entries than this share of the observed ones steps as if it had so many.
    least_live: float = 0.25
    # The threshold step is shorter than the inverse of the live share by this factor: some directions have more live
    # entries than most.
    caution: float = 0.8

    # Momentum grows as Nesterov's sequence does, up to this. 0: none.
    momentum: float = 0.6

    # The start solves a sample of at least so many rows, so many entries and this share of the rows, where that is less
    # than two thirds of the matrix: the whole path over a sixteenth costs as much as about two passes. ``inf`` rows: no
    # sample.
    sample_rows: float = 1500
    sample_entries: int = 2**17
    sample_share: float = 1 / 16
    # While it is solved, a sample of high rank takes so many times its own size.
    sample_copies: float = 8.0
    # The sample is solved until the relative gap of its Ritz bound is below this, in at most so many passes over it.
    sample_gap: float = 1e-2
    sample_passes: int = 200
    # Probes on the sample, as a share of the rank: they cost little there, and what is just too weak in the sample is
    # often strong enough in the whole matrix, whose first pass gets them as probes.
    sample_probe_share: float = 1.0

    # The path: both weights are multiplied by a factor that falls to 1. It starts where λ_L is this share of ‖P_Ω M‖_F,
    # and falls by ``path_step`` when the level has settled: the relative gap of its own Ritz bound is below
    # ``path_gap``, or it has had ``path_passes`` passes. A start of 0: no path.
    path_start: float = 0.1
    path_step: float = 4.0
    path_gap: float = 0.02
    path_passes: int = 30
    # Where weights are looked for that meet a bound, a level's gap is also at most this share of what they are off.
    path_share: float = 0.3
    # An L that was given, and was no optimum of weights, is taken for one at this share of ‖P_Ω M‖_F.
    warm_share: float = 1e-3
    # Where the weights follow every pass: an objective is compared with one of weights that differ by at most this.
    comparable_prices: float = 1.1
    # After so many passes without a smaller gap they take shorter steps, by the number of passes beyond: the two prices
    # chase each other then.
    price_patience: int = 6
    # They aim inside of the radii by what costs this share of the gap, so that a point near the aim is allowed.
    margin_share: float = 0.02
    # Whether a level starts where the line through the ends of the last two leads.
    predicts: bool = True

    # The end of the path, where L + S = M is asked for: it is tried when λ_S has fallen by ``end_fall`` since a level
    # that had at most this share of the entries more within it, in so many rounds at most.
    end_fall: float = 2.0
    end_lost: float = 0.01
    end_rounds: int = 25
    # A direction that is so many times as long as the next one is taken for the last of L*: the others are of the size
    # of the weights.
    end_gap: float = 10.0
    # The last round moved L by less than this share of its length.
    end_exact: float = 1e-13
    # What is no further from that L than so many times the rounding of the largest entry is not in S.
    end_rounding: float = 1e4

    # A proof's gap over the one that is computed before it (path.expected_of_proof), at first, with everything observed
    # and with gaps, where clipping again costs more; and the same where the weights follow every pass. A proof is tried
    # when it is expected to be enough.
    proof_ratio: tuple[float, float] = (3.0, 4.0)
    following_proof_ratio: tuple[float, float] = (0.3, 0.5)
    # Whether a proof that failed teaches: the ratio above, and directions for the probes.
    learns: bool = True
    # Whether the proof is told in which directions G is too long.
    deflates: bool = True

    def samples(self, shape: tuple[int, int], most_entries: float = inf) -> int | None:
        """How many rows to solve first; None where that would be nearly all of them.

        A share of the rows, as far as there is room for so many entries; less than ``sample_rows`` would say little.
        """
        m, n = shape
        if self.sample_rows == inf:
            return None
        rows = int(self.sample_rows)
        share = int(min(self.sample_share * m, most_entries / self.sample_copies / n))
        count = max(rows, min(n, 2 * rows), self.sample_entries // n, share)
        return count if 3 * count <= 2 * m else None
