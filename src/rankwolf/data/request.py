"""What a user says about a matrix beside the matrix itself, and the checks that all kinds of input share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array, is_on_device, to_numpy
from rankwolf.ground.complaints import bad

# The remedy where a user gives the name of a file that is a table.
READ_TABLE = "Give the table itself, as pandas.read_csv, read_excel and the like read it."


@dataclass(frozen=True)
class Request:
    """``observed``, ``n_threads``, ``implicit`` and ``max_memory`` as :func:`rankwolf.decompose` takes them, checked.

    ``where`` is the function that complaints name.
    """

    observed: Any = None
    n_threads: int = 1
    implicit: str = "missing"
    max_memory: int | None = None
    where: str = "decompose"

    def check_matrix(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Raise unless this is the shape and type of a matrix of real numbers, with at least one entry."""
        if dtype.kind not in "biuf":
            raise bad("X", "an array of real numbers", f"dtype {dtype}", self.where)
        if len(shape) != 2:
            raise bad(
                "X", "two-dimensional", f"an array of shape {shape}", self.where, "Reshape frames to rows."
            )
        if 0 in shape:
            raise bad("X", "of at least one row and one column", f"shape {shape}", self.where)

    def check_mask(self, mask: Any, shape: tuple[int, ...]) -> None:
        """Raise unless ``mask``, in memory or anywhere else, is boolean and of the matrix's shape."""
        if mask.dtype != np.bool_:
            remedy = "True marks an observed entry."
            raise bad("observed", "a boolean array", f"dtype {mask.dtype}", self.where, remedy)
        if tuple(mask.shape) != tuple(shape):
            raise bad(
                "observed", f"of the shape of X, {tuple(shape)}", f"shape {tuple(mask.shape)}", self.where
            )

    def mask_in_memory(self, shape: tuple[int, ...]) -> Array | None:
        """``observed`` as a boolean array; None where it was not given."""
        if self.observed is None:
            return None
        mask = to_numpy(self.observed) if is_on_device(self.observed) else np.asarray(self.observed)
        self.check_mask(mask, shape)
        return mask
