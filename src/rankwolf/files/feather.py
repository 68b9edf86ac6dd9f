"""Tables in ``.feather`` files: Arrow's own format, version 2.

Each compressed buffer begins with the length that it will have, and Arrow allocates that without question. So the
lengths of all buffers are added up, and compared with the memory that there is, before Arrow reads any.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Any

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget
from rankwolf.files.named_matrix import LabelledMatrix
from rankwolf.files.parquet import read_arrow
from rankwolf.files.table_columns import TableOptions
from rankwolf.ground.extras import needed

MAGIC, OLD_MAGIC = b"ARROW1", b"FEA1"
CONTINUES = b"\xff\xff\xff\xff"
# The most bytes of a message's metadata, which has 16 bytes for each buffer of a batch.
MOST_METADATA = 64 * 2**20
DICTIONARY, RECORDS = 2, 3


def read_feather(address: Address, budget: Budget, options: TableOptions) -> LabelledMatrix:
    """The matrix in a Feather file (Arrow IPC), read batch by batch. Nulls are missing."""
    pa = needed("pyarrow")
    with address.path.open("rb") as file:
        rows = _check(address, budget, file)
        file.seek(8)
        reader = pa.ipc.open_stream(file)  # not open_file, which may read others than were checked

        def batches(count: int, wanted: list[str] | None) -> Iterator[Any]:
            for batch in reader:
                yield batch if wanted is None else batch.select(wanted)

        return read_arrow(address, budget, options, reader.schema, rows, batches, "feather")


def _check(address: Address, budget: Budget, file: IO[bytes]) -> int:
    """The number of rows; a ValueError if a buffer lies outside the file, or all would take more than the budget."""
    size = address.path.stat().st_size
    first = file.read(8)
    if first.startswith(OLD_MAGIC):
        raise address.bad("it is a Feather file of version 1. Save it again with a pandas of today.")
    if not first.startswith(MAGIC):
        raise address.bad("it does not begin like a Feather file.")
    rows = claimed = 0
    while (head := file.read(8))[:4] == CONTINUES and len(head) == 8:
        length = struct.unpack("<i", head[4:])[0]
        if length == 0:
            break
        if not 0 < length <= min(size, MOST_METADATA):
            raise address.bad("a message in it is longer than the file.")
        message = _Message(file.read(length))
        start, body = file.tell(), message.body_length
        if not 0 <= body <= size - start:
            raise address.bad("a message in it is longer than the file.")
        if message.kind in (DICTIONARY, RECORDS):
            count, buffers, compressed = message.batch()
            rows += count if message.kind == RECORDS else 0
            claimed += _claimed(address, file, start, body, buffers, compressed)
            budget.check(address, claimed, size)
        file.seek(start + body)
    return rows


def _claimed(
    address: Address, file: IO[bytes], start: int, body: int, buffers: list[tuple[int, int]], compressed: bool
) -> int:
    total = 0
    for offset, length in buffers:
        if offset < 0 or length < 0 or offset + length > body:
            raise address.bad("a buffer in it is outside its message.")
        grown = length
        if compressed and length >= 8:
            file.seek(start + offset)
            grown = max(struct.unpack("<q", file.read(8))[0], length)  # -1: this one is not compressed
        total += grown
    return total


class _Message:
    """Those few fields of a message of Arrow's (a flatbuffer) that say how large things are.

    Damaged offsets raise struct.error or ValueError.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._root = self._unpack("<I", 0)
        self.kind = self._scalar(self._root, 1, "<B")
        self.body_length = self._scalar(self._root, 3, "<q")

    def batch(self) -> tuple[int, list[tuple[int, int]], bool]:
        """Rows, (offset, length) of each buffer, and whether buffers are compressed."""
        table = self._table(self._root, 2)
        if self.kind == DICTIONARY:
            table = self._table(table, 1)
        place = self._place(table, 2)
        buffers = []
        if place:
            vector = place + self._unpack("<I", place)
            count = self._unpack("<I", vector)
            if count * 16 > len(self._data):
                raise ValueError("more buffers than it has room for")
            buffers = [
                (self._unpack("<q", vector + 4 + 16 * k), self._unpack("<q", vector + 12 + 16 * k))
                for k in range(count)
            ]
        return self._scalar(table, 0, "<q"), buffers, bool(self._place(table, 3))

    def _unpack(self, form: str, place: int) -> int:
        if place < 0:
            raise ValueError("a place before the beginning")
        return int(struct.unpack_from(form, self._data, place)[0])

    def _place(self, table: int, field: int) -> int:
        """Where a field of a flatbuffer's table is; 0 where the table does not have it."""
        entries = table - self._unpack("<i", table)
        if 4 + 2 * field >= self._unpack("<H", entries):
            return 0
        offset = self._unpack("<H", entries + 4 + 2 * field)
        return table + offset if offset else 0

    def _scalar(self, table: int, field: int, form: str) -> int:
        place = self._place(table, field)
        return self._unpack(form, place) if place else 0

    def _table(self, table: int, field: int) -> int:
        place = self._place(table, field)
        if not place:
            raise ValueError("a message without contents")
        return place + self._unpack("<I", place)
