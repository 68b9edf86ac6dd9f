"""
A sensor panel with broken readings
===================================

Sixty temperature sensors in a building, one reading an hour for four weeks. A fifth of the readings is missing, some
sensors spike, one is stuck for three days, and one is off by five degrees for two days. All sensors follow the same few
patterns (outside, heating, sun), so what is true has low rank.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rankwolf as rw

rng = np.random.default_rng(1)
hours, sensors = 24 * 28, 60
t = np.arange(hours)
patterns = np.stack(
    [
        8 * np.sin(2 * np.pi * (t - 9) / 24),
        4 * np.sin(2 * np.pi * t / (24 * 9)),
        ((t % 24 > 6) & (t % 24 < 20) & (t // 24 % 7 < 5)) * 3.0,
    ]
)
weights = np.abs(rng.standard_normal((sensors, 3))) * [0.6, 0.8, 0.7]
truth = 20 + patterns.T @ weights.T
readings = truth + 0.2 * rng.standard_normal(truth.shape)

# What goes wrong: spikes, a stuck sensor, one that is off for a while, and gaps.
broken = np.zeros(truth.shape, bool)
broken[rng.random(truth.shape) < 0.01] = True
readings[broken] += rng.choice([-1, 1], broken.sum()) * rng.uniform(5, 25, broken.sum())
readings[200:272, 17], broken[200:272, 17] = readings[200, 17], True
readings[450:498, 33] += 5.0
broken[450:498, 33] = True
seen = rng.random(truth.shape) > 0.2
readings[~seen] = np.nan

# %%
# ``RobustPCA`` measures the noise itself. ``score_cells`` says how many standard deviations a reading is off.
model = rw.RobustPCA(random_state=0).fit(readings)
scores = np.abs(model.score_cells(readings))
repaired = model.impute(readings, outliers=True)
error = np.sqrt(np.mean((repaired - truth) ** 2))
print(
    f"{model.n_components_} components, noise {(model.noise_variance_**0.5).mean():.2f} °C, repaired to {error:.2f} °C"
)

# %%
figure, axes = plt.subplots(3, 1, figsize=(8, 7), layout="constrained", height_ratios=(2, 2, 3))
axes[0].imshow(np.where(seen, readings, np.nan).T, aspect="auto", cmap="viridis", vmin=5, vmax=40)
axes[0].set(title="readings (white: missing)", ylabel="sensor")
axes[1].imshow(np.nan_to_num(scores.T), aspect="auto", cmap="magma", vmin=0, vmax=12)
axes[1].set(title="how far each reading is off, in standard deviations", ylabel="sensor")
for sensor, colour in ((17, "tab:blue"), (33, "tab:orange")):
    axes[2].plot(
        t, readings[:, sensor], ".", ms=2, color=colour, alpha=0.6, label=f"sensor {sensor}: readings"
    )
    axes[2].plot(t, repaired[:, sensor], color=colour, lw=1, label="repaired")
axes[2].set(xlabel="hour", ylabel="°C", title="a stuck sensor, and one that is off for two days")
axes[2].legend(ncols=2, fontsize=8)
plt.show()
