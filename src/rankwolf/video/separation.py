"""Everything in order: decode into the matrix, solve, make pictures of L, S and the mask, write them and the result.

Memory: the matrix while it fits (:mod:`rankwolf.video.store`), the factors, the model of the mask, and a few frames.
Nothing here prints; an :class:`Observer` is told what happens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rankwolf.api.decompose import decompose_quietly
from rankwolf.ground.arrays import Array
from rankwolf.ground.blas import one_blas_thread
from rankwolf.ground.complaints import check_threads
from rankwolf.ground.extras import needed
from rankwolf.ground.once import computed_once
from rankwolf.ground.result_files import RESULT
from rankwolf.platform import available_memory
from rankwolf.video.choosing_weights import (
    MOST_VIDEO_RATIO,
    PHOTOGRAPH_DELTA,
    spatial_noise,
    temporal_noise,
    weights_for,
)
from rankwolf.video.drawing import (
    FrameBlock,
    Painter,
    Pictures,
    median_background,
    overlay,
    rows_at_once,
    write_pictures,
)
from rankwolf.video.mask import Look, MaskModel, Threshold
from rankwolf.video.model import MASK_MODEL, REGION, Model, blocks_by_model
from rankwolf.video.picture import Picture, read_region
from rankwolf.video.picture_writers import Shape, Sink, Sound, open_sink
from rankwolf.video.reading import Reader, Selection, open_frames
from rankwolf.video.residual_noise import Residual
from rankwolf.video.rule import MaskRule
from rankwolf.video.shake import Steady, steadied
from rankwolf.video.side_by_side import finish
from rankwolf.video.store import FrameStore
from rankwolf.video.tracks import Box, Tracker, write_objects

if TYPE_CHECKING:
    from rankwolf.result.decomposition import Decomposition, Record


NAMES = ("background", "foreground", "mask")
STILL = "background.png"
OBJECTS = "objects.csv"
OVERLAY = "overlay"


class Observer(Protocol):
    """An object that is told how far the work is, such as a progress bar."""

    def stage(self, name: str, total: int | None) -> None:
        """A new stage begins, of ``total`` frames; None where that is not known."""

    def advance(self, frames: int) -> None:
        """``frames`` more frames are done."""

    def record(self, record: Record) -> object:
        """One iteration of the solver is done; False stops it."""


class Silent:
    """An observer that says nothing."""

    def stage(self, name: str, total: int | None) -> None:
        """Nobody is told."""

    def advance(self, frames: int) -> None:
        """Nobody is told."""

    def record(self, record: Record) -> object:
        """Nobody is told; the solver goes on."""
        return None


@dataclass(frozen=True)
class SolveSettings:
    """The options of the solver. Without ``lambdas`` and ``delta`` the weights come from the noise."""

    lambdas: tuple[float, float] | None = None
    delta: float | None = None
    method: str = "auto"
    tol: float = 1e-3
    max_seconds: float | None = None
    seed: int = 0
    n_threads: int | None = None
    checkpoint: dict[str, Any] = field(default_factory=dict)
    """``checkpoint``, ``checkpoint_every`` and ``resume`` of :func:`rankwolf.decompose`."""

    @property
    def weights_from(self) -> str | None:
        """Where the weights come from: "given" for ``lambdas``, "paper" for ``delta``, None for the data."""
        return "given" if self.lambdas is not None else None if self.delta is None else "paper"


@dataclass(frozen=True)
class Job:
    """What to separate, and how.

    ``region``: an image, white where pixels are looked at. ``sample``: the share of entries that is observed, at
    random; None for all. ``style`` of the foreground: that of :class:`rankwolf.video.drawing.Painter`. ``format``: one
    of :data:`rankwolf.video.picture_writers.FORMATS`, or "auto". ``model``: an earlier result that separates new frames
    without solving. ``audio``: copy the sound. ``strict``: any damage of the input is an error. ``max_memory`` in
    bytes. ``overlay``: also write the frames with their masks, boxes and numbers.
    """

    source: Path
    selection: Selection = field(default_factory=Selection)
    region: Path | None = None
    sample: float | None = None
    solve: SolveSettings = field(default_factory=SolveSettings)
    rule: MaskRule = field(default_factory=MaskRule)
    style: str = "signed"
    format: str = "auto"
    model: Path | None = None
    audio: bool = False
    strict: bool = False
    max_memory: int | None = None
    overlay: bool = False


@dataclass(frozen=True, eq=False)
class Clip:
    """Decoded frames as rows; ``present`` is True where an entry is observed, None for everywhere."""

    picture: Picture
    frames: FrameStore
    present: FrameStore | None = None

    @computed_once
    def noise(self) -> float:
        """σ of the noise between one frame and the next, in gray levels. Reads at most 48 pairs of frames."""
        return temporal_noise(self.frames, self.present)

    @computed_once
    def is_video(self) -> bool:
        """Whether frames follow each other in time; if not, they are photographs in any order."""
        some = range(0, len(self.frames), max(1, len(self.frames) // 20))
        frames = [self.picture.to_frame(self.frames[k : k + 1][0]) for k in some]
        planes = [frame if frame.ndim == 2 else frame[..., 0] for frame in frames]
        return self.noise <= MOST_VIDEO_RATIO * spatial_noise(np.stack(planes))

    def weights(self, observed_fraction: float) -> dict[str, Any]:
        """The weights as arguments of ``decompose``: λ_L and λ_S from the noise, or the paper's δ for photographs."""
        if not self.is_video:
            return {"delta": PHOTOGRAPH_DELTA}
        return {
            "lambdas": weights_for(self.noise, (len(self.frames), self.picture.columns), observed_fraction)
        }


@dataclass(eq=False)
class Outcome:
    """The results of a run, for the summary and the page. ``fit`` is None when a saved model did the work."""

    job: Job
    picture: Picture
    reader: Reader
    fit: Decomposition | None = None
    frame_noise: float | None = None
    weights_from: str | None = None
    photographs: bool = False
    residual_noise: float = 0.0
    contrast: float = 0.0
    masker: MaskModel | Threshold | None = None
    format: str = ""
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    activity: list[float] = field(default_factory=list)
    residuals: Array | None = None
    """How often |M − L| was 0, 1, … gray levels, in a sample."""
    on_disk: bool = False
    frames: int | None = None
    """How many frames there are, once all of them are decoded."""
    objects: list[Box] = field(default_factory=list)
    """The objects of the masks, frame by frame."""
    steady: Steady | None = None
    """What moved the frames of a camera that trembles; None where they stayed as they were."""

    @property
    def levels(self) -> Array | None:
        """About how far from L each pixel may be and still be background; None where one threshold does for all."""
        masker, picture = self.masker, self.picture
        return masker.levels((picture.height, picture.width)) if isinstance(masker, MaskModel) else None

    @contextmanager
    def clock(self, stage: str) -> Iterator[None]:
        """Add the time of the block to ``stage``."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started


def separate(job: Job, folder: Path, observer: Observer, visit: Any = None) -> Outcome:
    """Separate ``job.source`` into ``folder``, which exists and is empty; returns the :class:`Outcome`.

    ``visit``, if given, is called for each frame, in order, with its :class:`Pictures` and the number of all frames,
    None where that is not known: the page collects some of them so.
    """
    model = None if job.model is None else Model.load(job.model)
    color = job.selection.color if model is None else model.picture.channels == 3
    reader = open_frames(job.source, replace(job.selection, color=color))
    picture = _picture(job, reader) if model is None else model.check(reader)
    outcome = Outcome(job, picture, reader, format=_format(job, reader))
    if job.audio:  # now, so that a file without sound is refused before the work
        Sound(job.source, reader.numbers, reader.rate).open().close()

    tracker = Tracker()
    drawn = _sink(outcome, folder, OVERLAY) if job.overlay else None

    def look(pictures: Pictures) -> None:
        number = reader.numbers.start + pictures.number * reader.numbers.step
        boxes = tracker.follow(number, pictures.mask)
        outcome.objects += boxes
        if drawn is not None:
            drawn.write(overlay(pictures, boxes))
        outcome.activity.append(pictures.activity)
        observer.advance(1)
        if visit is not None:
            visit(pictures, outcome.frames)

    try:
        with one_blas_thread():  # frames are worked on side by side
            if model is not None:
                _apply_model(model, outcome, folder, observer, look)
            else:
                _solve_all(outcome, folder, observer, look)
        if drawn is not None:
            drawn.close()
    except BaseException:
        if drawn is not None:
            drawn.abandon()
        raise
    write_objects(folder / OBJECTS, outcome.objects)
    return outcome


def _solve_all(outcome: Outcome, folder: Path, observer: Observer, look: Any) -> None:
    job, reader, picture = outcome.job, outcome.reader, outcome.picture
    fraction = 1.0 if job.sample is None else job.sample
    # Half of the memory is for the frames, a quarter when a mask of the same size lies beside them.
    share = (job.max_memory or available_memory()) // (2 if fraction == 1.0 else 4)
    with ExitStack() as stack:
        frames = stack.enter_context(FrameStore(picture.columns, reader.expected, share, folder))
        present = None
        with outcome.clock("decode"):
            outcome.steady = decode(reader, picture, frames, observer)
            if fraction < 1.0:
                mask = FrameStore(picture.columns, len(frames), share, folder, np.bool_)
                present = stack.enter_context(mask)
                sample_entries(len(frames), fraction, present, job.solve.seed)
        outcome.on_disk, outcome.frames = frames.on_disk, len(frames)
        _note_losses(outcome)
        if len(frames) < 2:
            raise ValueError("A background needs at least 2 frames to be told from the rest. Got 1 instead.")
        clip = Clip(picture, frames, present)
        with outcome.clock("solve"):
            outcome.fit = fit = solve_clip(clip, job.solve, fraction, observer, job.max_memory)
        outcome.frame_noise = clip.noise
        outcome.photographs = not clip.is_video
        outcome.weights_from = job.solve.weights_from or ("photographs" if outcome.photographs else "noise")
        residual = Residual.sample(frames, present, fit.low_rank, picture)
        outcome.residuals = residual.counts()
        outcome.residual_noise, outcome.contrast = residual.noise, residual.contrast
        # The fit is saved by another thread, while the mask is made.
        saver = stack.enter_context(ThreadPoolExecutor(1))
        saving = [saver.submit(_save_fit, fit, picture, folder)]
        with outcome.clock("model"):
            observer.stage("model", None)
            outcome.masker = masker = learn_masker(clip, fit, job, residual)
        saving.append(saver.submit(_save_background, fit, picture, masker, folder))
        if isinstance(masker, MaskModel):
            saving.append(saver.submit(masker.save, folder / MASK_MODEL))
        with outcome.clock("write"):
            observer.stage("write", len(frames))
            assert fit.lambdas is not None
            _write(outcome, blocks_of(clip, fit), fit.lambdas[1], folder, look)
            finish(saving)


def learn_masker(clip: Clip, fit: Decomposition, job: Job, residual: Residual) -> MaskModel | Threshold:
    """The maker of masks for this clip: a model of its residual; one level for photographs, or with a threshold."""
    if job.rule.threshold is not None or not clip.is_video:
        return Threshold.choose(job.rule, residual.noise, residual.contrast)

    def look(number: int) -> Look:
        rows = slice(number, number + 1)
        present = None if clip.present is None else clip.present[rows][0].view(np.bool_)
        return Look.at(clip.picture, clip.frames[rows][0], present, fit.low_rank[number])

    seen_share = 1.0 if job.sample is None else 1.0 - (1.0 - job.sample) ** clip.picture.channels
    return MaskModel.learn(
        job.rule,
        len(clip.frames),
        look,
        clip.noise,
        seen_share,
        (job.max_memory or available_memory()) // 4,
        check_threads(job.solve.n_threads),
    )


def _apply_model(model: Model, outcome: Outcome, folder: Path, observer: Observer, look: Any) -> None:
    """Separate frames that the model has not seen: they are decoded, fitted and written block by block."""
    outcome.photographs = model.photographs
    outcome.residual_noise, outcome.contrast = model.residual_noise, model.contrast
    outcome.masker = model.masker(outcome.job.rule)
    observer.stage("write", outcome.reader.estimate)
    with outcome.clock("separate"):
        blocks = blocks_by_model(model, outcome.reader, rows_at_once(outcome.picture))
        _write(outcome, blocks, model.lambda_S, folder, look)
    _note_losses(outcome)


def _note_losses(outcome: Outcome) -> None:
    if said := outcome.reader.losses(outcome.job.strict):
        outcome.warnings.append(said)


def _write(outcome: Outcome, blocks: Iterator[FrameBlock], lambda_S: float, folder: Path, look: Any) -> None:
    job, picture = outcome.job, outcome.picture
    assert outcome.masker is not None
    painter = Painter(picture, lambda_S, outcome.masker, job.style, outcome.steady)
    sinks = {name: _sink(outcome, folder, name) for name in NAMES}
    write_pictures(blocks, painter, sinks, look, check_threads(job.solve.n_threads))


def _sink(outcome: Outcome, folder: Path, name: str) -> Sink:
    """Where the pictures of this name go."""
    job, reader, picture = outcome.job, outcome.reader, outcome.picture
    shape = Shape(
        picture.height,
        picture.width,
        None if reader.rate is None else reader.rate / job.selection.every,
        reader.aspect,
    )
    names = [] if reader.names is None else picture_names([reader.names[k] for k in reader.numbers])
    sound = Sound(job.source, reader.numbers, reader.rate) if job.audio else None
    return open_sink(folder, name, outcome.format, shape, names, sound)


def picture_names(names: list[str]) -> list[str]:
    """The names of images without their endings, or with them if two differ in nothing else.

    >>> picture_names(["1.jpg", "2.jpg"]), picture_names(["1.jpg", "1.png"])
    (['1', '2'], ['1.jpg', '1.png'])
    """
    stems = [Path(name).stem for name in names]
    return stems if len(set(stems)) == len(stems) else names


def _save_fit(fit: Decomposition, picture: Picture, folder: Path) -> None:
    """Write the fit, and the region if there is one."""
    needed("PIL")
    from PIL import Image

    fit.save(folder / RESULT, with_sparse=False)
    if picture.region is not None:
        Image.fromarray(picture.region.astype(np.uint8) * 255).save(folder / REGION)


def _save_background(
    fit: Decomposition, picture: Picture, masker: MaskModel | Threshold, folder: Path
) -> None:
    """Write :func:`background_image` as an image."""
    needed("PIL")
    from PIL import Image

    Image.fromarray(background_image(fit, picture, masker)).save(folder / STILL)


def background_image(fit: Decomposition, picture: Picture, masker: MaskModel | Threshold) -> Array:
    """One picture of the background: the median of L over time, without objects that L has taken in."""
    found = median_background(fit.low_rank, picture)
    if isinstance(masker, MaskModel):
        shape = (picture.height, picture.width, picture.channels)
        found = masker.without_objects(found.reshape(shape)).reshape(found.shape)
        if picture.region is not None:
            found[~picture.region] = 0
    return found


def _picture(job: Job, reader: Reader) -> Picture:
    region = None if job.region is None else read_region(job.region, reader.height, reader.width)
    return Picture(reader.height, reader.width, reader.channels, region)


def _format(job: Job, reader: Reader) -> str:
    """The format that is asked for; for "auto", png where the input is images, else mp4."""
    if job.format != "auto":
        return job.format
    return "png" if reader.kind == "images" else "mp4"


def decode(reader: Reader, picture: Picture, store: FrameStore, observer: Observer) -> Steady | None:
    """Append all selected frames to ``store`` as rows; each is decoded once. Returns what moved them, if they shook."""
    observer.stage("decode", reader.estimate)
    steady, frames = steadied(reader)
    for frame in frames:
        store.append(picture.to_row(frame))
        observer.advance(1)
    store.flush()
    return steady


def sample_entries(count: int, fraction: float, store: FrameStore, seed: int) -> None:
    """Append a mask of ``count`` frames to ``store``: each entry is True with probability ``fraction``.

    Each frame has a random stream of its own, so that its mask does not depend on the others.
    """
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        store.append(rng.random(store.shape[1], np.float32) < np.float32(fraction))
    store.flush()


def solve_clip(
    clip: Clip,
    settings: SolveSettings,
    observed_fraction: float,
    observer: Observer,
    max_memory: int | None = None,
) -> Decomposition:
    """The decomposition of a clip; of S only its shape, type and number of nonzeros are kept.

    The solver stays within ``max_memory`` bytes as far as it can; frames that did not fit are read from the disk.
    """
    observer.stage("solve", None)
    weights: dict[str, Any] = {"lambdas": settings.lambdas}
    if settings.delta is not None:
        weights = {"delta": settings.delta}
    elif settings.lambdas is None:
        weights = clip.weights(observed_fraction)
    fit = decompose_quietly(
        clip.frames.matrix,
        observed=None if clip.present is None else clip.present.matrix,
        method=settings.method,
        tol=settings.tol,
        max_seconds=settings.max_seconds,
        callback=observer.record,
        rng=settings.seed,
        n_threads=settings.n_threads,
        max_memory=max_memory,
        **settings.checkpoint,
        **weights,
    )
    # S is computed again, frame by frame, when it is drawn. Without the source, memory that holds frames is freed.
    return replace(fit, sparse=fit.sparse.unsaved(), source=None)


def blocks_of(clip: Clip, fit: Decomposition) -> Iterator[FrameBlock]:
    """The frames of a clip with their L, block by block."""
    step = rows_at_once(clip.picture)
    for first in range(0, len(clip.frames), step):
        rows = slice(first, min(first + step, len(clip.frames)))
        present = None if clip.present is None else clip.present[rows]
        yield FrameBlock(first, clip.frames[rows], present, fit.low_rank[rows].astype(np.float32, copy=False))
