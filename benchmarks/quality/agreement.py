"""Three ways to the same optimum: CVXPY's interior point, FISTA to a gap of 1e-9, and ours to 1e-8, in float64.

Objectives are the judge's; CVXPY's is its own. The last row is one problem drawn a hundred times, ours seeded alike.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.data import Array, observed
from benchmarks.harness.experiment import Session, number, verdict
from benchmarks.harness.judge import Judge, paper_weights
from benchmarks.harness.results import Row, table

NAME = "agreement"
TITLE = "Agreement with independent optima"
AIM = 1e-6
SHAPES = ((24, 15, 1.0), (15, 24, 1.0), (24, 15, 0.6), (15, 24, 0.6), (28, 20, 0.8), (20, 20, 1.0))
SEEDED = (24, 15, 0.6)


def measure(session: Session) -> None:
    options = session.options
    this = "benchmarks.quality.agreement:"
    for m, n, rho in SHAPES:
        session.call(this + "against_cvxpy", m=m, n=n, rho=rho, method=options.ours, seed=options.seed)
    count = 100 if options.full else 20
    session.call(this + "over_seeds", count=count, method=options.ours, hard_limit=1800.0)


def problem(m: int, n: int, rho: float, seed: int) -> tuple[Array, tuple[float, float]]:
    """Rank 3, a tenth of the entries hit, a little noise; NaN where not observed."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((m, 3)) @ rng.standard_normal((3, n)) + 0.05 * rng.standard_normal((m, n))
    matrix += (rng.random((m, n)) < 0.1) * rng.uniform(-8.0, 8.0, (m, n))
    mask = observed((m, n), rho, seed)
    if mask is not None:
        matrix[~mask] = np.nan
    return matrix, paper_weights(matrix, None, 0.03)


def optimum(matrix: Array, weights: tuple[float, float], method: str, tol: float, seed: int) -> Row:
    """Solve, and have the answer judged."""
    fit = rw.decompose(
        matrix, lambdas=weights, method=method, tol=tol, max_iter=50_000, rng=seed, n_threads=1
    )
    verdict_ = Judge(matrix, None, weights).judge(*fit.low_rank.factors())
    return {"objective": verdict_.objective, "gap": verdict_.relative_gap, "status": fit.status.name}


def against_cvxpy(m: int, n: int, rho: float, method: str, seed: int) -> Row:
    cvxpy: Any = import_module("cvxpy")

    matrix, weights = problem(m, n, rho, seed)
    seen = np.isfinite(matrix)
    L, S = cvxpy.Variable((m, n)), cvxpy.Variable((m, n))
    misfit = cvxpy.multiply(seen.astype(float), L + S - np.where(seen, matrix, 0.0))
    value = (
        0.5 * cvxpy.sum_squares(misfit) + weights[0] * cvxpy.normNuc(L) + weights[1] * cvxpy.sum(cvxpy.abs(S))
    )
    task = cvxpy.Problem(cvxpy.Minimize(value))
    task.solve(solver=cvxpy.CLARABEL)
    ours = optimum(matrix, weights, method, 1e-8, seed)
    fista = optimum(matrix, weights, "fista", 1e-9, seed)
    return {
        "shape": [m, n], "rho": rho, "ours": ours, "fista": fista, "cvxpy": float(task.value),
        "to_cvxpy": abs(ours["objective"] - task.value) / task.value,
        "to_fista": abs(ours["objective"] - fista["objective"]) / fista["objective"],
    }  # fmt: skip


def over_seeds(count: int, method: str) -> Row:
    differences, gaps = [], []
    for seed in range(count):
        matrix, weights = problem(*SEEDED, seed)
        ours = optimum(matrix, weights, method, 1e-8, seed)
        fista = optimum(matrix, weights, "fista", 1e-9, seed)
        differences.append(abs(ours["objective"] - fista["objective"]) / fista["objective"])
        gaps.append(ours["gap"])
    worst: Any = int(np.argmax(differences))
    return {
        "shape": list(SEEDED[:2]), "rho": SEEDED[2], "seeds": count, "to_fista": max(differences), "worst_seed": worst,
        "ours": {"gap": max(gaps)},
    }  # fmt: skip


def report(rows: list[Row], settings: Row) -> str:
    lines = []
    for row in rows:
        if "failure" in row:
            lines.append([row["failure"]])
            continue
        name = f"{row['shape'][0]} × {row['shape'][1]}" + (
            f", seeds 0–{row['seeds'] - 1}" if "seeds" in row else ""
        )
        to_cvxpy = verdict(row["to_cvxpy"], AIM) if "to_cvxpy" in row else "–"
        lines.append([
            name, f"{row['rho']:.1f}", to_cvxpy, verdict(row["to_fista"], AIM), number(row["ours"]["gap"], 2),
        ])  # fmt: skip
    return table(
        ["problem", "ρ", "from CVXPY, relative", "from FISTA, relative", "judge's gap of ours"], lines
    )
