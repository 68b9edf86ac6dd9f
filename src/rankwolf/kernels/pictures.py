"""Kernels on pictures: how many samples of a pixel are like it, votes in squares, weighted medians over time."""

from __future__ import annotations

import numpy as np

from rankwolf.kernels.compiling import compiled, must

# Added to a sample that does not count: it is then farther from every residual, within ±255, than any radius.
NO_SAMPLE = 8192
# Anything above this does not count.
COUNTS = 4096


@compiled
def are_near(
    one: np.ndarray, y: int, x: int, many: np.ndarray, row: int, column: int, k: int, square_radius: int
) -> bool:
    """Whether ‖one[y, x] − many[row, column, k]‖² ≤ r². Most that are far apart are so in the first channel already."""
    difference = int(one[y, x, 0]) - int(many[row, column, k, 0])
    total = difference * difference
    for channel in range(1, one.shape[2]):
        if total > square_radius:
            return False
        difference = int(one[y, x, channel]) - int(many[row, column, k, channel])
        total += difference * difference
    return total <= square_radius


@compiled
def mark_strangers(
    residual: np.ndarray,
    samples: np.ndarray,
    offsets: np.ndarray,
    bounds: np.ndarray,
    square_radius: int,
    least: np.ndarray,
    strange: np.ndarray,
) -> None:
    """True where fewer than ``least`` (height, width) samples lie within the radius of a pixel's residual.

    ``residual`` (height, width, channels) and ``samples`` (height, width, n, channels) are int16. A pixel is compared
    with its own samples, then with sample k of the pixel at ``offsets[j, k]`` from it, for every j; outside the picture
    that is the pixel at the border. The search ends at the match that decides; it does not begin where the residual
    lies outside of ``bounds`` (2, height, width, channels), the least and the largest of all these samples, by more
    than the radius.
    """
    height, width, count, channels = samples.shape
    must(residual.shape == (height, width, channels) and bounds.shape == (2, height, width, channels))
    must(least.shape == (height, width) and strange.shape == (height, width))
    must(offsets.shape[1] == count and offsets.shape[2] == 2)
    radius = int(np.sqrt(square_radius)) + 1
    for y in range(height):
        for x in range(width):
            needed = least[y, x]
            if residual[y, x, 0] > COUNTS:
                strange[y, x] = False
                continue
            outside = False
            for channel in range(channels):
                value = int(residual[y, x, channel])
                outside |= value < int(bounds[0, y, x, channel]) - radius
                outside |= value > int(bounds[1, y, x, channel]) + radius
            if outside:
                strange[y, x] = True
                continue
            found = 0
            for k in range(count):
                if are_near(residual, y, x, samples, y, x, k, square_radius):
                    found += 1
                    if found == needed:
                        break
            if found < needed:
                for j in range(offsets.shape[0]):
                    for k in range(count):
                        row = min(max(y + offsets[j, k, 0], 0), height - 1)
                        column = min(max(x + offsets[j, k, 1], 0), width - 1)
                        if are_near(residual, y, x, samples, row, column, k, square_radius):
                            found += 1
                            if found == needed:
                                break
                    if found == needed:
                        break
            strange[y, x] = found < needed


@compiled
def find_bounds(samples: np.ndarray, bounds: np.ndarray) -> None:
    """The least and the largest of the samples (height, width, n, channels) of each pixel that count.

    ``bounds`` (2, height, width, channels) has COUNTS and −COUNTS where there is none.
    """
    height, width, count, channels = samples.shape
    for y in range(height):
        for x in range(width):
            for channel in range(channels):
                bounds[0, y, x, channel], bounds[1, y, x, channel] = COUNTS, -COUNTS
            for k in range(count):
                if samples[y, x, k, 0] <= COUNTS:
                    for channel in range(channels):
                        value = samples[y, x, k, channel]
                        bounds[0, y, x, channel] = min(bounds[0, y, x, channel], value)
                        bounds[1, y, x, channel] = max(bounds[1, y, x, channel], value)


@compiled
def count_visits(
    samples: np.ndarray,
    y: int,
    x: int,
    own: int,
    row: int,
    column: int,
    square_radius: int,
    least: int,
    patience: int,
) -> int:
    """In how many separate visits samples of pixel (row, column) come within the radius of sample ``own`` of (y, x).

    ``samples`` is (height, width, n, channels). A visit is a run of consecutive matches; up to ``patience`` samples
    that do not match do not end it. The visit at the time of ``own`` itself is not counted. Counts to ``least`` only.
    """
    found = 0
    here = samples[:, :, own]
    for step in (-1, 1):
        inside = True
        missed = 0
        k = own + step
        while 0 <= k < samples.shape[2]:
            if samples[row, column, k, 0] <= COUNTS:
                if are_near(here, y, x, samples, row, column, k, square_radius):
                    if not inside:
                        found += 1
                        if found == least:
                            return found
                    inside = True
                    missed = 0
                else:
                    missed += 1
                    if missed > patience:
                        inside = False
            k += step
    return found


@compiled
def mark_unsupported(
    samples: np.ndarray,
    offsets: np.ndarray,
    usual: np.ndarray,
    square_radius: int,
    least: np.ndarray,
    patience: int,
    begin: int,
    end: int,
    strange: np.ndarray,
) -> None:
    """For every sample of the rows from ``begin`` to before ``end``, whether it is an object's: (n, height, width).

    A sample within the radius of ``usual`` (height, width, channels), the median over time, is background. Any other
    is, if residuals like it came in at least ``least`` (height, width) separate visits other than its own, to this
    pixel or to the ones at ``offsets`` from it. ``samples`` are in the order of time.
    """
    height, width, count, _ = samples.shape
    for y in range(begin, end):
        for x in range(width):
            needed = least[y, x]
            for n in range(count):
                strange[n, y, x] = False
                if samples[y, x, n, 0] > COUNTS or are_near(usual, y, x, samples, y, x, n, square_radius):
                    continue
                found = count_visits(samples, y, x, n, y, x, square_radius, needed, patience)
                for j in range(offsets.shape[0]):
                    if found >= needed:
                        break
                    row = min(max(y + offsets[j, n, 0], 0), height - 1)
                    column = min(max(x + offsets[j, n, 1], 0), width - 1)
                    found += count_visits(samples, y, x, n, row, column, square_radius, needed, patience)
                strange[n, y, x] = found < needed


@compiled
def mark_differences(
    one: np.ndarray, two: np.ndarray, gain: np.ndarray, level: np.ndarray, found: np.ndarray
) -> None:
    """True where |one − gain · two| is above ``level`` (height, width) in any channel.

    Both pictures are (height, width, channels)."""
    height, width, channels = one.shape
    must(two.shape == one.shape and gain.size == channels)
    must(level.shape == (height, width) and found.shape == (height, width))
    for y in range(height):
        for x in range(width):
            largest = np.float32(0.0)
            for channel in range(channels):
                largest = max(largest, abs(one[y, x, channel] - gain[channel] * two[y, x, channel]))
            found[y, x] = largest > level[y, x]


@compiled
def count_in_squares(mask: np.ndarray, size: int, counts: np.ndarray) -> None:
    """How many pixels are True in the square of side ``size``, odd, around each; the border is repeated outwards."""
    height, width = mask.shape
    half = size // 2
    down = np.zeros(width, np.int32)
    for k in range(-half, half + 1):
        row = min(max(k, 0), height - 1)
        for x in range(width):
            down[x] += mask[row, x]
    for y in range(height):
        total = 0
        for k in range(-half, half + 1):
            total += down[min(max(k, 0), width - 1)]
        for x in range(width):
            counts[y, x] = total
            total += down[min(x + half + 1, width - 1)] - down[max(x - half, 0)]
        leaving, coming = max(y - half, 0), min(y + half + 1, height - 1)
        for x in range(width):
            down[x] += int(mask[coming, x]) - int(mask[leaving, x])


@compiled
def connect_runs(begin: np.ndarray, end: np.ndarray, line: int, part: np.ndarray) -> int:
    """Number the connected parts of runs of pixels, which are in order; rows are ``line`` pixels apart. How many parts.

    A run belongs with those of the row above that it touches. The first run of a part stands for it while runs are
    joined, so that parts are numbered in the order of their first runs.
    """
    above = 0
    for i in range(begin.size):
        part[i] = i
        while end[above] + line <= begin[i]:
            above += 1
        k = above
        while k < i and begin[k] + line < end[i]:
            one, other = i, k
            while part[one] != one:
                one = part[one]
            while part[other] != other:
                part[other] = part[part[other]]
                other = part[other]
            part[max(one, other)] = min(one, other)
            k += 1
    count = 0
    for i in range(begin.size):
        if part[i] == i:
            part[i] = count
            count += 1
        else:
            part[i] = part[part[i]]
    return count


@compiled
def weighted_medians(values: np.ndarray, weights: np.ndarray, medians: np.ndarray) -> None:
    """Of ``values`` (n, columns), each column with its ``weights`` (n, columns): the lower weighted median.

    By a selection that keeps the part in which half of the weight is reached: O(n) a column on average.
    """
    count, columns = values.shape
    value, weight = np.empty(count, values.dtype), np.empty(count)
    for j in range(columns):
        half = 0.0
        for i in range(count):
            value[i], weight[i] = values[i, j], weights[i, j]
            half += weight[i]
        half *= 0.5
        low, high, below = 0, count - 1, 0.0
        while low < high:
            middle = value[(low + high) // 2]
            left, right, passed = low, high, below
            while left <= right:
                while value[left] < middle:
                    passed += weight[left]
                    left += 1
                while value[right] > middle:
                    right -= 1
                if left <= right:
                    value[left], value[right] = value[right], value[left]
                    weight[left], weight[right] = weight[right], weight[left]
                    passed += weight[left]
                    left += 1
                    right -= 1
            # Up to ``right`` nothing is above the middle, from ``left`` on nothing below; between, all are equal to it.
            before = passed
            for i in range(right + 1, left):
                before -= weight[i]
            if before >= half:
                high = right
            elif passed >= half:
                low = high = right + 1
            else:
                low, below = left, passed
        medians[j] = value[low]


@compiled
def quantiles(values: np.ndarray, share: float, found: np.ndarray) -> None:
    """Of each column of ``values`` (n, columns), as numpy.quantile has it: between two values in proportion."""
    count, columns = values.shape
    value = np.empty(count, values.dtype)
    place = share * (count - 1)
    wanted = int(place)
    for j in range(columns):
        for i in range(count):
            value[i] = values[i, j]
        low, high = 0, count - 1
        while low < high:
            middle, left, right = value[(low + high) // 2], low, high
            while left <= right:
                while value[left] < middle:
                    left += 1
                while value[right] > middle:
                    right -= 1
                if left <= right:
                    value[left], value[right] = value[right], value[left]
                    left += 1
                    right -= 1
            if wanted <= right:
                high = right
            elif wanted >= left:
                low = left
            else:
                break
        found[j] = value[wanted]
        if place > wanted:
            following = value[wanted + 1]
            for i in range(wanted + 2, count):
                following = min(following, value[i])
            found[j] += (place - wanted) * (following - found[j])
