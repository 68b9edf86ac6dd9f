"""
A model that learns from a stream
=================================

Rows arrive in batches and are forgotten after they were learned from. Halfway through, a machine is replaced and one of
the directions of the data changes: with ``forgetting`` below 1 the model follows.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rankwolf as rw

rng = np.random.default_rng(7)
features, rank, batches = 50, 3, 40
basis = np.linalg.qr(rng.standard_normal((features, rank + 1)))[0]


def batch(number):
    """A hundred rows with gaps and spikes; the third direction changes at batch 20."""
    directions = basis[:, [0, 1, 2 if number < 20 else 3]]
    rows = rng.standard_normal((100, rank)) * [6, 4, 3] @ directions.T + 0.1 * rng.standard_normal(
        (100, features)
    )
    rows[rng.random(rows.shape) < 0.05] += 10.0
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


# %%
errors = {}
for forgetting in (1.0, 0.8):
    generator_state = np.random.default_rng(7)
    rng = generator_state
    model, errors[forgetting] = rw.RobustPCA(forgetting=forgetting, random_state=0), []
    for number in range(batches):
        model.partial_fit(batch(number))
        wanted = basis[:, [0, 1, 2 if number < 20 else 3]]
        found = model.components_[:rank]
        angles = np.linalg.svd(found @ wanted, compute_uv=False)
        errors[forgetting].append(np.sqrt(max(0.0, 1 - angles.min() ** 2)))

# %%
figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
for forgetting, values in errors.items():
    axis.plot(range(1, batches + 1), values, "o-", ms=3, label=f"forgetting = {forgetting}")
axis.axvline(20.5, color="gray", linestyle=":", label="a direction changes")
axis.set(
    xlabel="batch", ylabel="sine of the largest angle", title="distance to the true subspace", ylim=(0, 1.05)
)
axis.legend()
plt.show()
