"""The rule for under-sampled series: how long to linger at the end of the path, and at which weights.

``python -m benchmarks series_rule``, ten minutes at side 32. Seven rendered series and, where the data folder is
there, the brain series, at 32 × 32 pixels; one coil and eight. For every multiple of λ_L, ratio λ_S√n/λ_L and number of
iterations at the final weights: the error, divided by the least of that series. Printed are the geometric means over
all series, and leave-one-out: what the setting that is best on the others costs on the one left out.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.data import MissingDataError
from benchmarks.datasets.mri import Series, brain, measured, smaller
from benchmarks.datasets.phantoms import phantoms
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table
from rankwolf.api.measured_weights import series_weights
from rankwolf.data.measurements import Measurements
from rankwolf.solvers import PrimalDual

MULTIPLES, RATIOS, LINGER = (0.5, 1.0, 3.0), (0.7, 1.0, 1.4), (4, 8, 12, 16, 24, 36)


def errors(case: Series) -> dict[tuple[float, float, int], float]:
    """By multiple, ratio and iterations at the final weights."""
    sensing, found = case.sensing @ case.transform.inverse, {}
    lambda_L, lambda_S = series_weights(Measurements(case.b, sensing), 1e-3, np.random.default_rng(0))
    for multiple, ratio in product(MULTIPLES, RATIOS):
        curve: list[float] = []

        def see(record: rw.Record, pair: Any, curve: list[float] = curve) -> None:
            curve.append(case.error(case.transform.frames(np.asarray(pair.low_rank) + pair.sparse)))

        rw.recover(
            case.b, sensing, lambdas=(multiple * lambda_L, multiple * ratio * lambda_S), stop="path", rng=0,
            n_threads=1, method=PrimalDual(settle=max(LINGER)), callback=rw.callbacks.WithIterate(see),
        )  # fmt: skip
        for linger in LINGER:
            found[multiple, ratio, linger] = curve[len(curve) - 1 - max(LINGER) + linger]
    return found


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--side", type=int, default=32)
    options = parser.parse_args()
    results = Results("series_rule", vars(options))
    images = phantoms(options.side)
    try:
        images["brain"] = smaller(brain(), options.side)
    except MissingDataError as missing:
        print(missing)
    shares: dict[str, dict[tuple[float, float, int], float]] = {}
    for (name, frames), (coils, lines) in product(images.items(), ((1, 3), (8, 2))):
        found = errors(measured(frames, lines, coils))
        least = min(found.values())
        shares[f"{name}, {coils} coils"] = {key: error / least for key, error in found.items()}
        for (multiple, ratio, linger), error in found.items():
            results.add({"series": name, "coils": coils, "multiple": multiple, "ratio": ratio, "linger": linger,
                         "error": error})  # fmt: skip
    settings = list(next(iter(shares.values())))

    def mean(names: list[str], setting: tuple[float, float, int]) -> float:
        return float(np.exp(np.mean([np.log(shares[name][setting]) for name in names])))

    rows = [(f"{multiple:g}", f"{ratio:g}", *(f"{mean(list(shares), (multiple, ratio, k)):.3f}" for k in LINGER))
            for multiple, ratio in product(MULTIPLES, RATIOS)]  # fmt: skip
    print(table(("λ_L times", "ratio", *(f"{k} iterations" for k in LINGER)), rows))
    print("\nLeft out, the best setting of the others, its error there over the best and over the default's:")
    for name in shares:
        others = [other for other in shares if other != name]
        best = min(settings, key=lambda setting: mean(others, setting))
        default = shares[name][1.0, 1.0, 16]
        print(f"  {name}: {best}, {shares[name][best]:.3f}, {shares[name][best] / default:.3f}")


if __name__ == "__main__":
    main()
