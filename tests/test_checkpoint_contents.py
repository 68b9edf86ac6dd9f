"""Checkpoints whose every part a stranger may have changed: a result, or one ValueError; never another error."""

from __future__ import annotations

import io
import json
import zipfile
from itertools import cycle

import numpy as np
import pytest
import scipy.sparse

import rankwolf as rw

X = np.random.default_rng(0).standard_normal((12, 9)) + np.arange(9.0)
DATA = {"als": scipy.sparse.csr_array(np.where(X > 0.5, X, 0.0))}
# Too long for a float, too large to be squared, too small to divide by, and what no number is.
NUMBERS = (10**400, 1e155, 0, -1, float("nan"), 1e59, 10**30, None, float("inf"), 1e-320, "x", -1e59)
ARRAYS = (
    lambda a: a * 1e50, lambda a: a[:0], lambda a: a.astype(complex), lambda a: a[..., None], lambda a: a * np.nan,
    lambda a: a.astype(np.float16), lambda a: a[:-1], lambda a: a.astype(np.int32), lambda a: 0 * a, lambda a: a.T,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _numbers_may_overflow():
    with np.errstate(all="ignore"):
        yield


def run(method, form, path, scale=1.0, **settings):
    data = scale * DATA.get(method, X)
    return rw.decompose(
        data, method=method, rng=0, tol=1e-9, checkpoint=path, checkpoint_every=1, **form, **settings
    )


def leaves(node, place=()):
    """The places of the numbers in JSON."""
    if isinstance(node, dict | list):
        for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
            yield from leaves(inner, (*place, key))
    elif isinstance(node, int | float):
        yield place


def containers(node, place=()):
    """The places of the lists and dictionaries in JSON, but for its root."""
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(inner, dict | list):
            yield (*place, key)
            yield from containers(inner, (*place, key))


def parts_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def with_number(parts, place, value):
    about = json.loads(parts["about.json"])
    node = about
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return {**parts, "about.json": json.dumps(about).encode()}


def with_array(parts, name, change):
    buffer = io.BytesIO()
    np.save(buffer, change(np.load(io.BytesIO(parts[name]))))
    return {**parts, name: buffer.getvalue()}


def write(path, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)


def resumes_or_refuses(method, form, path, parts, scale=1.0):
    write(path, parts)
    try:
        run(method, form, path, scale, max_iter=5, max_seconds=5.0, resume=True)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("method", "form"),
    [
        ("path", {"noise": 0.3}),
        ("hybrid", {"delta": 1e-2}),
        ("fw-t", {"delta": 1e-2}),
        ("fista", {"radii": (8.0, 5.0)}),
        ("als", {"delta": 1e-2}),
    ],
)  # fmt: skip
def test_any_part_may_be_another(method, form, tmp_path):
    """Before: OverflowError, ZeroDivisionError, TypeError, IndexError, errors of Numba, a broken heap."""
    path = tmp_path / "run.checkpoint"
    run(method, form, path, max_iter=3)
    parts = parts_of(path)
    assert resumes_or_refuses(method, form, path, parts) == ""
    values, changes = cycle(NUMBERS), cycle(ARRAYS)
    for place in leaves(json.loads(parts["about.json"])):
        resumes_or_refuses(method, form, path, with_number(parts, place, next(values)))
    for name in parts:
        if name.endswith(".npy"):
            resumes_or_refuses(method, form, path, with_array(parts, name, next(changes)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("method", "form"), [("path", {"noise": 0.3}), ("fista", {"radii": (8.0, 5.0)})])
def test_a_list_may_be_something_else(method, form, tmp_path):
    """Found by `make fuzz`: a history of numbers, not of records, was an AttributeError."""
    path = tmp_path / "run.checkpoint"
    run(method, form, path, max_iter=2)
    parts = parts_of(path)
    for place in containers(json.loads(parts["about.json"])):
        for value in (1.5, "x", None, [], {}, [1.0], {"a": 1.0}):
            resumes_or_refuses(method, form, path, with_number(parts, place, value))
    said = resumes_or_refuses(method, form, path, with_number(parts, ("progress", "history", 0), 1.5))
    assert "checkpoint is damaged" in said


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("form", "place", "value"),
    [
        ({"delta": 1e-2}, ("summary", "norm"), 10**400),
        ({"delta": 1e-2}, ("summary", "observed"), 10**30),
        ({"delta": 1e-2}, ("progress", "seconds"), -1e59),
        ({"delta": 1e-2}, ("progress", "_proved"), 10**400),
        ({"noise": 0.3}, ("problem", 0), 0),
        ({"noise": 0.3}, ("problem", 1), 1e155),
        ({"noise": 0.3}, ("summary", "norm"), 1e155),
    ],
    ids=str,
)
def test_numbers_that_once_were_a_traceback(form, place, value, tmp_path):
    path = tmp_path / "run.checkpoint"
    method = "path" if "noise" in form else "hybrid"
    run(method, form, path, max_iter=3)
    said = resumes_or_refuses(method, form, path, with_number(parts_of(path), place, value))
    assert "checkpoint" in said


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["als", "hybrid", "fw-t", "fista"])
@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a[..., :-1], lambda a: a.T.copy()])
def test_arrays_that_do_not_fit_together_are_not_computed_with(method, change, tmp_path):
    """Before, kernels read and wrote beyond the ends of shorter ones; als ended in "double free or corruption"."""
    path = tmp_path / "run.checkpoint"
    run(method, {"delta": 1e-2}, path, max_iter=3)
    parts = parts_of(path)
    factors = [name for name in parts if name.endswith(".npy") and np.load(io.BytesIO(parts[name])).ndim == 2]
    said = [
        resumes_or_refuses(method, {"delta": 1e-2}, path, with_array(parts, name, change)) for name in factors
    ]
    assert any("checkpoint" in words for words in said)


@pytest.mark.doubts("iteration limit")
def test_a_description_that_would_fill_the_memory_is_refused_unread(tmp_path):
    """Before, 71 kB became 1.7 GB of empty lists."""
    path = tmp_path / "run.checkpoint"
    run("hybrid", {"delta": 1e-2}, path, max_iter=3)
    parts = parts_of(path)
    parts["about.json"] = parts["about.json"][:-1] + b', "x": [' + b"[]," * 12_000_000 + b"[]]}"
    write(path, parts, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="of memory, more than the limit"):
        run("hybrid", {"delta": 1e-2}, path, max_iter=5, resume=True)


@pytest.mark.doubts("iteration limit")
def test_an_error_of_the_users_own_stays_what_it_is(tmp_path):
    """Only what the state makes of the arithmetic is blamed on the file."""
    path = tmp_path / "run.checkpoint"
    run("hybrid", {"delta": 1e-2}, path, max_iter=2)
    with pytest.raises(ZeroDivisionError):
        run("hybrid", {"delta": 1e-2}, path, max_iter=5, resume=True, callback=lambda record: 1 / 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", [1e-58, 1e-30, 1e30, 1e58])
@pytest.mark.parametrize(
    ("method", "form"),
    [
        ("hybrid", {"delta": 1e-6}),
        ("path", {"noise": 0.0}),
        ("fw-t", {"delta": 1e-6}),
        ("fista", {"delta": 1e-6}),
    ],
    ids=str,
)
def test_no_checkpoint_of_a_run_is_out_of_scale(method, form, scale, tmp_path):
    """Bounds on the numbers of a state must not refuse what a run wrote, whatever the unit of the data."""
    path = tmp_path / "run.checkpoint"
    run(method, form, path, scale, max_iter=6)
    assert resumes_or_refuses(method, form, path, parts_of(path), scale) == ""
