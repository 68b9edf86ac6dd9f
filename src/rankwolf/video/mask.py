"""What moves: a model of the residual M − L and of the frames M, learned from the whole video.

In order, for one frame:

1. A pixel is suspicious where its residual is unlike the samples of its background (:mod:`rankwolf.video.consensus`).
   That is right where the background moves, and blind where L has taken in an object that stayed.
2. Where the background stands still, the frames themselves tell (:mod:`rankwolf.video.still`): what is usual there is
   no object, nor is the scene in a shadow; what is unusual, in one large piece, is an object whatever L shows there.
3. Neighbours vote, holes are filled, specks are dropped (:mod:`rankwolf.video.tidy`).

With a ``threshold``, and for photographs, which have no order in time, one comparison replaces steps 1 and 2: a pixel
is suspicious where |M − L| is above a level in any channel. For photographs the level is twice the noise of the
residual or a twelfth of the contrast, whichever is larger: shadows and reflections differ by an amount that grows with
the light.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.ndimage

from rankwolf.files.address import Address
from rankwolf.files.npz import opened_archive, write_schema
from rankwolf.files.schema import MASK
from rankwolf.ground.arrays import Array
from rankwolf.kernels.pictures import NO_SAMPLE
from rankwolf.video.consensus import Samples
from rankwolf.video.picture import Picture
from rankwolf.video.rule import MaskRule
from rankwolf.video.still import Still
from rankwolf.video.tidy import majority, tidy

# The level for photographs is the larger of TOLERANCE · contrast and SIGMAS · noise.
TOLERANCE, SIGMAS = 1.0 / 12.0, 2.0
# Of what stands still there are so many samples, so many frames apart or more: within 3 frames a pixel is watched for
# whether it stands. The longest stay that is still told from a background is a share of time, not a number of samples.
STILL_SAMPLES, APART = 40, 3
# The fields of the model of what stands still that are saved.
STILL = ("colors", "weights", "mode", "stands", "scene")


@dataclass(frozen=True, eq=False)
class Look:
    """One frame: M − L and L as (height, width, channels), float32; ``seen`` is True where a pixel was observed.

    ``seen`` is (height, width), or None for everywhere.
    """

    residual: Array
    low_rank: Array
    seen: Array | None = None

    @property
    def frame(self) -> Array:
        """The frame itself, M."""
        return self.residual + self.low_rank

    def sample(self) -> Array:
        """The residual as a sample: int16, NO_SAMPLE where nothing was seen."""
        return as_sample(self.residual, self.seen)

    @classmethod
    def at(cls, picture: Picture, row: Array, present: Array | None, low_rank: Array) -> Look:
        """One frame from three rows: of the matrix, of the mask of observed entries (None: all), and of L.

        A channel that was not observed is taken to differ from L as the observed ones of its pixel do on average.
        """
        residual = np.subtract(row, low_rank, dtype=np.float32).reshape(-1, picture.channels)
        seen = picture.region
        if present is not None:
            counted = present.reshape(residual.shape)
            number = np.count_nonzero(counted, axis=1)
            residual[~counted] = 0.0
            mean = residual.sum(axis=1) / np.maximum(number, 1)
            residual = np.where(counted, residual, mean[:, None])
            seen = picture.pixels_to_frame(number > 0)
        shape = (picture.height, picture.width, picture.channels)
        return cls(
            picture.to_frame(residual.reshape(-1)).reshape(shape),
            picture.to_frame(low_rank.astype(np.float32, copy=False)).reshape(shape),
            seen,
        )


@dataclass(frozen=True, eq=False)
class Threshold:
    """Makes the mask by one ``level`` of |M − L|, in gray levels, for all pixels."""

    rule: MaskRule
    level: float

    @classmethod
    def choose(cls, rule: MaskRule, noise: float, contrast: float) -> Threshold:
        """The level is ``rule.threshold``, or max(2·noise of the residual, contrast of the frames/12)."""
        level = max(SIGMAS * noise, TOLERANCE * contrast) if rule.threshold is None else rule.threshold
        return cls(rule, level)

    def mask(self, look: Look) -> Array:
        """What moves in a frame: (height, width), bool."""
        suspicious = np.abs(look.residual).max(axis=-1) > self.level
        if look.seen is not None:
            suspicious &= look.seen
        rule = self.rule.sized(*suspicious.shape)
        return tidy(suspicious, look.seen, rule.side, rule.least_area)


@dataclass(frozen=True, eq=False)
class MaskModel:
    """Makes the mask from residuals, and from frames where the background stands still (``still``, or None)."""

    rule: MaskRule
    samples: Samples
    still: Still | None

    @classmethod
    def learn(
        cls,
        rule: MaskRule,
        count: int,
        look: Callable[[int], Look],
        noise: float,
        seen_share: float = 1.0,
        most_bytes: int | None = None,
        n_threads: int = 1,
    ) -> MaskModel:
        """The model of a video of ``count`` frames, of which ``look(k)`` shows the k-th; ``noise`` is σ of the camera.

        A share ``seen_share`` of the pixels of a frame was observed. The number of samples is divided by it, so that a
        pixel has as many observed ones as without gaps. With gaps, and in clips of fewer than 120 frames, only the
        residual decides.

        Memory: about (4·channels + 12) bytes a pixel and sample. Where that is more than ``most_bytes``, fewer samples
        are taken, but at least 12. Time: a look for each sample of the residual, five for each one of the frames, and
        the cleaning of both.
        """
        height, width, channels = look(0).residual.shape
        rule, most = rule.sized(height, width), count
        if most_bytes is not None:
            most = max(12, most_bytes // (height * width * (4 * channels + 12)))
        number = min(round(rule.samples / seen_share), count, most)
        chosen = [int((n + 0.5) * count / number) for n in range(number)]
        samples = Samples.learn(rule, number, lambda n: look(chosen[n]).sample(), noise, n_threads)
        if seen_share < 1.0 or count < APART * STILL_SAMPLES:
            return cls(rule, samples, None)

        def frame(k: int) -> tuple[Array, Array | None]:
            seen = look(k)
            return seen.frame, seen.seen

        return cls(rule, samples, Still.learn(rule, count, min(STILL_SAMPLES, most), frame, n_threads))

    def mask(self, look: Look) -> Array:
        """What moves in a frame: (height, width), bool."""
        return self.separate(look)[0]

    def separate(self, look: Look) -> tuple[Array, Array]:
        """(what moves in a frame, its background: L, and the scene behind objects that L shows)."""
        where = found = None
        if self.still is not None:
            unusual = self.still.unusual(look.frame)
            if look.seen is not None:
                unusual &= look.seen
            where = unusual | ~self.still.stands
            found = self.still.objects(majority(unusual, look.seen, self.rule.side), look.frame)
        suspicious = self.samples.strangers(look.sample(), where)
        if found is not None:
            suspicious |= found
        mask = tidy(suspicious, look.seen, self.rule.side, self.rule.least_area)
        if self.still is None or found is None or not found.any():
            return mask, look.low_rank
        return mask, in_light_of(look.low_rank, self.still.scene, mask & found)

    def without_objects(self, background: Array) -> Array:
        """A picture of the background (height, width, channels), uint8, with the scene where it shows an object."""
        if self.still is None:
            return background
        picture = background.astype(np.float32)
        objects = self.still.objects(majority(self.still.unusual(picture), None, self.rule.side), picture)
        return in_light_of(picture, self.still.scene, objects).round().astype(np.uint8)

    def levels(self, shape: tuple[int, int]) -> Array:
        """About how far from L each pixel may be and still be background, in gray levels, as an array of this shape."""
        return self.samples.spread.reshape(shape)

    def arrays(self) -> dict[str, Array]:
        """The samples, and what stands still, by the names of their fields."""
        samples = self.samples
        found = {"values": samples.values, "offsets": samples.offsets, "square": np.array([samples.square])}
        if self.still is not None:
            found |= {name: getattr(self.still, name) for name in STILL}
            found["width"] = np.array([self.still.width])
        return found

    @classmethod
    def of_arrays(cls, found: Mapping[str, Array], rule: MaskRule) -> MaskModel:
        """The model whose :meth:`arrays` these are, with this ``rule``."""
        rule = rule.sized(*found["values"].shape[2:])
        samples = Samples(rule, found["values"], found["offsets"], int(found["square"][0]))
        still = None
        if STILL[0] in found:
            fields = {name: found[name] for name in STILL}
            still = Still(rule, width=float(found["width"][0]), **fields)
        return cls(rule, samples, still)

    def save(self, path: Path) -> None:
        """Write the model to a new .npz file, which :meth:`load` reads."""
        write_schema(path, MASK, {}, self.arrays(), level=1)

    @classmethod
    def load(cls, path: Path, rule: MaskRule) -> MaskModel:
        """The model that :meth:`save` wrote, with this ``rule``."""
        with opened_archive(Address(path), MASK) as archive:
            return cls.of_arrays(archive.arrays(), rule)


def as_sample(residual: Array, seen: Array | None) -> Array:
    """The residual rounded to int16, NO_SAMPLE where nothing was seen."""
    sample = np.rint(residual).astype(np.int16)
    if seen is not None:
        sample[~seen] = NO_SAMPLE
    return sample


def in_light_of(background: Array, scene: Array, objects: Array) -> Array:
    """The background with the scene in place of ``objects``, as bright as the background around them.

    The light is the ratio of both, over a window of a quarter of the picture without the objects.
    """
    if not objects.any():
        return background
    rest = ~objects[..., None]
    size = (max(objects.shape) // 4, max(objects.shape) // 4, 1)
    here, usual = (
        scipy.ndimage.uniform_filter(np.where(rest, picture, np.float32(0)).astype(np.float32), size)
        for picture in (background, scene)
    )
    light = (here + 1.0) / (usual + 1.0)
    found: Array = np.where(rest, background, np.clip(scene * light, 0.0, 255.0))
    return found.astype(np.float32)
