"""The table of ``rankwolf demo``: sensors in mixed units, of which some readings are broken and some are missing."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array

# Name and unit of each sensor, its usual reading, how far it swings, and its noise.
SENSORS = (
    ("hall temperature, °C", 21.0, 2.5, 0.2),
    ("oven temperature, °C", 840.0, 45.0, 4.0),
    ("outside temperature, °F", 52.0, 14.0, 0.9),
    ("humidity, %", 47.0, 9.0, 0.8),
    ("pressure, hPa", 1013.0, 11.0, 0.5),
    ("power, kW", 320.0, 90.0, 6.0),
    ("current, A", 465.0, 130.0, 8.0),
    ("fan speed, 1/min", 1450.0, 210.0, 12.0),
    ("flow, m³/h", 8.4, 2.6, 0.12),
    ("vibration, mm/s", 2.1, 0.6, 0.05),
    ("filter loss, Pa", 130.0, 34.0, 3.0),
    ("CO₂, ppm", 610.0, 140.0, 15.0),
)
HOURS, BROKEN, MISSING = 480, 0.02, 0.06


@dataclass(frozen=True)
class Panel:
    """A table as it was read, and as it was before readings broke and went missing."""

    read: Array
    truth: Array
    broken: Array


def panel(seed: int) -> Panel:
    """Hours × sensors: days, weather and load drive all sensors together; 2 % are broken and 6 % are missing."""
    rng, hours = np.random.default_rng(seed), np.arange(HOURS)
    weather = np.cumsum(rng.standard_normal(HOURS))
    weather = (weather - weather.mean()) / weather.std()
    load = (np.sin(2 * np.pi * hours / 12) > 0) * 1.0 + 0.3 * rng.standard_normal(HOURS)
    causes = np.stack([np.sin(2 * np.pi * hours / 24), weather, load - load.mean()])
    usual, swing, noise = (np.array([sensor[k] for sensor in SENSORS]) for k in (1, 2, 3))
    shares = rng.dirichlet(np.ones(3), len(SENSORS)) ** 0.5 * rng.choice([-1.0, 1.0], (len(SENSORS), 3))
    truth = usual + swing * (causes.T @ shares.T) + noise * rng.standard_normal((HOURS, len(SENSORS)))
    broken = rng.random(truth.shape) < BROKEN
    far = rng.choice([-1.0, 1.0], truth.shape) * rng.uniform(2.0, 8.0, truth.shape)
    read = np.where(broken, truth + swing * far, truth)
    missing = rng.random(truth.shape) < MISSING
    return Panel(np.where(missing, np.nan, read), truth, broken & ~missing)


def repair(folder: Path, seed: int) -> tuple[dict[str, Any], list[str]]:
    """Write the panel, its repair and a list of what was broken into ``folder``; returns (summary, sentences)."""
    from rankwolf.factors.robust_pca import RobustPCA

    folder.mkdir()
    names = [sensor[0] for sensor in SENSORS]
    given = panel(seed)
    model = RobustPCA(random_state=seed).fit(given.read)
    found = np.abs(
        np.asarray(model.outliers_.todense() if hasattr(model.outliers_, "todense") else model.outliers_)
    )
    found = found > 0.0
    repaired = model.impute(given.read, outliers=True)
    replaced = found | np.isnan(given.read)
    spread = np.std(given.truth, axis=0)
    wrong = float(np.sqrt(np.mean((((repaired - given.truth) / spread)[replaced]) ** 2)))
    medians = np.nanmedian(given.read, axis=0)
    usual = float(np.sqrt(np.mean((((medians - given.truth) / spread)[replaced]) ** 2)))
    scores = model.score_cells(given.read)
    _write(folder / "sensors.csv", names, given.read)
    _write(folder / "repaired.csv", names, repaired)
    worst = sorted(zip(*np.nonzero(found), strict=True), key=lambda cell: -abs(scores[cell]))
    with (folder / "broken.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["hour", "sensor", "read", "expected", "deviations"])
        rows.writerows(
            [i, names[j], f"{given.read[i, j]:.6g}", f"{repaired[i, j]:.6g}", f"{scores[i, j]:.1f}"]
            for i, j in worst
        )
    draw(folder / "sensors.png", given, found, repaired)
    summary = {
        "readings": int(given.read.size),
        "missing": int(np.count_nonzero(np.isnan(given.read))),
        "broken": int(np.count_nonzero(given.broken)),
        "found": int(np.count_nonzero(found & given.broken)),
        "false_alarms": int(np.count_nonzero(found & ~given.broken)),
        "error_of_repair": wrong,
        "error_of_medians": usual,
    }
    i, j = worst[0] if worst else (0, 0)
    told = [
        f"{HOURS} hours of {len(names)} sensors in mixed units: {summary['broken']} readings are broken, "
        f"{summary['missing']} missing.",
        f"Found {summary['found']} of the broken ones; {summary['false_alarms']} others were called broken.",
        f"What replaces them is off by {wrong:.2f} of a sensor's usual spread (its median: {usual:.2f}).",
        f"The worst: hour {i}, {names[j]}: read {given.read[i, j]:.5g}, expected {repaired[i, j]:.5g}.",
    ]
    return summary, told


def _write(path: Path, names: list[str], table: Array) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["hour", *names])
        rows.writerows(
            [i, *("" if x != x else f"{x:.6g}" for x in row)] for i, row in enumerate(table.tolist())
        )


def draw(path: Path, given: Panel, found: Array, repaired: Array) -> None:
    """Two days of all sensors with what was found, and one sensor before and after."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [sensor[0] for sensor in SENSORS]
    figure = Figure(figsize=(11.0, 4.4), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    part = slice(0, 48)
    units = (given.read - np.nanmedian(given.read, axis=0)) / np.std(given.truth, axis=0)
    left.set_facecolor("#d9d9d9")
    left.imshow(units[part].T, aspect="auto", cmap="PuOr", vmin=-4, vmax=4, interpolation="nearest")
    hour, sensor = np.nonzero(found[part])
    left.scatter(
        hour, sensor, s=70, facecolors="none", edgecolors="black", linewidths=1.6, label="found broken"
    )
    left.set_yticks(range(len(names)), names, fontsize=8)
    left.set(xlabel="hour", title="as read: gray is missing, rings are found")
    j = int(np.argmax(np.count_nonzero(found[part], axis=0)))
    hours = np.arange(HOURS)[part]
    right.plot(hours, given.read[part, j], ".", color="#0072b2", label="read")
    right.plot(hours, repaired[part, j], "-", color="#009e73", lw=1.4, label="repaired")
    bad = found[part, j]
    right.plot(hours[bad], given.read[part, j][bad], "x", color="#d55e00", ms=9, mew=2, label="found broken")
    right.set(xlabel="hour", title=names[j])
    right.legend(fontsize=8, frameon=False)
    figure.savefig(path)
