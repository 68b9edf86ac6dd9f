"""Kernels on pictures: comparing pixels with samples, votes in squares, connected parts, medians and quantiles."""

from __future__ import annotations

import numpy as np

from rankwolf.kernels.compiling import compiled, must

# Added to a sample that does not count, so that it is farther from every residual, within ±255, than any radius.
NO_SAMPLE = 8192
# A sample or residual whose first channel is above this does not count.
COUNTS = 4096
# This many samples of each pixel are compared for a whole row of pixels at once; they decide nearly everywhere.
AT_ONCE = 4


# Columns that are worked on together.
CHUNK = 512


@compiled
def mark_strangers(
    residual: np.ndarray,
    samples: np.ndarray,
    offsets: np.ndarray,
    square_radius: int,
    least: int,
    where: np.ndarray,
    strange: np.ndarray,
) -> None:
    """True where fewer than ``least`` samples lie within the radius of a pixel's residual.

    ``residual`` (height, width, channels) and ``samples`` (n, channels, height, width) are int16. A pixel is compared
    with its own samples, then with sample k of the pixel at ``offsets[j, k]`` from it, for every j; outside the picture
    that is the nearest pixel of the border. The first few samples, among which most pixels find their matches, are
    compared for whole rows. The search through the others ends at the match that decides. Pixels outside ``where``
    (height, width) are not looked at, and are False.
    """
    count, channels, height, width = samples.shape
    must(residual.shape == (height, width, channels) and strange.shape == where.shape == (height, width))
    must(offsets.shape[1] == count and offsets.shape[2] == 2)
    alike, work = np.empty(width, np.int32), np.empty((1 + channels, width), np.int32)
    few = min(AT_ONCE, count)
    for y in range(height):
        strange[y] = False
        if not where[y].any():
            continue
        count_near(residual[y], samples[:few, :, y], square_radius, alike, work)
        for x in range(width):
            if not where[y, x] or alike[x] >= least or residual[y, x, 0] > COUNTS:
                continue
            found = alike[x]
            for k in range(few, count):
                if is_near(residual, y, x, samples, k, y, x, square_radius):
                    found += 1
                    if found == least:
                        break
            for j in range(offsets.shape[0]):
                if found == least:
                    break
                for k in range(count):
                    row = min(max(y + offsets[j, k, 0], 0), height - 1)
                    column = min(max(x + offsets[j, k, 1], 0), width - 1)
                    if is_near(residual, y, x, samples, k, row, column, square_radius):
                        found += 1
                        if found == least:
                            break
            strange[y, x] = found < least


@compiled
def count_near(
    row: np.ndarray, samples: np.ndarray, square_radius: int, alike: np.ndarray, work: np.ndarray
) -> None:
    """``alike`` ← how many ``samples`` (n, channels, width) of each pixel are within the radius of ``row``.

    ``row`` is (width, channels); ``work`` is room for 1 + channels numbers a pixel.
    """
    width, channels = row.shape
    distance = work[channels]
    for channel in range(channels):
        for x in range(width):
            work[channel, x] = row[x, channel]
    alike[:] = 0
    for k in range(samples.shape[0]):
        distance[:] = 0
        for channel in range(channels):
            line, sample = work[channel], samples[k, channel]
            for x in range(width):
                difference = line[x] - np.int32(sample[x])
                distance[x] += difference * difference
        for x in range(width):
            alike[x] += np.int32(1) if distance[x] <= square_radius else np.int32(0)


@compiled
def is_near(
    residual: np.ndarray,
    y: int,
    x: int,
    samples: np.ndarray,
    k: int,
    row: int,
    column: int,
    square_radius: int,
) -> bool:
    """Whether ‖residual[y, x] − samples[k, :, row, column]‖² ≤ r²."""
    total = 0
    for channel in range(residual.shape[2]):
        difference = int(residual[y, x, channel]) - int(samples[k, channel, row, column])
        total += difference * difference
        if total > square_radius:
            return False
    return True


@compiled
def count_visits(
    samples: np.ndarray,
    own: int,
    offset: np.ndarray,
    square_radius: int,
    where: np.ndarray,
    visits: np.ndarray,
) -> None:
    """Add to ``visits`` (height, width) how often a pixel looked like sample ``own``, at other times.

    ``samples`` (n, channels, height, width), int16, are in the order of time. Sample ``own`` of a pixel is compared
    with all samples of the pixel at ``offset`` from it. A visit is a run of samples within the radius; a single other
    one in between does not end it. The visit at the time of ``own`` itself is not counted. Only pixels ``where``
    (height, width) is True are looked at.
    """
    count, channels, height, width = samples.shape
    must(visits.shape == where.shape == (height, width) and offset.size == 2)
    here, there, missed = np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width, np.int32)
    square = np.empty(width, np.int32)
    for y in range(height):
        row, chosen = min(max(y + offset[0], 0), height - 1), 0
        for x in range(width):
            if where[y, x]:
                here[chosen], there[chosen] = x, min(max(x + offset[1], 0), width - 1)
                chosen += 1
        for step in (-1, 1):
            missed[:] = 0
            k = own + step
            while chosen and 0 <= k < count:
                square[:chosen] = 0
                for channel in range(channels):
                    mine, other = samples[own, channel, y], samples[k, channel, row]
                    for i in range(chosen):
                        difference = np.int32(mine[here[i]]) - np.int32(other[there[i]])
                        square[i] += difference * difference
                first = samples[k, 0, row]
                for i in range(chosen):
                    if square[i] <= square_radius:
                        visits[y, here[i]] += np.int32(1) if missed[i] > 1 else np.int32(0)
                        missed[i] = 0
                    elif first[there[i]] <= COUNTS:
                        missed[i] += 1
                k += step


@compiled
def count_in_squares(mask: np.ndarray, size: int, counts: np.ndarray) -> None:
    """``counts`` ← the number of True pixels in the square of odd side ``size`` around each; borders are repeated."""
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
    """Write into ``part`` the connected part of each run of pixels [begin, end); return the number of parts.

    Runs are in the order of pixels, counted through all rows; a pixel and the one below it are ``line`` apart. A run is
    connected with the runs of the row above that it touches. Parts are numbered in the order of their first runs.
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


def quantiles(values: np.ndarray, share: float) -> np.ndarray:
    """The quantile ``share`` of each column of ``values`` (n, columns), float16, as float32; as numpy.quantile.

    Between two values it is linear. Time: 32 comparisons a value, of which vector instructions do 16 or more at once.
    """
    place = share * (len(values) - 1)
    keys = _swapped(np.ascontiguousarray(values).view(np.int16))
    found = np.empty((2, values.shape[1]), np.int16)
    for rank, row in zip((int(place), -int(-place // 1)), found, strict=True):
        select(keys, rank, row)
    low, high = _swapped(found).view(np.float16).astype(np.float32)
    return np.asarray(low + np.float32(place % 1.0) * (high - low))


def _swapped(bits: np.ndarray) -> np.ndarray:
    """The bits of float16 as int16 in the same order, or back: for negative numbers all bits but the sign flip."""
    return np.asarray(bits ^ ((bits >> 15) & np.int16(0x7FFF)))


@compiled
def select(values: np.ndarray, rank: int, found: np.ndarray) -> None:
    """found[j] ← the value at place ``rank``, from 0, of the sorted column j of ``values`` (n, columns), int16.

    Bit by bit, from the highest: a bit is set if at most ``rank`` values are smaller than the number with that bit. All
    columns of a chunk take the same steps, so that vector instructions work on many of them at once.
    """
    count, columns = values.shape
    must(found.size == columns)
    trial, smaller = np.empty(CHUNK, np.int16), np.empty(CHUNK, np.int16)
    for start in range(0, columns, CHUNK):
        width = min(CHUNK, columns - start)
        result = found[start : start + width]
        result[:] = -32768
        for bit in range(15, -1, -1):
            for j in range(width):
                trial[j] = int(result[j]) + (1 << bit)
                smaller[j] = 0
            for i in range(count):
                row = values[i, start : start + width]
                for j in range(width):
                    smaller[j] += np.int16(1) if row[j] < trial[j] else np.int16(0)
            for j in range(width):
                if smaller[j] <= rank:
                    result[j] = trial[j]


@compiled
def add_density(
    color: np.ndarray, colors: np.ndarray, weights: np.ndarray, reach: float, density: np.ndarray
) -> None:
    """Add Σ_k w_k·(1 − reach·‖color − color_k‖²)³₊ to ``density`` (height, width), float32.

    ``color`` (channels, height, width), ``colors`` (n, channels, height, width) and ``weights`` (n, height, width) are
    uint8, a weight counts in 255ths.
    """
    count, channels, height, width = colors.shape
    must(color.shape == (channels, height, width) and weights.shape == (count, height, width))
    must(density.shape == (height, width))
    square = np.empty(width, np.int32)
    for y in range(height):
        for k in range(count):
            square[:] = 0
            for channel in range(channels):
                for x in range(width):
                    step = np.int32(color[channel, y, x]) - np.int32(colors[k, channel, y, x])
                    square[x] += step * step
            for x in range(width):
                near = max(np.float32(0.0), np.float32(1.0) - np.float32(square[x]) * np.float32(reach))
                weight = np.float32(weights[k, y, x]) * np.float32(1.0 / 255.0)
                density[y, x] += weight * near * near * near


@compiled
def mark_shaded(
    frame: np.ndarray,
    scene: np.ndarray,
    where: np.ndarray,
    darkest: float,
    brightest: float,
    square: float,
    shaded: np.ndarray,
) -> None:
    """True where a frame may be the scene in a shadow or a reflection, of the pixels ``where`` (height, width) is True.

    Over 3 × 3 pixels the frame is the scene times one factor, from ``darkest`` to ``brightest``, up to a mean squared
    distance below ``square``. Both are (height, width, channels).
    """
    height, width, channels = scene.shape
    must(frame.shape == scene.shape and where.shape == shaded.shape == (height, width))
    for y in range(height):
        for x in range(width):
            if not where[y, x]:
                shaded[y, x] = False
                continue
            own, both, light = 0.0, 0.0, 0.0
            for i in range(-1, 2):
                row = min(max(y + i, 0), height - 1)
                for j in range(-1, 2):
                    column = min(max(x + j, 0), width - 1)
                    for channel in range(channels):
                        one, other = float(scene[row, column, channel]), float(frame[row, column, channel])
                        own += one * one
                        both += one * other
                        light += other * other
            factor = both / max(own, 1.0)
            shaded[y, x] = darkest < factor < brightest and light - factor * both < 9.0 * square
