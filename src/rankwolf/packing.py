"""Objects to plain arrays and JSON and back, without pickle: nothing that is read can run.

A state of a solver is a tree of dataclasses, lists, numbers and arrays. Its classes are named by the solver, and no
others are made when it is read. Arrays are members of an uncompressed zip file in NumPy's format, so that
``np.load(path)`` shows them; row-aligned ones, which may be larger than the memory, are written and read in blocks.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from rankwolf.sources import Array, Source

BLOCK_BYTES = 16 * 2**20
# For a field of a state that can be made again and is not saved: field(metadata=MADE_AGAIN).
MADE_AGAIN = {"saved": False}


class Packer:
    """Writes arrays to ``archive`` as it meets them, and gives the rest back as JSON."""

    def __init__(self, archive: zipfile.ZipFile, source: Source) -> None:
        self._archive, self._source = archive, source
        self._names: dict[int, list[Any]] = {}
        self._kept: list[Any] = []  # so that no id is used again

    def pack(self, value: Any) -> Any:
        """What :meth:`Unpacker.unpack` turns into ``value``."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.random.Generator):
            return ["rng"]
        if isinstance(value, np.dtype):
            return ["dtype", value.str]
        if isinstance(value, list | tuple):
            return [type(value).__name__, [self.pack(item) for item in value]]
        if isinstance(value, dict):
            return ["dict", [[self.pack(key), self.pack(item)] for key, item in value.items()]]
        if isinstance(value, Source):
            return ["none"]
        if isinstance(value, np.ndarray):
            return self._array(value, "rows" if self._source.workspace.owns(value) else "array")
        if type(value).__module__.startswith("rankwolf.sources"):  # rows as a source keeps them
            return self._array(value, "rows")
        return ["object", type(value).__name__, {name: self.pack(item) for name, item in _content(value)}]

    def _array(self, value: Any, kind: str) -> list[Any]:
        if id(value) not in self._names:
            name = f"{kind}{len(self._names)}"
            self._names[id(value)] = [kind, name]
            self._kept.append(value)
            self._write(name, value if isinstance(value, np.ndarray) else self._source.gather(value))
        return self._names[id(value)]

    def _write(self, name: str, array: Array) -> None:
        with self._archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            columns_first = array.flags.f_contiguous and not array.flags.c_contiguous
            header = np.lib.format.header_data_from_array_1_0(np.empty(0, array.dtype))
            header |= {"shape": array.shape, "fortran_order": columns_first}
            np.lib.format.write_array_header_1_0(member, header)
            lines = array.T if columns_first else array
            if array.ndim == 0:
                member.write(array.tobytes())
            for start, stop in _blocks(lines):
                member.write(lines[start:stop].tobytes())
                if not columns_first:
                    self._source.workspace.give_back(start, stop)


def _content(value: Any) -> Iterator[tuple[str, Any]]:
    skipped = (
        {f.name for f in fields(value) if not f.metadata.get("saved", True)} if is_dataclass(value) else set()
    )
    return ((name, item) for name, item in vars(value).items() if name not in skipped)


def _blocks(array: Array) -> Iterator[tuple[int, int]]:
    if array.ndim == 0 or not array.size:
        return
    step = max(1, BLOCK_BYTES * array.shape[0] // array.nbytes)
    yield from ((start, min(start + step, array.shape[0])) for start in range(0, array.shape[0], step))


class Unpacker:
    """The other way round. Only ``classes`` are made; generators become ``rng``."""

    def __init__(
        self, archive: zipfile.ZipFile, source: Source, classes: tuple[type, ...], rng: np.random.Generator
    ) -> None:
        self._archive, self._source, self._rng = archive, source, rng
        self._classes = {kind.__name__: kind for kind in classes}
        self._arrays: dict[str, Any] = {}

    def unpack(self, node: Any) -> Any:
        """The value."""
        if not isinstance(node, list):
            return node
        kind, *rest = node
        makers: dict[str, Callable[..., Any]] = {
            "rng": lambda: self._rng,
            "none": lambda: None,
            "dtype": np.dtype,
            "list": lambda items: [self.unpack(item) for item in items],
            "tuple": lambda items: tuple(self.unpack(item) for item in items),
            "dict": lambda items: {self.unpack(key): self.unpack(item) for key, item in items},
            "array": self._array,
            "rows": self._rows,
            "object": self._object,
        }
        return makers[kind](*rest)

    def _object(self, name: str, content: dict[str, Any]) -> Any:
        kind = self._classes[name]
        made: Any = object.__new__(kind)
        if is_dataclass(kind):
            made.__dict__.update({f.name: None for f in fields(kind)})
        made.__dict__.update({key: self.unpack(item) for key, item in content.items()})
        return made

    def _array(self, name: str) -> Array:
        if name not in self._arrays:
            with self._archive.open(f"{name}.npy") as member:
                self._arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
        array: Array = self._arrays[name]
        return array

    def _rows(self, name: str) -> Any:
        """Block by block where the source keeps rows as arrays."""
        if name in self._arrays:
            return self._arrays[name]
        with self._archive.open(f"{name}.npy") as member:
            np.lib.format.read_magic(member)
            (count, width), columns_first, dtype = np.lib.format.read_array_header_1_0(member)
            rows = self._source.allocate(width, dtype)
            if columns_first or not isinstance(rows, np.ndarray) or count != rows.shape[0]:
                self._arrays[name] = self._source.spread(self._array(name))
                return self._arrays[name]
            for start, stop in _blocks(rows):
                content = member.read((stop - start) * width * dtype.itemsize)
                rows[start:stop] = np.frombuffer(content, dtype).reshape(stop - start, width)
                self._source.workspace.give_back(start, stop)
        self._arrays[name] = rows
        return rows
