"""What every test shares: one BLAS thread, reproducible hypothesis runs, and where the real data is."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "rankwolf", derandomize=True, deadline=None, max_examples=40, database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)  # fmt: skip
hypothesis.settings.load_profile("rankwolf")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data that RANKWOLF_DATA names; the test is skipped where it is absent."""
    folder = Path(os.environ.get("RANKWOLF_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data: RANKWOLF_DATA names {folder}, which is not a folder")
    return folder
