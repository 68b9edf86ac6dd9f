"""The sizes that a file claims, checked before memory is allocated for them.

A header of a hundred bytes can claim a petabyte, and a compressed file can grow a thousandfold, or without limit where
chunks that are not there count as zeros. So a claim is accepted only if it fits into the free memory, and is not far
more than the bytes of the file could plausibly hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from rankwolf.files.address import Address
from rankwolf.ground.machine import free_memory

# Up to this size nothing is checked, unless the user gave a limit.
HARMLESS_BYTES = 64 * 2**20
# A file may grow by this factor. Real data compresses by 2 to 20; zeros by 230 to 1000 with zlib, and without limit as
# run lengths or absent chunks.
MOST_GROWTH = 100
# Of the free memory, what the data itself may take: a run needs about as much again where it has to be copied.
SHARE_OF_MEMORY = 0.75
REAL_KINDS = "biuf"


@dataclass(frozen=True)
class Budget:
    """How many bytes an array may take. ``None``: what the free memory allows, and no implausible growth.

    With a limit from the user growth is not checked: whoever knows that 1 MB of zeros becomes 10 GB may say so.
    """

    most_bytes: int | None = None

    def check(self, address: Address, claimed: int, stored: int, copied: bool = True) -> None:
        """Refuse too many ``claimed`` bytes, which come from ``stored`` ones. ``copied``: they will be in memory."""
        if self.most_bytes is None and claimed <= HARMLESS_BYTES:
            return
        limit = free_memory() * SHARE_OF_MEMORY if self.most_bytes is None else self.most_bytes
        if copied and claimed > limit:
            raise address.bad(
                f"its contents would take {size(claimed)} of memory, more than the limit of {size(limit)}. "
                "Raise it with --max-memory (max_memory)."
            )
        growth = MOST_GROWTH * max(stored, 1)
        if self.most_bytes is None and claimed > growth:
            raise address.bad(
                f"{size(stored)} would grow to {size(claimed)}, as in a file that is made to exhaust memory. "
                "If it is meant so, give --max-memory (max_memory)."
            )

    def check_array(
        self, address: Address, shape: Sequence[int], dtype: np.dtype[Any], stored: int, copied: bool = True
    ) -> None:
        """Refuse anything but a two-dimensional array of real numbers that is within the budget."""
        check_kind(address, shape, dtype)
        self.check(address, prod(int(side) for side in shape) * dtype.itemsize, stored, copied)

    def check_sparse(self, address: Address, shape: Sequence[int], stored: int) -> None:
        """Refuse a sparse matrix with too many rows and columns: even empty ones take memory."""
        check_shape(address, shape)
        self.check(address, 16 * (int(shape[0]) + int(shape[1])), stored)


def check_kind(address: Address, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Refuse anything but real numbers in two dimensions."""
    if dtype.hasobject or dtype.kind not in REAL_KINDS:
        raise address.bad(f"it must hold real numbers. Its type is {dtype}.")
    check_shape(address, shape)


def check_shape(address: Address, shape: Sequence[int]) -> None:
    """Refuse anything but two dimensions, neither of them empty."""
    if len(shape) != 2:
        remedy = " For frames there is 'rankwolf separate'." if len(shape) in (3, 4) else ""
        raise address.bad(f"it must be a matrix, with two dimensions. Its shape is {tuple(shape)}.{remedy}")
    if min(shape) < 1:
        raise address.bad(f"it must have at least one row and one column. Its shape is {tuple(shape)}.")


def size(count: float) -> str:
    """Bytes for people.

    >>> size(512), size(2.5e9), size(1e19)
    ('512 bytes', '2.5 GB', '1e+07 TB')
    """
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= power:
            return f"{count / power:.3g} {unit}"
    return f"{count:.0f} bytes"
