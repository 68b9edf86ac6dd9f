"""
Photographs without their shadows
=================================

Forty photographs of a still object, each with the lamp somewhere else. If the surface is matt, the lit part of all
photographs together has rank three: each is a mixture of the same three pictures. Shadows and highlights break that in
a few pixels of each photograph. ``decompose`` gives the object without them.
"""

# %%
# The object is rendered here: a sphere and a smaller one in front of it, which throws a shadow.
import matplotlib.pyplot as plt
import numpy as np

import rankwolf as rw

rng = np.random.default_rng(0)
side, photographs = 96, 40
y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]


def sphere(cx, cy, radius):
    """Height and normals of a sphere; height −1 outside of it."""
    inside = radius**2 - (x - cx) ** 2 - (y - cy) ** 2
    height = np.sqrt(np.maximum(inside, 0.0))
    normals = np.stack([x - cx, y - cy, height]) / radius
    return np.where(inside > 0, height, -1.0), normals


big, big_normals = sphere(-0.1, 0.0, 0.8)
small, small_normals = sphere(0.35, -0.3, 0.28)
small = np.where(small >= 0, small + 1.1, -1.0)  # it floats in front
front = small > big
normals = np.where(front, small_normals, big_normals)
height = np.maximum(small, big)
paint = np.where(front, 0.9, 0.55 + 0.25 * np.sin(9 * x) * np.sin(9 * y)) * (height >= 0)


def photograph(light):
    """A matt surface, a small highlight, and the shadow of the small sphere on the big one."""
    shading = np.einsum("i,ijk->jk", light, normals)
    towards = np.stack([0.35 - x, -0.3 - y, 1.1 - height])
    along = np.einsum("i,ijk->jk", light, towards)
    distance = np.sqrt(np.maximum((towards**2).sum(0) - along**2, 0.0))
    shadow = ~front & (along > 0) & (distance < 0.28)
    halfway = light + np.array([0, 0, 1])
    halfway /= np.linalg.norm(halfway)
    highlight = np.maximum(np.einsum("i,ijk->jk", halfway, normals), 0.0) ** 120 * (height >= 0)
    lit = np.where(shadow, 0.0, np.maximum(shading, 0.0))
    return paint * lit + 0.8 * highlight


directions = rng.standard_normal((photographs, 3)) * [0.5, 0.5, 0.1] + [0, 0, 1]
directions /= np.linalg.norm(directions, axis=1, keepdims=True)
pictures = np.stack([photograph(light) for light in directions])

# %%
# One row for each photograph, and one call.
fit = rw.decompose(pictures.reshape(photographs, -1), delta=0.01, rng=0)
print(fit)

# %%
# The low-rank part has the shading and not the shadow; the sparse part has the shadow and the highlight.
which = np.argsort(directions[:, 0])[[2, 20, 37]]
figure, axes = plt.subplots(3, 3, figsize=(7.5, 7.5), layout="constrained")
for column, number in enumerate(which):
    parts = {
        "photograph": pictures[number],
        "low-rank part": fit.low_rank[number].reshape(side, side),
        "sparse part": fit.sparse[number].reshape(side, side),
    }
    for row, (name, picture) in enumerate(parts.items()):
        signed = name == "sparse part"
        axes[row, column].imshow(
            picture,
            cmap="RdBu_r" if signed else "gray",
            vmin=-0.8 if signed else 0,
            vmax=0.8 if signed else 1,
        )
        axes[row, column].set_axis_off()
        if column == 1:
            axes[row, column].set_title(name)
plt.show()
