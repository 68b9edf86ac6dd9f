"""A fitted factor model in one ``.npz`` file: arrays and the parameters of the estimator as JSON, no pickle."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import fields
from typing import Any

import numpy as np

from rankwolf.factors.model import Fitted, Scatter
from rankwolf.factors.parameters import Factors
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.ground.whole import whole

FORMAT = 1
NAMES = tuple(field.name for field in fields(Factors))


def write_model(
    path: str | os.PathLike[str], fitted: Fitted, core: Factors, about: dict[str, Any], features: Array
) -> None:
    """Write a model, whole or not at all. ``about``: numbers and words that JSON knows."""
    arrays = {
        f"{part}_{name}": getattr(factors, name) for part, factors in _parts(fitted, core) for name in NAMES
    }
    arrays |= {"scatter_rows": fitted.scatter.rows, "scatter_matrix": fitted.scatter.matrix}
    arrays |= {"scatter_diagonal": fitted.scatter.diagonal, "features": features.astype(str)}
    about = {**about, "format": FORMAT, "rounds": fitted.rounds}
    with whole(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)


def read_model(path: str | os.PathLike[str]) -> tuple[Fitted, Factors, dict[str, Any], Array]:
    """(model, core, about, names of the features); a ValueError where the file is not one of :func:`write_model`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            models = [
                Factors(**{name: _sized(file[f"{part}_{name}"]) for name in NAMES})
                for part in ("model", "core")
            ]
            n = len(models[0].scale)
            for model in models:
                shapes = {
                    getattr(model, name).shape for name in NAMES if name not in ("loadings", "strength")
                }
                if shapes != {(n,)} or model.loadings.ndim != 2 or len(model.loadings) != n:
                    raise ValueError("arrays of other shapes")
            scatter = Scatter(
                float(file["scatter_rows"]), _sized(file["scatter_matrix"]), _sized(file["scatter_diagonal"])
            )
            if about["format"] != FORMAT or scatter.matrix.shape[1] != n or scatter.diagonal.shape != (n,):
                raise ValueError("another format")
            fitted = Fitted(models[0], scatter, int(about["rounds"]), np.zeros((0, n)), None)
            return fitted, models[1], about, file["features"]
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        got = f"{os.fspath(path)!r} ({error})"
        raise bad("path", "a model that RobustPCA.save wrote", got, "RobustPCA.load") from None


def _parts(fitted: Fitted, core: Factors) -> tuple[tuple[str, Factors], ...]:
    return ("model", fitted.factors), ("core", core)


def _sized(array: Array) -> Any:
    """Finite float64 numbers, or one number."""
    if array.dtype != np.float64 or not np.all(np.isfinite(array)):
        raise ValueError("numbers that are not finite")
    return array if array.ndim else float(array)
