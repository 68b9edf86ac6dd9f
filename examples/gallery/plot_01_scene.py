"""
What stays and what moves
=========================

A camera that does not move sees the same wall and floor in every frame, under lamps that drift and switch. As rows of a
matrix these frames have low rank. People and things cover a few pixels for a few frames each: they are sparse.
"""

# %%
# The scene is rendered, so that the truth is known: 300 frames of 120 × 160 pixels.
import matplotlib.pyplot as plt
import numpy as np

import rankwolf as rw
from rankwolf.video.scene import Scene

video = Scene(n_frames=300, seed=0).render()
X = video.matrix  # uint8, one row for each frame

# %%
# The weights of ``rankwolf separate``: λ_S three times the noise of the camera, λ_L so large that something which
# stands still for a moment is not taken for background. X stays uint8, and S is never stored.
sigma = 2.0
lambda_S = 3 * sigma
fit = rw.decompose(X, lambdas=(lambda_S * np.sqrt(0.005 * X.size), lambda_S), rng=0)
print(fit)

# %%
# Red is brighter than the background, blue is darker.
frames = (60, 150, 240)
shape = video.frames.shape[1:]
figure, axes = plt.subplots(3, len(frames), figsize=(8.4, 6.4), layout="constrained")
for column, number in enumerate(frames):
    rows = {
        "the camera": (X[number], "gray", 0, 255),
        "L, what stays": (fit.low_rank[number], "gray", 0, 255),
        "S, what moves": (fit.sparse[number], "RdBu_r", -120, 120),
    }
    for row, (name, (picture, colours, low, high)) in enumerate(rows.items()):
        axes[row, column].imshow(np.reshape(picture, shape), cmap=colours, vmin=low, vmax=high)
        axes[row, column].set(xticks=[], yticks=[], title=f"frame {number}" if row == 0 else "")
        if column == 0:
            axes[row, column].set_ylabel(name, fontsize=12)
plt.show()

# %%
# How far L is from the background that was rendered, and what a median over time would have given: it does not know
# lamps that are switched.
truth = video.background.reshape(X.shape)
error = np.abs(fit.low_rank[:] - truth).mean()
median = np.abs(np.median(X, axis=0) - truth).mean()
print(f"mean error of the background in gray levels: {error:.2f}; of the median over time: {median:.2f}")
