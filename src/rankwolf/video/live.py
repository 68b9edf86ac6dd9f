"""A model that keeps learning: frames come one by one, and each is answered at once with its background and its mask.

The first frames are collected and separated together, which gives V of L = U Vᵀ and the samples of the mask. From then
on a frame costs the fit of its few coefficients, and a comparison with the samples. The model follows the scene in five
ways:

- light that brightens or dims everything is in the coefficients;
- every few frames one sample of each pixel of the background is replaced by what is there now, so that slow changes
  come in, and what has not been seen for long goes out;
- what has stood still for a long time becomes background;
- a camera that trembles in the first frames is followed by moving each frame onto the first;
- when most of the picture differs for a while, because the camera was moved or the scene was changed, new frames are
  collected and everything is learned again.

Memory does not grow: it holds the samples and V, and, while frames are collected, those frames.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.api.decompose import decompose_quietly
from rankwolf.files.address import Address
from rankwolf.files.npz import opened_archive, write_schema
from rankwolf.files.schema import LIVE, is_count, is_size
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_threads
from rankwolf.ground.whole import whole
from rankwolf.video.choosing_weights import temporal_noise, weights_for
from rankwolf.video.drawing import to_gray_levels
from rankwolf.video.mask import Look, MaskModel, as_sample
from rankwolf.video.model import Model
from rankwolf.video.picture import Picture
from rankwolf.video.rule import MaskRule
from rankwolf.video.shake import Steady, moved, steadied
from rankwolf.video.still import MARGIN, lit
from rankwolf.video.tidy import dilate


@dataclass(frozen=True)
class LiveSettings:
    """How fast the model learns and forgets, in frames. The cost of the warm-up is that of ``decompose`` on its frames.

    >>> from rankwolf.video import LiveSettings
    >>> LiveSettings(warm_up=50).refresh
    10
    """

    warm_up: int = 150
    """Frames that are collected before the first mask."""
    refresh: int = 10
    """Every so many frames one sample of each background pixel, chosen at random, is replaced: with 60 samples, one is
    kept for 600 frames on average."""
    absorb_after: int = 3000
    """What has been in the mask for so many frames becomes background: two minutes at 25 frames a second."""
    changed_share: float = 0.5
    changed_after: int = 50
    """When more than ``changed_share`` of the picture has been in the mask for ``changed_after`` frames in a row, new
    frames are collected and everything is learned again."""


@dataclass(eq=False)
class _Learned:
    """What a warm-up gives: models of L and of the mask; and for how many frames each pixel has been in the mask."""

    model: Model
    masker: MaskModel
    stayed: Array


@dataclass(eq=False)
class Separator:
    """Separates a stream of frames of one size: ``background, mask = separator.update(frame)``.

    A frame is uint8, (height, width) or (height, width, 3). The background has the same shape and type, the mask is
    bool, (height, width). Until ``settings.warm_up`` frames have come, ``ready`` is False, the background is the frame
    itself and the mask is empty. ``save`` writes all of the state to a file, and ``Separator.load`` goes on from there
    as if nothing had happened. Cost of a frame of n pixels and rank r: O(n·r) for L, and for each pixel about as many
    comparisons as matches are needed.

    >>> import numpy as np
    >>> from rankwolf.video import LiveSettings, Separator
    >>> separator = Separator(settings=LiveSettings(warm_up=20))
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(30):
    ...     frame = (100 + rng.normal(0.0, 2.0, (24, 32))).astype(np.uint8)
    ...     background, mask = separator.update(frame)
    >>> separator.ready, bool(mask.any())
    (True, False)
    """

    settings: LiveSettings = field(default_factory=LiveSettings)
    rule: MaskRule = field(default_factory=MaskRule)
    seed: int = 0
    count: int = 0
    """How many frames have come so far."""
    relearned: int = 0
    """How often everything was learned again."""
    _picture: Picture | None = None
    _collected: list[Array] | None = field(default_factory=list)
    _learned: _Learned | None = None
    _changed: int = 0
    _background: Array | None = None
    _steady: Steady | None = None

    @property
    def ready(self) -> bool:
        """Whether a model has been learned; until then all masks are empty."""
        return self._learned is not None

    def update(self, frame: Array) -> tuple[Array, Array]:
        """(background, mask) of the next frame; the model then learns from it."""
        picture = self._check(frame)
        shift = (0, 0)
        if self._steady is not None:
            shift = self._steady.shift_of(frame)
            frame = moved(frame, shift)
        row = frame.reshape(-1)
        if self._collected is not None:
            self._collected.append(row.copy())
            if len(self._collected) >= self.settings.warm_up:
                self._learn(picture)
        self.count += 1
        back = (-shift[0], -shift[1])
        if self._learned is None:
            return moved(frame, back).copy(), np.zeros(frame.shape[:2], np.bool_)
        learned = self._learned
        low_rank = learned.model.low_rank(learned.model.fit(row[None]))[0]
        look = Look.at(picture, row, None, low_rank)
        mask, background = learned.masker.separate(look)
        self._follow(learned, look, mask)
        self._background = to_gray_levels(background).reshape(picture.shape)
        return moved(self._background, back).copy(), moved(mask, back)

    def apply(self, frame: Array) -> Array:
        """The mask of the next frame as OpenCV's subtractors give it: uint8, 255 where something moves."""
        return self.update(frame)[1].astype(np.uint8) * np.uint8(255)

    @property
    def background_image(self) -> Array | None:
        """The background as it is now, without objects, in the shape of a frame; None while nothing is learned."""
        return None if self._background is None else self._background.copy()

    def _check(self, frame: Array) -> Picture:
        good = isinstance(frame, np.ndarray) and frame.dtype == np.uint8
        if not good or not (frame.ndim == 2 or (frame.ndim == 3 and frame.shape[2] == 3)):
            kind = (
                f"{frame.dtype} of shape {frame.shape}"
                if isinstance(frame, np.ndarray)
                else type(frame).__name__
            )
            raise bad(
                "frame", "a uint8 array (height, width) or (height, width, 3)", kind, "Separator.update"
            )
        if self._picture is None:
            self._picture = Picture(frame.shape[0], frame.shape[1], 1 if frame.ndim == 2 else 3)
        if frame.shape != self._picture.shape:
            raise bad(
                "frame",
                f"of shape {self._picture.shape}, as the first was",
                str(frame.shape),
                "Separator.update",
            )
        return self._picture

    def _learn(self, picture: Picture) -> None:
        """Make a new model of the frames that were collected, and collect no more."""
        assert self._collected is not None
        shape = picture.shape
        if self._steady is None:
            self._steady, steady = steadied(row.reshape(shape) for row in self._collected)
            self._collected = [frame.reshape(-1) for frame in steady]
        frames = np.stack(self._collected)
        self._collected = None
        noise = temporal_noise(frames)
        fit = decompose_quietly(
            frames, lambdas=weights_for(noise, (frames.shape[0], frames.shape[1])), rng=self.seed
        )
        assert fit.lambdas is not None
        right = np.ascontiguousarray(fit.low_rank.factors()[1], np.float32)
        if right.shape[1] == 0:  # a black picture: L = 0
            right = np.zeros((frames.shape[1], 1), np.float32)
        model = Model(Path(), right, *fit.lambdas, noise, 0.0, picture)

        def look(number: int) -> Look:
            return Look.at(picture, frames[number], None, fit.low_rank[number])

        masker = MaskModel.learn(self.rule, len(frames), look, noise, n_threads=check_threads(None))
        self.relearned += self._learned is not None
        self._learned = _Learned(model, masker, np.zeros((picture.height, picture.width), np.uint32))
        self._changed = 0

    def _follow(self, learned: _Learned, look: Look, mask: Array) -> None:
        """Let the model learn from this frame; begin to collect frames again when most of the picture has changed."""
        settings, stayed = self.settings, learned.stayed
        # A frame outside the mask takes 4 off the count, not all: it does not begin again when somebody sways.
        np.copyto(stayed, np.where(mask, stayed + 1, stayed - np.minimum(stayed, 4)))
        old = stayed > settings.absorb_after
        if old.any():
            self._put(learned, look, old, max(1, len(learned.masker.samples.values) // 2))
            stayed[old] = 0
        if self.count % settings.refresh == 0:
            light = lit(mask, look.frame, look.low_rank)
            self._put(learned, look, ~dilate(mask & ~light, MARGIN), 1)
        self._changed = (
            self._changed + 1 if np.count_nonzero(mask) > settings.changed_share * mask.size else 0
        )
        if self._changed == settings.changed_after and self._collected is None:
            self._collected = []

    def _put(self, learned: _Learned, look: Look, where: Array, slots: int) -> None:
        """Overwrite ``slots`` samples, drawn at random, of the pixels ``where`` by this frame's residual."""
        samples = learned.masker.samples
        rng = np.random.default_rng([self.seed, self.count])
        chosen = rng.permutation(len(samples.values))[:slots]
        samples.replace(chosen, where, as_sample(look.residual, None))
        still = learned.masker.still
        if still is not None:
            share = slots / len(samples.values)
            chosen = rng.permutation(len(still.colors))[: max(1, round(share * len(still.colors)))]
            still.replace(chosen, where, look.frame)

    def save(self, path: Path | str) -> None:
        """Write the state to an .npz file; an older one of that name is replaced when the new one is whole.

        Settings, rule and seed are not in it.
        """
        learned = self._learned
        settings: dict[str, Any] = {
            "count": self.count,
            "relearned": self.relearned,
            "changed": self._changed,
            "shape": None if self._picture is None else self._picture.shape,
            "collecting": self._collected is not None,
            "numbers": None,
        }
        row = 0 if self._picture is None else self._picture.columns
        arrays = {"collected": np.array(self._collected or [], np.uint8).reshape(-1, row)}
        if learned is not None:
            model = learned.model
            settings["numbers"] = [model.lambda_L, model.lambda_S, model.residual_noise]
            if self._steady is not None:
                arrays["reference"] = self._steady.reference
            arrays |= {"right": model.right, "stayed": learned.stayed, **learned.masker.arrays()}
        with whole(path) as unfinished:
            write_schema(unfinished, LIVE, settings, arrays, level=1)

    @classmethod
    def load(
        cls,
        path: Path | str,
        settings: LiveSettings | None = None,
        rule: MaskRule | None = None,
        seed: int = 0,
    ) -> Separator:
        """A separator that goes on from what :meth:`save` wrote; give it the settings, rule and seed of the old one."""
        result = cls(settings or LiveSettings(), rule or MaskRule(), seed)
        with opened_archive(Address(Path(path)), LIVE) as archive:
            about, arrays = archive.about, archive.arrays()
            result.count, result.relearned, result._changed = (
                about[name] for name in ("count", "relearned", "changed")
            )
            shape = about["shape"]
            if shape is not None:
                if len(shape) not in (2, 3) or not all(is_count(side) and side for side in shape):
                    raise ValueError(f"its frames have the shape {shape}")
                result._picture = Picture(*shape)
                if about["collecting"] and arrays["collected"].shape[1] != result._picture.columns:
                    raise ValueError("its frames do not fit together")
            result._collected = list(arrays["collected"]) if about["collecting"] else None
            if "right" in arrays and result._picture is not None:
                result._learned = _learned(arrays, about, result)
                result._steady = Steady(arrays["reference"]) if "reference" in arrays else None
        return result


def _learned(arrays: dict[str, Array], about: dict[str, Any], separator: Separator) -> _Learned:
    picture = separator._picture
    assert picture is not None
    numbers = about["numbers"]
    if not isinstance(numbers, list) or len(numbers) != 3 or not all(map(is_size, numbers)):
        raise ValueError("its numbers are none")
    sides = (picture.height, picture.width)
    if (
        arrays["right"].shape[0] != picture.columns
        or arrays["values"].shape[2:] != sides
        or "stayed" not in arrays
    ):
        raise ValueError("its arrays are of frames of another size")
    lambda_L, lambda_S, noise = numbers
    model = Model(Path(), arrays["right"], lambda_L, lambda_S, noise, 0.0, picture)
    masker = MaskModel.of_arrays(arrays, separator.rule)
    return _Learned(model, masker, arrays["stayed"].astype(np.uint32))
