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
import scipy.io
import scipy.sparse
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


@pytest.mark.parametrize("value", [1, 0x20])
def test_a_changed_byte_in_a_matlab_file_does_not_kill(tmp_path, value):
    """Before, SIGSEGV and SIGBUS inside SciPy."""
    scipy.io.savemat(tmp_path / "one.mat", {"x": np.eye(20) + np.arange(20.0)})
    content = bytearray((tmp_path / "one.mat").read_bytes())
    content[177] = value
    (tmp_path / "two.mat").write_bytes(content)
    with pytest.raises(ValueError, match=r"Cannot read .*data element has the type"):
        read_matrix(tmp_path / "two.mat")


@pytest.mark.parametrize("version", ["4", "5"])
def test_no_changed_byte_of_a_matlab_file_is_more_than_a_refusal(tmp_path, version):
    """Every byte of the first variable's head, and some of the rest, with eight values."""
    scipy.io.savemat(
        tmp_path / "one.mat", {"x": numbers(6, 4), "s": scipy.sparse.eye_array(4).tocsc()}, format=version
    )
    whole = (tmp_path / "one.mat").read_bytes()
    start = 0 if version == "4" else 120
    refused = 0
    for place in [*range(start, start + 90), *range(start + 90, len(whole), 7)]:
        for value in (0, 1, 2, 9, 0x20, 0x7F, 0x80, 0xFF):
            content = bytearray(whole)
            content[place] = value
            (tmp_path / "two.mat").write_bytes(content)
            for member in ("x", "s"):
                try:
                    read_matrix(f"{tmp_path}/two.mat::{member}")
                except ValueError as error:
                    assert str(error).startswith("Cannot read")  # noqa: PT017
                    refused += 1
    assert refused > 100


@pytest.mark.parametrize("kind", ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("compressed", [False, True])
def test_matlab_files_are_read_as_scipy_reads_them(tmp_path, kind, compressed):
    rng = np.random.default_rng(0)
    X = (100.0 * rng.random((5, 9))).astype(kind)
    wide = np.asfortranarray(1e300 * rng.random((3, 4))) if kind == "f8" else X.T
    scipy.io.savemat(tmp_path / "a.mat", {"x": X, "wide": wide, "one": 3.0}, do_compression=compressed)
    theirs = scipy.io.loadmat(tmp_path / "a.mat")
    for name in ("x", "wide"):
        ours = read_matrix(f"{tmp_path}/a.mat::{name}").values
        assert ours.dtype == theirs[name].dtype
        np.testing.assert_array_equal(ours, theirs[name])


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


WITHOUT_SCIPY_IO = """
import sys
sys.modules["scipy.io"] = None
from rankwolf.files import read_matrix
print(read_matrix("a.mat").values.tolist())
"""


def test_scipy_never_sees_a_matlab_file(tmp_path):
    """In a process in which the module that would read it cannot be imported."""
    scipy.io.savemat(tmp_path / "a.mat", {"x": numbers()})
    words = [sys.executable, "-c", WITHOUT_SCIPY_IO]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(json.loads(done.stdout), numbers())


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


def test_parquet_in_batches_and_with_names_that_occur_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rankwolf.files.parquet.BATCH_ENTRIES", 20
    )  # of 4 million, a file would have to hold more
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


@pytest.mark.parametrize("what", ["file", "folder", "pipe"])
def test_a_chunk_that_is_a_link_is_not_followed(tmp_path, what):
    path = tmp_path / "a.zarr"
    zarr.create_array(str(path), data=numbers(), chunks=(10, 7), compressors=None)
    (tmp_path / "secret").write_bytes(numbers()[:10].tobytes())
    chunk = path / "c" / "1" / "0"
    if what == "folder":
        (path / "c").rename(tmp_path / "elsewhere")
        (path / "c").symlink_to(tmp_path / "elsewhere")
    else:
        chunk.unlink()
        chunk.symlink_to(tmp_path / "secret") if what == "file" else os.mkfifo(chunk)
    with pytest.raises(ValueError, match="not followed"):
        read_matrix(path)
    with pytest.raises(ValueError, match="not followed"):
        rw.decompose([str(path)], rng=0)


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


CRASH = """
import ctypes, os, signal, sys
import rankwolf.cli.decompose as command
from rankwolf.cli import guarded_main
from rankwolf.ground.whole import workshop
def run(arguments):
    with workshop(arguments.output) as folder:
        (folder / "half").touch()
        if sys.argv[1] == "read":
            ctypes.string_at(1)
        os.kill(os.getpid(), int(sys.argv[1]))
        signal.pause()
command.run = run
sys.exit(guarded_main(["decompose", "a\\x1b.npy", "-o", "out"]))
"""


@pytest.mark.parametrize("number", ["read", int(signal.SIGBUS), int(signal.SIGABRT), int(signal.SIGKILL)])
def test_a_crash_is_one_line_and_leaves_nothing(tmp_path, number):
    (tmp_path / "run.py").write_text(CRASH)
    words = [sys.executable, "run.py", str(number)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert_one_line(done, "killed" if number == signal.SIGKILL else "A library crashed over 'a\\x1b.npy'")
    assert os.listdir(tmp_path) == ["run.py"]


NOISY = """
import os, sys, warnings
import rankwolf.cli.decompose as command
from rankwolf.cli import guarded_main
def run(arguments):
    os.write(2, b"TIFFReadDirectory: Warning\\n")
    warnings.warn("overflow encountered")
    raise ValueError("It was bad.")
command.run = run
sys.exit(guarded_main(["decompose", "a.npy", "-o", "out"]))
"""


def test_what_libraries_say_is_not_for_users(tmp_path):
    """Before, warnings of NumPy and SciPy, and what libtiff writes by itself, came before the one line."""
    (tmp_path / "run.py").write_text(NOISY)
    words = [sys.executable, "run.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (2, "rankwolf: error: It was bad.\n")
    loud = {**os.environ, "RANKWOLF_DEBUG": "1"}
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, env=loud
    )
    assert "TIFFReadDirectory" in done.stderr and "Traceback" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_command_through_its_guard(tmp_path, number):
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


AT_THE_FORK = """
import os, signal, sys, time
import rankwolf.cli.decompose as command
from rankwolf.cli import guarded_main
who, number, fork = sys.argv[1], int(sys.argv[2]), os.fork
def disturbed():
    if who == "before":
        os.kill(os.getpid(), number)
    child = fork()
    if (who == "parent" and child) or (who == "child" and not child):
        os.kill(os.getpid(), number)
    return child
os.fork = disturbed
command.run = lambda arguments: time.sleep(1.0) or 0
sys.exit(guarded_main(["decompose", "a.npy", "-o", "out"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("who", ["before", "parent", "child"])
def test_a_signal_between_the_guard_and_its_child_is_not_lost(tmp_path, who, number):
    """Before, one that came within the few lines around the fork was swallowed, and the command ran to its end."""
    (tmp_path / "run.py").write_text(AT_THE_FORK)
    words = [sys.executable, "run.py", who, str(int(number))]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert (done.returncode, done.stderr) == (128 + number, f"rankwolf: {word}\n")


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


INTERRUPTED_EARLY = """
import os, signal, sys
import rankwolf.cli.decompose as command
from rankwolf.cli import guarded_main
from rankwolf.ground import whole
made = whole._locked_folder  # between its last line and the next of its caller lies the moment that is meant
def run(arguments):
    with whole.workshop(arguments.output):
        pass
def disturbed(parent):
    made(parent)
    os.kill(os.getpid(), signal.SIGTERM)
whole._locked_folder, command.run = disturbed, run
sys.exit(guarded_main(["decompose", "a.npy", "-o", "out"]))
"""


def test_what_a_signal_kept_the_command_from_removing_its_guard_removes(tmp_path):
    """As a folder is made: nobody knows its name yet."""
    (tmp_path / "run.py").write_text(INTERRUPTED_EARLY)
    words = [sys.executable, "run.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert_one_line(done, "terminated", 143)
    assert os.listdir(tmp_path) == ["run.py"]


def test_the_command_goes_with_its_guard(tmp_path):
    """SIGKILL for the process that the user sees ends the other one, too."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20_000, 200)))
    words = [sys.executable, "-m", "rankwolf", "decompose", "x.npy", "-o", "out", "--tol", "0", "-q"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline, children = time.monotonic() + 60.0, ""
    while not children and time.monotonic() < deadline:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            children = file.read().strip()
    process.kill()
    process.wait()
    while os.path.exists(f"/proc/{children}/stat") and time.monotonic() < deadline:
        with open(f"/proc/{children}/stat") as file:
            if ") Z " in file.read():
                break
        time.sleep(0.05)
    assert time.monotonic() < deadline


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
