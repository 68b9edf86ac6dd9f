"""``partial_fit`` in 20 batches against ``fit`` on all rows: ``python -m benchmarks partial_fit``, below a minute.

Data with known truth: rank 5 in 100 columns, noise 0.2, 5 % gross outliers, 20 % missing, 20,000 rows. Reported: the
largest angle between the true components and those found, the relative error of the rows that the model gives back,
time, and what the model holds after 1, 5, 10 and 20 batches (its pickle) with the memory that is traced.
"""

from __future__ import annotations

import pickle
import time
import tracemalloc

import numpy as np
from scipy.linalg import subspace_angles

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table

RANK, COLUMNS, NOISE, OUTLIERS, MISSING = 5, 100, 0.2, 0.05, 0.2


def make(rows: int, seed: int) -> tuple[Array, Array, Array]:
    """(data, truth, components)."""
    rng = np.random.default_rng(seed)
    right = rng.standard_normal((RANK, COLUMNS))
    truth = rng.standard_normal((rows, RANK)) @ right + rng.standard_normal(COLUMNS)
    data = truth + NOISE * rng.standard_normal(truth.shape)
    spoiled = rng.random(data.shape) < OUTLIERS
    data[spoiled] += rng.uniform(-20.0, 20.0, np.count_nonzero(spoiled))
    data[rng.random(data.shape) < MISSING] = np.nan
    return data, truth, right


def judge(model: rw.RobustPCA, data: Array, truth: Array, right: Array) -> dict[str, float]:
    fitted = model.inverse_transform(model.transform(data))
    return {
        "components": model.n_components_,
        "angle": float(np.degrees(subspace_angles(right.T, model.components_[:RANK].T)[0])),
        "error": float(np.linalg.norm(fitted - truth) / np.linalg.norm(truth)),
    }


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=20)
    options = parser.parse_args()
    data, truth, right = make(options.rows, 0)
    rw.RobustPCA(random_state=0).fit(data[:200]).partial_fit(data[:200])  # compiles the kernels
    results = Results("partial_fit", vars(options))
    batches = np.array_split(data, options.batches)

    started = time.perf_counter()
    whole = rw.RobustPCA(random_state=0).fit(data)
    results.add({"how": "fit", "seconds": time.perf_counter() - started, **judge(whole, data, truth, right)})
    angle = 0.0
    stream, started = rw.RobustPCA(random_state=0), time.perf_counter()
    for batch in batches:
        stream.partial_fit(batch)
    seconds = time.perf_counter() - started
    angle = float(np.degrees(subspace_angles(whole.components_[:RANK].T, stream.components_[:RANK].T)[0]))
    results.add({
        "how": f"partial_fit, {len(batches)} batches", "seconds": seconds, **judge(stream, data, truth, right),
        "angle_to_fit": angle,
    })  # fmt: skip
    first = rw.RobustPCA(random_state=0).fit(batches[0])
    results.add({"how": "fit on the first batch", "seconds": None, **judge(first, data, truth, right)})
    lines = [
        (
            row["how"], str(row["components"]), f"{row['angle']:.2f}°", f"{row['error']:.4f}",
            "–" if row["seconds"] is None else f"{row['seconds']:.1f}",
        )
        for row in results.rows
    ]  # fmt: skip
    print(table(("how", "components", "angle to the truth", "error of rows", "seconds"), lines))
    print(f"angle between the two: {angle:.2f}°")
    print(memory(batches))


def memory(batches: list[Array]) -> str:
    """After some of the batches: bytes of the model, and bytes that Python and NumPy hold more than before."""
    model, lines = rw.RobustPCA(random_state=0), []
    tracemalloc.start()
    for number, batch in enumerate(batches, 1):
        model.partial_fit(batch)
        if number in (1, 5, 10, len(batches)):
            held = tracemalloc.get_traced_memory()[0]
            lines.append((str(number), f"{len(pickle.dumps(model)) / 1e3:.0f}", f"{held / 1e3:.0f}"))
    tracemalloc.stop()
    return table(("batches", "model, kB", "traced, kB"), lines)


if __name__ == "__main__":
    main()
