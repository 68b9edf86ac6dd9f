"""
Exact pursuit, and where it ends
================================

Without noise, L + S = M can be taken apart exactly: ``noise=0`` minimises ‖L‖_* + ‖S‖₁/√max(m, n) under that
constraint. It works where the rank is low enough and the errors are few enough, and then it works nearly always.
Candès, Li, Ma and Wright (2011) drew this picture; here it is for matrices of 60 × 60.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

import rankwolf as rw

side = 60
ranks = np.arange(1, 16)
shares = np.arange(0.02, 0.36, 0.03)


def error(rank, share):
    """‖L̂ − L‖/‖L‖ from a matrix with random signs added to a share of its entries."""
    rng = np.random.default_rng((rank, round(1000 * share)))
    truth = rng.standard_normal((side, rank)) @ rng.standard_normal((rank, side)) / side
    wrong = rng.random(truth.shape) < share
    M = truth + np.where(wrong, rng.choice([-1.0, 1.0], truth.shape), 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rw.RankwolfWarning)  # beyond the border the limit is always met
        fit = rw.decompose(M, noise=0, tol=1e-5, max_iter=120, rng=0, n_threads=1)
    return np.linalg.norm(fit.low_rank[:] - truth) / np.linalg.norm(truth)


errors = np.array([[error(rank, share) for rank in ranks] for share in shares])
print(f"{np.mean(errors < 1e-3):.0%} of these matrices come back to three digits")

# %%
# One matrix for each place. Dark: L came back to four digits. Bright: something else is cheaper than the truth.
figure, axis = plt.subplots(figsize=(6.4, 5), layout="constrained")
image = axis.pcolormesh(ranks / side, 100 * shares, np.log10(errors), cmap="magma", vmin=-4.5, vmax=0)
axis.set(
    xlabel="rank / side",
    ylabel="% of the entries that are wrong",
    title="classical pursuit of 60 × 60 matrices: where L comes back",
)
figure.colorbar(image, ax=axis, shrink=0.8, label="log₁₀ of the relative error of L")
plt.show()
