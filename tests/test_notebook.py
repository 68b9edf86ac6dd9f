"""A notebook that is run without anybody looking: results as HTML, pictures, and the bar."""

from __future__ import annotations

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra dev)")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (extra dev)")
pytest.importorskip("ipykernel", reason="ipykernel is not installed (extra dev)")

CELLS = (
    "%matplotlib inline\n"
    "import numpy as np, pandas as pd, rankwolf as rw\n"
    "rng = np.random.default_rng(0)\n"
    "X = pd.DataFrame(rng.standard_normal((200, 2)) @ rng.standard_normal((2, 10)) "
    "+ 0.1 * rng.standard_normal((200, 10)))\n"
    "X.iloc[3, 4] += 20",
    "fit = rw.decompose(X, rng=0, verbose=True)\nfit",
    "fit.plot('singular_values');",
    "model = rw.RobustPCA(random_state=0).fit(X.to_numpy())\nmodel",
    "model.plot_outliers(X.to_numpy()[:30]);",
    "fit.sparse.to_frame().abs().max().idxmax()",
    "figure = fit.plot()\nfigure",
    "figure",
    "fit.plot();",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(120)
def test_a_notebook_shows_what_it_should(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(
        notebook, timeout=100, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert outputs[0] == []
    bar, result = outputs[1]
    assert '<progress value="1.0000"' in bar.data["text/html"] and "gap" in bar.data["text/html"]
    assert "Decomposition of 200 × 10" in result.data["text/html"]
    for cell in (2, 4):
        assert any("image/png" in output.get("data", {}) for output in outputs[cell])
    assert "RobustPCA" in outputs[3][0].data["text/html"]
    assert outputs[5][0].data["text/plain"] == "4"
    # Once, whether the cell returns the figure or pyplot shows it.
    for cell in (6, 7, 8):
        assert ["image/png" in output.data for output in outputs[cell]] == [True]
    # Nothing was written as plain lines: the bar replaces the table.
    assert not any(output.output_type == "stream" for cell in outputs for output in cell)
