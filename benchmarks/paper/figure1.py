"""Figure 1: plain Frank-Wolfe against FW-P on 1000 × 1000 synthetic data, ``python -m benchmarks figure1``.

M = L₀ + S₀ + noise with rank(L₀) = 5 and 1 % of S₀ not zero; the radii are the true norms. The curves are
log₁₀ of the relative errors of L and S against the iteration number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import FOLDER, Results
from rankwolf.data import InMemory
from rankwolf.oracles import l1
from rankwolf.problem import Constrained, Problem
from rankwolf.solvers import FrankWolfe, FrankWolfeProjection, Solver

CONTESTANTS: tuple[Solver[Any, Any], ...] = (FrankWolfe(), FrankWolfeProjection())


def synthetic(size: int, rank: int, seed: int) -> tuple[Array, Array, Array]:
    """(M, L₀, S₀), as the figure's caption has it."""
    rng = np.random.default_rng(seed)
    low_rank = rng.standard_normal((size, rank)) @ rng.standard_normal((rank, size))
    sparse = 100.0 * rng.standard_normal((size, size)) * (rng.random((size, size)) < 0.01)
    return low_rank + sparse + rng.standard_normal((size, size)), low_rank, sparse


def errors(
    solver: Solver[Any, Any], problem: Problem, truth: tuple[Array, Array, Array], marks: Array
) -> Iterator[dict[str, Any]]:
    """The two relative errors after each iteration in ``marks``."""
    M, L_0, S_0 = truth
    source = InMemory(M, None, n_threads=2)
    with source.one_blas_thread():
        state = solver.init(problem, source, np.random.default_rng(0))
        for k in range(1, int(marks[-1]) + 1):
            state = solver.step(problem, source, state)
            if k not in marks:
                continue
            solution = solver.solution(problem, source, state)
            L = np.asarray(solution.low_rank)
            stored = solution.sparse
            S = l1.soft_threshold(M - L, solution.threshold) if stored is None else stored.toarray()
            yield {
                "method": solver.name, "iteration": k, "objective": solver.report(problem, state).objective,
                "error_L": float(np.linalg.norm(L - L_0) / np.linalg.norm(L_0)),
                "error_S": float(np.linalg.norm(S - S_0) / np.linalg.norm(S_0)),
            }  # fmt: skip


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, part, symbol in zip(axes, ("error_L", "error_S"), "LS", strict=True):
        for name, style in (("fw", "--"), ("fw-p", "-")):
            points = [(row["iteration"], row[part]) for row in rows if row["method"] == name]
            iterations, values = zip(*points, strict=True)
            axis.plot(iterations, np.log10(values), style, label=name.upper())
        axis.set_xlabel("iteration $k$")
        axis.set_ylabel(rf"$\log_{{10}}\,\Vert {symbol}^k - {symbol}_0\Vert_F / \Vert {symbol}_0\Vert_F$")
        axis.grid(alpha=0.3)
        axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=FOLDER / "figure1.png")
    options = parser.parse_args()
    truth = synthetic(options.size, options.rank, options.seed)
    radii = float(np.sum(np.linalg.svd(truth[1], compute_uv=False))), float(np.sum(np.abs(truth[2])))
    marks = np.unique(np.geomspace(1, options.iterations, 80).round().astype(int))
    results = Results("figure1", {**vars(options), "output": None}, options.output.with_suffix(".json"))
    for solver in CONTESTANTS:
        for row in errors(solver, Constrained(*radii), truth, marks):
            results.add(row)
        last = results.rows[-1]
        print(f"{solver.name}: after {last['iteration']} iterations the error of L is {last['error_L']:.3f}, "
              f"of S {last['error_S']:.3f}")  # fmt: skip
    draw(results.rows, options.output)
    print(f"{options.output}")


if __name__ == "__main__":
    main()
