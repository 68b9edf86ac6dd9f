"""The defaults of ``rankwolf separate`` and their neighbours on rendered scenes: ``python -m benchmarks scenes``.

The real videos are few. Here are 33 with exact truth, of 2, 5 or 10 objects under lamps that drift and lamps that are
switched:

- *noise*: Gaussian, of 1, 2, 4 or 8 gray levels;
- *coded*: the same, through H.264 as a camera would do it, which smears the noise over space and time;
- *clutter*: noise up to 4, leaves that move in the upper third of the picture, and beside each object a shadow of 10
  gray levels, which the truth does not count as part of it.

For each choice the mean F-measure, and the worst scene: one stage or weight is changed, the others are the defaults.
Every fourth frame is scored. ``--defaults`` leaves the other choices out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.ndimage

from benchmarks.harness.options import options_of
from benchmarks.quality.cdnet import Solved, stages
from rankwolf.video.choosing_weights import BACKGROUND_SHARE, SPARSE_WEIGHT_IN_SIGMAS, weights_for
from rankwolf.video.mask import MaskRule
from rankwolf.video.reading import Selection, open_frames
from rankwolf.video.scene import Rendered, Scene
from rankwolf.video.scoring import Score, score_frame

Array = np.ndarray[Any, np.dtype[Any]]

NOISES = (1.0, 2.0, 4.0, 8.0)
# Seed, objects.
SCENES = ((11, 2), (12, 5), (13, 10))
HEIGHT, WIDTH, FRAMES, SCORED_EVERY = 90, 120, 240, 4
CRF = 26
LEAF, SHADOW = 8.0, 10.0
Table = dict[str, dict[str, list[float]]]


def coded(rendered: Rendered) -> Array:
    """Through H.264, with the quality of a camera that saves space."""
    import av

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "coded.mp4"
        with av.open(str(path), "w") as container:
            options = {"crf": str(CRF), "preset": "veryfast"}
            stream: Any = container.add_stream("libx264", rate=25, options=options)
            stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
            for frame in rendered.frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="gray")))
            container.mux(stream.encode(None))
        return np.stack(list(open_frames(path, Selection())))


def cluttered(rendered: Rendered) -> Array:
    """Leaves in the upper third, a smooth random field that moves; and a soft shadow beside each object."""
    rng, third = np.random.default_rng(rendered.frames.shape[0]), HEIGHT // 3
    leaves = scipy.ndimage.gaussian_filter(rng.standard_normal((FRAMES, third, WIDTH)), (1.0, 1.2, 1.2))
    leaves *= LEAF / leaves.std() * np.linspace(1.0, 0.0, third)[:, None]
    frames, masks = rendered.frames.astype(np.float32), rendered.masks
    frames[:, :third] += np.where(masks[:, :third], 0.0, leaves)
    beside = np.roll(masks, (4, 3), (1, 2)) & ~masks
    frames -= SHADOW * scipy.ndimage.gaussian_filter(beside.astype(np.float32), (0.0, 1.0, 1.0))
    return np.clip(np.rint(frames), 0.0, 255.0).astype(np.uint8)


def scenes() -> Iterator[tuple[str, Rendered]]:
    """The scenes, by the column of the table that they belong to."""
    kinds: dict[str, tuple[tuple[float, ...], Callable[[Rendered], Array]]] = {
        "noise": (NOISES, lambda rendered: rendered.frames),
        "coded": (NOISES, coded),
        "clutter": (NOISES[:3], cluttered),
    }
    for number, (kind, (noises, change)) in enumerate(kinds.items()):
        for noise in noises:
            for seed, objects in SCENES:
                scene = Scene(HEIGHT, WIDTH, FRAMES, noise, objects, seed=seed + 100 * number).render()
                column = f"{kind} {noise:g}" if kind == "noise" else kind
                yield column, replace(scene, frames=change(scene))


def weights() -> Iterator[tuple[str, float, float]]:
    """λ_L and λ_S as multiples of the defaults."""
    for sigmas in (2.0, 5.0):
        ratio = sigmas / SPARSE_WEIGHT_IN_SIGMAS
        yield f"lambda_S = {sigmas:g} sigma instead of {SPARSE_WEIGHT_IN_SIGMAS:g}", ratio, ratio
    for share in (0.01, 0.02):
        yield f"theta = {share:g} instead of {BACKGROUND_SHARE:g}", (share / BACKGROUND_SHARE) ** 0.5, 1.0


def f_measure(solved: Solved, rule: MaskRule | None, truth: Rendered) -> float:
    masks = solved.masks(rule, list(range(0, FRAMES, SCORED_EVERY)))
    return sum((score_frame(mask, truth.masks[number]) for number, mask in masks), start=Score()).f_measure


def f_measures(truth: Rendered, choices: bool = True) -> Iterator[tuple[str, float]]:
    """The F-measure of every choice on one scene; without ``choices`` of the default alone."""
    solved = Solved(truth.frames)
    if not choices:
        yield "everything", f_measure(solved, MaskRule(), truth)
        return
    for name, rule in stages().items():
        yield name, f_measure(solved, rule, truth)
    shape = (truth.matrix.shape[0], truth.matrix.shape[1])
    lambda_L, lambda_S = weights_for(solved.noise, shape)
    for name, low_rank, sparse in weights():
        changed = Solved(truth.frames, (low_rank * lambda_L, sparse * lambda_S))
        yield name, f_measure(changed, MaskRule(), truth)


def show(table: Table) -> None:
    columns = list(next(iter(table.values())))
    print("| choice | " + " | ".join(columns) + " | all | worst |")
    print("|---|" + "---|" * (len(columns) + 2))
    for name, by_column in table.items():
        every = [value for values in by_column.values() for value in values]
        means = [
            *(float(np.mean(by_column[column])) for column in columns),
            float(np.mean(every)),
            min(every),
        ]
        print(f"| {name} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |", flush=True)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--defaults", action="store_true", help="the default mask alone")
    choices = not parser.parse_args().defaults
    table: Table = {}
    for column, truth in scenes():
        for name, value in f_measures(truth, choices):
            table.setdefault(name, {}).setdefault(column, []).append(value)
    show(table)


if __name__ == "__main__":
    main()
