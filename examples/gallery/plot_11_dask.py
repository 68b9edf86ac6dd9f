"""
A Dask cluster
==============

A dask.array stays on its workers: each pass sends the factors there and brings sums back. This page starts a cluster of
two workers on one machine; an address of a scheduler works the same way.
"""

# %%
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

import rankwolf as rw

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
client = Client(cluster)
generator = da.random.default_rng(6)
left = generator.standard_normal((40_000, 4), chunks=(5000, 4))
right = np.random.default_rng(6).standard_normal((4, 300))
noise = 0.1 * generator.standard_normal((40_000, 300), chunks=(5000, 300))
spikes = da.where(generator.random((40_000, 300), chunks=(5000, 300)) < 0.03, 20.0, 0.0)
X = (left @ right + noise + spikes).persist()

# %%
fit = rw.decompose(X, delta="auto", rng=0)
print(fit)

# %%
# S is a lazy dask.array in the chunks of X, so that counting its entries happens on the workers.
per_column = (abs(fit.sparse.to_dask()) > 5).sum(axis=0).compute()
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
axes[0].bar(range(1, fit.low_rank.rank + 1), fit.low_rank.s)
axes[0].set(title="singular values of L", xlabel="number")
axes[1].plot(per_column, ".", ms=3)
axes[1].set(title="spikes found in each column (3 % were planted)", xlabel="column", ylim=(0, None))
plt.show()
client.close()
cluster.close()
