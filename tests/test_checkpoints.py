"""A run that was killed and resumed ends where the undisturbed one does; other data and settings are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
import scipy.sparse

import rankwolf as rw
from rankwolf.sensing import Sense
from rankwolf.solvers import SOLVERS, FrankWolfeThresholding

RADII = (400.0, 900.0)
METHODS = sorted(name for name, solver in SOLVERS.items() if solver.takes != ("measurements",))


def matrix(dtype=np.float64, shape=(400, 60)):
    rng = np.random.default_rng(5)
    X = 5.0 * rng.standard_normal((shape[0], 4)) @ rng.standard_normal((4, shape[1]))
    X += 0.1 * rng.standard_normal(shape)
    X[rng.random(shape) < 0.05] += 30.0
    return X.astype(dtype)


def run(X, method, **settings):
    weights = (
        {"radii": RADII} if method == "fw-p" else {"noise": 30.0} if method == "path" else {"delta": 1e-2}
    )
    return rw.decompose(X, method=method, tol=1e-12, rng=3, **weights, **settings)


def data_for(method, dtype=np.float64):
    X = matrix(dtype)
    if method == "als":
        return scipy.sparse.csr_array(np.where(np.random.default_rng(1).random(X.shape) < 0.6, X, 0.0))
    if method in ("hybrid", "fista", "fw-t"):
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    return X


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", METHODS)
def test_resumed_is_undisturbed(method, dtype, tmp_path):
    X, path = data_for(method, dtype), tmp_path / "run.checkpoint"
    whole = run(X, method, max_iter=12)
    first = run(X, method, max_iter=5, checkpoint=path)
    assert first.iterations == 5
    second = run(X, method, max_iter=12, checkpoint=path, resume=True)
    assert [record.iteration for record in second.history] == list(range(1, 13))
    assert repr(second.history[:4]) == repr(first.history[:4])  # the last record of a result is judged anew
    objectives = [[record.objective for record in fit.history[:-1]] for fit in (whole, second)]
    np.testing.assert_allclose(objectives[1], objectives[0], rtol=1e-8)
    assert second.objective == pytest.approx(whole.objective, rel=1e-8)
    seconds = [record.seconds for record in second.history]
    assert seconds == sorted(seconds), "the time of the first run counts"
    assert os.listdir(tmp_path) == ["run.checkpoint"]


@pytest.mark.doubts("λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("method", ["hybrid"])  # the paper's methods read the data again
def test_finished_passes_are_not_repeated(method, tmp_path):
    X, path = matrix(), tmp_path / "run.checkpoint"
    np.save(tmp_path / "x.npy", X)
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    whole = run(X, method, max_iter=12)
    run(X, method, max_iter=8, checkpoint=path)
    read = []
    second = run(
        X, method, max_iter=12, checkpoint=path, resume=True, callback=lambda record: read.append(record)
    )
    assert [record.iteration for record in read] == [9, 10, 11, 12]
    assert second.passes == whole.passes
    assert second.history[-1].bytes_read < whole.history[-1].bytes_read + 0.5 * X.nbytes  # with a fingerprint


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
def test_it_is_saved_every_few_passes_or_seconds(tmp_path):
    path, times = tmp_path / "run.checkpoint", []

    def look(record):
        times.append(path.stat().st_mtime_ns if path.exists() else 0)

    run(matrix(), "fista", max_iter=8, checkpoint=path, checkpoint_every=6, callback=look)
    assert times[0] == 0 and 2 <= len(set(times)) < 8
    path.unlink()
    times.clear()
    run(matrix(), "fista", max_iter=4, checkpoint=path, checkpoint_every="1h", callback=look)
    assert set(times) == {0} and path.exists()


@pytest.mark.doubts("iteration limit")
def test_an_existing_checkpoint_is_not_overwritten_by_accident(tmp_path):
    path = tmp_path / "run.checkpoint"
    run(matrix(), "hybrid", max_iter=2, checkpoint=path)
    with pytest.raises(ValueError, match="resume=True"):
        run(matrix(), "hybrid", max_iter=2, checkpoint=path)


@pytest.mark.doubts("iteration limit")
def test_resume_without_a_checkpoint_starts(tmp_path):
    path = tmp_path / "run.checkpoint"
    assert run(matrix(), "hybrid", max_iter=2, checkpoint=path, resume=True).iterations == 2
    with pytest.raises(ValueError, match="'checkpoint' parameter"):
        run(matrix(), "hybrid", resume=True)


@pytest.mark.doubts("iteration limit")
def test_other_data_and_settings_are_refused(tmp_path):
    path, X = tmp_path / "run.checkpoint", matrix()
    rw.decompose(X, delta=1e-2, rng=0, max_iter=2, checkpoint=path)

    def again(data=X, **settings):
        return rw.decompose(
            data, **{"delta": 1e-2, "rng": 0, "max_iter": 4, **settings}, checkpoint=path, resume=True
        )

    for other in (X + 1.0, X[:-1], X[:, ::-1], X.astype(np.float32)):
        with pytest.raises(ValueError, match="other data"):
            again(other)
    for settings, name in (
        ({"delta": 1e-3}, "delta"),
        ({"method": "fw-t"}, "method"),
        ({"lambdas": (1, 2)}, "lambdas"),
    ):
        with pytest.raises(ValueError, match=f"other settings: .*{name}"):
            again(**settings)
    with pytest.raises(ValueError, match="'rng' parameter"):
        again(rng=np.random.Generator(np.random.MT19937(0)))
    assert again(tol=1e-5, n_threads=1, max_seconds=100.0).iterations <= 4


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("method", ["splitting", "fista"])
def test_more_measurements_than_entries(method, tmp_path):
    """Several coils see each pixel, so that p > mn."""
    rng, path = np.random.default_rng(0), tmp_path / "run.checkpoint"
    A = Sense(np.ones((9, 6, 5), bool), rng.standard_normal((3, 6, 5)) + 1j, time="first")
    b = A.apply(rng.standard_normal((9, 2)) @ rng.standard_normal((2, 30)))
    assert A.size > A.shape[0] * A.shape[1]
    settings = {"method": method, "delta": 1e-2, "tol": 1e-12, "rng": 0}
    whole = rw.recover(b, A, max_iter=8, **settings)
    rw.recover(b, A, max_iter=4, checkpoint=path, **settings)
    with pytest.raises(ValueError, match="other data"):
        rw.recover(b[::-1], A, max_iter=8, checkpoint=path, resume=True, **settings)
    rest = rw.recover(b, A, max_iter=8, checkpoint=path, resume=True, **settings)
    assert rest.iterations == 8
    assert rest.objective == pytest.approx(whole.objective, rel=1e-8)


@pytest.mark.doubts("λ_S is below the noise", "iteration limit")
def test_settings_of_a_solver_are_compared(tmp_path):
    path = tmp_path / "run.checkpoint"
    rw.decompose(matrix(), method=FrankWolfeThresholding(oracle_tol=0.5), max_iter=2, checkpoint=path)
    with pytest.raises(ValueError, match=r"oracle_tol was 0.5 and is"):
        rw.decompose(matrix(), method="fw-t", max_iter=2, checkpoint=path, resume=True)


@pytest.mark.doubts("iteration limit")
def test_weights_from_noise_are_kept(tmp_path):
    path = tmp_path / "run.checkpoint"
    first = rw.decompose(matrix(), delta="auto", rng=0, tol=0.0, max_iter=2, checkpoint=path)
    second = rw.decompose(matrix(), delta="auto", rng=0, tol=0.0, max_iter=3, checkpoint=path, resume=True)
    assert second.lambdas == first.lambdas


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
def test_generators_of_other_kinds(tmp_path):
    """The generator that is given to the second run goes on where that of the first one was."""
    path = tmp_path / "run.checkpoint"
    for kind in (np.random.MT19937, np.random.SFC64, np.random.Philox):
        undisturbed, first, second = (np.random.Generator(kind(seed)) for seed in (1, 1, 2))
        settings = {"method": "fista", "delta": 1e-2, "tol": 0.0}
        whole = rw.decompose(matrix(), rng=undisturbed, max_iter=6, **settings)
        rw.decompose(matrix(), rng=first, max_iter=3, checkpoint=path, **settings)
        rest = rw.decompose(matrix(), rng=second, max_iter=6, checkpoint=path, resume=True, **settings)
        assert rest.objective == pytest.approx(whole.objective, rel=1e-8)
        np.testing.assert_equal(second.bit_generator.state, undisturbed.bit_generator.state)
        path.unlink()


@pytest.mark.doubts("λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("damage", ["text", "cut", "empty", "no state", "old", "class", "scale"])
def test_damaged_checkpoints_are_a_clear_error(damage, tmp_path):
    path = tmp_path / "run.checkpoint"
    run(matrix(), "fw-t", max_iter=2, checkpoint=path)
    content = path.read_bytes()
    if damage in ("text", "cut", "empty"):
        path.write_bytes(
            {"text": b"not a checkpoint", "cut": content[: len(content) // 2], "empty": b""}[damage]
        )
    else:
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        about = json.loads(parts["about.json"])
        about |= {
            "no state": {"state": 5},
            "old": {"format": 0},
            "class": {"state": ["object", "Popen", {}]},
            "scale": {},
        }[damage]
        if damage == "scale":  # before, an OverflowError in the next step
            name = max(parts, key=lambda name: len(parts[name]))
            parts[name] = parts[name][:-8] + np.float64(1e200).tobytes()
        if damage == "no state":
            about["state"] = ["object", "AtomicState", {"atoms": ["array", "nowhere"]}]
        with zipfile.ZipFile(path, "w") as archive:
            for name, part in {**parts, "about.json": json.dumps(about)}.items():
                archive.writestr(name, part)
    with pytest.raises(ValueError, match=r"checkpoint|damaged"):
        run(matrix(), "fw-t", max_iter=4, checkpoint=path, resume=True)


@pytest.mark.doubts("iteration limit")
def test_numpy_reads_the_arrays(tmp_path):
    path = tmp_path / "run.checkpoint"
    run(matrix(), "hybrid", max_iter=2, checkpoint=path)
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "fiu" for name in file.files if name != "about.json")


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
def test_arrays_in_files_are_saved_and_restored(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwolf.data.open.resident_memory", lambda: 0)  # so that 1 byte is a limit
    X, path = matrix(np.float32), tmp_path / "run.checkpoint"
    whole = run(X, "hybrid", max_iter=8)
    run(X, "hybrid", max_iter=4, max_memory=1, checkpoint=path)
    second = run(X, "hybrid", max_iter=8, max_memory=1, checkpoint=path, resume=True)
    assert second.objective == pytest.approx(whole.objective, rel=1e-8)


def test_bad_intervals(tmp_path):
    for every in (0, -1, 1.5, "soon", "5 parsecs", ""):
        with pytest.raises(ValueError, match="'checkpoint_every' parameter"):
            rw.decompose(matrix(), checkpoint=tmp_path / "x", checkpoint_every=every)
    with pytest.raises(ValueError, match="folder that exists"):
        rw.decompose(matrix(), checkpoint=tmp_path / "nowhere" / "x")


RUN = """
import sys, time
import numpy as np, rankwolf as rw
X = np.load(sys.argv[1], mmap_mode="r")
def slowly(record):
    print(record.iteration, flush=True)
    time.sleep(0.05)
fit = rw.decompose(X, method=sys.argv[2], delta=1e-2, tol=1e-12, max_iter=25, rng=0, callback=slowly,
                   checkpoint=sys.argv[3], checkpoint_every=1, resume=True)
print(repr(fit.objective), fit.passes)
"""


@pytest.mark.doubts("λ_S is below the noise", "iteration limit")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize("method", ["hybrid", "fw-t"])
def test_killed_and_resumed(method, tmp_path):
    """SIGKILL after some iterations, twice; then to the end. Benchmarks do it twenty times at random."""
    np.save(tmp_path / "x.npy", matrix())
    words = [sys.executable, "-c", RUN, str(tmp_path / "x.npy"), method, str(tmp_path / "run.checkpoint")]
    whole = rw.decompose(matrix(), method=method, delta=1e-2, tol=1e-12, max_iter=25, rng=0)
    seen = []
    for last in (6, 14):
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                seen.append(int(line))
                if seen[-1] >= last:
                    process.kill()
                    break
        assert process.returncode == -signal.SIGKILL
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *rest, end = done.stdout.splitlines()
    assert int(rest[0]) in (seen[-1], seen[-1] + 1)  # the last one may have ended before it was saved
    objective, passes = end.split()
    assert float(objective) == pytest.approx(whole.objective, rel=1e-8)
    assert whole.passes <= int(passes) <= whole.passes + 3  # each resumed run may read the data again
    assert sorted(p for p in os.listdir(tmp_path) if not p.endswith(".part")) == ["run.checkpoint", "x.npy"]


ENDLESS = """
import sys
import numpy as np, rankwolf as rw
rng = np.random.default_rng(0)
X = rng.standard_normal((40_000, 200))
rw.decompose(X, lambdas=(1.0, 0.1), tol=1e-14, max_iter=10**6, rng=0, checkpoint=sys.argv[1], checkpoint_every=1,
             callback=lambda record: print(record.iteration, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_soon_and_keeps_the_checkpoint(number, tmp_path):
    path = tmp_path / "run.checkpoint"
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in range(2):
        process.stdout.readline()
    started = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    # Two seconds and a tile on a quiet machine; other work on this one must not decide.
    assert time.monotonic() - started < 2.0 + 2.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    from rankwolf.run.checkpoint import read

    assert len(read(path).about["progress"]["history"]) >= 1


def command(*words):
    return [sys.executable, "-m", "rankwolf", *map(str, words)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_commands_keep_the_checkpoint_and_go_on(number, tmp_path):
    """A signal ends the command with its exit code; --resume goes on from what was saved."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((3000, 60)))
    path = tmp_path / "run.checkpoint"
    options = (tmp_path / "x.npy", "--lambdas", 30.0, 0.5, "--tol", 1e-13, "--quiet")
    kept = ("--checkpoint", path, "--checkpoint-every", "1")
    words = command("decompose", *options, "-o", tmp_path / "out", "--max-seconds", 1000, *kept)
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    started = time.monotonic()
    while not path.exists() and time.monotonic() < started + 60:
        time.sleep(0.01)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number, error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()
    from rankwolf.run.checkpoint import read

    before = [record["seconds"] for record in read(path).about["progress"]["history"]]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "--resume" in refused.stderr and refused.stderr.count("\n") == 1
    end = ("-o", tmp_path / "out", "--max-seconds", 1)
    done = subprocess.run(
        command("decompose", *options, *end, *kept, "--resume"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # Times differ from run to run: the records that were saved are the first of the result.
    history = rw.load(tmp_path / "out" / "result.npz").history
    assert [record.seconds for record in history[: len(before) - 1]] == before[:-1]
    other = subprocess.run(
        command("decompose", *options, *end, *kept, "--resume", "--force", "--method", "fista"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert other.returncode == 2 and "other settings: method was auto and is fista" in other.stderr


def test_separate_goes_on_from_a_checkpoint(tmp_path):
    from rankwolf.cli import main
    from rankwolf.video.scene import Scene

    np.save(tmp_path / "x.npy", np.stack(list(Scene(height=24, width=32, n_frames=60, seed=1))))
    path = tmp_path / "run.checkpoint"
    kept = ["--checkpoint", str(path), "--checkpoint-every", "1"]
    words = ["separate", str(tmp_path / "x.npy"), "--quiet", "--no-report", *kept]
    assert main([*words, "-o", str(tmp_path / "one"), "--tol", "1e-2"]) == 0
    assert main([*words, "-o", str(tmp_path / "two"), "--tol", "1e-4"]) == 2
    assert main([*words, "-o", str(tmp_path / "two"), "--tol", "1e-4", "--resume"]) == 0
    first, second = (rw.load(tmp_path / name / "result.npz") for name in ("one", "two"))
    assert repr(second.history[: first.iterations - 1]) == repr(first.history[:-1])
    assert second.relative_gap <= 1e-4
    assert main(["separate", str(tmp_path / "x.npy"), "-o", str(tmp_path / "three"), "--resume"]) == 2


def test_what_is_no_path_is_refused_by_name():
    with pytest.raises(ValueError, match="'checkpoint' parameter of decompose must be a path"):
        rw.decompose(np.eye(3), checkpoint=3)
