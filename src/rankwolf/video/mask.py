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
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.npz import opened_archive, write_schema
from rankwolf.files.schema import MASK
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_whole
from rankwolf.kernels.pictures import NO_SAMPLE
from rankwolf.video.consensus import ConsensusRule, Samples
from rankwolf.video.picture import Picture
from rankwolf.video.still import Still, StillRule, side_of_evidence
from rankwolf.video.tidy import majority, odd_side, tidy

# The level for photographs is the larger of TOLERANCE · contrast and SIGMAS · noise.
TOLERANCE, SIGMAS = 1.0 / 12.0, 2.0
# Samples of what stands still must be so many frames apart: within 3 frames a pixel is watched for whether it stands.
APART = 3
# The fields of the model of what stands still that are saved.
STILL = ("colors", "weights", "reach", "mode", "stands", "scene")


@dataclass(frozen=True)
class MaskRule:
    """How a residual becomes a mask.

    ``threshold`` in gray levels replaces the model by one level everywhere. ``still`` None: only the residual
    decides, and objects that have become part of L are background. ``vote`` is the odd
    side of the square in which neighbours vote, 1 for no vote, or None: ``vote_side`` in a picture of 320 × 240,
    growing with the square root of its area. ``fill_holes``: what is enclosed by the mask is in it too.
    ``least_area``: parts below this share of the picture are dropped. Cost of a frame: for each pixel about as many
    comparisons as matches are needed, and the vote.

    >>> from rankwolf.video import MaskRule
    >>> MaskRule().side(240, 320), MaskRule(vote=1).side(240, 320)
    (7, 1)
    """

    threshold: float | None = None
    consensus: ConsensusRule = field(default_factory=ConsensusRule)
    still: StillRule | None = field(default_factory=StillRule)
    vote: int | None = None
    vote_side: float = 7.0
    fill_holes: bool = True
    least_area: float = 0.001

    def __post_init__(self) -> None:
        if self.vote is not None and check_whole("vote", self.vote, 1, "MaskRule") % 2 == 0:
            raise bad("vote", "odd", self.vote, "MaskRule")

    def side(self, height: int, width: int) -> int:
        """The side of the square in which neighbours vote: ``vote``, or the one for this size, at least 3."""
        return max(3, odd_side(self.vote_side, (height, width))) if self.vote is None else self.vote

    def tidy(self, suspicious: Array, observed: Array | None) -> Array:
        """The mask of one frame from its suspicious pixels: vote, fill holes, drop specks."""
        return tidy(suspicious, observed, self.side(*suspicious.shape), self.fill_holes, self.least_area)


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
        return self.rule.tidy(suspicious, look.seen)


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

        Memory: about (8·channels + 12) bytes a pixel and sample. Where that is more than ``most_bytes``, fewer samples
        are taken, but at least 12. Time: two looks for each sample of the residual, five for each one of the frames,
        and the cleaning of both.
        """
        height, width, channels = look(0).residual.shape
        number = min(round(rule.consensus.samples / seen_share), count)
        least = count
        if most_bytes is not None:
            least = max(12, most_bytes // (height * width * (8 * channels + 12)))
        consensus = replace(rule.consensus, samples=min(number, least))
        chosen = [int((n + 0.5) * count / consensus.samples) for n in range(consensus.samples)]

        samples = Samples.learn(
            consensus,
            consensus.samples,
            lambda n: look(chosen[n]).sample(),
            noise,
            rule.side(height, width),
            rule.least_area,
            n_threads,
        )
        if rule.still is None or seen_share < 1.0 or count < APART * rule.still.samples:
            return cls(rule, samples, None)

        def frame(k: int) -> tuple[Array, Array | None]:
            seen = look(k)
            return seen.frame, seen.seen

        still_rule = replace(rule.still, samples=min(rule.still.samples, least))
        side = side_of_evidence((height, width))
        still = Still.learn(still_rule, count, frame, side, 0.5 * rule.least_area, n_threads)
        return cls(rule, samples, still)

    def mask(self, look: Look) -> Array:
        """What moves in a frame: (height, width), bool."""
        return self.separate(look)[0]

    def separate(self, look: Look) -> tuple[Array, Array]:
        """(what moves in a frame, its background: L, and the scene behind large objects)."""
        suspicious = self.samples.strangers(look.sample())
        if self.still is None:
            return self.rule.tidy(suspicious, look.seen), look.low_rank
        unusual = self.still.evidence(look.frame) < 0.0
        unusual &= ~self.still.shaded(look.frame)
        suspicious &= unusual | ~self.still.stands
        unusual &= self.still.stands
        if look.seen is not None:
            unusual &= look.seen
        side = self.rule.side(*suspicious.shape)
        objects = self.still.objects(majority(unusual, look.seen, side), look.frame)
        mask = self.rule.tidy(suspicious | objects, look.seen)
        if not objects.any():
            return mask, look.low_rank
        scene = self.still.scene.astype(np.float32)
        return mask, np.where((mask & objects)[..., None], scene, look.low_rank)

    def without_objects(self, background: Array) -> Array:
        """A picture of the background (height, width, channels), uint8, with the scene where it shows an object."""
        if self.still is None:
            return background
        picture = background.astype(np.float32)
        unusual = (self.still.evidence(picture) < 0.0) & self.still.stands & ~self.still.shaded(picture)
        objects = self.still.objects(majority(unusual, None, self.rule.side(*unusual.shape)), picture)
        return np.where(objects[..., None], self.still.scene, background)

    def levels(self, shape: tuple[int, int]) -> Array:
        """About how far from L each pixel may be and still be background, in gray levels, as an array of this shape."""
        return self.samples.spread.reshape(shape)

    def arrays(self) -> dict[str, Array]:
        """The samples, and what stands still, by the names of their fields."""
        found = {"values": self.samples.values, "offsets": self.samples.offsets, "least": self.samples.least}
        if self.still is not None:
            found |= {name: getattr(self.still, name) for name in STILL}
        return found

    @classmethod
    def of_arrays(cls, found: Mapping[str, Array], rule: MaskRule) -> MaskModel:
        """The model whose :meth:`arrays` these are, with this ``rule``."""
        samples = Samples(rule.consensus, found["values"], found["offsets"], found["least"])
        still = None
        if rule.still is not None and all(name in found for name in STILL):
            still = Still(rule.still, *(found[name] for name in STILL))
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
