"""Changes to a file: of bytes anywhere, and inside the containers that checksums would protect from them.

A change of bytes seldom leaves JSON or a header of NumPy whole, so that what comes behind them is hardly tried. Numbers
of JSON, and shapes and types of arrays, are therefore changed as such, too.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

EDGES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 100, 127, 128, 129, 254, 255)
WIDE = (
    0,
    1,
    2**15 - 1,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**33,
    2**63 - 1,
    2**63,
    2**64 - 1,
    10**9,
    10**15,
)
WORDS = (
    b"nan", b"inf", b"-inf", b"1e999", b"null", b"true", b"[]", b"{}", b'""', b"-1", b"1e308", b"99999999999999999999",
    b"'", b'"', b"(", b"[", b"{", b"\x00", b"\n", b"\xff", b"<f8", b"|O", b"<U9", b"<c16", b"|V0", b"../", b"=cmd",
)  # fmt: skip


NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 0.5, 1e-320, 1e20, 1e59, 1e155, 1e308, float("inf"), float("nan"), 2**31, 2**63, 10**30, 10**400, True,
    None, "x", [], {},
)  # fmt: skip


def mutated(path: Path, rng: Random) -> bytes:
    """The bytes of a file with a few changes; for most zip files inside one of the members."""
    content = path.read_bytes()
    if content.startswith((b"{", b"\x93NUMPY")) and rng.random() < 0.5:
        return restructured(content, rng)
    if content.startswith(b"PK") and rng.random() < 0.8:
        return _zip(content, rng)
    if content.startswith(b"MATLAB 5") and rng.random() < 0.6:
        return _matlab(content, rng)
    if content.startswith(b"\x89PNG") and rng.random() < 0.7:
        return _png(content, rng)
    if content.startswith(b"\x1f\x8b") and rng.random() < 0.7:
        return gzip.compress(change(gzip.decompress(content), rng))
    return change(content, rng)


def change(content: bytes, rng: Random) -> bytes:
    """One to six changes; most of them near the start or the end, where headers and directories are."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choice(CHANGES)(data, rng)
    return bytes(data)


def _place(data: bytearray, rng: Random) -> int:
    near = min(len(data), 400)
    choice = rng.random()
    if choice < 0.35:
        return rng.randrange(near) if near else 0
    if choice < 0.6:
        return len(data) - 1 - rng.randrange(near) if near else 0
    return rng.randrange(len(data)) if data else 0


def _flip(data: bytearray, rng: Random) -> None:
    if data:
        data[_place(data, rng)] ^= 1 << rng.randrange(8)


def _edge(data: bytearray, rng: Random) -> None:
    if data:
        data[_place(data, rng)] = rng.choice(EDGES)


def _number(data: bytearray, rng: Random) -> None:
    width, order = rng.choice((2, 4, 8)), rng.choice(("little", "big"))
    place = _place(data, rng)
    number = rng.choice(WIDE) % 2 ** (8 * width)
    data[place : place + width] = number.to_bytes(width, "little" if order == "little" else "big")


def _word(data: bytearray, rng: Random) -> None:
    word, place = rng.choice(WORDS), _place(data, rng)
    data[place : place + rng.choice((0, 1, len(word)))] = word


def _digits(data: bytearray, rng: Random) -> None:
    places = [k for k, value in enumerate(data[:2000]) if 48 <= value < 58]
    if places:
        data[rng.choice(places)] = rng.choice(b"0123456789-e.")


def _cut(data: bytearray, rng: Random) -> None:
    del data[_place(data, rng) :]


def _drop(data: bytearray, rng: Random) -> None:
    place = _place(data, rng)
    del data[place : place + rng.choice((1, 2, 4, 8, 64, 512))]


def _repeat(data: bytearray, rng: Random) -> None:
    place, count = _place(data, rng), rng.choice((1, 4, 8, 64, 512))
    data[place:place] = data[place : place + count] * rng.choice((1, 2, 40))


def _noise(data: bytearray, rng: Random) -> None:
    place, count = _place(data, rng), rng.choice((2, 8, 64))
    data[place : place + count] = rng.randbytes(count)


def _move(data: bytearray, rng: Random) -> None:
    first, second, count = _place(data, rng), _place(data, rng), rng.choice((4, 8, 32))
    data[second : second + count] = data[first : first + count]


CHANGES: tuple[Callable[[bytearray, Random], None], ...] = (
    _flip, _flip, _edge, _edge, _number, _number, _word, _digits, _cut, _drop, _repeat, _noise, _move,
)  # fmt: skip


def restructured(content: bytes, rng: Random) -> bytes:
    """Other values in JSON, or another shape or type of an array; other bytes, where it is neither."""
    if content.startswith(b"{"):
        return _json(content, rng)
    if content.startswith(b"\x93NUMPY"):
        return _array(content, rng)
    return change(content, rng)


def _json(content: bytes, rng: Random) -> bytes:
    try:
        top = json.loads(content)
    except ValueError:
        return change(content, rng)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(inner, dict | list):
                walk(inner)

    walk(top)
    for _ in range(rng.choice((1, 1, 1, 2))):
        if places:
            node, key = rng.choice(places)
            node[key] = rng.choice(NUMBERS)
    return json.dumps(top).encode()


def _array(content: bytes, rng: Random) -> bytes:
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if not array.ndim:
        words = array.item()
        kept = isinstance(words, str) and words.startswith("{")
        array = np.array(_json(words.encode(), rng).decode()) if kept else array[None]
    else:
        numeric = array.dtype.kind in "biuf"
        with np.errstate(all="ignore"):
            array = rng.choice(SHAPES if not numeric or rng.random() < 0.5 else VALUES)(array)
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


SHAPES: tuple[Callable[[Any], Any], ...] = (
    lambda a: a[:-1], lambda a: a[:0], lambda a: a[..., :-1], lambda a: a.T, lambda a: a[None], lambda a: a.ravel(),
    lambda a: np.concatenate([a, a]), lambda a: a[..., :0],
)  # fmt: skip
VALUES: tuple[Callable[[Any], Any], ...] = (
    lambda a: a * 1e59, lambda a: a * np.nan, lambda a: 0 * a, lambda a: -a.astype(float), lambda a: a.astype(complex),
    lambda a: a.astype(np.float16), lambda a: a.astype(np.int32), lambda a: a.astype("U9"), lambda a: a * np.inf,
    lambda a: a.astype(">f8"), lambda a: a.astype(np.longdouble), lambda a: a.astype(np.uint64),
)  # fmt: skip


def _zip(content: bytes, rng: Random) -> bytes:
    """A member is changed and put back with a checksum that fits."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            if name == chosen and rng.random() < 0.05:
                continue
            member = old.read(name)
            altered = restructured if rng.random() < 0.5 else change
            new.writestr(name, altered(member, rng) if name == chosen else member)
    return made.getvalue()


def _matlab(content: bytes, rng: Random) -> bytes:
    """The compressed variables inflated, changed, and compressed again."""
    made, place = bytearray(content[:128]), 128
    while place + 8 <= len(content):
        kind, count = struct.unpack_from("<II", content, place)
        body = content[place + 8 : place + 8 + count]
        if kind == 15:
            body = zlib.compress(change(zlib.decompress(body), rng))
        elif rng.random() < 0.5:
            body = change(body, rng)
        made += struct.pack("<II", kind, len(body)) + body
        place += 8 + count
    return bytes(made)


def _png(content: bytes, rng: Random) -> bytes:
    """A chunk is changed and its checksum with it."""
    made, place, chunks = bytearray(content[:8]), 8, []
    while place + 12 <= len(content):
        (count,) = struct.unpack_from(">I", content, place)
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + count]))
        place += 12 + count
    chosen = rng.randrange(len(chunks))
    for number, (kind, body) in enumerate(chunks):
        if number == chosen:
            body = zlib.compress(change(zlib.decompress(body), rng)) if kind == b"IDAT" and rng.random() < 0.5 else (
                change(body, rng)
            )  # fmt: skip
        made += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return bytes(made)
