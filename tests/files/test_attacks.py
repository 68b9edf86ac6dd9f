"""Files made by people who mean harm: one line and exit code 2, little time, nothing else opened, nothing run.

One process runs the command over all of them, and its cells, under an audit hook, and under strace where that is
installed: what is opened, which programs are started, and where anything connects to.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import socket
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse
import zarr

from rankwolf.files import LabelledMatrix, write_sparse


def numbers():
    return np.random.default_rng(0).standard_normal((30, 7))


def entries():
    return scipy.sparse.random_array((30, 20), density=0.2, rng=np.random.default_rng(1), format="csr")


def npy_header(shape, descr="<f8"):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def false_npy(folder):
    path = folder / "huge.npy"
    path.write_bytes(npy_header((10**9, 10**9)) + bytes(64))
    return path


def overflowing_npy(folder):
    path = folder / "overflow.npy"
    path.write_bytes(npy_header((2**61, 8)) + bytes(64))
    return path


def pickled_npy(folder):
    path = folder / "pickle.npy"
    np.save(path, np.array([[Trap()]], object), allow_pickle=True)
    return path


class Trap:
    """Whoever unpickles this makes a file."""

    def __reduce__(self):
        return (open, ("sprung", "w"))


def pickled_npz(folder):
    path = folder / "pickle.npz"
    np.savez(path, x=np.array([[Trap()]], object))
    return path


def zip_bomb(folder):
    """4 GB of zeros in 4 MB."""
    path = folder / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        file.write(npy_header((2**19, 100)))
        for _ in range(100):
            file.write(bytes(2**22))
    return path


def false_npz(folder):
    path = folder / "false.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy_header((10**9, 10**9)) + bytes(64))
    return path


def save_sparse(path, **parts):
    matrix = entries()
    arrays = {"format": np.array(b"csr"), "shape": np.array(matrix.shape), "data": matrix.data}
    arrays |= {"indices": matrix.indices, "indptr": matrix.indptr}
    np.savez(path, **{**arrays, **parts})
    return path


def bad_index(folder):
    indices = entries().indices.copy()
    indices[5] = 10**8
    return save_sparse(folder / "index.npz", indices=indices)


def negative_index(folder):
    indices = entries().indices.copy()
    indices[5] = -(10**8)
    return save_sparse(folder / "negative.npz", indices=indices)


def bad_pointer(folder):
    pointers = entries().indptr.copy()
    pointers[3] = 10**8
    return save_sparse(folder / "pointer.npz", indptr=pointers)


def endless_rows(folder):
    parts = {"row": np.array([0]), "col": np.array([0]), "data": np.array([1.0])}
    return save_sparse(
        folder / "rows.npz", format=np.array(b"coo"), shape=np.array([10**13, 10**13]), **parts
    )


def hdf5_bomb(folder):
    """A dataset of 8 PB without a single chunk."""
    path = folder / "bomb.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10**9, 10**6), "f8", chunks=(1000, 1000), compression="gzip")
    return path


def compressed_hdf5_bomb(folder):
    path = folder / "small.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "x", (40_000, 1000), "f8", chunks=(2000, 1000), compression="gzip", compression_opts=1
        )
        file["x"][:2000] = 0.0
    return path


def external_link(folder):
    with h5py.File(folder / "forbidden" / "secret.h5", "w") as file:
        file["x"] = numbers()
    path = folder / "link.h5"
    with h5py.File(path, "w") as file:
        file["x"] = h5py.ExternalLink("forbidden/secret.h5", "/x")
    return f"{path}::x"


def external_storage(folder):
    path = folder / "raw.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "x", (10, 10), "u1", external=[(str(folder / "forbidden" / "secret.txt"), 0, 100)]
        )
    return path


def virtual_dataset(folder):
    layout = h5py.VirtualLayout((30, 7), "f8")
    layout[...] = h5py.VirtualSource(str(folder / "forbidden" / "secret.h5"), "x", (30, 7))
    path = folder / "virtual.h5"
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("x", layout)
    return path


def circle(folder):
    path = folder / "circle.h5"
    with h5py.File(path, "w") as file:
        file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")
    return f"{path}::a"


def hdf5_objects(folder):
    path = folder / "words.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.array([["a", "b"]], h5py.string_dtype())
    return path


def zarr_bomb(folder):
    zarr.create_array(str(folder / "bomb.zarr"), shape=(10**9, 10**6), chunks=(1000, 1000), dtype="f8")
    return folder / "bomb.zarr"


def zarr_pickle(folder):
    path = folder / "pickle.zarr"
    zarr.create_array(str(path), shape=(2, 2), chunks=(2, 2), dtype="f8", zarr_format=2)
    metadata = json.loads((path / ".zarray").read_text())
    metadata["filters"] = [{"id": "pickle", "protocol": 5}]
    (path / ".zarray").write_text(json.dumps(metadata))
    (path / "0.0").write_bytes(pickle.dumps(Trap()))
    return path


def zarr_outside(folder):
    zarr.create_array(str(folder / "forbidden" / "outside.zarr"), data=numbers())
    zarr.open_group(str(folder / "in.zarr"), mode="w")
    return f"{folder}/in.zarr::../forbidden/outside.zarr"


def parquet_bomb(folder):
    """A constant in run lengths: 400 MB from some kB."""
    path = folder / "bomb.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5_000_000, np.int32)), pa.array([1.0]))
    table = pa.table({f"c{i}": column for i in range(10)})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        writer.write_table(table, row_group_size=5_000_000)
    return path


def matlab_bomb(folder):
    path = folder / "bomb.mat"
    scipy.io.savemat(path, {"x": np.zeros((50_000, 1000))}, do_compression=True)
    return path


def false_matlab(folder):
    path = folder / "false.mat"
    scipy.io.savemat(path, {"x": np.zeros((4, 4))})
    data = bytearray(path.read_bytes())
    place = data.index(struct.pack("<ii", 4, 4))
    data[place : place + 8] = struct.pack("<ii", 2**30, 2**30)
    path.write_bytes(data)
    return path


def false_matlab_4(folder):
    path = folder / "four.mat"
    path.write_bytes(struct.pack("<5i", 0, 2**30, 2**30, 0, 2) + b"x\0" + bytes(64))
    return path


def tampered_matlab_73(folder):
    matrix = entries()
    path = write_sparse(folder, "tampered", "mat73", matrix, LabelledMatrix(matrix, "npy"))
    with h5py.File(path, "r+") as file:
        file["tampered/ir"][4] = 10**12
    return path


def matlab_73_link(folder):
    external_link(folder)
    path = folder / "link.mat"
    shutil.copy(folder / "link.h5", path)
    return f"{path}::x"


def endless_line(folder):
    path = folder / "line.csv"
    path.write_bytes(b"x" * 2**25)
    return path


def pipe(folder):
    os.mkfifo(folder / "pipe.csv")
    return folder / "pipe.csv"


# Tables


def feather_of_a_terabyte(folder):
    buffer = io.BytesIO()
    pd.DataFrame({"a": np.zeros(50_000), "b": np.arange(50_000.0)}).to_feather(buffer, compression="zstd")
    data = bytearray(buffer.getvalue())
    place = data.index(struct.pack("<q", 400_000))  # how long the first column will be
    data[place : place + 8] = struct.pack("<q", 2**40)
    (folder / "a.feather").write_bytes(data)
    return folder / "a.feather"


def parquet_of_many_rows(folder):
    """Three run lengths that claim two billion rows."""
    path = folder / "rows.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000_000, np.int32)), pa.array([1.0]))
    table = pa.table({f"c{i}": column for i in range(3)})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(table, row_group_size=20_000_000)
    return path


def gzip_bomb(folder):
    (folder / "bomb.csv.gz").write_bytes(gzip.compress(b"1," * 400_000_000, 1))
    return folder / "bomb.csv.gz"


def gzip_line(folder):
    (folder / "line.csv.gz").write_bytes(gzip.compress(b"0" * 80_000_000, 1))
    return folder / "line.csv.gz"


def device_table(folder):
    (folder / "zero.csv").symlink_to("/dev/zero")
    return folder / "zero.csv"


def socket_table(folder):
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(folder)  # the names of sockets are short
        made.bind("socket.csv")
        os.chdir(here)
    return folder / "socket.csv"


def workbook(path, replaced, added=()):
    """A spreadsheet with some of its parts replaced."""
    whole = io.BytesIO()
    pd.DataFrame(numbers(), columns=list("abcdefg")).to_excel(whole, index=False)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, replaced.get(name, old.read(name)))
        for name, content in added:
            new.writestr(name, content)
    return path


SHEET = "xl/worksheets/sheet1.xml"
XML = b'<?xml version="1.0"?><!DOCTYPE x [%s]><worksheet>&a;</worksheet>'


def laughing_sheet(folder):
    entities = b'<!ENTITY z "ha"><!ENTITY a "' + b"&z;" * 10**5 + b'">'
    return workbook(folder / "laughs.xlsx", {SHEET: XML % entities})


def reading_sheet(folder):
    entity = f'<!ENTITY a SYSTEM "file://{folder}/forbidden/secret.txt">'.encode()
    return workbook(folder / "reads.xlsx", {SHEET: XML % entity})


def reading_styles(folder):
    entity = f'<!ENTITY a SYSTEM "file://{folder}/forbidden/secret.txt">'.encode()
    return workbook(folder / "styles.xlsx", {"xl/styles.xml": XML % entity})


def large_sheet(folder):
    return workbook(folder / "large.xlsx", {SHEET: b" " * 800_000_000})


def linked_sheet(folder):
    link = zipfile.ZipInfo("xl/worksheets/other.xml")
    link.external_attr = 0o120777 << 16
    return workbook(folder / "linked.xlsx", {}, [(link, str(folder / "forbidden" / "secret.txt"))])


def workbook_with_links(folder):
    """What people do have: it is read, and the link is not followed."""
    target = f"file://{folder}/forbidden/secret.txt"
    relations = (
        f'<Relationships><Relationship Id="r" TargetMode="External" Target="{target}"/></Relationships>'
    )
    added = [("xl/externalLinks/_rels/externalLink1.xml.rels", relations), ("../../slip.xml", "<x/>")]
    return workbook(folder / "externals.xlsx", {}, added)


# Archives


def slipping_npz(folder):
    """Its name leads out of the folder; nothing is unpacked, so it is read."""
    with zipfile.ZipFile(folder / "slip.npz", "w") as archive:
        made = io.BytesIO()
        np.save(made, numbers())
        archive.writestr("../../../forbidden/x.npy", made.getvalue())
    return folder / "slip.npz"


def linked_npz(folder):
    with zipfile.ZipFile(folder / "link.npz", "w") as archive:
        link = zipfile.ZipInfo("x.npy")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "forbidden/secret.txt")
    return folder / "link.npz"


def strange_compression(folder):
    with zipfile.ZipFile(folder / "lzma.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", npy_header((2, 2)) + bytes(32))
    return folder / "lzma.npz"


def deep_header(folder):
    text = (b"{" * 5000).ljust(9000) + b"\n"
    (folder / "deep.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    return folder / "deep.npy"


# Stores


def link_in_a_group(folder):
    external_link(folder)
    with h5py.File(folder / "deep.h5", "w") as file:
        file["g/x"] = h5py.ExternalLink(str(folder / "forbidden" / "secret.h5"), "/x")
        file["soft"] = h5py.SoftLink("/g/x")
    return f"{folder}/deep.h5::soft"


def plugin_filter(folder):
    """A filter that HDF5 would load from a folder of plugins."""
    with h5py.File(folder / "plugin.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((10, 10))
        plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
        space = h5py.h5s.create_simple((10, 10))
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_DOUBLE, space, plist)
        made.write_direct_chunk((0, 0), b"no filter wrote this")
    return folder / "plugin.h5"


def chunk(folder, name, make):
    path = folder / name
    zarr.create_array(str(path), data=numbers(), chunks=(10, 7), compressors=None)
    place = path / "c" / "1" / "0"
    place.unlink()
    make(place)
    return path


def linked_chunk(folder):
    return chunk(folder, "l.zarr", lambda place: place.symlink_to(folder / "forbidden" / "secret.txt"))


def pipe_for_a_chunk(folder):
    return chunk(folder, "p.zarr", os.mkfifo)


def linked_chunks(folder):
    path = folder / "f.zarr"
    zarr.create_array(str(path), data=numbers(), chunks=(10, 7), compressors=None)
    (path / "c").rename(folder / "forbidden" / "chunks")
    (path / "c").symlink_to(folder / "forbidden" / "chunks")
    return path


def linked_metadata(folder):
    zarr.create_array(str(folder / "m.zarr"), data=numbers())
    (folder / "m.zarr" / "zarr.json").rename(folder / "forbidden" / "zarr.json")
    (folder / "m.zarr" / "zarr.json").symlink_to(folder / "forbidden" / "zarr.json")
    return folder / "m.zarr"


def zarr_3_pickle(folder):
    path = folder / "three.zarr"
    zarr.create_array(str(path), data=numbers())
    metadata = json.loads((path / "zarr.json").read_text())
    metadata["codecs"].append({"name": "numcodecs.pickle", "configuration": {}})
    (path / "zarr.json").write_text(json.dumps(metadata))
    return path


# Videos: every way of FFmpeg to open something else


def video_text(name, text):
    def make(folder):
        secret = folder / "forbidden" / "secret.mkv"
        (folder / name).write_text(text.format(secret=secret, folder=folder))
        return folder / name

    make.__name__ = name
    return make


HLS = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{}\n#EXT-X-ENDLIST\n"
MPD = (
    '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT1S">'
    '<Period><AdaptationSet contentType="video"><Representation id="1" bandwidth="1"><BaseURL>{secret}</BaseURL>'
    "<SegmentList><SegmentURL media='{secret}'/></SegmentList></Representation></AdaptationSet></Period></MPD>"
)
SDP = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n"
TEXTS = {
    "concat.mp4": "ffconcat version 1.0\nfile forbidden/secret.mkv\n",
    "absolute.mp4": "ffconcat version 1.0\nfile {secret}\n",
    "unsafe.mkv": "ffconcat version 1.0\nfile 'file:{secret}'\noption safe 0\n",
    "nested.avi": "ffconcat version 1.0\nfile concat.mp4\n",
    "list.m3u8": HLS.format("{secret}"),
    "hls.mp4": HLS.format("file://{secret}"),
    "network.mp4": HLS.format("http://127.0.0.1:9/a.ts"),
    "key.mp4": '#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="file://{secret}"\n#EXTINF:1,\n{secret}\n',
    "dash.mp4": MPD,
    "imf.mkv": '<?xml version="1.0"?><CompositionPlaylist xmlns="http://www.smpte-ra.org/schemas/2067-3/2016"/>',
    "session.mp4": SDP,
    "subtitles.mp4": "# VobSub index file, v7 (do not modify this line!)\nid: en, index: 0\ntimestamp: 0, filepos: 0\n",
    "redirect.asf": "[Reference]\nRef1=file://{secret}\n",
    "asx.asf": '<asx version="3.0"><entry><ref href="file://{secret}"/></entry></asx>',
    "smil.mp4": '<smil><body><video src="file://{secret}"/></body></smil>',
    "filter.mp4": "movie={secret}\n",
    "script.mp4": 'AviSource("{secret}")\n',
    "picture.mp4": '<svg xmlns="http://www.w3.org/2000/svg"><image href="file://{secret}"/></svg>',
}
PLAYLISTS = [video_text(name, text) for name, text in TEXTS.items()]


def numbered_images(folder):
    """A name with a pattern, which the demuxer image2 would fill in."""
    shutil.copy(folder / "forbidden" / "secret.mkv", folder / "a%03d.mp4")
    return folder / "a%03d.mp4"


def reference_movie(folder):
    """A QuickTime file whose data is said to be in another one: a reference by url."""
    data = bytearray((folder / "forbidden" / "secret.mp4").read_bytes())
    place = data.index(b"url ")
    data[place + 4 : place + 8] = b"\0\0\0\0"  # not "in this file"
    (folder / "reference.mov").write_bytes(data)
    return folder / "reference.mov"


def pipe_video(folder):
    os.mkfifo(folder / "pipe.mp4")
    return folder / "pipe.mp4"


def device_video(folder):
    (folder / "zero.mp4").symlink_to("/dev/zero")
    return folder / "zero.mp4"


def linked_pipe(folder):
    os.mkfifo(folder / "forbidden" / "pipe")
    (folder / "linked.mkv").symlink_to(folder / "forbidden" / "pipe")
    return folder / "linked.mkv"


# Images


def picture(name, make):
    """A folder of one image that is not what its name says."""

    def build(folder):
        place = folder / name.replace(".", "-")
        place.mkdir()
        content = make(folder) if callable(make) else make
        if isinstance(content, bytes):
            (place / name).write_bytes(content)
        elif content == "pipe":
            os.mkfifo(place / name)
        else:
            (place / name).symlink_to(content)
        return place

    build.__name__ = f"image {name}"
    return build


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 32 24\n(x) (w) file\nshowpage\n"


def png_part(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def huge_png(width, height, *parts):
    head = png_part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(parts) + png_part(b"IEND", b"")


TEXT_BOMB = png_part(b"zTXt", b"x\0\0" + zlib.compress(bytes(200_000_000), 9))
PICTURES = [
    picture("eps.png", EPS),
    picture("ps.jpg", EPS.replace(b" EPSF-3.0", b"")),
    picture("dos-eps.tif", b"\xc5\xd0\xd3\xc6" + struct.pack("<II", 30, len(EPS)) + bytes(18) + EPS),
    picture("pdf.jpg", b"%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/Launch/F(calc)>>>>endobj\n"),
    picture("svg.png", b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'),
    picture("mvg.png", b"push graphic-context\nimage over 0,0 0,0 '/etc/passwd'\npop graphic-context\n"),
    picture("wmf.bmp", b"\xd7\xcd\xc6\x9a" + bytes(40)),
    picture("container.gif", b"FPXF" + bytes(600)),
    picture("large.png", huge_png(60_000, 60_000, png_part(b"IDAT", zlib.compress(bytes(100))))),
    picture("text.png", huge_png(8, 8, TEXT_BOMB, png_part(b"IDAT", zlib.compress(bytes(72))))),
    picture("tiles.tif", b"II*\0\x08\0\0\0" + struct.pack("<H", 60000) + b"\xff" * 4000),
    picture("pipe.png", "pipe"),
    picture("link.png", lambda folder: folder / "forbidden" / "secret.png"),
    picture("zero.png", lambda folder: "/dev/zero"),
]

TABLES = [
    false_npy, overflowing_npy, pickled_npy, pickled_npz, zip_bomb, false_npz, bad_index, negative_index, bad_pointer,
    endless_rows, hdf5_bomb, compressed_hdf5_bomb, external_link, external_storage, virtual_dataset, circle,
    hdf5_objects, zarr_bomb, zarr_pickle, zarr_outside, parquet_bomb, matlab_bomb, false_matlab,
    false_matlab_4, tampered_matlab_73, matlab_73_link, endless_line, pipe, feather_of_a_terabyte, parquet_of_many_rows,
    gzip_bomb, gzip_line, device_table, socket_table, laughing_sheet, reading_sheet, reading_styles, large_sheet,
    linked_sheet, linked_npz, strange_compression, deep_header, link_in_a_group, plugin_filter, linked_chunk,
    pipe_for_a_chunk, linked_chunks, linked_metadata, zarr_3_pickle,
]  # fmt: skip
VIDEOS = [*PLAYLISTS, pipe_video, device_video, linked_pipe, *PICTURES]
# Strange, but harmless: read, without opening anything else.
READ = [workbook_with_links, slipping_npz, numbered_images, reference_movie]
ATTACKS = [*TABLES, *VIDEOS, *READ]

HOOK = """
import os, sys
def hook(event, arguments):
    if event in ("open", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen", "socket.connect"):
        with_ = repr(arguments[:2])
        if event != "open" or "forbidden" in with_:
            number = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(number, (event + " " + with_ + chr(10)).encode())
            os.close(number)
sys.addaudithook(hook)
"""
RUN = """
import contextlib, io, json, sys, time
from rankwolf.cli import main
for command, address in json.load(open("attacks.json")):
    said, started = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stderr(said):
        code = main([command, address, "-o", "out", "--force", "--quiet", "--max-seconds", "1"])
    print(json.dumps([code, said.getvalue(), time.perf_counter() - started]), flush=True)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """(code, words, seconds) of each attack by its name; and the lines about what was opened and started."""
    from PIL import Image
    from video_files import write_video

    folder = tmp_path_factory.mktemp("attacks")
    (folder / "forbidden").mkdir()
    (folder / "forbidden" / "secret.txt").write_bytes(numbers()[:10].tobytes())
    frames = np.random.default_rng(0).integers(0, 255, (30, 24, 32), np.uint8)
    write_video(folder / "forbidden" / "secret.mkv", frames, "ffv1")
    write_video(folder / "forbidden" / "secret.mp4", frames)
    Image.fromarray(frames[0]).save(folder / "forbidden" / "secret.png")
    commands = {numbered_images: "separate", reference_movie: "separate", **dict.fromkeys(VIDEOS, "separate")}
    addresses = [(commands.get(make, "decompose"), str(make(folder))) for make in ATTACKS]
    (folder / "attacks.json").write_text(json.dumps(addresses))
    log, hooks = folder / "log.txt", folder / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(HOOK.format(log=str(log)))
    words = [sys.executable, "-c", RUN]
    if shutil.which("strace"):
        words = [
            "strace",
            "-f",
            "-qq",
            "--seccomp-bpf",
            "-e",
            "trace=open,openat,execve,connect",
            "-o",
            "trace.txt",
            *words,
        ]
    path = os.pathsep.join([str(hooks), *filter(None, sys.path)])
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    lines = log.read_text().splitlines()
    if (folder / "trace.txt").exists():
        lines += (folder / "trace.txt").read_text(errors="replace").splitlines()
    return dict(zip(ATTACKS, outcomes, strict=True)), lines, folder


@pytest.mark.timeout(300)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_is_one_line(found, attack):
    code, words, seconds = found[0][attack]
    if attack in READ:
        assert code == 0 and "error" not in words, words
        return
    assert code == 2 and words.count("\n") == 1 and words.startswith("rankwolf: error: "), (code, words)
    assert "Cannot" in words and "Traceback" not in words, words
    assert seconds < 20.0, (words, seconds)


def test_nothing_else_is_opened_and_nothing_is_started(found):
    _, lines, folder = found
    assert not (folder / "sprung").exists()
    assert any(line.startswith("subprocess.Popen") for line in lines)
    for line in lines:
        asks = "forbidden" in line and "attacks.json" not in line
        assert not asks or "ENOENT" in line, line
        if line.startswith("subprocess.Popen") or "execve(" in line:
            ours = (
                "'-P', '-c'" in line or '"-P", "-c"' in line or RUN[:20].strip() in line or "ENOENT" in line
            )
            assert ours or "uname" in line, line  # Python's own platform.processor()
        assert not line.startswith(("socket.connect", "os.exec", "os.system")), line
        assert "connect(" not in line or "AF_UNIX" in line, line


def test_all_attacks_are_many():
    assert len(ATTACKS) >= 29 + 40
    assert {Path(name).suffix for name in TEXTS} >= {".mp4", ".mkv", ".avi", ".asf"}
