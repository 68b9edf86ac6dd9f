"""
Anomalies in a table: an ROC curve
==================================

Which cells of a table are wrong? Five per cent were replaced, some by a lot and some by little. Robust PCA is compared
with the reconstruction error of ordinary PCA and with an isolation forest, which scores rows, so that each cell gets
the score of its row times its own deviation from the median.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score, roc_curve

import rankwolf as rw

rng = np.random.default_rng(8)
samples, features, rank = 1000, 40, 4
X = rng.standard_normal((samples, rank)) @ rng.standard_normal((rank, features))
X += 0.3 * rng.standard_normal(X.shape)
wrong = rng.random(X.shape) < 0.05
X[wrong] += rng.choice([-1, 1], wrong.sum()) * rng.uniform(1, 5, wrong.sum())

# %%
robust = np.abs(rw.RobustPCA(random_state=0).fit(X).score_cells(X))
pca = PCA(rank).fit(X)
ordinary = np.abs(X - pca.inverse_transform(pca.transform(X)))
forest = IsolationForest(random_state=0).fit(X)
spread = 1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0)
isolation = -forest.score_samples(X)[:, None] * np.abs(X - np.median(X, axis=0)) / spread
by_column = np.abs(X - np.median(X, axis=0)) / spread

# %%
figure, axis = plt.subplots(figsize=(5.2, 5), layout="constrained")
scores = {
    "RobustPCA": robust,
    "PCA, told the rank": ordinary,
    "IsolationForest": isolation,
    "MAD by column": by_column,
}
for name, score in scores.items():
    false, true, _ = roc_curve(wrong.ravel(), np.asarray(score).ravel())
    axis.plot(
        false, true, label=f"{name}: area {roc_auc_score(wrong.ravel(), np.asarray(score).ravel()):.3f}"
    )
axis.set(xscale="log", xlim=(1e-4, 1))
axis.set(xlabel="share of good cells that are accused", ylabel="share of wrong cells that are found")
axis.legend(loc="lower left", fontsize=9)
plt.show()
