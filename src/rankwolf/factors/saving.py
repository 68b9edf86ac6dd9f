"""A fitted factor model in one ``.npz`` file: arrays and the parameters of the estimator as JSON, no pickle."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.factors.model import Fitted, Scatter
from rankwolf.factors.parameters import Factors
from rankwolf.files.address import Address, RefusedError
from rankwolf.files.npz import opened_archive, write_schema
from rankwolf.files.schema import FACTORS
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.ground.whole import whole

NAMES = tuple(field.name for field in fields(Factors) if field.name != "strength")


def write_model(
    path: str | os.PathLike[str], fitted: Fitted, core: Factors, about: dict[str, Any], features: Array
) -> None:
    """Write a model, whole or not at all. ``about``: numbers and words that JSON knows."""
    models = {"model": fitted.factors, "core": core}
    arrays = {f"{part}_{name}": getattr(model, name) for part, model in models.items() for name in NAMES}
    arrays |= {"scatter_matrix": fitted.scatter.matrix, "scatter_diagonal": fitted.scatter.diagonal}
    settings = {
        **about,
        "rounds": fitted.rounds,
        "rows": fitted.scatter.rows,
        "strength": [float(model.strength) for model in models.values()],
        "features": features.astype(str).tolist(),
    }
    with whole(path) as temporary:
        write_schema(temporary, FACTORS, settings, arrays)


def read_model(path: str | os.PathLike[str]) -> tuple[Fitted, Factors, dict[str, Any], Array]:
    """(model, core, about, names of the features); a ValueError where the file is not one of :func:`write_model`."""
    try:
        with opened_archive(Address(Path(path)), FACTORS) as archive:
            about, arrays = archive.about, archive.arrays()
    except RefusedError as error:
        raise bad("path", FACTORS.words, f"{os.fspath(path)!r} ({error})", "RobustPCA.load") from None
    model, core = (
        Factors(**{name: arrays[f"{part}_{name}"] for name in NAMES}, strength=strength)
        for part, strength in zip(("model", "core"), about["strength"], strict=True)
    )
    scatter = Scatter(about["rows"], arrays["scatter_matrix"], arrays["scatter_diagonal"])
    fitted = Fitted(model, scatter, about["rounds"], np.zeros((0, len(model.scale))), None)
    return fitted, core, about, np.array(about["features"], str)
