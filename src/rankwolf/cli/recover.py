"""``rankwolf recover``: moving images from few samples of k-space, in files of NumPy, BART or ISMRMRD."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwolf.cli.common import (
    DEFAULT_TOL,
    Output,
    add_force_option,
    add_output_options,
    add_run_options,
    check_folder,
    parse_size,
    whole_folder,
    write_summary,
)
from rankwolf.ground.extras import require
from rankwolf.ground.result_files import PAGE

if TYPE_CHECKING:
    from rankwolf.files.kspace import KSpace
    from rankwolf.ground.arrays import Array

PARTS = ("images", "low_rank", "sparse")


def add_parser(subparsers: Any) -> None:
    """The options of ``rankwolf recover``."""
    parser = subparsers.add_parser(
        "recover",
        help="recover moving images from k-space",
        description="Recover a series of images from few samples of their k-space, as a low-rank part (what stays) and "
        "a sparse one (what moves). Reads npy (frames, coils, …image), BART's cfl, and ISMRMRD's h5.",
    )
    parser.add_argument("input", type=Path, metavar="KSPACE", help="zeros are what was not measured")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the images go"
    )
    group = parser.add_argument_group("what was measured")
    group.add_argument(
        "--mask", type=Path, metavar="FILE", help="True where k-space was measured (default: not 0)"
    )
    group.add_argument(
        "--maps", type=Path, metavar="FILE", help="maps of the coils (default: from the k-space)"
    )
    group.add_argument(
        "--trajectory",
        type=Path,
        metavar="FILE",
        help="places (frames, samples, 2) of samples (frames, coils, samples)",
    )
    group.add_argument(
        "--units", default="cycles", choices=("cycles", "radians", "grid"), help="of the trajectory"
    )
    group.add_argument("--size", type=int, nargs=2, metavar=("H", "W"), help="of an image, with --trajectory")
    group.add_argument(
        "--centred",
        action="store_true",
        help="an npy has its zero frequency in the middle, as cfl and h5 have",
    )
    group.add_argument("--max-memory", metavar="SIZE", help="how much memory the input may take")
    group = parser.add_argument_group("solving")
    group.add_argument(
        "--transform",
        default="fourier",
        choices=("fourier", "cosine", "none"),
        help="along time, in which what moves is sparse (default: %(default)s)",
    )
    group.add_argument("--noise", type=float, metavar="E", help="‖b − A(L + S)‖, where it is known")
    group.add_argument(
        "--sigma", type=float, metavar="S", help="deviation of the noise of a sample, where it is known"
    )
    group.add_argument(
        "--tol", type=float, default=DEFAULT_TOL, help="relative gap to reach (default: %(default)s)"
    )
    group.add_argument("--max-seconds", type=float, metavar="S", help="stop solving after this time")
    add_run_options(group)
    group = parser.add_argument_group("writing")
    group.add_argument("--format", default="npy", choices=("npy", "nii", "cfl"), help="of the images")
    group.add_argument(
        "--report", action="store_true", help=f"make {PAGE}: all frames, both parts side by side"
    )
    add_force_option(parser)
    add_output_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read, recover, write; returns 0."""
    check_folder(arguments.output, arguments.force, arguments.input)
    if arguments.report:
        require("jinja2", "PIL")
    if arguments.format == "nii":
        require("nibabel", extra="mri")
    output, notes = Output.of(arguments), list[str]()
    from rankwolf.api.recover import recover
    from rankwolf.files.kspace import read_kspace, write_images
    from rankwolf.sensing import Temporal

    most = None if arguments.max_memory is None else parse_size(arguments.max_memory)
    kspace = read_kspace(arguments.input, most)
    A, b, image, centred = measurements(arguments, kspace, notes, most)
    frames = A.shape[0]
    transform = (
        None if arguments.transform == "none" or frames < 2 else Temporal(arguments.transform, A.shape)
    )
    fit = recover(
        b,
        A if transform is None else A @ transform.inverse,
        noise=arguments.noise,
        sigma=arguments.sigma,
        tol=arguments.tol,
        max_seconds=arguments.max_seconds,
        dtype=complex,
        rng=arguments.seed,
        n_threads=arguments.threads,
    )
    low_rank, sparse = (
        _images(part if transform is None else transform.frames(part), frames, image, centred)
        for part in (fit.low_rank, fit.sparse)
    )
    summary = {
        **fit.as_dict(),
        "input": str(arguments.input),
        "frames": frames,
        "image": list(image),
        "measured": b.size / (frames * _pixels(image) * max(1, kspace.values.shape[1])),
        "notes": notes,
    }
    with whole_folder(arguments.output, force=arguments.force) as folder:
        for name, series in zip(PARTS, (low_rank + sparse, low_rank, sparse), strict=True):
            write_images(folder / name, series, arguments.format)
        if arguments.report:
            from rankwolf.report.images_page import images_page

            page = images_page(low_rank, sparse, summary, fit, _command(arguments))
            (folder / PAGE).write_text(page, encoding="utf-8")
        write_summary(folder, summary)
    for line in (*notes, repr(fit), f"{', '.join(PARTS)} are in {arguments.output}"):
        output.say(line)
    output.finish({**summary, "output": str(arguments.output)})
    return 0


def measurements(
    arguments: argparse.Namespace, kspace: KSpace, notes: list[str], most: int | None
) -> tuple[Any, Array, tuple[int, ...], bool]:
    """(A, b, shape of an image, whether images come out with their middle in a corner)."""
    import numpy as np

    from rankwolf.files.kspace import read_array
    from rankwolf.sensing import GridFourier, NonCartesian
    from rankwolf.sensing.coils import estimated_maps

    values, coils = kspace.values, kspace.values.shape[1]
    maps = None if arguments.maps is None else read_array(arguments.maps, most)
    if arguments.trajectory is not None or kspace.points is not None:
        points, from_bart = kspace.points, False
        if arguments.trajectory is not None:
            points, from_bart = read_array(arguments.trajectory, most)
        size = tuple(arguments.size or kspace.image_shape or ())
        if len(size) != 2 or points is None:
            raise ValueError("--trajectory needs --size H W, the size of an image.")
        if coils > 1 and maps is None:
            raise ValueError(
                "Coils with a trajectory need --maps FILE: maps are made of k-space on a grid only."
            )
        if from_bart:  # (…, x y z) in units of the grid
            points = points[..., 1::-1].real
        if from_bart or arguments.units == "grid":
            points = points / np.array(size)
        samples = values.reshape(len(values), coils, -1)
        radial = NonCartesian(
            points.reshape(len(points), -1, 2),
            size,
            units="radians" if arguments.units == "radians" else "cycles",
            maps=None if maps is None else maps[0],
        )
        return radial, samples[:, 0] if maps is None else samples, size, False
    image = values.shape[2:]
    axes, centred = tuple(range(-len(image), 0)), kspace.centred or arguments.centred
    values = np.fft.ifftshift(values, axes) if centred else values
    kept = np.any(values != 0, axis=1)
    if arguments.mask is not None:
        given = read_array(arguments.mask, most)[0] != 0
        if given.shape[-len(image) :] != image or given.ndim > len(image) + 1:
            raise ValueError(
                f"--mask must have the shape {kept.shape} or {image}. Got {given.shape} instead."
            )
        kept = np.broadcast_to(np.fft.ifftshift(given, axes) if centred else given, kept.shape)
    if not kept.any():
        raise ValueError("The k-space is zero everywhere: nothing was measured.")
    found = None
    if maps is not None:
        found = np.fft.ifftshift(maps[0], axes) if centred else maps[0]
    elif coils > 1:
        found = estimated_maps(values)
        notes.append(
            f"The maps of {coils} coils were made of the middle of k-space (--maps gives better ones, of ESPIRiT, say)."
        )
    A = GridFourier(np.ascontiguousarray(kept), found)
    return A, A.as_vector(values if found is not None else values[:, 0]), image, centred


def _images(part: Any, frames: int, image: tuple[int, ...], centred: bool) -> Array:
    import numpy as np

    series = np.asarray(part).reshape(frames, *image)
    series = np.fft.fftshift(series, tuple(range(1, series.ndim))) if centred else series
    return np.asarray(series, np.complex64)


def _pixels(image: tuple[int, ...]) -> int:
    from math import prod

    return prod(image)


def _command(arguments: argparse.Namespace) -> str:
    words = ["rankwolf", "recover", str(arguments.input), "-o", str(arguments.output)]
    for name in ("mask", "maps", "trajectory", "transform", "noise", "sigma", "format"):
        value = getattr(arguments, name)
        words += [] if value is None else [f"--{name}", str(value)]
    return shlex.join(words)
