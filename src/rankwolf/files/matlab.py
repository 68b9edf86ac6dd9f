"""Writing Matlab's files: version 5 by SciPy, and version 7.3, which is HDF5, by h5py."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed


def write_mat(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file of version 5, compressed; a ValueError for a variable of 2 GB or more."""
    from scipy.io import savemat

    for name, array in arrays.items():
        if not scipy.sparse.issparse(array) and array.nbytes >= 2**31:
            raise ValueError(
                f"The variable {name!r} is too large for this version of Matlab files. Give --format mat73."
            )
    savemat(path, arrays, do_compression=True)


def write_mat73(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file of version 7.3: HDF5, behind a block of 512 bytes with Matlab's header."""
    needed("h5py")
    import h5py

    classes = {"f8": "double", "f4": "single", "b1": "logical"}
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                columns = array.tocsc()
                group = file.create_group(name)
                group.attrs["MATLAB_class"] = np.bytes_("double")
                group.attrs["MATLAB_sparse"] = np.uint64(columns.shape[0])
                for part, values in (("data", columns.data), ("ir", columns.indices), ("jc", columns.indptr)):
                    group[part] = values.astype(np.float64 if part == "data" else np.uint64)
                continue
            matrix: Array = np.atleast_2d(array)
            stored = file.create_dataset(name, data=np.ascontiguousarray(matrix.T))
            word = classes.get(matrix.dtype.str[1:], matrix.dtype.name)
            stored.attrs["MATLAB_class"] = np.bytes_(word)
    text = b"MATLAB 7.3 MAT-file, Platform: any, Created by: Rankwolf HDF5 schema 1.00 ."
    with path.open("r+b") as file:
        file.write(text.ljust(116) + bytes(8) + struct.pack("<H", 0x0200) + b"IM")
