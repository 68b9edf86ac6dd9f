"""The matrix of a video: rows in memory and on disk, the noise in it, and the weights that follow."""

from __future__ import annotations

import errno
import os
import subprocess
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwolf.platform import available_memory
from rankwolf.video import choosing_weights
from rankwolf.video.scene import Scene
from rankwolf.video.store import FrameStore


@pytest.mark.parametrize("expected", [None, 10, 100, 300])
@pytest.mark.parametrize("most_rows", [1, 64, 90, 1000])
def test_rows_come_back_wherever_they_were_kept(tmp_path, expected, most_rows):
    rows = np.random.default_rng(0).integers(0, 256, (200, 50), np.uint8)
    with FrameStore(50, expected, most_rows * 50, tmp_path) as store:
        for row in rows:
            store.append(row)
        assert store.matrix.dtype == np.uint8 and store.matrix.shape == rows.shape
        np.testing.assert_array_equal(store.matrix[0:200], rows)
        np.testing.assert_array_equal(store.read(slice(7, 190), slice(3, 41)), rows[7:190, 3:41])
        np.testing.assert_array_equal(store[20:31], rows[20:31])
        np.testing.assert_array_equal(store[190:300], rows[190:])
        assert store.shape == rows.shape
        assert store.on_disk == (most_rows < 200 or (expected or 0) > most_rows)
        assert list(tmp_path.iterdir()) == [], "the file has no name"


def test_going_to_the_disk_does_not_take_the_memory_twice(tmp_path):
    """Before, all rows were copied to be written, at the moment at which the memory was full."""
    row, most = np.ones(100_000, np.uint8), 20_000_000
    tracemalloc.start()
    try:
        with FrameStore(row.size, None, most, tmp_path) as store:
            for _ in range(210):
                store.append(row)
            assert store.on_disk
            _, peak = tracemalloc.get_traced_memory()
            assert store[205:206].all()
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * most


def test_space_is_reserved_before_the_work(small_disk):
    with pytest.raises(OSError, match="decoded frames") as caught:
        FrameStore(1_000_000, 100, 0, small_disk)
    assert caught.value.errno == errno.ENOSPC


def test_a_disk_that_fills_up_on_the_way(small_disk):
    row = np.zeros(1_000_000, np.uint8)
    with FrameStore(row.size, None, 0, small_disk) as store, pytest.raises(OSError, match="No space"):  # noqa: PT012
        for _ in range(100):
            store.append(row)
        store.flush()


def test_available_memory_is_plausible():
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < available_memory() < physical


@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("objects", [0, 6])
def test_noise_between_frames(sigma, objects):
    """Objects and moving lamps disturb it little; both only ever add."""
    video = Scene(height=60, width=80, n_frames=100, noise=sigma, n_objects=objects, seed=1).render()
    found = choosing_weights.temporal_noise(video.matrix)
    assert 0.95 * sigma < found < 1.35 * sigma
    present = np.random.default_rng(0).random(video.matrix.shape) < 0.5
    assert found == pytest.approx(choosing_weights.temporal_noise(video.matrix, present), rel=0.05)


@pytest.mark.parametrize("sigma", [2.0, 5.0])
def test_noise_inside_a_frame(sigma):
    """Slopes do not disturb it, texture adds."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:100, :120]
    smooth = 128.0 + 0.5 * y - 0.4 * x + rng.normal(0.0, sigma, (4, 100, 120))
    assert choosing_weights.spatial_noise(np.rint(smooth).astype(np.uint8)) == pytest.approx(sigma, rel=0.05)
    video = Scene(height=60, width=80, n_frames=4, noise=sigma).render().frames
    assert sigma < choosing_weights.spatial_noise(video) < 2.5 * sigma
    assert choosing_weights.spatial_noise(np.zeros((2, 2, 2), np.uint8)) == choosing_weights.LEAST_NOISE


def test_noise_of_what_has_none():
    assert choosing_weights.temporal_noise(np.full((10, 20), 128, np.uint8)) == choosing_weights.LEAST_NOISE
    assert choosing_weights.temporal_noise(np.full((10, 20), 255, np.uint8)) == choosing_weights.LEAST_NOISE
    assert choosing_weights.temporal_noise(np.full((1, 20), 128, np.uint8)) == choosing_weights.LEAST_NOISE


@given(st.integers(0, 2**32 - 1), st.floats(0.5, 20.0))
def test_grouped_median_undoes_the_rounding(seed, sigma):
    values = np.abs(np.random.default_rng(seed).normal(0.0, sigma, 20000))
    rounded = np.bincount(np.rint(values).astype(int), minlength=256)
    assert choosing_weights.grouped_median(rounded) == pytest.approx(
        np.median(values), rel=0.13 if sigma < 2.0 else 0.05
    )


def test_weights():
    """Up to 200 frames the paper's ratio, above it √(θmn); a sample lowers it by √ρ."""
    lambda_L, lambda_S = choosing_weights.weights_for(1.5, (150, 4000))
    assert (lambda_L / lambda_S, lambda_S) == (pytest.approx(4000**0.5), 4.5)
    lambda_L, lambda_S = choosing_weights.weights_for(1.5, (800, 4900))
    assert lambda_L / lambda_S == pytest.approx(2 * 70)
    assert choosing_weights.weights_for(1.5, (800, 4900), 0.25)[0] == pytest.approx(lambda_L / 2)
    assert choosing_weights.weights_for(1.5, (4900, 800))[0] == pytest.approx(lambda_L)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no small disk: mounting a tmpfs needs root ({done.stderr.strip()})")
    yield place
    subprocess.run(["umount", str(place)], check=True)
