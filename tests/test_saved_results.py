"""The file that holds a whole result: what is saved is loaded, and a damaged or hostile file is a clear error."""

from __future__ import annotations

import json
import os
import pickle
import re
import stat
import tracemalloc
import zipfile
from dataclasses import fields

import numpy as np
import pytest
from test_result import METHODS, make

import rankwolf as rw
from rankwolf.result.sparse_part import StoredSparse


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_what_is_saved_is_loaded(tmp_path, method, settings, dtype):
    _, _, fit = make(method, dtype=dtype, **settings)
    fit.save(tmp_path / "fit.npz")
    back = rw.load(tmp_path / "fit.npz")
    for part in ("u", "s", "vt"):
        ours, theirs = getattr(fit.low_rank, part), getattr(back.low_rank, part)
        assert np.array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    assert np.array_equal(np.asarray(back.sparse), np.asarray(fit.sparse))
    assert isinstance(back.sparse, StoredSparse)
    for field in fields(fit):
        if field.name not in ("low_rank", "sparse", "history", "source"):
            assert getattr(back, field.name) == getattr(fit, field.name), field.name
    assert repr(back.history) == repr(fit.history)  # NaN is not equal to itself; its name is
    assert all(type(record.iteration) is int and type(record.gap) is float for record in back.history)
    assert repr(back).splitlines()[-1] == repr(fit).splitlines()[-1]
    back.save(tmp_path / "again.npz")
    assert np.array_equal(rw.load(tmp_path / "again.npz").low_rank.u, fit.low_rank.u)


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("kind", ["weights", "radii", "refit"])
def test_a_result_without_its_sparse_part_says_truly_how_to_compute_it(tmp_path, kind):
    """Before, it said lambdas[1] of every result: of a refit, whose S is not shrunk, and where there are none."""
    data, seen, fit = make(**({"radii": (50.0, 20.0)} if kind == "radii" else {}))
    fit = fit.refit() if kind == "refit" else fit
    fit.save(tmp_path / "once.npz", with_sparse=False)
    rw.load(tmp_path / "once.npz").save(tmp_path / "twice.npz", with_sparse=False)
    with pytest.raises(ValueError, match="saved without its sparse part") as caught:
        rw.load(tmp_path / "twice.npz").sparse[0]
    words = r"less L, (soft-thresholded by|kept where it is beyond) (.+)\.$"
    rule, number = re.search(words, str(caught.value)).groups()
    residual, threshold = seen * (data - np.asarray(fit.low_rank)), float(number)
    shrunk = threshold if rule == "soft-thresholded by" else 0.0
    sparse = np.sign(residual) * (np.abs(residual) - shrunk) * (np.abs(residual) > threshold)
    assert np.allclose(np.asarray(fit.sparse), sparse, atol=1e-5)
    assert fit.sparse.nonzeros > 0


@pytest.mark.doubts("iteration limit")
def test_a_sparse_part_that_was_stored_and_not_saved_has_no_rule(tmp_path):
    _, _, fit = make()
    fit.save(tmp_path / "fit.npz")
    rw.load(tmp_path / "fit.npz").save(tmp_path / "without.npz", with_sparse=False)
    with pytest.raises(ValueError, match=r"saved without its sparse part\. Save it with with_sparse=True\.$"):
        rw.load(tmp_path / "without.npz").sparse[0]


def test_a_result_without_anything_in_it_is_saved_too(tmp_path):
    fit = rw.decompose(np.zeros((4, 3)), method="fista")
    fit.save(tmp_path / "zero.npz")
    back = rw.load(tmp_path / "zero.npz")
    assert back.low_rank.rank == back.sparse.nonzeros == 0
    assert back.low_rank.shape == back.sparse.shape == (4, 3)


@pytest.mark.doubts("iteration limit")
def test_no_pickle_in_the_file_and_none_is_read(tmp_path):
    _, _, fit = make()
    path = tmp_path / "fit.npz"
    fit.save(path)
    with np.load(path, allow_pickle=False) as file:
        assert all(np.asarray(file[name]).dtype != object for name in file.files)

    class Bomb:
        def __reduce__(self):
            return os.system, ("touch " + str(tmp_path / "exploded"),)

    hostile = rewritten(path, tmp_path / "hostile.npz", u=np.array([Bomb()], dtype=object))
    with pytest.raises(ValueError, match="Cannot read"):
        rw.load(hostile)
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="Cannot read"):
        rw.load(tmp_path / "pickle.npz")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.doubts("iteration limit")
def test_saving_replaces_a_file_whole_or_not_at_all(tmp_path, no_file_beyond):
    _, _, fit = make()
    path = tmp_path / "fit.npz"
    fit.save(path)
    before = path.read_bytes()
    with no_file_beyond(len(before) // 2), pytest.raises(OSError, match="File too large"):
        fit.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["fit.npz"]


@pytest.mark.doubts("iteration limit")
def test_a_saved_file_is_as_readable_as_any_other(tmp_path):
    _, _, fit = make()
    (tmp_path / "other").write_text("")
    fit.save(tmp_path / "fit.npz")
    mode = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("fit.npz", "other")]
    assert mode[0] == mode[1]


@pytest.mark.doubts("iteration limit")
def test_saving_where_that_is_impossible(tmp_path):
    _, _, fit = make()
    with pytest.raises(FileNotFoundError):
        fit.save(tmp_path / "nowhere" / "fit.npz")
    with pytest.raises(OSError, match=r".+"):
        fit.save(tmp_path)
    with pytest.raises(FileNotFoundError):
        rw.load(tmp_path / "absent.npz")
    assert os.listdir(tmp_path) == []


def rewritten(path, target, drop=(), settings=None, **arrays):
    """A copy of a result file with some members changed."""
    with np.load(path) as file:
        members = {name: file[name] for name in file.files if name not in drop}
    if settings is not None:
        members["settings.json"] = json.dumps({**json.loads(members["settings.json"]), **settings}).encode()
    members.update(arrays)
    with zipfile.ZipFile(target, "w") as archive:
        for name, member in members.items():
            if isinstance(member, bytes):
                archive.writestr(name, member)
            else:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(member))
    return target


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize(
    "change",
    [
        {"drop": ("settings.json",)},
        {"drop": ("u",)},
        {"drop": ("sparse_indices",)},
        {"drop": ("history_gap",)},
        {"settings": {"format": 1}},
        {"settings": {"status": "WONDERFUL"}},
        {"settings": {"pair": 3}},
        {"u": np.zeros(5)},
        {"u": np.zeros((30, 2))},
        {"vt": np.zeros((1, 20))},
        {"s": np.zeros((2, 2))},
        {"sparse_indices": np.full(10, 10**6)},
        {"sparse_indptr": np.arange(3)},
        {"history_gap": np.zeros(3)},
        {"settings_": None, "settings": None},
    ],
    ids=str,
)
def test_a_tampered_file_is_a_clear_error(tmp_path, change):
    _, _, fit = make()
    fit.save(tmp_path / "fit.npz")
    change = {key: value for key, value in change.items() if value is not None}
    if not change:
        change = {"sparse_data": np.zeros(3)}
    rewritten(tmp_path / "fit.npz", tmp_path / "bad.npz", **change)
    with pytest.raises(ValueError, match=r"Cannot read '.*bad\.npz': .+"):
        rw.load(tmp_path / "bad.npz")


def content(name, value):
    """A change of a saved file: an array, or a setting."""
    return (
        {name: value}
        if name in ("u", "s", "vt", "sparse_data") or name.startswith("history_")
        else {"settings": {name: value}}
    )


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize(
    ("name", "make_bad"),
    [
        ("u", lambda u: u * np.nan), ("vt", lambda vt: vt * np.inf), ("u", lambda u: u.astype(complex)),
        ("u", lambda u: u.astype(str)), ("u", lambda u: u.astype(int)), ("s", lambda s: -s),
        ("s", lambda s: s.astype(complex)), ("sparse_data", lambda data: data * np.nan),
        ("sparse_data", lambda data: data.astype(complex)), ("history_gap", lambda gap: gap.astype(str)),
        ("gap", lambda _: -1.0), ("gap", lambda _: "small"), ("gap", lambda _: True), ("objective", lambda _: None),
        ("pair", lambda _: [1.0, 2.0, 3.0]), ("pair", lambda _: [-1.0, 2.0]), ("form", lambda _: "ab"),
        ("objective", lambda _: 10**400), ("residual", lambda _: 10**400), ("passes", lambda _: 10**400),
        ("history_gap", lambda gap: gap - 1e9), ("history_seconds", lambda seconds: -1.0 - seconds),
        ("history_rank", lambda rank: rank - 99), ("history_rank", lambda rank: rank + 0.5),
        ("threshold", lambda _: "x"), ("threshold", lambda _: -1.0), ("shrinks", lambda _: 3),
        ("iterations", lambda _: -1), ("passes", lambda _: 1.5), ("method", lambda _: 3), ("seconds", lambda _: -1.0),
    ],
)  # fmt: skip
def test_contents_that_no_run_could_have_are_refused(tmp_path, name, make_bad):
    _, _, fit = make()
    fit.save(tmp_path / "fit.npz")
    with np.load(tmp_path / "fit.npz") as file:
        before = file[name] if name in file.files else None
    rewritten(tmp_path / "fit.npz", tmp_path / "bad.npz", **content(name, make_bad(before)))
    with pytest.raises(ValueError, match=r"Cannot read '.*bad\.npz'"):
        rw.load(tmp_path / "bad.npz")


@pytest.mark.doubts("iteration limit")
def test_a_member_that_is_not_part_of_a_result_costs_nothing(tmp_path):
    """Before, 3 GiB of zeros that nobody asked for took 3.2 GB and 26 s."""
    _, _, fit = make()
    fit.save(tmp_path / "fit.npz")
    with zipfile.ZipFile(tmp_path / "fit.npz", "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("zeros.npy", "history_strange.npy"):
            with archive.open(name, "w", force_zip64=True) as member:
                header = {"descr": "<f8", "fortran_order": False, "shape": (2**24,)}
                np.lib.format.write_array_header_1_0(member, header)
                for _ in range(8):
                    member.write(bytes(2**24))
    tracemalloc.start()
    assert rw.load(tmp_path / "fit.npz").objective == fit.objective
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


@pytest.mark.doubts("iteration limit")
def test_factors_that_would_inflate_a_thousandfold_are_refused_before_they_are_read(tmp_path):
    _, _, fit = make()
    fit.save(tmp_path / "fit.npz", with_sparse=False)
    big = np.zeros((2**23, fit.low_rank.rank))
    rewritten(tmp_path / "fit.npz", tmp_path / "bad.npz", u=big)
    compressed = tmp_path / "compressed.npz"
    with (
        zipfile.ZipFile(tmp_path / "bad.npz") as old,
        zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(ValueError, match=r"more than the limit of 1 MB"):
        rw.load(compressed, max_memory="1MB")
    assert rw.load(compressed, max_memory="4GB").low_rank.shape[0] == 2**23


@pytest.mark.doubts("iteration limit")
def test_saving_keeps_the_permissions_of_what_it_replaces(tmp_path):
    """Before, a file of mode 0600 became 0644."""
    _, _, fit = make()
    path = tmp_path / "fit.npz"
    path.touch()
    path.chmod(0o600)
    fit.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.doubts("iteration limit")
def test_a_bad_index_does_not_reach_a_product(tmp_path):
    """SciPy would segfault on it: an index outside the matrix with everything else in order."""
    _, _, fit = make()
    fit.save(tmp_path / "fit.npz")
    indices = fit.sparse.to_scipy().indices.copy()
    indices[0] = 2**30
    rewritten(tmp_path / "fit.npz", tmp_path / "bad.npz", sparse_indices=indices)
    with pytest.raises(ValueError, match="Cannot read"):
        rw.load(tmp_path / "bad.npz")


@pytest.mark.doubts("iteration limit")
def test_damaged_bytes_are_a_clear_error(tmp_path):
    """Cut anywhere or with bytes flipped, a file is refused, or was not hurt in what counts."""
    _, _, fit = make()
    fit.save(tmp_path / "fit.npz")
    whole = (tmp_path / "fit.npz").read_bytes()
    rng, refused = np.random.default_rng(0), 0
    for trial in range(150):
        damaged = bytearray(whole[: rng.integers(len(whole))] if trial % 3 == 0 else whole)
        for _ in range(3):
            if damaged:
                damaged[rng.integers(len(damaged))] = rng.integers(256)
        (tmp_path / "bad.npz").write_bytes(damaged)
        try:
            rw.load(tmp_path / "bad.npz")
        except ValueError as error:
            assert str(error).startswith("Cannot read") and "\n" not in str(error)  # noqa: PT017
            refused += 1
    assert refused > 120


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x93NUMPY"])
def test_other_files_are_a_clear_error(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match="Cannot read"):
        rw.load(tmp_path / "x.npz")


def test_arrays_and_archives_of_others_are_a_clear_error(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    np.savez(tmp_path / "x.npz", a=np.eye(3))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    for name in ("x.npy", "x.npz", "x.zip"):
        with pytest.raises(ValueError, match="Cannot read"):
            rw.load(tmp_path / name)


@pytest.mark.doubts("iteration limit")
def test_a_header_that_promises_too_much_is_a_clear_error(tmp_path):
    """A few bytes that claim to be an array of 8 TB."""
    _, _, fit = make()
    fit.save(tmp_path / "fit.npz")
    header = str({"descr": "<f8", "fortran_order": False, "shape": (10**12, 1)}).ljust(117).encode() + b"\n"
    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\x00" * 64
    with zipfile.ZipFile(tmp_path / "fit.npz") as old, zipfile.ZipFile(tmp_path / "bad.npz", "w") as new:
        for name in old.namelist():
            new.writestr(name, body if name == "u.npy" else old.read(name))
    with pytest.raises(ValueError, match="Cannot read"):
        rw.load(tmp_path / "bad.npz")
