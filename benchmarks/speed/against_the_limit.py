"""How far a pass is from what the machine can do with the same data, measured in the same process.

(a) reading the matrix once: every thread adds up its share of the bytes. (b) the matrix products of a pass alone: BLAS
on tiles that stay in cache, one thread a tile. A pass of ours is compared with the larger of the two; an iteration of
FW-T with the bytes that its passes have to move, at the speed of (a).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import datasets
from benchmarks.data import Array
from benchmarks.harness.experiment import Session, number, verdict
from benchmarks.harness.results import Row, table
from rankwolf.data import InMemory, Task
from rankwolf.problem import Penalized
from rankwolf.solvers import SOLVERS

NAME = "against_the_limit"
TITLE = "Against the limit of the machine"
AIM = 2.0
# Bytes that a pass of FW-T moves, in (matrices as stored, residuals in float32): read or written.
FW_T_TRAFFIC = {"MoveResidual": (1, 2), "AlignAtom": (1, 1), "MultiplyResidual": (0, 1)}
# The pass of the hybrid, and its matrix products with a tile of t rows as (rows, inner side, columns), n columns of the
# matrix, rank r and k columns of the basis: U twice and for momentum; L, its gradient and L again; GQ; B; and the sums
# BᵀB, GᵀB and their like. As in rankwolf.solvers.hybrid.HybridPass.
HYBRID_PASS = "HybridPass"
HYBRID_PRODUCTS = ("tkr", "tkr", "trr", "trn", "tnr", "trn", "tnk", "trk", "ktk", "ktk", "ntk", "rtk", "rtr")


def measure(session: Session) -> None:
    large = {"height": 144, "width": 176, "frames": 4000}
    cases: list[tuple[str, Row]] = [("lobby", {"dtype": "float32"}), ("lobby", {"dtype": "uint8"})]
    if session.options.full:
        cases += [("scene", {**large, "dtype": "float32"}), ("scene", {**large, "dtype": "uint8"})]
    for dataset, parameters in cases:
        for method in (session.options.ours, "fw-t"):
            if method == "fw-t" and parameters["dtype"] != "float32":
                continue
            session.call(
                "benchmarks.speed.against_the_limit:compare", dataset=dataset, parameters=parameters,
                method=method, threads=session.options.threads, seed=session.options.seed,
            )  # fmt: skip


class TimedSource(InMemory):
    """A source that notes how long each pass took."""

    def __init__(self, data: Array, observed: Array | None, n_threads: int) -> None:
        self.log: list[tuple[str, float]] = []
        super().__init__(data, observed, n_threads)

    def run_with_rows(self, task: Task[Any], *rows: Any) -> Any:
        started = time.perf_counter()
        found = super().run_with_rows(task, *rows)
        self.log.append((type(task).__name__, time.perf_counter() - started))
        return found


def compare(dataset: str, parameters: Row, method: str, threads: int, seed: int, steps: int = 14) -> Row:
    """One case: the limits, ``steps`` iterations, the ratio."""
    data = datasets.load(dataset, seed=seed, **parameters)
    solver, problem = SOLVERS[method](), Penalized(*data.weights)
    source = TimedSource(data.matrix, data.observed, threads)
    iterations: list[tuple[float, list[tuple[str, float]]]] = []
    rank = 0
    with source.one_blas_thread():
        state = solver.init(problem, source, np.random.default_rng(seed))
        for _ in range(steps):
            source.log.clear()
            started = time.perf_counter()
            state = solver.step(problem, source, state)
            iterations.append((time.perf_counter() - started, list(source.log)))
            rank = solver.report(problem, state).rank
        # The limits come last: by now the kernels are compiled and the pages are there.
        read = reading_seconds(data.matrix, threads)
        row: Row = {"method": method, "dataset": dataset, "parameters": parameters, "rank": rank, "read_seconds": read,
                    "matrix_bytes": data.matrix.nbytes, "gb_per_second": data.matrix.nbytes / read / 1e9}  # fmt: skip
        later = iterations[4:]
        if method == "fw-t":
            return {**row, **_fw_t_row(data.matrix, later, read)}
        return {**row, **_hybrid_row(source, later, read, rank, state.basis.shape[1], threads)}


def _fw_t_row(matrix: Array, iterations: list[tuple[float, list[tuple[str, float]]]], read: float) -> Row:
    residual = 4.0 / matrix.dtype.itemsize  # in matrices as stored
    limits = [
        read * sum(FW_T_TRAFFIC[name][0] + residual * FW_T_TRAFFIC[name][1] for name, _ in passes)
        for _, passes in iterations
    ]
    seconds = [elapsed for elapsed, _ in iterations]
    ratios = [elapsed / limit for elapsed, limit in zip(seconds, limits, strict=True)]
    return {
        "seconds": median(seconds),
        "limit_seconds": median(limits),
        "ratio": median(ratios),
        "products_seconds": None,
    }


def _hybrid_row(
    source: InMemory, iterations: list[tuple[float, list[tuple[str, float]]]], read: float, rank: int, basis: int,
    threads: int,
) -> Row:  # fmt: skip
    passes = [elapsed for _, log in iterations for name, elapsed in log if name == HYBRID_PASS]
    products = products_seconds(source, HYBRID_PRODUCTS, {"r": rank, "k": basis}, threads)
    limit = max(read, products)
    between = median(elapsed - sum(part for _, part in log) for elapsed, log in iterations)
    return {"seconds": median(passes), "products_seconds": products, "limit_seconds": limit, "basis": basis,
            "ratio": median(passes) / limit, "between_passes_seconds": between}  # fmt: skip


def reading_seconds(matrix: Array, threads: int) -> float:
    """The least time in which ``threads`` threads add up all bytes, eight at a time; the tail that is no multiple of
    eight is left out."""
    flat = matrix.reshape(-1).view(np.uint8)
    words = flat[: flat.size // 8 * 8].view(np.uint64)
    parts = np.array_split(words, 64 * threads)
    return _best(lambda pool: list(pool.map(np.add.reduce, parts)), threads)


def products_seconds(
    source: InMemory, products: Sequence[str], widths: dict[str, int], threads: int
) -> float:
    """The least time of the products of all tiles, each thread working on a tile of its own that never changes."""
    depth = widths["k"]  # tiles of a pass get taller with the factors
    tiles = len(source.tiles(depth))
    sizes = {**widths, "n": source.shape[1], "t": source.tile_rows(depth)}
    rng = np.random.default_rng(0)

    def random(rows: int, columns: int) -> Array:
        return rng.standard_normal((rows, columns)).astype(source.dtype)

    def arrays() -> list[tuple[Array, Array, Array]]:
        made = []
        for product in products:
            rows, inner, columns = (sizes[letter] for letter in product)
            # What is summed over the tile's rows is stored by rows, and multiplied as its transpose.
            left = random(inner, rows).T if product[1] == "t" else random(rows, inner)
            made.append((left, random(inner, columns), np.empty((rows, columns), source.dtype)))
        return made

    shares = [(arrays(), tiles // threads + (worker < tiles % threads)) for worker in range(threads)]

    def work(share: tuple[list[tuple[Array, Array, Array]], int]) -> None:
        for _ in range(share[1]):
            for a, b, out in share[0]:
                np.matmul(a, b, out=out)

    with threadpool_limits(1, user_api="blas"):
        return _best(lambda pool: list(pool.map(work, shares)), threads)


def _best(work: Callable[[ThreadPoolExecutor], object], threads: int, repeats: int = 7) -> float:
    times = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(repeats):
            started = time.perf_counter()
            work(pool)
            times.append(time.perf_counter() - started)
    return min(times)


def report(rows: list[Row], settings: Row) -> str:
    lines = []
    for row in rows:
        if "failure" in row:
            lines.append([row["failure"]])
            continue
        what = "iteration" if row["method"] == "fw-t" else "pass"
        lines.append([
            f"{row['dataset']}, {row['parameters']['dtype']}", f"{row['method']} {what}", str(row["rank"]),
            number(1e3 * row["seconds"]), number(1e3 * row["read_seconds"]), number(row["gb_per_second"]),
            "–" if row["products_seconds"] is None else number(1e3 * row["products_seconds"]),
            verdict(row["ratio"], AIM),
        ])  # fmt: skip
    header = [
        "data",
        "what",
        "rank",
        "ms",
        "(a) one read, ms",
        "GB/s",
        "(b) BLAS alone, ms",
        "over the limit",
    ]
    return table(header, lines)
