"""Cells such as <0.1 in a table: known to be below a value, and used as that."""

from __future__ import annotations

import json

import numpy as np

from rankwolf.cli import main


def test_a_detection_limit_in_a_table_is_used(tmp_path, capsys):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 10))
    M = truth + 0.1 * rng.standard_normal(truth.shape)
    limit = float(np.quantile(M, 0.25))
    below = limit > M
    cells = np.where(below, f"<{limit:.3f}", np.char.mod("%.4f", M))
    heading = ",".join(f"c{k}" for k in range(10))
    (tmp_path / "x.csv").write_text(heading + "\n" + "\n".join(",".join(row) for row in cells) + "\n")
    errors = []
    for standardise in ([], ["--standardize"]):
        out = tmp_path / f"out{len(standardise)}"
        words = ["decompose", str(tmp_path / "x.csv"), "-o", str(out), "--json", *standardise]
        assert main(words) == 0
        said = capsys.readouterr()
        assert f"{below.sum()} cells such as '<0.1' set limits" in said.out + said.err
        assert json.loads(said.out)
        L = np.loadtxt(out / "low_rank.csv", delimiter=",", skiprows=1)
        errors.append(np.sqrt(np.mean((L - truth)[below] ** 2)))
        assert np.mean(L[below] <= limit + 0.3) > 0.95
    half = np.sqrt(np.mean((0.5 * limit - truth[below]) ** 2))
    assert max(errors) < 0.7 * half
