"""The paper's Figure 2: time of an iteration against the number of frames, on a rendered scene of 160 × 128 pixels."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.harness.experiment import Session, number, verdict
from benchmarks.harness.results import Row, table
from benchmarks.harness.worker import RunSpec

NAME = "scaling"
TITLE = "Scaling"
FRAMES = (250, 500, 1000, 2000, 4000, 8000)
AIM_SLOPE = 1.1


def measure(session: Session) -> None:
    ours, full = session.options.ours, session.options.full
    for frames in FRAMES if full else FRAMES[:4]:
        parameters = {"height": 128, "width": 160, "frames": frames, "dtype": "float32", "delta": None}
        for name, iterations in ((ours, 15), ("fw-t", 15), ("fista", 5), ("ista", 5)):
            if iterations == 5 and frames > (2000 if full else 1000):
                continue  # n × n eigenproblems: many minutes for a point of a curve that bends upwards by now
            spec = RunSpec(
                name, "scene", parameters, "iterations", iterations, max_seconds=900.0, certify=False
            )
            session.run(spec, frames=frames)


def per_iteration(row: Row) -> float | None:
    """The median over the iterations after the first two, which hold the start-up."""
    return median(row["iteration_seconds"][2:]) if "failure" not in row else None


def _curves(rows: list[Row]) -> dict[str, list[tuple[int, float]]]:
    curves: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        seconds = per_iteration(row)
        if seconds is not None:
            curves.setdefault(row["contestant"], []).append((row["frames"], seconds))
    return curves


def slope(points: list[tuple[int, float]]) -> float | None:
    """Of the least-squares line through the points on logarithmic axes."""
    if len(points) < 2:
        return None
    frames, seconds = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(frames, seconds, 1)[0])


def report(rows: list[Row], settings: Row) -> str:
    curves = _curves(rows)
    frames = sorted({row["frames"] for row in rows})
    lines = []
    for name, points in curves.items():
        times, rate = dict(points), slope(points)
        shown = verdict(rate, AIM_SLOPE) if name in (settings["ours"], "fw-t") else number(rate)
        lines.append([name, *(number(times.get(count)) for count in frames), shown])
    failures = [
        f"{row['contestant']}, {row['frames']} frames: {row['failure']}." for row in rows if "failure" in row
    ]
    head = table(["seconds an iteration", *(f"{count} frames" for count in frames), "slope"], lines)
    return "\n\n".join([head, *failures])


def draw(rows: list[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4.2), layout="constrained")
    for (name, points), marker in zip(_curves(rows).items(), "osv^Dx", strict=False):
        rate = slope(points)
        label = name if rate is None else f"{name} (slope {rate:.2f})"
        axis.loglog(*zip(*points, strict=True), marker=marker, label=label)
    frames = sorted({row["frames"] for row in rows})
    axis.set_xticks(frames, [str(count) for count in frames])
    axis.minorticks_off()
    axis.set_xlabel("frames of 160 × 128 pixels")
    axis.set_ylabel("seconds an iteration")
    axis.grid(alpha=0.3)
    axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
