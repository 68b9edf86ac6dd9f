"""Measurements as they are, or as coordinates of P_Q? ``python -m benchmarks projection_form``, half a minute.

M of 40 × 40 with rank 1 and 2 % gross errors, 900 Gaussian measurements, of one scale or of scales from 0.05 to 5,
exact or with 3 % of noise: the paper's problem (1.1) against (1.4) by ``orthonormalize``, both with default weights.
"""

from __future__ import annotations

from itertools import product

import numpy as np

import rankwolf as rw
from benchmarks.harness.options import options_of
from benchmarks.harness.results import table
from rankwolf.sensing import LinearSensing, orthonormalize

SIDE, SIZE = 40, 900
SCALES = {"even": np.ones(SIZE), "uneven": np.geomspace(0.05, 5.0, SIZE)}
NOISE = {"none": 0.0, "3 %": 0.03}


def main() -> None:
    options_of(__doc__).parse_args()
    rng = np.random.default_rng(0)
    L = np.outer(rng.standard_normal(SIDE), rng.standard_normal(SIDE))
    S = np.where(rng.random(L.shape) < 0.02, 10.0 * rng.choice([-1.0, 1.0], L.shape), 0.0)
    rows = []
    for (scales, scale), (noise, share) in product(SCALES.items(), NOISE.items()):
        matrix = np.random.default_rng(1).standard_normal((SIZE, SIDE**2)) * scale[:, None] / SIDE
        A = LinearSensing(matrix, L.shape)
        Q = orthonormalize(A)
        b = A.apply(L + S)
        b = b + share * np.linalg.norm(b) / SIZE**0.5 * np.random.default_rng(2).standard_normal(SIZE)
        for form, (values, operator) in {"(1.1)": (b, A), "(1.4)": (Q.transform(b), Q)}.items():
            fit = rw.recover(values, operator, tol=1e-2, rng=0, n_threads=1)
            error = np.linalg.norm(np.asarray(fit.low_rank) - L) / np.linalg.norm(L)
            rows.append((scales, noise, form, str(fit.iterations), f"{error:.3f}"))
    print(table(("measurements", "noise", "problem", "iterations", "error of L"), rows))


if __name__ == "__main__":
    main()
