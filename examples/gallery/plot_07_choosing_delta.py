"""
Which δ? The whole path in one picture
======================================

Large weights give L = 0, small ones put noise into L. In between there is usually a plateau where the rank does not
change: there the answer does not depend on the weights. The error on entries that were hidden says where to stop.
"""

# %%
# A matrix of rank 6 with noise, of which 5 % of the entries are grossly wrong.
import matplotlib.pyplot as plt
import numpy as np

import rankwolf as rw

rng = np.random.default_rng(9)
signal = rng.standard_normal((400, 6)) @ rng.standard_normal((6, 150))
X = signal + 0.5 * rng.standard_normal(signal.shape)
X[rng.random(X.shape) < 0.05] += rng.choice([-15, 15])

# %%
# ``select_delta`` hides a tenth of the entries, decomposes the rest for every δ, and compares L with what was hidden.
# ``simplest_delta`` is the largest δ that predicts as well as the best one, within its standard error.
search = rw.select_delta(X, deltas=np.geomspace(3e-3, 0.3, 13), rng=0)
automatic = rw.decompose(X, rng=0)  # delta="auto": from the noise, without a search
print(search)
print(automatic)

# %%
# δ that would give the weights of ``"auto"``, for the line in the picture: λ_L = δ·‖M‖.
same_as_auto = automatic.lambdas[0] / np.linalg.norm(X)
figure, axes = plt.subplots(3, 1, figsize=(7, 7.5), layout="constrained", sharex=True)
axes[0].semilogx(search.deltas, search.ranks, "o-")
axes[0].axhline(6, color="gray", lw=0.8, ls=":", label="the true rank")
axes[0].set(ylabel="rank of L", yscale="log", title="from small weights to large ones")
axes[1].semilogx(search.deltas, 100 * search.sparse_shares, "o-", color="tab:orange")
axes[1].axhline(5, color="gray", lw=0.8, ls=":", label="the true share")
axes[1].set(ylabel="% of the entries in S")
mean, spread = search.errors.mean(axis=1), search.errors.std(axis=1)
axes[2].errorbar(search.deltas, mean, spread, fmt="o-", color="tab:green")
axes[2].set(ylabel="error on hidden entries", xlabel="δ", xscale="log")
for axis in axes:
    axis.axvline(search.simplest_delta, color="tab:red", ls="--", label="search.simplest_delta")
    axis.axvline(same_as_auto, color="tab:purple", ls="-.", label='"auto"')
    axis.legend(fontsize=8)
plt.show()
