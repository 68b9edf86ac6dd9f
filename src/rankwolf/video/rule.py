"""The constants of the mask, all of them: each has a unit, or a reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rankwolf.ground.complaints import check_number, check_whole

# Sizes grow no more from a picture of 1.5 times 320 × 240 on.
LARGEST = 1.5


@dataclass(frozen=True)
class MaskRule:
    """How frames and their residual M − L become a mask (:mod:`rankwolf.video.mask`).

    ``threshold``, in gray levels, replaces the model by one level of \\|M − L\\|. σ is the noise of the camera between
    one frame and the next, in one channel. Cost of a frame: about ``samples`` comparisons of each pixel; of the model,
    ``samples``² of them six times, and 3·channels + 1 bytes a pixel and sample.

    >>> from rankwolf.video import MaskRule
    >>> MaskRule(samples=40).radius
    3.0
    """

    threshold: float | None = None
    samples: int = 60
    """Frames that are remembered, spread evenly over the video."""
    radius: float = 3.0
    """Two residuals are alike within this many σ, root mean square over the channels."""
    matches: int = 2
    """A residual is background if it is like so many of the pixel's samples, its own and those of neighbours."""
    visits: int = 4
    """An object comes and goes once, a wave again and again: so many separate visits make a sample background."""
    still: float = 4.0
    """A pixel stands still while it changes by less than this many σ of the quietest pixels within 3 frames."""
    share: float = 0.1
    """Stillness counts where a pixel stands still for this share of the time, compared with the stillest tenth."""
    rare: float = 0.2
    """Where the background stands still, a colour is an object's if it is so much rarer than the most frequent one."""
    side: int = 7
    """Neighbours vote in squares of this side, in pixels of a picture of 320 × 240 (:meth:`sized`)."""
    least_area: int = 77
    """Parts of fewer pixels are noise."""
    least_object: int = 1500
    """An object that L has taken in is found from so many pixels on. Spray, which is still in between, is smaller."""

    def __post_init__(self) -> None:
        if self.threshold is not None:
            check_number("threshold", self.threshold)
        check_number("radius", self.radius)
        for name, least in (("samples", 2), ("matches", 1), ("least_area", 0)):
            check_whole(name, getattr(self, name), least, "MaskRule")

    def sized(self, height: int, width: int) -> MaskRule:
        """The rule for pictures of this size: small pictures show objects smaller.

        Beyond 480 × 360 nothing grows, because far objects are small in large pictures too.

        >>> [MaskRule().sized(*shape).side for shape in ((120, 160), (240, 320), (1080, 1920))]
        [3, 7, 11]
        """
        growth = min(LARGEST, (height * width / (320 * 240)) ** 0.5)
        return replace(
            self,
            side=max(3, 2 * int(self.side * growth / 2.0) + 1),
            least_area=round(self.least_area * growth**2),
            least_object=round(self.least_object * growth**2),
        )
