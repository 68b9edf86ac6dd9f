"""Trimmed fits of rows: outliers are chosen one by one, by how the fit would change without each entry.

For a row with entries x_a = v_a·u + noise, this lowers, over u and the set A of entries that count,

    J(u, A) = Σ_{a in A} (x_a − v_a·u)² + uᵀ P u + limit²·(number of entries not in A).

Taking entry a out lowers the first two terms by d_a²/(1 − h_a), putting it back raises them by d_a²/(1 + h_a), with the
residual d and the leverage h_a = v_aᵀ(Σ_A v vᵀ + P)⁻¹v_a: an outlier that has drawn u to itself has a small d_a, but a
high leverage. Each move is the one that lowers J the most, and at the end no single move lowers it.
"""

from __future__ import annotations

import numpy as np

from rankwolf.kernels.compiling import compiled, must
from rankwolf.kernels.regressions import solve_factored, solve_positive

# 1 − h_a is taken as at least this: an entry that alone decides a direction has a leverage of nearly 1.
LEAST_REST = 1e-9
# A ridge, relative to the curvature of a row all of whose entries count.
RIDGE = 1e-11
# Where a descent begins: see trim_stored_rows.
FROM_ALL, FROM_LIKELY, FROM_HERE, FROM_GUESS = 0, 1, 2, 3


@compiled
def _solve_live(
    entries: np.ndarray,
    vectors: np.ndarray,
    count: int,
    prior: np.ndarray,
    live: np.ndarray,
    gram: np.ndarray,
    u: np.ndarray,
    side: np.ndarray,
) -> None:
    """Write the best u for the set A (``live``). ``gram`` leaves as the Cholesky factor of Σ_A v vᵀ + P.

    A ridge keeps that matrix positive where P is nearly 0; a second step, of refinement, removes the ridge's effect on
    u. ``side`` is working memory.
    """
    rank = prior.shape[0]
    for k in range(rank):
        u[k] = 0.0
        for j in range(rank):
            gram[k, j] = prior[k, j] + (RIDGE if j == k else 0.0)
    for a in range(count):
        if live[a]:
            for k in range(rank):
                for j in range(k + 1):
                    gram[k, j] += vectors[a, k] * vectors[a, j]
    for step in range(2):
        for k in range(rank):
            pulled = 0.0
            for j in range(rank):
                pulled -= prior[k, j] * u[j]
            side[k] = pulled
        for a in range(count):
            if live[a]:
                rest = entries[a]
                for k in range(rank):
                    rest -= vectors[a, k] * u[k]
                for k in range(rank):
                    side[k] += rest * vectors[a, k]
        if step == 0:
            solve_positive(gram, side)
        else:
            solve_factored(gram, side)
        for k in range(rank):
            u[k] += side[k]


@compiled
def _price(
    entries: np.ndarray,
    vectors: np.ndarray,
    count: int,
    prior: np.ndarray,
    limit: float,
    live: np.ndarray,
    u: np.ndarray,
) -> float:
    """J(u, A)."""
    rank = prior.shape[0]
    price = 0.0
    for a in range(count):
        rest = entries[a]
        for k in range(rank):
            rest -= vectors[a, k] * u[k]
        price += rest * rest if live[a] else limit * limit
    for k in range(rank):
        for j in range(rank):
            price += u[k] * prior[k, j] * u[j]
    return price


@compiled
def _choose(
    entries: np.ndarray,
    vectors: np.ndarray,
    count: int,
    prior: np.ndarray,
    limit: float,
    live: np.ndarray,
    u: np.ndarray,
    gram: np.ndarray,
    inverse: np.ndarray,
    rest: np.ndarray,
    leverage: np.ndarray,
    pull: np.ndarray,
) -> None:
    """Move from this A (``live``) to one that no single change improves; at least about half of the entries stay in A.

    Both ``live`` and ``u`` are overwritten; the arrays after ``u`` are working memory.
    """
    rank = prior.shape[0]
    _solve_live(entries, vectors, count, prior, live, gram, u, pull)
    for k in range(rank):
        for j in range(rank):
            inverse[k, j] = 1.0 if j == k else 0.0
        solve_factored(gram, inverse[k])
    counting = 0
    for a in range(count):
        counting += int(live[a])
        fitted = 0.0
        lever = 0.0
        for k in range(rank):
            fitted += vectors[a, k] * u[k]
            for j in range(rank):
                lever += vectors[a, k] * inverse[k, j] * vectors[a, j]
        rest[a] = entries[a] - fitted
        leverage[a] = lever
    moves = 0
    while moves < 2 * count:
        moves += 1
        best, place = 1e-9 * limit * limit, -1
        for a in range(count):
            squared = rest[a] * rest[a]
            if not live[a]:
                gain = limit * limit - squared / (1.0 + leverage[a])
            elif 2 * counting > count and counting > 1:
                gain = squared / max(1.0 - leverage[a], LEAST_REST) - limit * limit
            else:
                gain = 0.0
            if gain > best:
                best, place = gain, a
        if place < 0:
            break
        # By Sherman and Morrison: the inverse, the residuals and the leverages after v vᵀ was added or taken off.
        sign = -1.0 if live[place] else 1.0
        scale = sign / max(1.0 + sign * leverage[place], LEAST_REST)
        length = scale * rest[place]
        for k in range(rank):
            moved = 0.0
            for j in range(rank):
                moved += inverse[k, j] * vectors[place, j]
            pull[k] = moved
        for k in range(rank):
            for j in range(rank):
                inverse[k, j] -= scale * pull[k] * pull[j]
        for a in range(count):
            along = 0.0
            for k in range(rank):
                along += vectors[a, k] * pull[k]
            rest[a] -= length * along
            leverage[a] -= scale * along * along
        live[place] = 1 - live[place]
        counting += 1 if live[place] else -1
    _solve_live(entries, vectors, count, prior, live, gram, u, pull)


@compiled
def trim_stored_rows(
    entries: np.ndarray,
    sizes: np.ndarray,
    columns: np.ndarray,
    pointers: np.ndarray,
    right: np.ndarray,
    prior: np.ndarray,
    limit: float,
    reach: np.ndarray,
    guess: np.ndarray,
    left: np.ndarray,
    live: np.ndarray,
) -> None:
    """The best of up to four descents for each row of ``left``, on the entries of a CSR tile.

    ``left`` leaves as the fits, ``live`` as 1 where an entry counts. The descents begin with different sets A: all
    entries; those within the limit of the row as it is in ``left``; those within the limit of the row in ``guess``; and
    those that are likely whatever u is, x² ≤ limit²·(1 + ``reach``), reach_a = v_aᵀP⁻¹v_a. The noise of an entry is
    ``sizes`` times the usual: entries and vectors are divided by it.

    Cost for a row with k entries: four times 2k·r² + 2r³, and k·r + r² for each move.
    """
    must(pointers.size == left.shape[0] + 1 and left.shape[1] == right.shape[1] and guess.shape == left.shape)
    must(sizes.size == entries.size and live.size == entries.size and reach.size == right.shape[0])
    rank = right.shape[1]
    most = 0
    for i in range(left.shape[0]):
        most = max(most, pointers[i + 1] - pointers[i])
    values, rest, leverage = np.empty(most), np.empty(most), np.empty(most)
    vectors = np.empty((most, rank))
    gram, inverse = np.empty((rank, rank)), np.empty((rank, rank))
    pull, u, best = np.empty(rank), np.empty(rank), np.empty(rank)
    chosen = np.empty(most, np.uint8)
    for i in range(left.shape[0]):
        first, count = pointers[i], pointers[i + 1] - pointers[i]
        for a in range(count):
            values[a] = entries[first + a] / sizes[first + a]
            for k in range(rank):
                vectors[a, k] = right[columns[first + a], k] / sizes[first + a]
        least = np.inf
        for start in (FROM_ALL, FROM_LIKELY, FROM_HERE, FROM_GUESS):
            counting = 0
            for a in range(count):
                away = values[a]
                far = 1.0
                if start == FROM_LIKELY:
                    far += reach[columns[first + a]] / sizes[first + a] ** 2
                elif start != FROM_ALL:
                    for k in range(rank):
                        away -= vectors[a, k] * (left[i, k] if start == FROM_HERE else guess[i, k])
                chosen[a] = 1 if start == FROM_ALL or away * away <= limit * limit * far else 0
                counting += int(chosen[a])
            if start != FROM_ALL and (counting == count or 2 * counting < count - 1):
                continue  # the same as from all entries, or too few: nothing is known of this row yet
            _choose(values, vectors, count, prior, limit, chosen, u, gram, inverse, rest, leverage, pull)
            price = _price(values, vectors, count, prior, limit, chosen, u)
            if price < least:
                least = price
                for a in range(count):
                    live[first + a] = chosen[a]
                for k in range(rank):
                    best[k] = u[k]
        if least < np.inf:
            for k in range(rank):
                left[i, k] = best[k]
