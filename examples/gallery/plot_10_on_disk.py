"""
A matrix on the disk
====================

The matrix is a Zarr store; it is read once in each pass and never held in memory. ``max_memory`` is a limit on the
whole process. Here the store is small, so that the page builds quickly; the same lines work for hundreds of gigabytes.
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import zarr

import rankwolf as rw

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(5)
rows, columns, rank = 60_000, 400, 6
right = rng.standard_normal((rank, columns))
store = zarr.create_array(
    folder / "matrix.zarr", shape=(rows, columns), chunks=(4000, columns), dtype="float32"
)
for start in range(0, rows, 4000):
    block = rng.standard_normal((4000, rank)) @ right + 0.2 * rng.standard_normal((4000, columns))
    block[rng.random(block.shape) < 0.02] += 15.0
    store[start : start + 4000] = block

# %%
# ``callback`` sees every iteration, with the bytes that were read so far.
records = []
fit = rw.decompose(store, delta="auto", max_memory="1GB", rng=0, callback=records.append)
print(fit)
fit.sparse.to_zarr(folder / "sparse.zarr")  # S is written part by part, too

# %%
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.semilogy([r.bytes_read / 1e6 for r in records], [max(r.relative_gap, 1e-6) for r in records], "o-")
axis.axhline(1e-3, color="tab:red", linestyle="--", label="tol")
axis.set(
    xlabel="read from the disk (MB)", ylabel="relative gap", title=f"{store.nbytes / 1e6:.0f} MB on the disk"
)
axis.legend()
plt.show()
