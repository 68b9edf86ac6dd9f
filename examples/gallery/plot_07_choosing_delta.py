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
# ``path`` comes down from L = 0, each δ from the solution at the one before: the whole path costs little more than its
# last point. ``select_delta`` hides a tenth of the entries at the same δ and compares L with what was hidden;
# ``simplest_delta`` is the largest δ that predicts as well as the best one, within its standard error.
path = rw.path(X, deltas=np.geomspace(0.3, 3e-3, 19), rng=0)
search = rw.select_delta(X, deltas=path.deltas[::2][::-1], rng=0)
automatic = rw.decompose(X, rng=0)  # delta="auto": from the noise, without a search
print(path)
print(automatic)

# %%
# The line of ``"auto"`` is at the δ that would give its λ_L, which is δ·‖M‖.
choices = {
    "search.simplest_delta": (search.simplest_delta, "tab:red", "--"),
    '"auto"': (automatic.lambdas[0] / np.linalg.norm(X), "tab:purple", "-."),
}
figure, axes = plt.subplots(3, 1, figsize=(7, 7.5), layout="constrained", sharex=True)
axes[0].loglog(path.deltas, path.ranks, "o-")
axes[0].set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
axes[0].minorticks_off()
axes[0].axhline(6, color="gray", lw=0.8, ls=":", label="the true rank")
axes[0].set(ylabel="rank of L", title="the plateau is the structure, what grows to the left of it is noise")
axes[1].semilogx(path.deltas, [100 * point.share for point in path.points], "o-", color="tab:orange")
axes[1].axhline(5, color="gray", lw=0.8, ls=":", label="the true share")
axes[1].set(ylabel="% of the entries in S")
mean, spread = search.errors.mean(axis=1), search.errors.std(axis=1)
axes[2].errorbar(search.deltas, mean, spread, fmt="o-", color="tab:green")
axes[2].set(ylabel="error on hidden entries", xlabel="δ")
for axis in axes:
    for name, (delta, colour, style) in choices.items():
        axis.axvline(delta, color=colour, ls=style, label=name)
    axis.legend(fontsize=8)
plt.show()
