"""The constants of the hybrid in one place, each with its reason.

``python -m benchmarks.ablation`` switches each heuristic off and counts the passes that it saves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

# The steps of the rows in a pass: pairs of a clip level, in units of λ_S, and the largest share of the whole step
# (G V − λ_L u)(w·VᵀV + λ_L I)⁻¹.
RowSteps = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class HybridSettings:
    """How the hybrid steps, starts and proves. The defaults were chosen on recorded data: ``benchmarks.ablation``."""

    # Spare columns of the basis Q: this share of the rank, and at least so many.
    probe_share: float = 0.25
    least_probes: int = 8
    # After a step that brought directions into L: this many probes for each direction that was nearly long enough, that
    # is, above ``near`` times λ_L. A flat spectrum has many of these, and few probes would find them one by one.
    probes_for_each: float = 3.0
    near: float = 0.9

    # Steps longer than 1 by the inverse of the live share: in the rows' step (1), in the threshold step (3).
    bold_rows: bool = True
    bold_threshold: bool = True
    # The whole step is bold: it assumes that the live entries of a row are spread evenly over the directions of V. A
    # short step comes first and shows how curved the row's objective really is; the others are no longer than that
    # allows.
    row_steps: RowSteps = ((1.0, 0.5), (1.0, 1.0), (1.0, 1.0))
    # The same where the weights follow every pass. They are then read off V, and rows that are fitted much better than
    # V make them swing.
    following_row_steps: RowSteps = ((1.0, 0.5), (1.0, 1.0))
    # Whether the curvature limits the steps; without it each step has its largest share.
    measures_rows: bool = True
    # The steps of the rows in a first pass, which fits them to a given V.
    first_row_steps: RowSteps = ((8.0, 1.0), (2.0, 1.0), (1.0, 1.0))
    # The least live share that a step assumes, of a row or of the matrix, as a share of the observed entries.
    least_live: float = 0.25
    # The threshold step is shorter than the inverse of the live share by this factor: some directions have more live
    # entries than most.
    caution: float = 0.8

    # The largest momentum, up to which it grows as Nesterov's sequence does. 0: none.
    momentum: float = 0.6

    # The start solves a sample with at least this many rows, this many entries and this share of the rows, if that is
    # at most two thirds of the matrix. The whole path over a sixteenth of the rows costs about as much as two passes.
    # ``sample_rows`` = ``inf``: no sample.
    sample_rows: float = 1500
    sample_entries: int = 2**17
    sample_share: float = 1 / 16
    # While a sample of high rank is solved, it takes this many times its own size in memory.
    sample_copies: float = 8.0
    # The sample is solved until the relative gap of its Ritz bound is below this, in at most so many passes over it.
    sample_gap: float = 1e-2
    sample_passes: int = 200
    # Probes on the sample, as a share of the rank. They cost little there, and the first pass over the whole matrix has
    # them as its probes: a direction that is just too weak in the sample is often strong enough in the whole matrix.
    sample_probe_share: float = 1.0

    # The path: both weights are multiplied by a factor that falls to 1. It starts where λ_L is this share of ‖P_Ω M‖_F,
    # and falls by ``path_step`` when the level has settled: the relative gap of its own Ritz bound is below
    # ``path_gap``, or it has had ``path_passes`` passes. A start of 0: no path.
    path_start: float = 0.1
    path_step: float = 4.0
    path_gap: float = 0.02
    path_passes: int = 30
    # Where the weights are unknown, a settled level's gap is also at most this share of ``Problem.price_error``.
    path_share: float = 0.3
    # A given L with unknown weights is taken to be optimal where λ_L is this share of ‖P_Ω M‖_F.
    warm_share: float = 1e-3
    # Where the weights follow every pass: objectives are compared only if their weights differ by at most this factor.
    comparable_prices: float = 1.1
    # After this many passes without a smaller gap the two weights probably chase each other. From then on their steps
    # are shortened, in inverse proportion to the number of such passes.
    price_patience: int = 6
    # They aim at slightly smaller radii, at the cost of this share of the gap, so that a point near the aim is allowed.
    margin_share: float = 0.02
    # A gap that has fallen to this share of the least one so far counts as smaller.
    smaller_gap: float = 0.9
    # The point that is returned may break a radius slightly: its threshold takes at most so many Newton steps, a pass
    # each, to meet it.
    allowed_rounds: int = 20
    # Whether a level starts at a point extrapolated from the ends of the last two levels.
    predicts: bool = True

    # The end of the path, where L + S = M is asked for, is tried by a refit of at most ``end_rounds`` rounds. It is
    # tried when λ_S has fallen by the factor ``end_fall`` since the last level, while at most the share ``end_lost`` of
    # the entries has left ±λ_S.
    end_fall: float = 2.0
    end_lost: float = 0.01
    end_rounds: int = 25
    # A singular value of L this many times as large as the next one is taken for the last of L*: those after it are of
    # the size of the weights.
    end_gap: float = 10.0
    # The refit ends when a round moves L by less than this share of its length.
    end_exact: float = 1e-13
    # S leaves out entries that are no further from L than this many times the rounding error of the largest entry.
    end_rounding: float = 1e4

    # The first guess of a proof's gap over the gap that is computed before it (path.expected_of_proof), for fully
    # observed data and for data with missing entries, where clipping again costs more; and the same where the weights
    # follow every pass. A proof is tried when it is expected to reach the tolerance.
    proof_ratio: tuple[float, float] = (3.0, 4.0)
    following_proof_ratio: tuple[float, float] = (0.3, 0.5)
    # Whether a failed proof corrects that ratio and adds directions to the probes.
    learns: bool = True
    # Whether the proof is given the directions in which G is longer than λ_L.
    deflates: bool = True

    def samples(self, shape: tuple[int, int], most_entries: float = inf) -> int | None:
        """How many rows to solve first; None where that would be more than two thirds of them.

        The largest of ``sample_rows``, of n up to twice as many, of the rows that have ``sample_entries``, and of
        ``sample_share`` of all rows as far as ``most_entries`` numbers have room.
        """
        m, n = shape
        if self.sample_rows == inf:
            return None
        rows = int(self.sample_rows)
        share = int(min(self.sample_share * m, most_entries / self.sample_copies / n))
        count = max(rows, min(n, 2 * rows), self.sample_entries // n, share)
        return count if 3 * count <= 2 * m else None
