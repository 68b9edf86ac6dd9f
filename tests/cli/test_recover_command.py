"""``rankwolf recover``: a series from files of NumPy, BART and ISMRMRD, written as npy, NIfTI and cfl, with a page."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rankwolf.cli.main import main
from rankwolf.files.kspace import read_array, read_kspace
from rankwolf.sensing.coils import estimated_maps

FRAMES, SIDE, COILS = 10, 24, 3


def series():
    """A body that stays, and a ring in it that beats."""
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    body = (y**2 + (1.2 * x) ** 2 < 0.7) + 0.3 * (np.hypot(y - 0.2, x) < 0.3)
    rings = [np.hypot(y + 0.2, x) < 0.3 + 0.1 * np.sin(2 * np.pi * t / FRAMES) for t in range(FRAMES)]
    return body + np.array(rings)


def coil_maps():
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    around = 2 * np.pi * np.arange(COILS) / COILS
    places = zip(np.sin(around), np.cos(around), strict=True)
    maps = np.array([np.exp(-((y - a) ** 2) - (x - b) ** 2 + 0.5j * (a * y + b * x)) for a, b in places])
    return maps / np.sqrt(np.sum(np.abs(maps) ** 2, axis=0))


def mask(share=0.5):
    rng = np.random.default_rng(0)
    lines = rng.random((FRAMES, SIDE, 1)) < share
    lines[:, SIDE // 2 - 3 : SIDE // 2 + 3] = True  # the zero frequency is in the middle
    return np.broadcast_to(lines, (FRAMES, SIDE, SIDE))


def centred_kspace(coils=True):
    images = series()[:, None] * coil_maps() if coils else series()[:, None]
    axes = (-2, -1)
    shifted = np.fft.ifftshift(images, axes)
    return np.fft.fftshift(np.fft.fft2(shifted, axes=axes, norm="ortho"), axes) * mask()[:, None]


def write_cfl(path, values, dimensions):
    """``values`` with its axes at BART's ``dimensions``, the fastest first."""
    shape = [1] * 16
    for side, place in zip(values.shape, dimensions, strict=True):
        shape[place] = side
    path.with_suffix(".hdr").write_text(f"# Dimensions\n{' '.join(map(str, shape))}\n")
    order = np.argsort(dimensions)
    np.asarray(values.transpose(order), np.complex64).ravel(order="F").tofile(path.with_suffix(".cfl"))


def error(folder, name="images.npy"):
    found, truth = np.load(folder / name), series()
    return np.linalg.norm(np.abs(found) - truth) / np.linalg.norm(truth)


def run(*words):
    return main(["recover", *map(str, words), "--quiet"])


@pytest.mark.doubts
def test_one_coil_of_numpy(tmp_path):
    np.save(tmp_path / "k.npy", centred_kspace(coils=False)[:, 0])
    assert run(tmp_path / "k.npy", "-o", tmp_path / "out", "--centred", "--report") == 0
    assert error(tmp_path / "out") < 0.1
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/png") >= 3 * FRAMES and "sparse part" in page
    parts = [np.load(tmp_path / "out" / f"{name}.npy") for name in ("images", "low_rank", "sparse")]
    np.testing.assert_allclose(parts[0], parts[1] + parts[2], atol=1e-5)
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["frames"] == FRAMES


@pytest.mark.doubts
@pytest.mark.parametrize("given", [True, False], ids=["maps given", "maps made"])
def test_coils_of_bart_and_images_for_bart_and_nifti(tmp_path, given, capsys):
    nibabel = pytest.importorskip("nibabel")
    write_cfl(tmp_path / "k", centred_kspace(), (10, 3, 1, 0))
    more = []
    if given:
        write_cfl(tmp_path / "maps", coil_maps(), (3, 1, 0))
        more = ["--maps", tmp_path / "maps.cfl"]
    assert run(tmp_path / "k", "-o", tmp_path / "out", *more) == 0
    # The magnitude under maps that are made has the weight of the coils, here 1 everywhere.
    assert error(tmp_path / "out") < (0.1 if given else 0.25)
    assert run(tmp_path / "k.cfl", "-o", tmp_path / "nii", "--format", "nii", *more) == 0
    volume = nibabel.load(tmp_path / "nii" / "images.nii").get_fdata()
    assert volume.shape == (SIDE, SIDE, 1, FRAMES)
    np.testing.assert_allclose(volume[:, :, 0].T, np.abs(np.load(tmp_path / "out" / "images.npy")), atol=1e-3)
    assert run(tmp_path / "k.cfl", "-o", tmp_path / "cfl", "--format", "cfl", *more) == 0
    again = read_kspace(tmp_path / "cfl" / "images.cfl").values[:, 0]
    np.testing.assert_allclose(again, np.load(tmp_path / "out" / "images.npy"), atol=1e-3)


@pytest.mark.doubts
def test_ismrmrd_as_its_own_library_writes_it(tmp_path):
    ismrmrd = pytest.importorskip("ismrmrd")
    kspace, seen = centred_kspace(), mask()
    with ismrmrd.Dataset(tmp_path / "k.h5", "dataset", create_if_needed=True) as data:
        data.write_xml_header(b"<ismrmrdHeader/>")
        for frame in range(FRAMES):
            for row in np.flatnonzero(seen[frame, :, 0]):
                line = ismrmrd.Acquisition.from_array(
                    np.ascontiguousarray(kspace[frame, :, row], np.complex64)
                )
                line.idx.kspace_encode_step_1, line.idx.phase = int(row), frame
                data.append_acquisition(line)
    found = read_kspace(tmp_path / "k.h5")
    np.testing.assert_allclose(found.values, kspace[:, :, : found.values.shape[2]], atol=1e-6)
    assert run(tmp_path / "k.h5", "-o", tmp_path / "out") == 0


@pytest.mark.doubts
def test_spokes_of_bart(tmp_path):
    finufft = pytest.importorskip("finufft")
    angles = np.pi * (5**0.5 - 1) / 2 * np.arange(FRAMES * 12).reshape(FRAMES, 12, 1)
    radius = np.arange(SIDE) - SIDE // 2
    places = np.stack([radius * np.cos(angles), radius * np.sin(angles), 0 * radius * angles])  # x, y, z
    values = np.empty((FRAMES, 12, SIDE), complex)
    for t in range(FRAMES):
        x, y = (2 * np.pi / SIDE * places[k, t].ravel() for k in (0, 1))
        found = finufft.nufft2d2(y, x, series()[t].astype(complex), isign=-1, eps=1e-9)
        values[t] = found.reshape(12, SIDE) / SIDE
    write_cfl(tmp_path / "k", values, (10, 2, 1))
    write_cfl(tmp_path / "traj", places, (0, 10, 2, 1))
    words = ["--trajectory", tmp_path / "traj.cfl", "--size", SIDE, SIDE]
    assert run(tmp_path / "k.cfl", "-o", tmp_path / "out", *words) == 0
    assert error(tmp_path / "out") < 0.15


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: np.save(p / "k.npy", np.zeros((4, 6, 6))), "zero everywhere"),
        (lambda p: np.save(p / "k.npy", np.ones((6, 6))), "frames, coils"),
        (lambda p: np.save(p / "k.npy", np.array(["a"])), "must hold numbers"),
        (
            lambda p: (p / "k.cfl").write_bytes(b"1234") and (p / "k.hdr").write_text("# Dimensions\n2 2\n"),
            "header",
        ),
        (
            lambda p: (p / "k.cfl").write_bytes(b"1234") and (p / "k.hdr").write_text("# Dimensions\n-2 2\n"),
            "dimens",
        ),
        (lambda p: (p / "k.cfl").write_bytes(b"1234"), "k.hdr"),
        (lambda p: (p / "k.h5").write_bytes(b"nothing"), "k.h5"),
        (lambda p: (p / "k.xyz").write_bytes(b"nothing"), "ending"),
    ],
)
def test_bad_files_are_one_line(tmp_path, make, says, capsys):
    make(tmp_path)
    name = next(path for path in sorted(tmp_path.iterdir()) if path.suffix != ".hdr")
    assert main(["recover", str(name), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and says in said
    assert not (tmp_path / "out").exists()


def test_options_that_do_not_go_together(tmp_path, capsys):
    np.save(tmp_path / "k.npy", np.ones((4, 2, 6, 6), complex))
    np.save(tmp_path / "bad.npy", np.ones((3, 5)))
    assert (
        main(
            [
                "recover",
                str(tmp_path / "k.npy"),
                "-o",
                str(tmp_path / "o"),
                "--mask",
                str(tmp_path / "bad.npy"),
            ]
        )
        == 2
    )
    assert "--mask must have the shape" in capsys.readouterr().err
    words = ["--trajectory", str(tmp_path / "bad.npy")]
    assert main(["recover", str(tmp_path / "k.npy"), "-o", str(tmp_path / "o"), *words]) == 2
    assert "--size" in capsys.readouterr().err


def test_maps_are_those_of_smooth_coils():
    kspace = np.fft.fft2(series()[:, None] * coil_maps(), norm="ortho")
    found, truth, body = estimated_maps(kspace), coil_maps(), series()[0] > 0.5
    # A map is known up to a phase that is the same in all coils.
    turn = np.exp(-1j * np.angle(np.sum(found * truth.conj(), axis=0)))
    assert np.abs(found * turn - truth)[:, body].mean() < 0.12


def test_a_mask_of_numpy_is_read_as_it_is(tmp_path):
    np.save(tmp_path / "m.npy", mask())
    values, from_bart = read_array(tmp_path / "m.npy")
    assert values.shape == mask().shape and not from_bart
