"""
A beating heart from an eighth of k-space
=========================================

A scanner measures Fourier coefficients, and there is no time for all of them while a heart beats. The anatomy is the
same in every frame, so it is low-rank; what beats and what the contrast agent fills is sparse. ``recover`` finds both
from an eighth of the coefficients, at places that change from frame to frame.
"""

# %%
# A rendered chest: a body, a ventricle that beats, contrast agent that flows in and out.
import matplotlib.pyplot as plt
import numpy as np

import rankwolf as rw
from rankwolf.sensing import PartialFourier

rng = np.random.default_rng(0)
frames, side = 32, 64
y, x = np.mgrid[:side, :side] * (100 / side)


def disc(cy, cx, height, width):
    """1 inside an ellipse, 0 outside, with a soft edge."""
    inside = 1 - np.hypot((y - cy) / height, (x - cx) / width)
    return np.clip(inside * min(height, width) * side / 100 + 0.5, 0, 1)


body = 0.45 * disc(50, 50, 39, 45)
body *= (1 - 0.75 * disc(45, 26, 20, 12)) * (1 - 0.75 * disc(45, 77, 17, 9))
body += 0.25 * disc(78, 50, 5.5, 5.5)
truth = []
for t in range(frames):
    radius = 8.5 + 2.5 * np.cos(2 * np.pi * t / 8)
    agent = max(t - 8, 0) / 6
    heart = disc(52, 55, radius, radius)
    truth.append(body * (1 - heart) + heart * (0.35 + agent * np.exp(1 - agent)))
truth = np.reshape(truth, (frames, -1))

# %%
# The lowest frequencies of every frame, and others at random, an eighth in all; with noise.
frequency = np.abs(np.fft.fftfreq(side, 1 / side))
centre = np.maximum(frequency[:, None], frequency) <= 4
kept = centre | (rng.random((frames, side, side)) < 0.125 - centre.mean())
A = PartialFourier(kept)
b = A.apply(truth) + 0.015 * (rng.standard_normal(A.size) + 1j * rng.standard_normal(A.size))
print(A)

# %%
norm = np.linalg.norm(b)
fit = rw.recover(b, A, lambdas=(0.004 * norm, 0.004 * norm / side), tol=0.02, rng=0)
print(fit)

# %%
pictures = {
    "truth": truth,
    "zeros for what was\nnot measured": A.real_adjoint(b),
    "L + S": fit.low_rank[:] + fit.sparse[:],
    "L": fit.low_rank[:],
    "S": fit.sparse[:],
}
figure, axes = plt.subplots(2, 5, figsize=(11, 5), layout="constrained", height_ratios=(1, 0.8))
for column, (name, matrix) in enumerate(pictures.items()):
    cube = np.reshape(matrix, (frames, side, side))
    style = (
        {"cmap": "RdBu_r", "vmin": -0.6, "vmax": 0.6}
        if name == "S"
        else {"cmap": "gray", "vmin": 0, "vmax": 1.2}
    )
    error = np.linalg.norm(matrix - truth) / np.linalg.norm(truth)
    says = f"\nerror {error:.3f}" if column in (1, 2) else ""
    axes[0, column].imshow(cube[14], **style)
    axes[0, column].set_title(name + says, fontsize=10)
    axes[1, column].imshow(cube[:, side // 2], aspect="auto", **style)
    for axis in axes[:, column]:
        axis.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("frame 14")
axes[1, 0].set_ylabel("time ↓, one line")
plt.show()
