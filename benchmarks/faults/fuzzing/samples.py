"""Small whole files of every kind that is read: what mutations start from."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

import rankwolf as rw


def matrix(rows: int = 12, columns: int = 9) -> Any:
    rng = np.random.default_rng(0)
    return rng.standard_normal((rows, 2)) @ rng.standard_normal((2, columns)) + 0.1 * rng.random(
        (rows, columns)
    )


def frames() -> Any:
    rng = np.random.default_rng(1)
    pictures = (60.0 + 20.0 * rng.random((1, 24, 32)) + 4.0 * rng.random((10, 24, 32))).astype(np.uint8)
    for number in range(10):
        pictures[number, 8:14, 2 * number : 2 * number + 5] = 220
    return pictures


def npy(folder: Path) -> None:
    np.save(folder / "a.npy", matrix())
    np.save(folder / "b.npy", np.asfortranarray(matrix().astype(np.float32)))
    np.save(folder / "c.npy", (50.0 * matrix()).astype(">i2"))


def npz(folder: Path) -> None:
    np.savez(folder / "a.npz", x=matrix())
    np.savez_compressed(folder / "b.npz", x=matrix().astype(np.float32))
    for form in ("csr", "csc", "coo"):
        scipy.sparse.save_npz(folder / f"{form}.npz", sparse().asformat(form))


def mat(folder: Path) -> None:
    from rankwolf.files.writing import write_mat73

    scipy.io.savemat(
        folder / "a.mat", {"x": matrix(), "note": "hello", "cells": np.array([[1, "a"]], object)}
    )
    scipy.io.savemat(folder / "b.mat", {"x": matrix().astype(np.uint8)}, do_compression=True)
    scipy.io.savemat(folder / "c.mat", {"x": sparse().tocsc()})
    scipy.io.savemat(folder / "d.mat", {"x": sparse().tocsc()}, do_compression=True)
    scipy.io.savemat(folder / "e.mat", {"x": matrix(), "y": 1.0}, format="4")
    scipy.io.savemat(folder / "f.mat", {"x": sparse().tocsc()}, format="4")
    write_mat73(folder / "g.mat", {"x": matrix()})
    write_mat73(folder / "h.mat", {"x": sparse()})


def h5(folder: Path) -> None:
    import h5py

    for name, settings in (
        ("a", {}),
        ("b", {"chunks": (5, 4), "compression": "gzip", "shuffle": True}),
        ("c", {"chunks": (5, 4), "fletcher32": True}),
        ("d", {"chunks": (5, 4), "compression": "lzf"}),
    ):
        for version in ("earliest", "latest"):
            with h5py.File(folder / f"{name}{version}.h5", "w", libver=version) as file:
                file.create_dataset("x", data=matrix(), **settings)
                file["group/words"] = "hello"
                file["soft"] = h5py.SoftLink("/x")


def store(folder: Path) -> None:
    import zarr

    zarr.create_array(str(folder / "a.zarr"), data=matrix(), chunks=(5, 4))
    zarr.create_array(str(folder / "b.zarr"), data=matrix(), chunks=(5, 4), compressors=None)
    zarr.create_array(str(folder / "c.zarr"), data=matrix(), chunks=(5, 4), zarr_format=2)
    zarr.create_array(str(folder / "d.zarr"), data=matrix(), chunks=(5, 4), shards=(10, 8))
    zarr.open_group(str(folder / "e.zarr"), mode="w").create_array("x", data=matrix())


def parquet(folder: Path) -> None:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = pd.DataFrame(
        matrix(), columns=list("abcdefghi"), index=pd.Index([f"r{k}" for k in range(12)], name="id")
    )
    frame.iloc[2, 3] = np.nan
    table = pa.Table.from_pandas(frame)
    for name, compression in (("a", "snappy"), ("b", "none"), ("c", "zstd"), ("d", "gzip"), ("e", "lz4")):
        pq.write_table(table, folder / f"{name}.parquet", compression=compression)
    columns = {"x": pa.array(range(40)), "y": pa.array([1.0, None] * 20), "z": pa.array([True, False] * 20)}
    pq.write_table(
        pa.table(columns), folder / "f.parquet", row_group_size=7, version="1.0", data_page_version="2.0"
    )


def csv(folder: Path) -> None:
    rows = [",".join(f"{number:.4g}" for number in row) for row in matrix()]
    (folder / "a.csv").write_text("\n".join(rows) + "\n")
    names = [f"r{k},{row}" for k, row in enumerate(rows)]
    (folder / "b.csv").write_text("\ufeffid," + ",".join("abcdefghi") + "\r\n" + "\r\n".join(names))
    (folder / "c.tsv").write_text('\n"a\nb"\t"c ""d"""\n1\t2\n\n3\tNA\n5\t6\n7\t8\n')
    (folder / "d.csv").write_text("x;y\n1;2\n3;4\n5;6\n")
    german = "\n".join(row.replace(",", ";").replace(".", ",") for row in names)
    (folder / "e.txt").write_bytes(("Größe;" + ";".join("abcdefghi") + "\n" + german).encode("latin-1"))
    (folder / "f.csv").write_text("\n".join(rows), encoding="utf-16")
    (folder / "g.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))


def feather(folder: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(matrix(), columns=list("abcdefghi"))
    frame.insert(0, "name", pd.Series([f"r{k % 5}" for k in range(12)], dtype="category"))
    frame.iloc[2, 3] = np.nan
    for compression in ("lz4", "zstd", "uncompressed"):
        frame.to_feather(folder / f"{compression}.feather", compression=compression)


def xlsx(folder: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(matrix(), columns=list("abcdefghi"), index=[f"r{k}" for k in range(12)])
    frame.iloc[2, 3] = np.nan
    frame.to_excel(folder / "a.xlsx")
    days = pd.date_range("2024-01-01", periods=12)
    frame.set_axis(days).astype(object).replace(0.0, "n/a").to_excel(folder / "b.xlsx", sheet_name="Daten")


def video(folder: Path) -> None:
    import av

    for name, codec, form in (
        ("a.mp4", "libx264", "yuv420p"), ("b.mkv", "ffv1", "gray"), ("c.avi", "mpeg4", "yuv420p"),
        ("d.avi", "mjpeg", "yuvj420p"), ("e.webm", "libvpx-vp9", "yuv420p"),
    ):  # fmt: skip
        with av.open(str(folder / name), "w") as container:
            stream: Any = container.add_stream(codec, rate=Fraction(25))
            stream.height, stream.width, stream.pix_fmt = 24, 32, form
            for frame in frames():
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="gray")))
            container.mux(stream.encode(None))
    np.save(folder / "g.npy", frames())
    np.savez_compressed(folder / "h.npz", frames=frames())


def image(folder: Path) -> None:
    from PIL import Image

    for ending, settings in (
        ("png", {}), ("jpg", {}), ("gif", {}), ("bmp", {}), ("tif", {"compression": "tiff_deflate"}), ("webp", {}),
        ("pgm", {}),
    ):  # fmt: skip
        place = folder / ending
        place.mkdir()
        for number, frame in enumerate(frames()[:5]):
            Image.fromarray(frame).save(place / f"{number}.{ending}", **settings)


def kspace() -> Any:
    rng = np.random.default_rng(2)
    values = np.fft.fft2(60.0 + 20.0 * rng.random((6, 2, 12, 12))).astype(np.complex64)
    values[:, :, ::3] = 0.0
    return values


def cfl(folder: Path) -> None:
    from rankwolf.files.kspace import write_images

    write_images(folder / "a", kspace()[:, 0], "cfl")


def ismrmrd(folder: Path) -> None:
    import h5py

    values = kspace()
    idx = np.dtype(
        [(name, "<u2") for name in ("kspace_encode_step_1", "kspace_encode_step_2", "phase", "repetition")]
    )
    head = np.dtype([("flags", "<u8"), ("number_of_samples", "<u2"), ("active_channels", "<u2"),
                     ("trajectory_dimensions", "<u2"), ("center_sample", "<u2"), ("idx", idx)])  # fmt: skip
    line = np.dtype(
        [("head", head), ("traj", h5py.vlen_dtype(np.float32)), ("data", h5py.vlen_dtype(np.float32))]
    )
    lines = np.empty(6 * 8, line)
    places = [(frame, row) for frame in range(6) for row in range(12) if row % 3]
    for k, (frame, row) in enumerate(places):
        lines[k]["head"] = (0, 12, 2, 0, 6, (row, 0, frame, 0))
        lines[k]["traj"], lines[k]["data"] = (
            np.zeros(0, np.float32),
            values[frame, :, row].ravel().view(np.float32),
        )
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("dataset/data", data=lines)


def result(folder: Path) -> None:
    fit = rw.decompose(matrix(), rng=0, max_iter=5)
    fit.save(folder / "a.npz")
    fit.save(folder / "b.npz", with_sparse=False)


def factors(folder: Path) -> None:
    """Models of RobustPCA, with and without names of columns."""
    import pandas as pd

    data = matrix(60)
    rw.RobustPCA(2).fit(data).save(folder / "a.npz")
    rw.RobustPCA(2, whiten=True).fit(pd.DataFrame(data, columns=list("abcdefghi"))).save(folder / "b.npz")


def checkpoint(folder: Path) -> None:
    """One for each method that keeps any, beside the matrix that it is of."""
    (folder / "data").mkdir()
    np.save(folder / "data" / "x.npy", matrix())
    scipy.sparse.save_npz(folder / "data" / "s.npz", sparse())
    methods = {}
    for method in ("hybrid", "fw-t", "fista", "als"):
        name = "s.npz" if method == "als" else "x.npy"
        words = [
            "decompose",
            str(folder / "data" / name),
            "-o",
            str(folder / "data" / method),
            "--method",
            method,
        ]
        words += ["--checkpoint", str(folder / f"{method}.checkpoint"), "--checkpoint-every", "1", "--quiet"]
        for seconds in ("0.05", "0.5", "5"):  # a busy machine may not come to its first checkpoint
            done = (
                rw_main([*words, "--force", "--delta", "0.01", "--tol", "1e-6", "--max-seconds", seconds])
                == 0
            )
            if done and (folder / f"{method}.checkpoint").exists():
                methods[method] = name
                break
    (folder / "data" / "methods.json").write_text(json.dumps(methods))


def rw_main(words: list[str]) -> int:
    from rankwolf.cli import main

    return main(words)


def sparse() -> Any:
    rng = np.random.default_rng(2)
    seen = rng.random((12, 9)) < 0.6
    return scipy.sparse.csr_array(np.where(seen, matrix(), 0.0))


def separated(folder: Path) -> Path:
    """A folder that ``rankwolf separate`` made, in ``data``, and a video for its model."""
    place = folder / "data"
    place.mkdir()
    np.save(place / "v.npy", np.concatenate([frames()] * 4))
    words = ["separate", str(place / "v.npy"), "-o", str(place / "model"), "--no-report", "--quiet"]
    if rw_main(words):
        raise RuntimeError("the sample was not separated")
    return place / "model"


def mask(folder: Path) -> None:
    """The model of the mask beside a result."""
    shutil.copy(separated(folder) / "mask.npz", folder / "mask.npz")


def live(folder: Path) -> None:
    """States before and after the warm-up."""
    from rankwolf.video import LiveSettings, Separator

    for name, count in (("early", 5), ("late", 30)):
        separator = Separator(settings=LiveSettings(warm_up=20))
        for number in range(count):
            separator.update(frames()[number % 10])
        separator.save(folder / f"{name}.npz")


SAMPLES: dict[str, Callable[[Path], None]] = {
    "npy": npy, "npz": npz, "mat": mat, "h5": h5, "zarr": store, "parquet": parquet, "csv": csv, "feather": feather,
    "xlsx": xlsx, "video": video,
    "image": image, "result": result, "factors": factors, "checkpoint": checkpoint, "mask": mask, "live": live,
    "cfl": cfl, "ismrmrd": ismrmrd,
}  # fmt: skip
