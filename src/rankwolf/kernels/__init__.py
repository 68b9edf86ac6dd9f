"""Every compiled kernel, in one folder: functions of plain arrays and numbers, one file for each kind of work.

Nothing here knows of sources, problems or solvers, starts a thread or checks what a user gave, and nothing here imports
from the rest of the package. A loop that NumPy runs as fast does not belong here.

Rules: no ``parallel=True`` (tiles are spread over a thread pool instead, which is safe with threads, forks and
Dask), the GIL is released, NaN keeps its meaning (it marks an entry that was not observed), and sums of a long
row are carried to float64 every ``CHUNK`` entries, so that float32 tiles do not cost accuracy in the objective.

The inner loops run over slices of a row and choose with ``a if c else b``: in this form they become vector instructions
(0.2 ns an entry). Indexed in two dimensions, or with ``min`` and ``max``, they do not (2.6 ns).

Arrays are copied by a loop. ``a[:] = b`` could raise an error with numbers in its message, and Numba would compile the
formatting of numbers for it: two seconds more at the first call.
"""

from rankwolf.kernels.compiling import must
from rankwolf.kernels.regressions import fit_stored_rows, search_rows
from rankwolf.kernels.tile_loops import (
    cast_transposed,
    clip_dual,
    clip_residual,
    describe_tile,
    largest_entry,
    subtract_sampled,
)

__all__ = [
    "cast_transposed",
    "clip_dual",
    "clip_residual",
    "describe_tile",
    "fit_stored_rows",
    "largest_entry",
    "must",
    "search_rows",
    "subtract_sampled",
]
