"""
Ratings, with some that were bought
===================================

Six hundred people rate two hundred films, thirty each. Some accounts give five stars to one film and ones to its
rivals. The stored entries of a sparse matrix are the observed ones: ``decompose`` fits a few tastes to them, and what
does not fit ends up in S.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse

import rankwolf as rw

rng = np.random.default_rng(4)
people, films, tastes = 600, 200, 3
truth = 3.2 + 0.6 * rng.standard_normal((people, tastes)) @ rng.standard_normal((tastes, films))
rows = np.repeat(np.arange(people), 30)
columns = np.concatenate([rng.choice(films, 30, replace=False) for _ in range(people)])
stars = np.clip(truth[rows, columns] + 0.3 * rng.standard_normal(rows.size), 1, 5)
bought = np.isin(rows, rng.choice(people, 40, replace=False)) & (columns < 30)
stars[bought] = np.where(columns[bought] < 10, 5.0, 1.0)

# %%
# Hide a tenth of the honest ratings, and predict them with and without outliers in mind.
hidden = (rng.random(rows.size) < 0.1) & ~bought
shown = scipy.sparse.csr_array(
    (stars[~hidden] - 3.2, (rows[~hidden], columns[~hidden])), shape=(people, films)
)


def error(low_rank):
    """Root mean square error of the hidden ratings."""
    u, v = low_rank.factors()
    guesses = np.einsum("ij,ij->i", u[rows[hidden]], v[columns[hidden]])
    return np.sqrt(np.mean((guesses - (stars[hidden] - 3.2)) ** 2))


lambda_L = 6.0
robust = rw.decompose(shown, lambdas=(lambda_L, 0.7), rng=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", rw.RankwolfWarning)  # S = 0 is what is wanted here: least squares
    plain = rw.decompose(shown, lambdas=(lambda_L, 100.0), rng=0)
mean = np.sqrt(np.mean((stars[hidden] - stars[~hidden].mean()) ** 2))
print(
    f"error: mean {mean:.2f}, least squares {error(plain.low_rank):.2f}, robust {error(robust.low_rank):.2f}"
)

# %%
# The honest ratings are predicted hardly better: forty accounts of six hundred do little harm to the others. But the
# accounts whose ratings stand out most are the ones that were bought.
suspicion = np.asarray(abs(robust.sparse.to_scipy()).sum(axis=1)).ravel()
guilty = np.isin(np.arange(people), rows[bought])
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
axes[0].hist(
    [suspicion[~guilty], suspicion[guilty]], bins=30, log=True, label=["honest", "bought"], stacked=True
)
axes[0].set(xlabel="Σ|S| of an account", ylabel="accounts", title="how much of an account is in S")
axes[0].legend()
found = np.cumsum(guilty[np.argsort(-suspicion)])[:80]
axes[1].plot(range(1, 81), found, label="Σ|S|")
axes[1].plot([0, guilty.sum(), 80], [0, guilty.sum(), guilty.sum()], "k:", lw=1, label="the best possible")
axes[1].set(
    xlabel="accounts that are looked at", title="bought accounts among the most suspicious", ylim=(0, None)
)
axes[1].legend()
plt.show()
