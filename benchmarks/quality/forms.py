"""Random problems of every form, drawn widely: is there an answer, is it feasible, is it certified, how soon?

``python -m benchmarks forms --count 300`` draws so many problems for each form and kind of data: 1 × 1 to 400 × 300,
scales 1e-8 to 1e8, 0 to 95 % missing, rank 0 to half of the shorter side, several types. The tests run a hundred of
each form (``tests/test_forms.py``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import rankwolf as rw
from rankwolf.sensing import Gaussian, PartialDCT, PartialFourier, Sensing

FORMS = ("weights", "radii", "noise", "pursuit")
KINDS = ("entries", "rows", "columns", "limits", "orthonormal", "gaussian", "complex")
TYPES = (np.uint8, np.float32, np.float64, np.float64)


@dataclass(frozen=True)
class Drawn:
    """A problem: the arguments of ``decompose`` or ``recover``, and what its constraints are checked with."""

    form: str
    kind: str
    arguments: dict[str, Any]
    data: np.ndarray[Any, Any]
    missing: float
    operator: Sensing | None = None

    @property
    def allowed_iterations(self) -> int:
        """300, and 600 with more than 90 % missing."""
        return 600 if self.missing > 0.9 else 300

    def solve(self, **more: Any) -> Any:
        """The answer, without warnings."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.operator is None:
                return rw.decompose(self.data, **self.arguments, **more)
            return rw.recover(self.data, self.operator, **self.arguments, **more)

    def violation(self, fit: Any) -> float:
        """By which share the answer breaks a constraint; 0 where it breaks none by more than rounding."""
        L, S = np.asarray(fit.low_rank), np.asarray(fit.sparse)
        if "radii" in self.arguments:
            tau_L, tau_S = self.arguments["radii"]
            axis = {"rows": 1, "columns": 0}.get(self.kind)
            size = np.sum(np.abs(S)) if axis is None else np.sum(np.linalg.norm(S, axis=axis))
            return float(max(np.linalg.norm(L, "nuc") / tau_L, size / tau_S)) - 1.0
        if "noise" in self.arguments:
            epsilon, scale = self.arguments["noise"], self.size
            return float(max(self.misfit(L + S) - epsilon, 0.0) / max(epsilon, 1e-3 * scale, 1e-300))
        return 0.0

    @property
    def size(self) -> float:
        """‖P_Ω M‖_F or ‖b‖."""
        return float(np.linalg.norm(np.nan_to_num(self.data.astype(complex))))

    def misfit(self, total: np.ndarray[Any, Any]) -> float:
        """‖P_Ω(L + S − M)‖_F, with limits the distance from them, or ‖b − A[L + S]‖."""
        if self.operator is not None:
            return float(np.linalg.norm(self.data - self.operator.apply(total)))
        rest = np.nan_to_num(self.data.astype(np.float64) - total)
        if "limits" in self.arguments:
            high = self.arguments["limits"][1]
            over = np.where(np.isnan(self.data) & ~np.isnan(high), np.maximum(total - high, 0.0), 0.0)
            rest = rest + np.nan_to_num(over)
        return float(np.linalg.norm(rest))


def draw(form: str, kind: str, seed: int, largest: tuple[int, int] = (400, 300)) -> Drawn:
    """A random problem of this form on this kind of data."""
    rng = np.random.default_rng([FORMS.index(form), KINDS.index(kind), seed])
    measured = kind in ("orthonormal", "gaussian", "complex")
    sides = (25, 25) if kind == "gaussian" else (90, 70) if measured else largest
    m, n = (max(1, round(side ** rng.uniform(0.0, 1.0))) for side in sides)
    rank = int(rng.integers(0, min(m, n) // 2 + 1))
    M = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    spread = max(float(np.std(M)), 0.1)
    spoiled = rng.random((m, n)) < rng.choice([0.0, 0.02, 0.1, 0.3])
    M = M + rng.choice([0.0, 0.01, 0.1]) * spread * rng.standard_normal((m, n))
    M[spoiled] += 5.0 * spread * rng.standard_normal(int(spoiled.sum()))
    M[0, 0] = M[0, 0] or spread
    scale = 10.0 ** rng.integers(-8, 9)
    if measured:
        return _draw_measured(form, kind, scale * M, rng)
    missing = float(rng.choice([0.0, 0.0, 0.3, 0.7, 0.9, 0.95]))
    dtype = TYPES[int(rng.integers(len(TYPES)))]
    X = np.asarray(scale * M)
    arguments: dict[str, Any] = {}
    if dtype == np.uint8 and kind == "entries" and missing == 0.0:
        X = np.clip(128.0 + 40.0 * M / spread, 0, 255).astype(np.uint8)
    elif dtype == np.float32:
        X = X.astype(np.float32)
    if missing:
        hidden = rng.random((m, n)) < missing
        hidden.flat[int(rng.integers(m * n))] = False
        X[hidden & ~_only(hidden)] = np.nan
    if kind in ("rows", "columns"):
        arguments["sparse"] = kind
    if kind == "limits":
        level = float(np.nanquantile(X, 0.2))
        below = level > X
        if below.any() and not below.all():
            high = np.where(below, level, np.nan)
            X[below] = np.nan
            arguments["limits"] = (None, high)
            if np.isnan(X).all():
                X[0, 0] = level
    seen = np.nan_to_num(X.astype(np.float64))
    observed = ~np.isnan(X.astype(np.float64))
    arguments |= _numbers(form, seen, float(observed.mean()), arguments.get("sparse"), rng)
    return Drawn(form, kind, arguments, X, missing)


def _only(hidden: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """True at one place if all are hidden: something must be observed."""
    kept = np.zeros_like(hidden)
    kept.flat[0] = bool(hidden.all())
    return kept


def _draw_measured(form: str, kind: str, M: np.ndarray[Any, Any], rng: np.random.Generator) -> Drawn:
    m, n = M.shape
    size = max(1, round(rng.uniform(0.05 if kind == "complex" else 0.3, 1.0) * m * n))
    seed = int(rng.integers(2**31))
    operator: Sensing
    if kind == "gaussian":
        operator = Gaussian(size, (m, n), seed=seed)
    elif kind == "orthonormal":
        operator = PartialDCT.random(size, (m, n), seed=seed)
    else:
        M = M + 1j * np.roll(M, 1, axis=0)
        operator = PartialFourier.random(size, m, (n, 1), seed=seed)
    b = operator.apply(M)
    more = {"dtype": complex} if kind == "complex" else {}
    norm = float(operator.norm or 1.0)
    back = operator.adjoint(b) if kind == "complex" else operator.adjoint(b).real
    numbers = _numbers(form, back / norm**2, size / (m * n), None, rng)
    if "lambdas" in numbers:
        numbers["lambdas"] = tuple(norm**2 * x for x in numbers["lambdas"])
    if "noise" in numbers:
        share = 0.0 if form == "pursuit" else 10.0 ** rng.uniform(-4.0, -0.5)
        numbers = {"noise": share * float(np.linalg.norm(b))}
    return Drawn(form, kind, {**numbers, **more}, b, 1.0 - size / (m * n), operator)


def _numbers(
    form: str, M: np.ndarray[Any, Any], share: float, lines: str | None, rng: np.random.Generator
) -> dict[str, Any]:
    norm = float(np.linalg.norm(M)) or 1.0
    axis = {"rows": 1, "columns": 0}.get(lines or "")
    size = float(np.sum(np.abs(M)) if axis is None else np.sum(np.linalg.norm(M, axis=axis))) or 1.0
    if form == "weights":
        delta = 10.0 ** rng.uniform(-5.0, -1.5)
        length = 1.0 if axis is None else M.shape[axis] ** 0.5
        return {"lambdas": (delta * share * norm, delta * share**0.5 * norm * length / max(M.shape) ** 0.5)}
    if form == "radii":
        nuclear = float(np.linalg.norm(M, "nuc")) or 1.0
        return {"radii": (rng.uniform(0.05, 1.0) * nuclear, rng.uniform(0.02, 0.5) * size)}
    return {"noise": 0.0 if form == "pursuit" else 10.0 ** rng.uniform(-4.0, -0.5) * norm}


def main() -> None:
    """Print a table: form, kind, how many were certified in time, the slowest, violations and crashes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks forms", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--forms", nargs="*", default=FORMS, choices=FORMS)
    parser.add_argument("--method", default="auto")
    parser.add_argument(
        "--show", action="store_true", help="print the problems that were not certified in time"
    )
    given = parser.parse_args()
    print(
        f"{'form':8} {'data':12} {'certified':>10} {'median':>7} {'99 %':>6} {'broken':>7} {'crashed':>8} {'s':>7}"
    )
    for form in given.forms:
        for kind in given.kinds:
            _row(form, kind, given)


def _row(form: str, kind: str, given: argparse.Namespace) -> None:
    counts, broken, crashed, late, began = [], 0, 0, 0, time.process_time()
    for seed in range(given.count):
        problem = draw(form, kind, seed)
        try:
            fit = problem.solve(method=given.method)
        except Exception as error:
            crashed += 1
            print(f"  {form} {kind} {seed}: {type(error).__name__}: {error}")
            continue
        counts.append(fit.iterations)
        bad = problem.violation(fit)
        broken += bad > 1e-8
        in_time = fit.relative_gap <= 1e-3 and fit.iterations <= problem.allowed_iterations
        late += not in_time
        if given.show and (not in_time or bad > 1e-8):
            print(
                f"  {form} {kind} {seed}: {fit.low_rank.shape} {problem.missing} {fit.method} {fit.iterations} "
                f"gap {fit.relative_gap:.1e} {fit.status.name} violation {bad:.1e}"
            )
    done = given.count - late - crashed
    print(
        f"{form:8} {kind:12} {done:6}/{given.count} {np.median(counts):7.0f} {np.quantile(counts, 0.99):6.0f} "
        f"{broken:7} {crashed:8} {time.process_time() - began:7.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
