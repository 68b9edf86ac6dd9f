"""Objects to plain arrays and JSON and back, without pickle: nothing that is read can run.

The state of a solver is a tree of dataclasses, lists, numbers and arrays. The solver names its classes, and objects of
no others are made when it is read. Arrays are members of an uncompressed zip file in NumPy's format, so that
``np.load(path)`` shows them; row-aligned ones, which may be larger than the memory, are written and read in blocks.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from math import inf
from typing import Any

import numpy as np

from rankwolf.data import Data, Source
from rankwolf.data.measurements import Measurements
from rankwolf.files.npz import Archive
from rankwolf.ground.arrays import Array

BLOCK_BYTES = 16 * 2**20
# A number in a state is at most this many times m·n·largest² of the data. A run never writes a larger one, whose powers
# would overflow.
BEYOND = 1e60


class Packer:
    """Turns objects into JSON; arrays that it meets are written to ``archive``."""

    def __init__(self, archive: zipfile.ZipFile, data: Data) -> None:
        self._archive, self._data = archive, data
        # By the id of each array that was met; the array is kept, so that no id is used again.
        self._met: dict[int, tuple[list[str], Any]] = {}

    def pack(self, value: Any) -> Any:
        """``value`` as JSON, from which :meth:`Unpacker.unpack` makes it again; arrays are written to the archive."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case np.generic():
                return value.item()
            case np.random.Generator():
                return ["rng"]
            case np.dtype():
                return ["dtype", value.str]
            case list() | tuple():
                return [type(value).__name__, [self.pack(item) for item in value]]
            case dict():
                return ["dict", [[self.pack(key), self.pack(item)] for key, item in value.items()]]
            case Source():
                return ["none"]
            case np.ndarray():
                return self._array(value, "rows" if self._data.workspace.owns(value) else "array")
        if type(value).__module__.startswith("rankwolf.data"):  # a row-aligned array that is a handle
            return self._array(value, "rows")
        names = saved_fields(type(value)) if is_dataclass(value) else vars(value)
        return ["object", type(value).__name__, {name: self.pack(getattr(value, name)) for name in names}]

    def _array(self, value: Any, kind: str) -> list[str]:
        if id(value) not in self._met:
            name = f"{kind}{len(self._met)}"
            self._met[id(value)] = [kind, name], value
            array = value if isinstance(value, np.ndarray) else self._data.gather(value)
            with self._archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                if kind == "array" or not array.flags.c_contiguous:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
                else:
                    about = np.lib.format.header_data_from_array_1_0(array)
                    np.lib.format.write_array_header_1_0(member, about)
                    for start, stop in _blocks(array):
                        member.write(array[start:stop].tobytes())
                        self._data.workspace.give_back(start, stop)
        return self._met[id(value)][0]


def saved_fields(kind: type) -> list[str]:
    """The names of the fields of a dataclass that are saved."""
    return [f.name for f in fields(kind) if f.metadata.get("saved", True)]


def _blocks(array: Array) -> Iterator[tuple[int, int]]:
    step = max(1, BLOCK_BYTES * len(array) // max(1, array.nbytes))
    yield from ((start, min(start + step, len(array))) for start in range(0, len(array), step))


class Unpacker:
    """Makes objects again from the JSON of :class:`Packer`, of ``classes`` only; every generator becomes ``rng``."""

    def __init__(
        self, archive: Archive, data: Data, classes: tuple[type, ...], rng: np.random.Generator
    ) -> None:
        self._archive, self._data, self._rng = archive, data, rng
        self._classes = {kind.__name__: kind for kind in classes}
        self._arrays: dict[str, Any] = {}
        m, n = data.shape
        self._largest = BEYOND * max(1.0, m * n * data.summary.largest**2)

    def unpack(self, node: Any) -> Any:
        """The value that :meth:`Packer.pack` was given."""
        match node:
            case bool() | None | str():
                return node
            case int() | float():
                if self._largest < abs(node) < inf or (isinstance(node, int) and abs(node) >= 2**63):
                    raise ValueError("a number is out of scale")
                return node
            case ["rng"]:
                return self._rng
            case ["none"]:
                return None
            case ["dtype", name] if np.dtype(name).kind in "fc":
                return np.dtype(name)
            case ["list" | "tuple" as kind, list(items)]:
                made = [self.unpack(item) for item in items]
                return made if kind == "list" else tuple(made)
            case ["dict", list(items)]:
                return {self.unpack(key): self.unpack(item) for key, item in items}
            case ["array" | "rows" as kind, str(name)]:
                if name not in self._arrays:
                    self._arrays[name] = self._array(name) if kind == "array" else self._rows(name)
                return self._arrays[name]
            case ["object", name, dict(content)]:
                return self._object(self._classes[name], content)
        raise ValueError("a part of its state is none")

    def _object(self, kind: type, content: dict[str, Any]) -> Any:
        made: Any = object.__new__(kind)
        if is_dataclass(kind):
            if set(content) != set(saved_fields(kind)):
                raise ValueError(f"a {kind.__name__} has other fields")
            vars(made).update((f.name, None) for f in fields(kind))
        vars(made).update((name, self.unpack(item)) for name, item in content.items())
        return made

    def _array(self, name: str) -> Array:
        return self._in_scale(name, self._archive.array(name))

    def _in_scale(self, name: str, array: Array) -> Array:
        """The array, if a run over this data could have written it: of a possible type, no number too large."""
        # Only of measurements can a state be complex: entries are real.
        if self._data.kind != Measurements.kind and array.dtype.kind == "c":
            raise ValueError(f"{name} has numbers of the type {array.dtype}")
        if array.size and array.dtype.kind in "fc" and not float(np.max(np.abs(array))) <= self._largest:
            raise ValueError(f"{name} has numbers that are out of scale")
        return array

    def _rows(self, name: str) -> Any:
        """A row-aligned array, read block by block where the data keeps such arrays in this process."""
        with self._archive.opened(name) as (member, header):
            (count, width), columns_first, dtype = header
            if count != self._data.shape[0] or dtype.kind not in "fc":
                raise ValueError(
                    f"{name} has {count} rows of {dtype} for a matrix of {self._data.shape[0]} rows"
                )
            rows = self._data.allocate(width, dtype)
            if columns_first or not isinstance(rows, np.ndarray):
                return self._data.spread(self._array(name))
            for start, stop in _blocks(rows):
                content = member.read((stop - start) * width * dtype.itemsize)
                block = np.frombuffer(content, dtype).reshape(stop - start, width)
                rows[start:stop] = self._in_scale(name, block)
                self._data.workspace.give_back(start, stop)
        return rows
