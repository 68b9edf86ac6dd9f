"""What moves: a model of the residual M − L, learned from the whole video.

In order, for one frame:

1. Where L has absorbed an object that stayed, the residual is that from the scenery (:mod:`rankwolf.video.absorbed`).
2. A pixel is suspicious where its residual is unlike the samples of its background (:mod:`rankwolf.video.consensus`).
3. Inside absorbed objects, shadows on the scenery are no objects.
4. Neighbours vote, holes are filled, specks are dropped (:mod:`rankwolf.video.tidy`).

With a ``threshold``, and for photographs, which have no order in time, one comparison replaces steps 1 to 3: a pixel
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
from rankwolf.files.archive import opened_archive, write_npz
from rankwolf.files.claims import REAL_KINDS, Budget
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_whole
from rankwolf.kernels.pictures import NO_SAMPLE
from rankwolf.video.absorbed import AbsorbedRule, Scenery
from rankwolf.video.consensus import ConsensusRule, Samples
from rankwolf.video.picture import Picture
from rankwolf.video.tidy import odd_side, tidy

# The level for photographs is the larger of TOLERANCE · contrast and SIGMAS · noise.
TOLERANCE, SIGMAS = 1.0 / 12.0, 2.0
# The fields of a scenery that are saved.
SCENERY = ("picture", "reference", "measurable", "level", "stills")


@dataclass(frozen=True)
class MaskRule:
    """How a residual becomes a mask.

    ``threshold`` in gray levels replaces the model by one level everywhere. ``absorbed`` None: objects that have become
    part of L are background. ``shadows``: the shadows of such objects are taken out of the mask. ``vote`` is the odd
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
    absorbed: AbsorbedRule | None = field(default_factory=AbsorbedRule)
    shadows: bool = True
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
    """Makes the mask by sample consensus; without a ``scenery``, objects that have become part of L are background."""

    rule: MaskRule
    samples: Samples
    scenery: Scenery | None

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
        pixel has as many observed ones as without gaps.

        Memory: about (4·channels + 3) bytes a pixel and sample. Where that is more than ``most_bytes``, fewer samples
        are taken, but at least 12. Time: three looks for each sample, at its frame for the scenery, again for the
        residual, and at the next frame; and the cleaning.
        """
        height, width, channels = look(0).residual.shape
        number = min(round(rule.consensus.samples / seen_share), count)
        if most_bytes is not None:
            number = min(number, max(12, most_bytes // (height * width * (4 * channels + 3))))
        consensus = replace(rule.consensus, samples=number)
        chosen = [int((n + 0.5) * count / number) for n in range(number)]

        def both(n: int) -> tuple[Array, Array]:
            seen = look(chosen[n])
            return seen.residual, seen.low_rank

        scenery = None if rule.absorbed is None else Scenery.learn(rule.absorbed, number, both, n_threads)
        if scenery is not None and not scenery.coherent:
            scenery = None
        blank = cls(rule, Samples(consensus, *(np.empty(0),) * 3), scenery)

        def after(n: int) -> Array:
            following = chosen[n] + 1
            return blank._sample(look(following if following < count else count - 2))

        samples = Samples.learn(
            consensus,
            number,
            lambda n: blank._sample(look(chosen[n])),
            after,
            noise,
            rule.side(height, width),
            rule.least_area,
            n_threads,
        )
        return replace(blank, samples=samples)

    def mask(self, look: Look) -> Array:
        """What moves in a frame: (height, width), bool."""
        residual, absorbed, scenery = self._residual(look)
        suspicious = self.samples.strangers(as_sample(residual, look.seen))
        if absorbed is not None and scenery is not None and self.rule.shadows and self.scenery is not None:
            shadow = self.scenery.shadows(absorbed, residual + scenery, scenery)
            suspicious[absorbed] &= ~shadow
        return self.rule.tidy(suspicious, look.seen)

    def levels(self, shape: tuple[int, int]) -> Array:
        """About how far from L each pixel may be and still be background, in gray levels, as an array of this shape."""
        return self.samples.spread.reshape(shape)

    def _residual(self, look: Look) -> tuple[Array, Array | None, Array | None]:
        """(residual, where objects are absorbed, the scenery in this frame's light).

        The residual is M − L, and inside absorbed objects M less the scenery. Without such objects the others are None.
        """
        if self.scenery is None:
            return look.residual, None, None
        gain = self.scenery.gain(look.low_rank)
        absorbed = self.scenery.absorbed(look.low_rank, gain)
        if absorbed is None:
            return look.residual, None, None
        scenery = gain * self.scenery.picture
        residual = look.residual.copy()
        residual[absorbed] += look.low_rank[absorbed] - scenery[absorbed]
        return residual, absorbed, scenery

    def _sample(self, look: Look) -> Array:
        """The residual as a sample, int16; NO_SAMPLE marks absorbed objects and pixels that were not observed."""
        residual, absorbed, _ = self._residual(look)
        sample = as_sample(residual, look.seen)
        if absorbed is not None:
            sample[absorbed & (look.seen if look.seen is not None else True)] += NO_SAMPLE
        return sample

    def arrays(self) -> dict[str, Array]:
        """The samples and the scenery, by the names of their fields."""
        found = {"values": self.samples.values, "offsets": self.samples.offsets, "least": self.samples.least}
        if self.scenery is not None:
            found |= {name: getattr(self.scenery, name) for name in SCENERY}
        return found

    @classmethod
    def of_arrays(cls, found: Mapping[str, Array], rule: MaskRule) -> MaskModel:
        """The model whose :meth:`arrays` these are, with this ``rule``; a ValueError if their shapes do not fit."""
        count, channels, height, width = found["values"].shape
        shapes = {
            "least": (height, width),
            "picture": (height, width, channels),
            "reference": (height, width, channels),
            "level": (height, width),
        }
        if (
            found["values"].dtype != np.int16
            or found["offsets"].shape[1:] != (count, 2)
            or any(name in found and found[name].shape != shape for name, shape in shapes.items())
        ):
            raise ValueError("its arrays do not fit together")
        samples = Samples(rule.consensus, found["values"], found["offsets"], found["least"])
        scenery = None
        if rule.absorbed is not None and SCENERY[0] in found:
            scenery = Scenery(rule.absorbed, *(found[name] for name in SCENERY))
        return cls(rule, samples, scenery)

    def save(self, path: Path) -> None:
        """Write the samples and the scenery to a new .npz file, which :meth:`load` reads."""
        write_npz(path, self.arrays(), level=1)

    @classmethod
    def load(cls, path: Path, rule: MaskRule) -> MaskModel:
        """The model that :meth:`save` wrote, with this ``rule``."""
        return cls.of_arrays(numbers_in(path, "a model of the mask"), rule)


def numbers_in(path: Path, what: str) -> dict[str, Array]:
    """The arrays of real numbers in an .npz file, by name, read as if a stranger had written it.

    ``what``: what the file should be, for errors.
    """
    address = Address(path)
    with address.reading(what), opened_archive(address, Budget()) as archive:
        archive.check_sizes(archive.names)
        kinds = {name: archive.header(name).dtype.kind for name in archive.names}
        return {name: archive.array(name) for name, kind in kinds.items() if kind in REAL_KINDS}


def as_sample(residual: Array, seen: Array | None) -> Array:
    """The residual rounded to int16, NO_SAMPLE where nothing was seen."""
    sample = np.rint(residual).astype(np.int16)
    if seen is not None:
        sample[~seen] = NO_SAMPLE
    return sample
