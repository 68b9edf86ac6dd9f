"""The defaults of ``rankwolf separate`` and their neighbours on rendered scenes: ``python -m benchmarks.scenes``.

Highway is one video. Here are twelve with exact truth, which had no part in choosing the defaults: noise of 1 to 8 gray
levels, 2 to 10 objects, lamps that drift and lamps that are switched. For each choice the mean F-measure by noise, and
the worst scene: one number is changed, the others are the defaults. Every fourth frame is scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.highway import Trial, weights_of
from rankwolf.scene import Rendered, Scene
from rankwolf.video.mask import MaskRule
from rankwolf.video.noise import BACKGROUND_SHARE, LIMIT_IN_SIGMAS
from rankwolf.video.scoring import Score, score_frame

NOISES = (1.0, 2.0, 4.0, 8.0)
# Seed, objects.
SCENES = ((11, 2), (12, 5), (13, 10))
HEIGHT, WIDTH, FRAMES, SCORED_EVERY = 90, 120, 240, 4
Table = dict[str, dict[float, list[float]]]


def rules() -> Iterator[tuple[str, MaskRule]]:
    """The default mask, and one number of it changed."""
    plain = MaskRule()
    yield "defaults", plain
    for part in (24.0, 16.0, 9.0):
        yield f"tolerance 1/{part:g} instead of 1/12", replace(plain, tolerance=1.0 / part)
    for sigmas in (1.0, 3.0, 4.0):
        yield f"at least {sigmas:g} sigma instead of {plain.sigmas:g}", replace(plain, sigmas=sigmas)
    for sigmas in (3.0, 4.0, 6.0):
        yield f"{sigmas:g} sigma and no tolerance", replace(plain, sigmas=sigmas, tolerance=0.0)
    for vote in (1, 5, 7):
        yield f"vote among {vote} x {vote} instead of 3 x 3", replace(plain, vote=vote)
    yield "holes kept", replace(plain, fill_holes=False)
    for area in (0.0, 0.0005, 0.002, 0.005):
        yield f"least area {area:g} instead of {plain.least_area:g}", replace(plain, least_area=area)


def weights() -> Iterator[tuple[str, float, float]]:
    """λ_L and λ_S as multiples of the defaults."""
    for sigmas in (2.0, 5.0):
        ratio = sigmas / LIMIT_IN_SIGMAS
        yield f"lambda_S = {sigmas:g} sigma instead of {LIMIT_IN_SIGMAS:g}", ratio, ratio
    for share in (0.01, 0.02):
        yield f"theta = {share:g} instead of {BACKGROUND_SHARE:g}", (share / BACKGROUND_SHARE) ** 0.5, 1.0


def f_measure(trial: Trial, rule: MaskRule, truth: Rendered) -> float:
    masks = trial.masks(rule, list(range(0, FRAMES, SCORED_EVERY)))
    return sum((score_frame(mask, truth.masks[number]) for number, mask in masks), start=Score()).f_measure


def measure(truth: Rendered) -> Iterator[tuple[str, float]]:
    """The F-measure of every choice on one scene."""
    lambda_L, lambda_S = weights_of(truth.matrix)
    trial = Trial(truth.frames, (lambda_L, lambda_S))
    for name, rule in rules():
        yield name, f_measure(trial, rule, truth)
    for name, low_rank, sparse in weights():
        changed = Trial(truth.frames, (low_rank * lambda_L, sparse * lambda_S))
        yield name, f_measure(changed, MaskRule(), truth)


def show(table: Table) -> None:
    print("| choice | " + " | ".join(f"noise {noise:g}" for noise in NOISES) + " | all | worst |")
    print("|---|" + "---|" * (len(NOISES) + 2))
    for name, by_noise in table.items():
        every = [value for values in by_noise.values() for value in values]
        means = [*(float(np.mean(by_noise[noise])) for noise in NOISES), float(np.mean(every)), min(every)]
        print(f"| {name} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |", flush=True)


def main() -> None:
    table: Table = {}
    for noise in NOISES:
        for seed, objects in SCENES:
            scene = Scene(HEIGHT, WIDTH, FRAMES, noise, objects, seed=seed)
            for name, value in measure(scene.render()):
                table.setdefault(name, {}).setdefault(noise, []).append(value)
    show(table)


if __name__ == "__main__":
    main()
