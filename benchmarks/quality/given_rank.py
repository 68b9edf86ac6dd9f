"""``decompose(rank=r)`` against an oracle: ``python -m benchmarks given_rank``, about three minutes on one core.

On the settings of ``auto_delta`` (all but 2000 × 2000): the error of L at the true rank over that of an oracle who
knows which entries are outliers, when the convex fit before the refit has a relative gap of 0.1, 0.01 (the default) and
0.001; and which rank L has when two more, or one fewer, than the true rank are asked for. ``--seed`` changes the data.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict
from unittest import mock

import numpy as np

import rankwolf as rw
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table
from benchmarks.quality.auto_delta import SETTINGS, make, oracle
from rankwolf.api import rank as ranks

TOLERANCES = (1e-1, 1e-2, 1e-3)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results = Results("given_rank", vars(options))
    lines = []
    for setting in SETTINGS:
        if setting.rows * setting.columns > 10**6:
            continue
        case, most = make(setting, options.seed), setting.columns - 1
        best = case.error(oracle(case, setting.rank))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            errors, passes = {}, 0
            for tol in TOLERANCES:
                usual = ranks.RankSettings(tol=tol)
                with mock.patch.object(ranks.at_rank, "__defaults__", (usual,)):
                    fit = rw.decompose(case.data, rank=setting.rank, rng=0, n_threads=1)
                errors[tol] = case.error(np.asarray(fit.low_rank))
                passes = fit.passes if tol == ranks.SETTINGS.tol else passes
            fewer, more = max(1, setting.rank - 1), min(setting.rank + 2, most)
            found = {
                r: rw.decompose(case.data, rank=r, rng=0, n_threads=1).low_rank.rank for r in (fewer, more)
            }
        results.add(
            {**asdict(setting), "oracle": best, "passes": passes, "met": found == {fewer: fewer, more: more}}
            | {f"error_{tol:g}": error for tol, error in errors.items()}
        )
        ratios = (f"{errors[tol] / best:.2f}" if best > 1e-9 else f"{errors[tol]:.0e}" for tol in TOLERANCES)
        lines.append((
            f"{setting.rows} × {setting.columns}", str(setting.rank), f"{setting.noise:g}",
            setting.kind or "{:g}, {:g}".format(*setting.spread), f"{setting.outliers:.0%}", *ratios,
            f"{found[fewer]} of {fewer}, {found[more]} of {more}", str(passes),
        ))  # fmt: skip
    header = (
        "size", "rank", "noise", "differs", "outliers", *(f"error, gap {tol:g}" for tol in TOLERANCES),
        "rank of those asked for", "passes",
    )  # fmt: skip
    print(table(header, lines))
    within = {
        tol: sum(r[f"error_{tol:g}"] <= 1.1 * r["oracle"] + 1e-9 for r in results.rows) for tol in TOLERANCES
    }
    print(f"within a factor of 1.1 of the oracle, by gap: {within}, of {len(results.rows)}")


if __name__ == "__main__":
    main()
