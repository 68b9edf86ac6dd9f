"""Pictures from Python: each draws what it says, on its own figure or on the axes that it is given."""

from __future__ import annotations

import pickle

import matplotlib
import numpy as np
import pytest

import rankwolf as rw
from rankwolf import plots

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))
    M[rng.random(M.shape) < 0.05] += 10.0
    return rw.decompose(M, delta=0.02, rng=0)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_a_figure_of_four_panels(fit):
    figure = fit.plot()
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["L, the low-rank part", "S, the sparse part", "singular values of L", "convergence"]
    figure.canvas.draw()
    assert len(pickle.loads(pickle.dumps(figure)).axes) == len(figure.axes)


def test_one_panel_goes_where_it_is_told(fit):
    _, (left, right) = plt.subplots(1, 2)
    assert fit.plot("singular_values", left) is left
    assert fit.plot("sparse", right) is right
    np.testing.assert_allclose(left.lines[0].get_ydata(), fit.low_rank.s)
    np.testing.assert_allclose(right.images[0].get_array(), np.asarray(fit.sparse), atol=1e-12)


def test_the_last_point_of_the_convergence_is_the_gap_that_was_proved(fit):
    ax = fit.plot("convergence")
    assert ax.lines[-1].get_ydata()[0] == fit.relative_gap


def test_a_large_matrix_is_drawn_from_few_entries():
    L = rw.LowRank(np.ones((5000, 1)), np.array([2.0]), np.ones((1, 3000)))
    ax = plots.heat_map(L)
    assert max(ax.images[0].get_array().shape) <= plots.MOST_LINES
    # The axes count the rows and columns of the matrix.
    assert ax.get_xlim() == (-0.5, 2999.5) and ax.get_ylim() == (4999.5, -0.5)


def test_there_is_no_singular_value_one_and_a_half(fit):
    for axis in (fit.plot("singular_values").xaxis, rw.path(np.asarray(fit.low_rank), rng=0).plot().yaxis):
        assert all(tick == round(tick) for tick in axis.get_ticklocs())


def test_nothing_in_l_is_said_and_not_drawn():
    ax = plots.singular_values(np.zeros(0))
    assert [text.get_text() for text in ax.texts] == ["L = 0"]


@pytest.mark.parametrize(
    ("arguments", "says"), [(("all",), "'panel' parameter of plot"), ((None, 1), "'ax' parameter of plot")]
)
def test_what_cannot_be_drawn_is_one_line(fit, arguments, says):
    with pytest.raises(ValueError, match=says):
        fit.plot(*arguments)


def test_a_notebook_shows_a_table(fit):
    shown = fit._repr_html_()
    assert shown.startswith("<table>")
    assert "relative gap" in shown
    assert "λ_L" in shown
