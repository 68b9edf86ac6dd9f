"""
A hyperspectral cube with stripes and dead pixels
=================================================

A camera with 120 bands flies over fields. Every pixel is a mixture of a handful of materials, so the cube as a matrix
(pixels × bands) has low rank. The sensor adds stripes in some bands, impulses, and noise.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rankwolf as rw

rng = np.random.default_rng(3)
side, bands, materials = 80, 120, 5
wavelength = np.linspace(0, 1, bands)
spectra = np.stack(
    [sum(a * np.exp(-(((wavelength - c) / w) ** 2)) for a, c, w in rng.uniform((0.2, 0, 0.05), (1, 1, 0.4), (4, 3)))
     for _ in range(materials)]
)  # fmt: skip
centres = rng.uniform(0, side, (14, 2))
kind = rng.integers(materials, size=14)
yy, xx = np.mgrid[:side, :side]
nearest = np.argmin((yy[..., None] - centres[:, 0]) ** 2 + (xx[..., None] - centres[:, 1]) ** 2, axis=-1)
abundance = np.eye(materials)[kind[nearest]]
for _ in range(6):  # borders are mixed
    abundance = 0.5 * abundance + 0.125 * sum(np.roll(abundance, s, axis) for axis in (0, 1) for s in (-1, 1))
clean = abundance @ spectra

cube = clean + 0.02 * rng.standard_normal(clean.shape)
for band in rng.choice(bands, 25, replace=False):
    columns = rng.choice(side, 8, replace=False)
    cube[:, columns, band] += rng.uniform(-0.4, 0.4, 8)
impulses = rng.random(cube.shape) < 0.03
cube[impulses] = rng.choice([0.0, 1.5], impulses.sum())

# %%
fit = rw.decompose(cube.reshape(-1, bands), delta="auto", rng=0)
restored = fit.low_rank[:].reshape(cube.shape)
before, after = (np.sqrt(np.mean((c - clean) ** 2)) for c in (cube, restored))
print(f"rank {fit.low_rank.rank}; root mean square error {before:.3f} before, {after:.3f} after")

# %%
band = int(np.argmax(np.abs(cube - clean).mean((0, 1))))
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained", width_ratios=(1, 1, 1, 1.3))
for axis, (name, picture) in zip(
    axes, {"measured": cube, "low-rank part": restored, "truth": clean}.items(), strict=False
):
    axis.imshow(picture[..., band], cmap="gray", vmin=clean[..., band].min(), vmax=clean[..., band].max())
    axis.set(title=f"{name}, band {band}")
    axis.set_axis_off()
pixel = tuple(np.argwhere(impulses.sum(-1) >= 4)[0])
axes[3].plot(cube[pixel], color="tab:gray", lw=0.8, label="measured")
axes[3].plot(restored[pixel], color="tab:blue", label="low-rank part")
axes[3].plot(clean[pixel], "k--", lw=0.8, label="truth")
axes[3].set(title="the spectrum of one pixel", xlabel="band")
axes[3].legend(fontsize=8)
plt.show()
