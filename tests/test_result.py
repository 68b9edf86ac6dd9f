"""The result: two parts that need not exist as a whole, what is known about them, and a file that holds it all."""

from __future__ import annotations

import json
import os
import pickle
import stat
import tracemalloc
import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest
import reference
import scipy.sparse
from numpy.testing import assert_allclose

import rankwolf as rw
from rankwolf.ground.low_rank import LowRank
from rankwolf.result.sparse_part import StoredSparse


def make(method="fista", m=30, n=20, dtype=np.float64, observed=0.8, **settings):
    M, seen = reference.corrupted(1, m, n, observed=observed)
    settings = {"delta": 0.05, "max_iter": 25, "tol": 1e-4, "rng": 0, "n_threads": 1, **settings}
    return M, seen, rw.decompose(M.astype(dtype), observed=seen, method=method, **settings)


METHODS = [("fista", {}), ("fw-t", {}), ("fw", {}), ("fw-p", {"radii": (30.0, 40.0)}), ("auto", {})]


# ---------------------------------------------------------------- the parts


@pytest.mark.doubts(
    "low-rank part is zero",
    "most of it is noise",
    "λ_S is below the noise",
    "iteration limit",
    "radii hold all",
)
@pytest.mark.parametrize(("m", "n"), [(30, 20), (20, 30), (6, 1), (1, 6)])
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_rows_columns_and_the_whole_agree(method, settings, m, n):
    _, seen, fit = make(method, m, n, **settings)
    for part in (fit.low_rank, fit.sparse):
        whole = np.asarray(part)
        assert whole.shape == part.shape == (m, n)
        assert whole.dtype == part.dtype
        keys = [
            slice(None), slice(1, 4), slice(None, None, 2), slice(None, None, -1), slice(5, 2), slice(-3, None), 0, -1,
            np.int64(m - 1), np.array([0, m - 1, 0]), np.arange(m) % 2 == 0, [0, -1], slice(100, 200),
        ]  # fmt: skip
        for key in keys:
            for columns in (slice(None), slice(1, 5), 0, -1, slice(None, None, -2)):
                expected = whole[key][..., columns]
                assert_allclose(part[key, columns], expected, atol=1e-12)
                assert part[key, columns].shape == expected.shape
            assert_allclose(part[key], whole[key], atol=1e-12)
        for key in (m, -m - 1):
            with pytest.raises(IndexError):
                part[key]
        for key in ((0, [0]), (0, 0, 0), (slice(None), np.arange(n) > 0)):
            with pytest.raises(IndexError, match="Rows"):
                part[key]
    assert not np.any(np.asarray(fit.sparse)[~seen])


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_the_sparse_part_in_every_form(method, settings):
    _, _, fit = make(method, **settings)
    dense, csr = np.asarray(fit.sparse), fit.sparse.to_scipy()
    assert isinstance(csr, scipy.sparse.csr_array)
    csr.check_format(full_check=True)
    assert np.array_equal(csr.toarray(), dense)
    assert csr.nnz == np.count_nonzero(dense) == fit.sparse.nonzeros
    blocks = list(fit.sparse.blocks(7))
    assert [first for first, _ in blocks] == [0, 7, 14, 21, 28]
    assert np.array_equal(np.vstack([block for _, block in blocks]), dense)
    with pytest.raises(ValueError, match="no dense form"):
        np.asarray(fit.sparse, copy=False)
    assert np.asarray(fit.sparse, dtype=np.float32).dtype == np.float32


@pytest.mark.doubts("most of it is noise", "iteration limit")
def test_the_sparse_part_is_lazy():
    """It is a function of L and the data: nothing of its size is kept, and it follows the data."""
    M, _, fit = make("fw-t", observed=1.0)
    expected = reference.soft(M - np.asarray(fit.low_rank), fit.lambdas[1])
    assert_allclose(np.asarray(fit.sparse), expected, atol=1e-12)
    assert not [value for value in vars(fit.sparse).values() if isinstance(value, np.ndarray)]


@pytest.mark.doubts("iteration limit")
def test_low_rank_is_a_singular_value_decomposition():
    _, _, fit = make(m=25, n=40)
    L = fit.low_rank
    assert L.rank == L.s.size > 0
    assert_allclose(L.u.T @ L.u, np.eye(L.rank), atol=1e-9)
    assert_allclose(L.vt @ L.vt.T, np.eye(L.rank), atol=1e-9)
    assert np.all(np.diff(L.s) <= 0.0)
    assert np.all(L.s > 0.0)
    assert_allclose(np.asarray(L), (L.u * L.s) @ L.vt, atol=1e-12)
    assert L.nuclear_norm == pytest.approx(reference.nuclear_norm(np.asarray(L)))
    left, right = L.factors()
    assert_allclose(left @ right.T, np.asarray(L), atol=1e-10)
    assert np.sum(left**2) == pytest.approx(np.sum(right**2)) == pytest.approx(L.nuclear_norm)


def test_products_with_a_low_rank_matrix():
    rng = np.random.default_rng(0)
    L = LowRank.from_factors(rng.standard_normal((12, 3)), rng.standard_normal((8, 3)))
    dense = np.asarray(L)
    x, X = rng.standard_normal(8), rng.standard_normal((8, 4))
    y, Y = rng.standard_normal(12), rng.standard_normal((5, 12))
    assert_allclose(L @ x, dense @ x)
    assert_allclose(L @ X, dense @ X)
    assert_allclose(L @ x.tolist(), dense @ x)
    assert_allclose(y @ L, y @ dense)
    assert_allclose(Y @ L, Y @ dense)
    assert_allclose(np.asarray(L.T), dense.T)
    assert_allclose(L.T @ y, dense.T @ y)
    assert_allclose(L.T @ L, dense.T @ dense, atol=1e-12)
    assert L.T.shape == (8, 12)
    with pytest.raises(ValueError, match=r"matmul|shapes"):
        L @ np.ones(7)


def test_a_low_rank_matrix_of_rank_zero():
    Z = LowRank.zeros((5, 4))
    assert Z.rank == 0
    assert np.array_equal(np.asarray(Z), np.zeros((5, 4)))
    assert np.array_equal(Z @ np.ones(4), np.zeros(5))
    assert np.array_equal(np.ones(5) @ Z, np.zeros(4))
    assert np.array_equal(Z[1:3, 2], np.zeros(2))
    assert Z.nuclear_norm == 0.0
    assert "rank 0" in repr(Z)
    same = LowRank.from_factors(np.zeros((5, 2)), np.ones((4, 2)))
    assert same.rank == 0
    with pytest.raises(ValueError, match="no dense form"):
        np.asarray(Z, copy=False)


@pytest.mark.doubts("most of it is noise", "iteration limit")
def test_float32_data_gives_float32_parts():
    for method, settings in METHODS:
        # The gap with radii is relative to the misfit alone: float32 reaches a hundredth.
        tol = {"tol": 0.02} if "radii" in settings else {}
        _, _, fit = make(method, dtype=np.float32, **settings, **tol)
        assert fit.low_rank.dtype == np.float32
        assert fit.low_rank[0:2].dtype == fit.sparse[0:2].dtype == np.float32


# ---------------------------------------------------------------- what is known about them


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_the_figures_are_those_of_the_pair(method, settings):
    M, seen, fit = make(method, **settings)
    L, S = np.asarray(fit.low_rank), np.asarray(fit.sparse)
    value = (
        reference.objective(M, seen, L, S, fit.lambdas) if fit.lambdas else reference.misfit(M, seen, L, S)
    )
    assert fit.objective == pytest.approx(value, rel=1e-9)
    assert fit.relative_gap == pytest.approx(fit.gap / fit.objective)
    assert (fit.lambdas is None) != (fit.radii is None)
    assert fit.method == {"auto": fit.method}.get(method, method)
    assert fit.seconds > 0.0
    assert fit.passes >= fit.iterations


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_one_record_per_iteration(method, settings):
    _, _, fit = make(method, **settings)
    assert [record.iteration for record in fit.history] == list(range(1, fit.iterations + 1))
    assert all(a.passes < b.passes for a, b in zip(fit.history, fit.history[1:], strict=False))
    assert all(a.seconds <= b.seconds for a, b in zip(fit.history, fit.history[1:], strict=False))
    for record in fit.history:
        assert np.isfinite([record.objective, record.gap, record.relative_gap]).all()
        assert record.gap >= 0.0
        assert 0 <= record.rank <= 20, "a rank is never above the shorter side"
        assert 0 <= record.nonzeros <= 600
        if method in ("fw", "fw-t", "fw-p"):
            assert 0.0 <= record.step_size <= 1.0
    last = fit.history[-1]
    # FW's t_L is an upper bound on the norm of L, so the iterate can only be better than its record.
    assert fit.objective <= last.objective * (1 + 1e-9)
    if method == "fista":
        assert fit.low_rank.rank == last.rank
    if method in ("fw-t", "fw-p"):
        assert np.isfinite(last.surrogate_gap)


@pytest.mark.doubts("most of it is noise", "iteration limit")
def test_repr_is_short_and_says_what_matters():
    _, _, fit = make()
    lines = repr(fit).splitlines()
    assert len(lines) <= 6
    assert max(map(len, lines)) <= 110
    for words in (
        "30 × 20",
        "fista",
        "rank",
        "nonzeros",
        "objective",
        "gap",
        "iterations",
        fit.status.value,
    ):
        assert words in repr(fit)
    assert "τ_L = 30" in repr(make("fw-p", radii=(30.0, 40.0))[2])
    assert repr(fit.low_rank).startswith("LowRank(30 × 20, rank ")
    assert "nonzeros" in repr(fit.sparse)


@pytest.mark.doubts("iteration limit")
def test_a_result_cannot_be_changed():
    _, _, fit = make()
    with pytest.raises(AttributeError):
        fit.objective = 0.0
    with pytest.raises(AttributeError):
        fit.history[0].gap = 0.0


def test_statuses_are_sentences():
    for status in rw.Status:
        assert status.value.endswith(".")
        assert " " in status.value
        assert status.value[0].isupper()
    assert {status for status in rw.Status if status.converged} == {
        rw.Status.GAP_REACHED,
        rw.Status.PAPER_RULE,
        rw.Status.PATH_ENDED,
        rw.Status.REFITTED,
    }


# ---------------------------------------------------------------- the file


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
        assert all(file[name].dtype != object for name in file.files)

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
def test_saving_replaces_a_file_whole_or_not_at_all(tmp_path, monkeypatch):
    _, _, fit = make()
    path = tmp_path / "fit.npz"
    fit.save(path)
    before = path.read_bytes()

    def full_disk(file, _array, **_settings):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="No space"):
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
        members["settings"] = np.array(json.dumps({**json.loads(str(members["settings"])), **settings}))
    members.update(arrays)
    np.savez(target, **members)
    return target


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize(
    "change",
    [
        {"drop": ("settings",)},
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
    with pytest.raises(ValueError, match="as in a file that is made to exhaust memory"):
        rw.load(compressed)
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


@pytest.mark.doubts("iteration limit")
def test_replace_keeps_the_rest():
    """A frozen dataclass like any other."""
    _, _, fit = make()
    assert replace(fit, method="other").objective == fit.objective
