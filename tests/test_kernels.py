"""Compiled kernels: the same numbers give the same bytes, wherever in memory the arrays lie."""

from __future__ import annotations

import ast
import inspect
import itertools

import numpy as np
import pytest
import scipy.sparse

from rankwolf.kernels import pictures, regressions, tile_loops

GAPS = (0, 16, 32, 64, 128, 256)


def side_by_side(arrays, order, gap):
    """Copies in one piece of memory, one behind the other in this order, ``gap`` bytes between two."""
    memory = np.zeros(sum(array.nbytes + gap + 64 for array in arrays) + 64, np.uint8)
    place, copies = -memory.ctypes.data % 64, list(arrays)
    for number in order:
        array = arrays[number]
        place += -(memory.ctypes.data + place) % array.itemsize
        copies[number] = memory[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
        copies[number][...] = array
        place += array.nbytes + gap
    return copies


def results(call, arrays, written, seed=0):
    """The different answers, and contents of the ``written`` arrays after the call, over orders and distances."""
    rng = np.random.default_rng(seed)
    orders = list(itertools.permutations(range(len(arrays)))) if len(arrays) < 5 else [
        rng.permutation(len(arrays)) for _ in range(60)
    ]  # fmt: skip
    found = set()
    for order, gap in itertools.product(orders, GAPS):
        copies = side_by_side(arrays, order, gap)
        answer = call(*copies)
        found.add((answer, *(copies[number].tobytes() for number in written)))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [2, 8, 19])
@pytest.mark.parametrize("count", [3, 24, 100])
def test_a_regression_does_not_depend_on_addresses(dtype, rank, count):
    """Before, 'als' gave up to seven results in thirty runs with one seed and one thread."""
    rng = np.random.default_rng(rank)
    right = rng.standard_normal((40, rank)).astype(dtype)
    columns = np.sort(rng.choice(40, count, replace=count > 40)).astype(np.int32)
    u = rng.standard_normal(rank).astype(dtype)
    entries = (right[columns] @ u + rng.standard_normal(count)).astype(dtype)
    work = [np.full((count, rank), np.nan, dtype), np.full(count, np.nan, dtype), np.full(count, np.nan, dtype),
            np.full((rank, rank), np.nan), np.full(rank, np.nan), np.full(rank, np.nan)]  # fmt: skip

    def call(entries, columns, right, u, *work):
        regressions.fit_row(entries, columns, right, 0.5, 0.3, 1e-9, 3, u, *work)

    assert len(results(call, [entries, columns, right, u, *work], [3])) == 1


CALLS = {
    "clip_residual": (lambda t, x, sums, counts: tile_loops.clip_residual(t, x, 0.5, sums, counts), "mm81"),
    "clip_dual": (lambda t, x, sums: tile_loops.clip_dual(t, x, 0.5, sums), "mm8"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 5), (6, 36)])
def test_sums_over_a_tile_do_not_depend_on_addresses(name, dtype, shape):
    call, sides = CALLS[name]
    rng = np.random.default_rng(0)
    made = {"m": lambda: rng.standard_normal(shape).astype(dtype), "n": lambda: rng.random(shape[1]).astype(dtype),
            "1": lambda: rng.random(shape[0]).astype(dtype), "8": lambda: np.zeros(8)}  # fmt: skip
    arrays = [made[side]() for side in sides]
    arrays[0][rng.random(shape) < 0.2] = np.nan
    assert len(results(call, arrays, range(1, len(arrays)))) == 1


@pytest.mark.parametrize("module", [pictures, regressions, tile_loops])
def test_arrays_are_copied_by_loops(module):
    """``a[:] = b`` costs whoever calls the kernel first two seconds: Numba compiles the words of an error for it."""
    copies = [
        node.lineno
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Subscript)
        and isinstance(node.targets[0].slice, ast.Slice)
        and not isinstance(node.value, ast.Constant | ast.UnaryOp)
    ]
    assert copies == []


@pytest.fixture
def tile():
    """M with gaps, L, S and the S before it."""
    rng = np.random.default_rng(3)
    M, L, S, before = rng.standard_normal((4, 7, 2100))
    M[rng.random(M.shape) < 0.2] = np.nan
    return M, L, S * (rng.random(S.shape) < 0.3), before


def test_a_transposed_copy_in_another_type():
    columns = np.random.default_rng(0).integers(0, 255, (53, 21), dtype=np.uint8)
    tile = np.empty((21, 53), np.float32)
    tile_loops.cast_transposed(columns, tile)
    assert np.array_equal(tile, columns.T)


def test_a_residual_at_stored_entries():
    rng = np.random.default_rng(1)
    matrix = scipy.sparse.random_array((9, 14), density=0.4, rng=rng, format="csr")
    left, right, found = rng.standard_normal((9, 3)), rng.standard_normal((14, 3)), np.empty(matrix.nnz)
    tile_loops.subtract_sampled(matrix.data, matrix.indices, matrix.indptr, left, right, found)
    rows, columns = matrix.nonzero()
    np.testing.assert_allclose(found, matrix.data - (left @ right.T)[rows, columns], atol=1e-14)


def test_density_is_a_weighted_sum_of_kernels():
    rng = np.random.default_rng(2)
    color, colors = rng.integers(0, 90, (3, 7, 9), np.uint8), rng.integers(0, 90, (5, 3, 7, 9), np.uint8)
    weights = rng.integers(0, 256, (5, 7, 9), np.uint8)
    reach = 3e-4
    density = np.zeros((7, 9), np.float32)
    pictures.add_density(color, colors, weights, reach, density)
    square = np.square(colors.astype(float) - color).sum(axis=1)
    expected = (weights / 255.0 * np.clip(1.0 - reach * square, 0.0, None) ** 3).sum(axis=0)
    np.testing.assert_allclose(density, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("radius", [20, 60, 100])
def test_near_is_euclidean_over_all_channels(radius):
    rng = np.random.default_rng(radius)
    one, many = (rng.integers(0, 80, shape).astype(np.int16) for shape in ((1, 40, 3), (1, 3, 1, 40)))
    near = [pictures.is_near(one, 0, x, many, 0, 0, x, radius**2) for x in range(40)]
    assert near == (((one[0] - many[0, :, 0].T).astype(int) ** 2).sum(axis=1) <= radius**2).tolist()
    assert set(near) == {True, False}


def test_a_shadow_is_the_scene_times_a_factor():
    """As whole pictures compute it."""
    rng = np.random.default_rng(3)
    scene = rng.integers(20, 200, (12, 14, 3), np.uint8)
    frame = (
        scene * np.repeat([0.3, 0.6, 0.9, 1.4], 3)[:, None, None] + rng.normal(0, 6, scene.shape)
    ).astype(np.float32)
    where = rng.random((12, 14)) < 0.7
    shaded = np.empty((12, 14), np.bool_)
    pictures.mark_shaded(frame, scene, where, 0.45, 1.2, 150.0, shaded)
    own, both, light = (
        sum(
            np.roll(np.pad(part.sum(axis=-1), 1, "edge"), (i, j), (0, 1))[1:-1, 1:-1]
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
        )
        for part in (scene.astype(float) ** 2, scene * frame.astype(float), frame.astype(float) ** 2)
    )
    factor = both / own
    expected = where & (factor > 0.45) & (factor < 1.2) & (light - factor * both < 9.0 * 150.0)
    np.testing.assert_array_equal(shaded, expected)
    assert 0 < np.count_nonzero(shaded) < np.count_nonzero(where)
