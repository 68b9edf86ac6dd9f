"""Files from strangers, by the ways in which they have hurt: one line, exit code 2, nothing followed, nothing run."""

from __future__ import annotations

import json
import os
import signal
import stat
import struct
import subprocess
import sys
import time
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import rankwolf as rw
from rankwolf.cli import main
from rankwolf.files import LabelledMatrix, Labels, read_matrix, write_rows
from rankwolf.ground.printable import printable


def numbers(m=30, n=7):
    return np.random.default_rng(0).standard_normal((m, n))


def command(*words, cwd=None, **settings):
    """``rankwolf`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "rankwolf", *map(str, words)], capture_output=True, text=True, timeout=240, cwd=cwd,
        errors="surrogateescape", check=False, **settings,
    )  # fmt: skip


def assert_one_line(done, says, code=2):
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1 and says in done.stderr, done.stderr


# Matlab


def test_matlab_files_of_the_other_byte_order(tmp_path):
    """As a big-endian machine wrote them; SciPy writes none, so the bytes are put together here."""
    X = np.arange(12.0).reshape(3, 4)

    def element(kind, content):
        return struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)

    body = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", 3, 4)) + element(1, b"x")
    body += element(9, X.T.astype(">f8").tobytes())
    header = b"MATLAB 5.0".ljust(124) + struct.pack(">H", 0x0100) + b"MI"
    (tmp_path / "a.mat").write_bytes(header + struct.pack(">II", 14, len(body)) + body)
    np.testing.assert_array_equal(read_matrix(tmp_path / "a.mat").values, X)
    four = struct.pack(">5i", 1000, 3, 4, 0, 2) + b"x\0" + X.T.astype(">f8").tobytes()
    (tmp_path / "four.mat").write_bytes(four)
    np.testing.assert_array_equal(read_matrix(tmp_path / "four.mat").values, X)


# Tables


def test_wide_parquet_is_read_in_linear_time(tmp_path):
    """Before, 4000 columns took 19 s and 30,000 never ended."""
    seconds = {}
    for columns in (1000, 8000):
        table = pa.table({f"c{k}": np.full(3, float(k)) for k in range(columns)})
        pq.write_table(table, tmp_path / "wide.parquet")
        started = time.perf_counter()
        values = read_matrix(tmp_path / "wide.parquet").values
        seconds[columns] = time.perf_counter() - started
        np.testing.assert_array_equal(values, np.tile(np.arange(columns), (3, 1)))
    assert seconds[8000] < 30.0 * seconds[1000]  # quadratic would be 64 times


def test_parquet_with_names_that_occur_twice(tmp_path):
    columns = [
        pa.array(["a", "b", "c"] * 11),
        pa.array(range(33)),
        pa.array(np.arange(33.0)),
        pa.array([None, 2] * 16 + [1]),
    ]
    pq.write_table(pa.table(columns, names=["id", "x", "y", "x"]), tmp_path / "a.parquet", row_group_size=10)
    back = read_matrix(tmp_path / "a.parquet")
    assert back.labels == Labels(("x", "y", "x"), ["a", "b", "c"] * 11, "id")
    np.testing.assert_array_equal(back.values[:, 0], np.arange(33))
    np.testing.assert_array_equal(back.values[:, 2], [np.nan, 2] * 16 + [1])


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('"first\nname",b\n1,2\n3,4\n', ("first\nname", "b")),
        ('\n\n   \na,"b\r\nc"\n1,2\n\n3,4\n', ("a", "b\r\nc")),
        ('\ufeff\n"a\n,""x""",b\n1,2\n3,4\n', ('a\n,"x"', "b")),
        ("\n\n1,2\n3,4\n", None),
    ],
)
def test_headings_with_line_breaks_and_empty_lines_above(tmp_path, text, columns):
    (tmp_path / "a.csv").write_bytes(text.encode())
    back = read_matrix(tmp_path / "a.csv")
    assert back.labels.columns == columns
    np.testing.assert_array_equal(back.values, [[1, 2], [3, 4]])
    again = write_rows(tmp_path, "again", "csv", back.values, back, lambda rows: None)
    assert read_matrix(again).labels.columns == columns


def test_names_that_a_spreadsheet_would_run_are_kept_and_warned_of(tmp_path, capsys):
    """They are the user's own names, and what is written must be joined to what was read."""
    heading, rows = "day,=cmd|' /C calc'!A0,b", [f"d{k},{k + 0.1 * (k % 3)},{2 * k}" for k in range(40)]
    (tmp_path / "a.csv").write_text("\n".join([heading, *rows]))
    words = ["decompose", str(tmp_path / "a.csv"), "--quiet", "--delta", "0.01", "-o"]
    assert main([*words, str(tmp_path / "out")]) == 0
    assert "spreadsheet" in capsys.readouterr().err
    assert (tmp_path / "out" / "low_rank.csv").read_text().splitlines()[0] == heading
    assert main([*words, str(tmp_path / "npy"), "--format", "npy"]) == 0
    assert "spreadsheet" not in capsys.readouterr().err


# Names


def test_names_from_strangers_do_not_reach_the_terminal_raw(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("\x1b]0;owned\x07a", "\x1b[2Jb", "c\u202ed"):
            file[name] = numbers()
    assert main(["decompose", str(tmp_path / "a.h5"), "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.removesuffix("\n").isprintable()
    assert "several" in error
    assert printable("\x9b\udcff\n") == "\\x9b\\udcff\\n"


def test_an_archive_with_a_path_for_a_name_is_not_handed_on(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        np.save(tmp_path / "x.npy", numbers())
        archive.write(tmp_path / "x.npy", "../../x.npy")
    back = read_matrix(tmp_path / "a.npz")
    assert back.member == "../../x"
    path = write_rows(tmp_path, "part", "npz", back.values, back, lambda rows: None)
    assert zipfile.ZipFile(path).namelist() == ["part.npy"]


@pytest.mark.parametrize(
    ("kind", "member", "kept"),
    [("npz", "file", True), ("npz", "raw data", True), ("npz", "..", False), ("mat", "_x", False), ("mat", "x", True),
     ("hdf5", "a/b", True), ("hdf5", "a/../b", False), ("zarr", "a/b", True), ("zarr", "a/..", False)],
)  # fmt: skip
def test_a_name_is_kept_where_it_is_a_plain_one(tmp_path, kind, member, kept):
    like = LabelledMatrix(numbers(), kind, member=member)
    path = write_rows(tmp_path, "part", kind, numbers(), like, lambda rows: None)
    back = read_matrix(path)
    assert ((back.member or "").strip("/") == member) is kept
    np.testing.assert_array_equal(back.values, numbers())


def test_a_file_name_that_is_not_utf8(tmp_path):
    """Before, the run failed after it had solved."""
    name = os.fsdecode(b"a\xff.csv")
    np.savetxt(tmp_path / name, numbers(40, 5), delimiter=",")
    done = command(
        "decompose", tmp_path / name, "-o", tmp_path / os.fsdecode(b"out\xfe"), "--report", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["input"] == str(tmp_path / name)
    assert "report.html" in os.listdir(tmp_path / os.fsdecode(b"out\xfe"))


def test_a_long_output_name(tmp_path):
    np.save(tmp_path / "a.npy", numbers(40, 5))
    assert command("decompose", "a.npy", "-o", "x" * 250, "-q", cwd=tmp_path).returncode == 0
    assert_one_line(command("decompose", "a.npy", "-o", "x" * 300, "-q", cwd=tmp_path), "x" * 300)


# Places


@pytest.mark.parametrize("name", ["low_rank.npy", "x.npy"])
def test_results_never_replace_the_input(tmp_path, name, capsys):
    folder = tmp_path / "d"
    folder.mkdir()
    np.save(folder / name, numbers(40, 5))
    before = (folder / name).read_bytes()
    assert main(["decompose", str(folder / name), "-o", str(folder), "--force"]) == 2
    assert "lies in the output" in capsys.readouterr().err
    assert (folder / name).read_bytes() == before


def test_a_zarr_store_is_no_output_of_itself(tmp_path, capsys):
    zarr.create_array(str(tmp_path / "a.zarr"), data=numbers())
    words = ["decompose", str(tmp_path / "a.zarr"), "-o", str(tmp_path / "a.zarr"), "--force"]
    assert main(words) == 2
    assert "lies in the output" in capsys.readouterr().err


# Crashes


def test_a_npy_that_becomes_shorter_during_the_run(tmp_path):
    """Before, SIGBUS without a word."""
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).standard_normal((3000, 100)))
    X = np.load(path, mmap_mode="r")

    def cut(record):
        os.truncate(path, 4096)

    with pytest.raises(ValueError, match="has become shorter"):
        rw.decompose(X, rng=0, tol=0.0, max_iter=5, callback=cut)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_command_whole(tmp_path, number):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20_000, 200)))
    words = [sys.executable, "-m", "rankwolf", "decompose", "x.npy", "-o", "out", "--tol", "0", "-q"]
    process = subprocess.Popen([*words, "--checkpoint", "c", "--checkpoint-every", "1"], cwd=tmp_path,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    deadline = time.monotonic() + 60.0
    while not (tmp_path / "c").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, said.count("\n")) == (128 + number, 1)
    assert sorted(os.listdir(tmp_path)) == ["c", "x.npy"]


WHILE_IMPORTING = """
import signal, sys
from rankwolf.__main__ import main
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "rankwolf.cli":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
main()
"""


def test_an_interrupt_while_modules_are_imported_is_no_traceback(tmp_path):
    words = [sys.executable, "-c", WHILE_IMPORTING]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


# Dask


@pytest.mark.parametrize(
    ("change", "says"),
    [(lambda b: b[:50], r"\(50, 20\)"), (lambda b: b * (1 + 1j), "complex128"),
     (lambda b: np.hstack([b, b]), r"\(100, 40\)"),
     (lambda b: b.astype(str), "<U"), (lambda b: b[None], r"\(1, 100, 20\)")],
)  # fmt: skip
@pytest.mark.parametrize("wide", [False, True])
def test_blocks_of_dask_that_are_not_what_they_declare(change, says, wide):
    """Before, a result of another shape, the real parts alone, or a heap that was written past its end."""
    da = pytest.importorskip("dask.array")
    X = da.from_array(numbers(300, 20), chunks=(100, 20))
    blocks = X.map_blocks(change, dtype=np.float64, chunks=X.chunks, meta=np.empty((0, 0)))
    # Dask's own transpose may be the first to notice.
    says = "" if wide else says
    with pytest.raises(ValueError, match=rf"axes don't match|whose blocks are what it declares.*{says}"):
        rw.decompose(blocks.T if wide else blocks, rng=0)


def test_a_mask_of_dask_that_is_not_what_it_declares():
    da = pytest.importorskip("dask.array")
    X = da.from_array(numbers(300, 20), chunks=(100, 20))
    mask = (X == X).map_blocks(lambda b: b[:50], dtype=bool, chunks=X.chunks, meta=np.empty((0, 0), bool))
    with pytest.raises(ValueError, match="'observed' parameter"):
        rw.decompose(X, observed=mask, rng=0)


def test_saved_files_are_for_everybody_as_the_user_said(tmp_path):
    """The folder that is written in is private; what comes out of it is not."""
    np.save(tmp_path / "a.npy", numbers(40, 5))
    before = os.umask(0o027)
    try:
        assert main(["decompose", str(tmp_path / "a.npy"), "-o", str(tmp_path / "out"), "-q"]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "out" / "result.npz").stat().st_mode) == 0o640


def test_blocks_that_are_larger_than_they_say_are_not_cut():
    """Before: one block of 1500 rows, declared as 1400, lost a hundred of them without a word."""
    da, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    blocks = [dask.delayed(numbers)(1500, 20), dask.delayed(numbers)(1500, 20)]
    X = da.concatenate(
        [da.from_delayed(blocks[0], (1400, 20), float), da.from_delayed(blocks[1], (1500, 20), float)]
    )
    for chunks in (X, X.T):  # a rechunk by the caller himself would have cut it before
        with pytest.raises(ValueError, match=r"declares|axes don't match|block"):
            rw.decompose(chunks, rng=0)


def test_small_texts_may_be_pipes_devices_and_deep(tmp_path):
    """Before: a pipe for summary.json or temporalROI.txt hung, a link to /dev/zero filled the memory."""
    np.save(tmp_path / "x.npy", numbers())
    (tmp_path / "out").mkdir()
    (tmp_path / "truth").mkdir()
    (tmp_path / "truth" / "gt000001.png").write_bytes(b"")
    solve = ("decompose", "x.npy", "-o", "out", "--checkpoint", "c", "--resume")
    score = ("score", "out", "--truth", "truth")
    makers = (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.write_text("[" * 10**5))
    for make in makers:
        for words, name, says in (
            (solve, "out/summary.json", "exists already"),
            (score, "truth/temporalROI.txt", ""),
        ):
            make(tmp_path / name)
            assert_one_line(command(*words, cwd=tmp_path), says)
            (tmp_path / name).unlink()
