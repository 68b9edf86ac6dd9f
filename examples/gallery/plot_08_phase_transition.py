"""
Exact pursuit, and where it ends
================================

Without noise, L + S = M can be taken apart exactly: ``noise=0`` minimises ‖L‖_* + ‖S‖₁/√max(m, n) under that constraint.
It works where the rank is low enough and the errors are few enough, and then it works nearly always. Candès, Li, Ma and
Wright (2011) drew this picture; here it is for matrices of 60 × 60.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

import rankwolf as rw

side, trials = 60, 2
ranks = np.arange(2, 25, 2)
shares = np.arange(0.03, 0.40, 0.03)


def recovers(rank, share, seed):
    """Whether L comes back to three digits from a matrix with random signs in a share of its entries."""
    rng = np.random.default_rng((rank, round(1000 * share), seed))
    truth = rng.standard_normal((side, rank)) @ rng.standard_normal((rank, side)) / side
    wrong = rng.random(truth.shape) < share
    M = truth + np.where(wrong, rng.choice([-1.0, 1.0], truth.shape), 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rw.RankwolfWarning)  # beyond the border no iteration limit helps
        fit = rw.decompose(M, noise=0, tol=1e-5, max_iter=150, rng=0)
    return np.linalg.norm(fit.low_rank[:] - truth) < 1e-3 * np.linalg.norm(truth)


successes = np.array(
    [[np.mean([recovers(rank, share, seed) for seed in range(trials)]) for rank in ranks] for share in shares]
)

# %%
# White: every trial came back. Black: none did. The border is sharp.
figure, axis = plt.subplots(figsize=(6.4, 5), layout="constrained")
image = axis.pcolormesh(ranks / side, 100 * shares, successes, cmap="gray", vmin=0, vmax=1)
axis.set(
    xlabel="rank / side", ylabel="% of the entries that are wrong", title="share of the trials in which L comes back"
)
figure.colorbar(image, ax=axis, shrink=0.8)
plt.show()
