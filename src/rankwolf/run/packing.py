"""Objects to plain arrays and JSON and back, without pickle: nothing that is read can run.

The state of a solver is a tree of dataclasses, lists, numbers and arrays. The solver names its classes, and objects of
no others are made when it is read. Arrays are members of an uncompressed zip file in NumPy's format, so that
``np.load(path)`` shows them; row-aligned ones, which may be larger than the memory, are written and read in blocks.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from math import inf
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from rankwolf.data import Data, Source
from rankwolf.data.measurements import Measurements
from rankwolf.files.npz import Archive
from rankwolf.ground.arrays import Array

BLOCK_BYTES = 16 * 2**20
# How many times m·n·largest² of the data a number of a state may be. A larger one was not written by a run, and its
# powers would overflow.
BEYOND = 1e60


class Packer:
    """Turns objects into JSON; arrays that it meets are written to ``archive``."""

    def __init__(self, archive: zipfile.ZipFile, data: Data) -> None:
        self._archive, self._data = archive, data
        self._names: dict[int, list[Any]] = {}
        self._kept: list[Any] = []  # so that no id is used again

    def pack(self, value: Any) -> Any:
        """``value`` as JSON, from which :meth:`Unpacker.unpack` makes it again; arrays are written to the archive."""
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
            return self._array(value, "rows" if self._data.workspace.owns(value) else "array")
        if type(value).__module__.startswith("rankwolf.data"):  # a row-aligned array that is a handle
            return self._array(value, "rows")
        return ["object", type(value).__name__, {name: self.pack(item) for name, item in _content(value)}]

    def _array(self, value: Any, kind: str) -> list[Any]:
        if id(value) not in self._names:
            name = f"{kind}{len(self._names)}"
            self._names[id(value)] = [kind, name]
            self._kept.append(value)
            self._write(name, value if isinstance(value, np.ndarray) else self._data.gather(value))
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
                    self._data.workspace.give_back(start, stop)


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
        if not isinstance(node, list):
            if isinstance(node, int) and abs(node) >= 2**63:
                raise ValueError("a count is out of scale")
            return node
        kind, *rest = node
        makers: dict[str, Callable[..., Any]] = {
            "rng": lambda: self._rng,
            "none": lambda: None,
            "dtype": _float_type,
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
        found = {key: self.unpack(item) for key, item in content.items()}
        if is_dataclass(kind):
            check_fields(kind, found)
            for key, item in found.items():
                if isinstance(item, int | float) and self._largest < abs(item) < inf:
                    raise ValueError(f"{key} of a {name} is out of scale")
            found = {**{f.name: None for f in fields(kind)}, **found}
        made.__dict__.update(found)
        return made

    def _array(self, name: str) -> Array:
        if name not in self._arrays:
            self._arrays[name] = self._in_scale(name, self._archive.array(name))
        array: Array = self._arrays[name]
        return array

    def _in_scale(self, name: str, array: Array) -> Array:
        """The array, if a run over this data could have written it: of a possible type, no number too large."""
        # Only of measurements can a state be complex: entries are real.
        strange = self._data.kind != Measurements.kind and array.dtype.kind == "c"
        if strange:
            raise ValueError(f"{name} has numbers of the type {array.dtype}")
        if array.size and array.dtype.kind in "fc" and not float(np.max(np.abs(array))) <= self._largest:
            raise ValueError(f"{name} has numbers that are out of scale")
        return array

    def _rows(self, name: str) -> Any:
        """A row-aligned array, read block by block where the data keeps such arrays in this process."""
        if name in self._arrays:
            return self._arrays[name]
        with self._archive.opened(name) as (member, header):
            (count, width), columns_first, dtype = header
            if count != self._data.shape[0] or dtype.kind not in "fc":
                raise ValueError(
                    f"{name} has {count} rows of {dtype} for a matrix of {self._data.shape[0]} rows"
                )
            rows = self._data.allocate(width, dtype)
            if columns_first or not isinstance(rows, np.ndarray):
                self._arrays[name] = self._data.spread(self._array(name))
                return self._arrays[name]
            for start, stop in _blocks(rows):
                content = member.read((stop - start) * width * dtype.itemsize)
                block = np.frombuffer(content, dtype).reshape(stop - start, width)
                rows[start:stop] = self._in_scale(name, block)
                self._data.workspace.give_back(start, stop)
        self._arrays[name] = rows
        return rows


def _float_type(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind not in "fc":
        raise ValueError(f"{name!r} is no type of a state")
    return dtype


def check_fields(kind: type, found: dict[str, Any]) -> None:
    """Raise unless ``found`` has exactly the saved fields of the class ``kind``, with values of their types."""
    known = {f.name: f.metadata.get("saved", True) for f in fields(kind)}
    wanted = {name for name, is_saved in known.items() if is_saved}
    if set(found) != wanted:
        raise ValueError(f"a {kind.__name__} has other fields: {', '.join(sorted(set(found) ^ wanted))}")
    hints = get_type_hints(kind)
    for name, value in found.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} of a {kind.__name__} is a {type(value).__name__}")


PLAIN = (bool, int, float, str, list, tuple, dict, type(None))


def _fits(value: Any, hint: Any) -> bool:
    """Whether a field with that type hint may have this value; the contents of containers are not checked."""
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if hint is Any:
        return True
    if origin is np.ndarray:  # or the handle of a row-aligned array
        return not isinstance(value, PLAIN) and not is_dataclass(value)
    if origin is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(origin, type) or isinstance(value, origin)
