"""What every test shares: one BLAS thread, reproducible hypothesis runs, and where the real data is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "rankwolf", derandomize=True, deadline=None, max_examples=40, database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)  # fmt: skip
hypothesis.settings.load_profile("rankwolf")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--poison``: arrays of np.empty begin as NaN, or as 0xA5 in every byte, instead of as whatever was there.

    A test that then fails reads what was never written. Compiled kernels have it, too, and a cache of their own. What
    libraries ask the system for is not reached: for that there is the environment variable MALLOC_PERTURB_=165.
    """
    parser.addoption("--poison", action="store_true", help="fill what np.empty gives")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell that starts the tests in the background has it ignored, here and in every process of a test.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--poison"):
        poison_empty()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``@pytest.mark.doubts("iteration limit", …)``: doubts that a test rightly raises, by words of theirs.

    Without words, any. Every other one is an error, as all warnings are: where all is well, nothing is said.
    """
    for item in items:
        for words in [words for mark in item.iter_markers("doubts") for words in mark.args or ("",)]:
            item.add_marker(pytest.mark.filterwarnings(f"ignore:.*{words}:rankwolf.RankwolfWarning"))


def poison_empty() -> None:
    """Put poisoned functions in the places of np.empty and np.empty_like."""
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "poisoned"))
    import numba.extending
    import numba.np.arrayobj  # asks for np.empty by name, and must find the true one
    import numpy as np

    empty, empty_like = np.empty, np.empty_like

    def poisoned(array):
        if array.dtype.kind in "fc":
            array.fill(np.nan)
        elif array.dtype.kind in "iu" and array.size:
            array.fill(np.frombuffer(b"\xa5" * array.dtype.itemsize, array.dtype)[0])
        return array

    def poisoned_empty(shape, dtype=float, *arguments, **settings):
        return poisoned(empty(shape, dtype, *arguments, **settings))

    def poisoned_empty_like(*arguments, **settings):
        return poisoned(empty_like(*arguments, **settings))

    @numba.extending.overload(poisoned_empty)
    def in_kernels(shape, dtype=float):
        kind = getattr(dtype, "dtype", numba.types.float64)
        poison = 0xA5 if isinstance(kind, numba.types.Integer) else np.nan

        def make(shape, dtype=float):
            array = empty(shape, dtype)
            array.fill(poison)
            return array

        return make

    np.empty, np.empty_like = poisoned_empty, poisoned_empty_like


@pytest.fixture
def no_file_beyond() -> Callable[[int], AbstractContextManager[None]]:
    """A block in which a file takes so many bytes and no more: writing fails in the middle, as on a full disk."""

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        resource = pytest.importorskip("resource")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data that RANKWOLF_DATA names; the test is skipped where it is absent."""
    folder = Path(os.environ.get("RANKWOLF_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data: RANKWOLF_DATA names {folder}, which is not a folder")
    return folder


@pytest.fixture(scope="session")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 frames of 128 × 96 with truth, without loss."""
    from video_files import scene, write_video

    return write_video(tmp_path_factory.mktemp("video") / "scene.mkv", scene().frames, "ffv1")


@pytest.fixture(scope="session")
def separated(video: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``rankwolf separate`` makes of it. Nobody writes into it."""
    from video_files import run

    target = tmp_path_factory.mktemp("out") / "scene"
    assert run(video, "-o", target, "--format", "ffv1", "--quiet") == 0
    return target


class Clock:
    """Time that passes only when somebody looks at it, by ``step``, or says so.

    At the look with the number ``jump_at``, a million seconds have passed at once.
    """

    def __init__(self):
        self.now, self.step, self.looks, self.jump_at = 0.0, 0.01, 0, None

    def perf_counter(self):
        self.looks += 1
        self.now += self.step if self.looks != self.jump_at else 1e6
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The clock of every run in this test: there is no other way to a known time."""
    from rankwolf.ground import deadline
    from rankwolf.run import progress

    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(deadline, "time", clock)
    return clock
