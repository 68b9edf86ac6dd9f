"""Rows whose outliers are chosen one by one, with an eye on what the row would be without each entry.

For a row with entries x_a = v_a·u + noise, this lowers, over u and the set A of entries that count,

    J(u, A) = Σ_{a in A} (x_a − v_a·u)² + uᵀ P u + limit²·(number of entries not in A).

Taking entry a out lowers the first two terms by d_a²/(1 − h_a), putting it back raises them by d_a²/(1 + h_a), with the
residual d and the leverage h_a = v_aᵀ(Σ_A v vᵀ + P)⁻¹v_a: an entry that has drawn u to itself has a small d_a, and a
leverage that gives it away. So each move is the one that lowers J the most, and at the end no single move lowers it.
"""

from __future__ import annotations

import numpy as np

from rankwolf.kernels.compiling import compiled, must
from rankwolf.kernels.regressions import solve_factored, solve_positive

# An entry that alone decides a direction has a leverage of nearly 1.
LEAST_REST = 1e-9
# Relative to the curvature of a row that counts in full.
RIDGE = 1e-11
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
    """The u that is best for this A; ``gram`` is left as the Cholesky factor of Σ_A v vᵀ + P, and ``side`` as anything.

    A ridge keeps that positive where P is as good as zero; the second of two steps takes its trace out of u.
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
    """Move from this A to one that no single entry makes better; about half of the entries count at least."""
    rank = prior.shape[0]
    _solve_live(entries, vectors, count, prior, live, gram, u, pull)
    for k in range(rank):
        for j in range(rank):
            inverse[k, j] = 1.0 if j == k else 0.0
        solve_factored(gram, inverse[k])
    counting = 0
    for a in range(count):
        counting += live[a]
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
        # Sherman and Morrison: gram ∓ v vᵀ.
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
    """The best of four descents for each row of ``left``, on the entries of a CSR tile; ``live`` is 1 where one counts.

    They begin with the entries that are within the limit of where the row is, or of where ``guess`` has it; with all of
    them; and with those that are likely whatever u is, x² ≤ limit²·(1 + ``reach``), reach_a = v_aᵀP⁻¹v_a. The noise of
    an entry is ``sizes`` times the usual.

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
                counting += chosen[a]
            if start != FROM_ALL and (counting == count or 2 * counting < count - 1):
                continue  # as from all, or a row of which nothing is known yet
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
