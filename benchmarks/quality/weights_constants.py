"""Are the constants of ``auto`` and ``refit`` tuned to the settings that they are judged on?

``python -m benchmarks weights_constants``, about 25 minutes on one core. On the settings of ``auto_delta`` (all but
2000 × 2000), each constant is made smaller and larger, one at a time. Then leave-one-out: for each setting, the
constants are chosen anew on the other settings (the one change, or none, with the least mean logarithm of the error),
and judged on the setting that was left out. Reported:

- for each constant, the geometric mean over the settings of the error with the changed constant over that with the
  present one, and the worst setting: where all are near 1, the constant does not matter much;
- the same mean of the choices by leave-one-out. Below 1, others than the present constants would do better on data
  that they were not chosen on; above 1, choosing by these settings is choosing by chance.

``--settings`` takes some of the settings, by number, ``--seed`` other data; ``--saved`` reads the rows of earlier runs.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import FOLDER, Results, Row, table
from benchmarks.quality.auto_delta import SETTINGS, Case, make
from rankwolf.data.open import open_source
from rankwolf.passes import trimmed
from rankwolf.solvers import refit as refitting
from rankwolf.weights import descent, edge, noise

NONE = "as it is"
OfSettings = tuple[tuple[str, float, float], ...]
OfModules = tuple[tuple[tuple[Any, ...], str, float, float], ...]
# Of the settings classes, and of modules, each with the modules that have its name: (name, smaller, larger).
OF_DESCENT: OfSettings = (
    ("least_noise", 3e-4, 3e-3),
    ("most_rank", 0.35, 0.65),
    ("hidden", 0.05, 0.2),
    ("standard_errors", 1.0, 3.0),
    ("patience", 0, 2),
    ("steps", 30, 120),
    ("fall", 0.5, 0.85),
    ("settled", 0.01, 0.1),
    ("predicted", 0.001, 0.01),
)
OF_NOISE: OfModules = (
    ((noise, descent), "LIMIT_IN_SIGMAS", 1.5, 2.5),
    ((noise,), "MOST_OUTLIERS", 0.25, 0.45),
    ((noise,), "MOST_FREEDOM", 0.6, 0.85),
    ((noise,), "MOST_LOSS", 0.3, 0.7),
    ((edge,), "CERTAINTY", 1.0, 3.0),
    ((edge,), "MOST_QUANTILE", 0.94, 0.99),
)
OF_REFIT: OfSettings = (
    ("settled", 0.005, 0.05),
    ("patience", 3, 10),
    ("fall", 0.3, 0.7),
    ("drifts", 5.0, 20.0),
    ("few_entries", 10.0, 40.0),
)
OF_TRIMMING: OfModules = (
    ((refitting,), "MOST_SCALE", 5.0, 20.0),
    ((trimmed,), "USUAL_ENTRIES", 10.0, 40.0),
    ((trimmed,), "HUBER", 0.4, 0.8),
)


@contextmanager
def changed(modules: tuple[Any, ...], name: str, value: float) -> Iterator[None]:
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def errors_with(
    error: Callable[..., float], settings: Any, of_settings: OfSettings, of_modules: OfModules
) -> Iterator[tuple[str, float]]:
    """The error with the constants as they are, then with each of them smaller and larger."""
    yield NONE, error()
    for name, *values in of_settings:
        for value in values:
            yield f"{name} = {value:g}", error(replace(settings, **{name: value}))
    for modules, name, *others in of_modules:
        for value in others:
            with changed(modules, name, value):
                yield f"{name} = {value:g}", error()


def of_auto(case: Case, settings: descent.DescentSettings = descent.SETTINGS) -> tuple[rw.Decomposition, Any]:
    source = open_source(case.data, None, 1)
    weights = descent.noise_weights(source, np.random.default_rng(0), settings=settings)
    return rw.decompose(source, lambdas=weights, tol=2e-3, max_seconds=20, rng=0), source


def errors_of_auto(case: Case) -> Iterator[tuple[str, float]]:
    def error(settings: descent.DescentSettings = descent.SETTINGS) -> float:
        return case.error(np.asarray(of_auto(case, settings)[0].low_rank))

    return errors_with(error, descent.SETTINGS, OF_DESCENT, OF_NOISE)


def errors_of_refit(case: Case) -> Iterator[tuple[str, float]]:
    fit, source = of_auto(case)
    assert fit.lambdas is not None
    low_rank, weight = source.as_solver_sees(fit.low_rank), fit.lambdas[0]

    def error(settings: refitting.RefitSettings = refitting.DEFAULT) -> float:
        found = refitting.refit(source, low_rank, weight, settings)
        return case.error(np.asarray(source.as_user_sees(found.low_rank)))

    return errors_with(error, refitting.DEFAULT, OF_REFIT, OF_TRIMMING)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--settings", type=int, nargs=2, default=(1, len(SETTINGS)), metavar=("FIRST", "LAST")
    )
    parser.add_argument("--saved", action="store_true", help="the tables of all rows that were saved")
    options = parser.parse_args()
    if options.saved:
        rows = [
            row
            for path in FOLDER.glob("weights_constants_*.json")
            for row in json.loads(path.read_text())["rows"]
        ]
    else:
        rows = measured(options)
    for what in ("auto", "refit"):
        mine = [row for row in rows if row["what"] == what]
        print(f"{what}, {len({(row['setting'], row['seed']) for row in mine})} tables")
        print(report(mine))


def measured(options: argparse.Namespace) -> list[Row]:
    first, last = options.settings
    results = Results(f"weights_constants_{options.seed}_{first}_to_{last}", vars(options))
    for number, setting in enumerate(SETTINGS[first - 1 : last], first):
        if setting.rows * setting.columns > 10**6:
            continue
        case = make(setting, options.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for what, errors in (("auto", errors_of_auto(case)), ("refit", errors_of_refit(case))):
                for name, error in errors:
                    results.add(
                        {
                            "what": what,
                            "setting": number,
                            "seed": options.seed,
                            "changed": name,
                            "error": error,
                        }
                    )
    return results.rows


def report(rows: list[Row]) -> str:
    """Each change over the present constants, and what leave-one-out chooses."""
    places = sorted({(row["setting"], row["seed"]) for row in rows})
    names = list(dict.fromkeys(row["changed"] for row in rows))
    found = {(row["setting"], row["seed"], row["changed"]): max(row["error"], 1e-9) for row in rows}
    logs = np.array([[np.log(found[(*place, name)]) for place in places] for name in names])
    relative: Array = logs - logs[names.index(NONE)]
    settings = np.array([setting for setting, _ in places])
    lines = [
        (name, f"{np.exp(line.mean()):.3f}", f"{np.exp(line.max()):.2f}", f"{np.exp(line.min()):.2f}")
        for name, line in zip(names, relative, strict=True)
        if name != NONE
    ]
    left_out, choices = [], []
    for setting in np.unique(settings):
        best = int(np.argmin(relative[:, settings != setting].mean(axis=1)))
        choices.append(names[best])
        left_out.extend(relative[best, settings == setting])
    chosen = ", ".join(f"{name} ({choices.count(name)})" for name in dict.fromkeys(choices))
    return "\n".join([
        table(("changed", "mean", "worst", "best"), lines),
        f"leave-one-out: {np.exp(np.mean(left_out)):.3f} of the present error, "
        f"at worst {np.exp(np.max(left_out)):.2f}; chosen: {chosen}",
        "",
    ])  # fmt: skip


if __name__ == "__main__":
    main()
