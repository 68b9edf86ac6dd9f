"""The one door: every file that somebody else made is opened here, and handed on as an open file.

It must be a plain file, for a pipe or a device may never end, and its size must be within limits. Inside a folder that
the user named, no link is followed out of it. What reads the file then gets the open file and not its name, and FFmpeg,
Pillow and Zarr get lists of what they may use, because some of their formats open other files or start programs.
"""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import warnings
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rankwolf.files.address import Address
from rankwolf.ground.extras import needed
from rankwolf.platform import free_memory, open_without_waiting

# Formats of FFmpeg that hold pictures in the file itself. Not here: concat, hls, dash, image2, sdp, lavfi and others
# that are lists of files, addresses or commands.
VIDEO_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,nut,mxf,dv,gif,apng,"
    "h264,hevc,h263,m4v,mjpeg,ivf,obu,yuv4mpegpipe,wtv"
)
# Addresses of a live stream; a stream may open these and nothing else.
LIVE_PROTOCOLS = "http,https,tcp,tls,udp,rtp,rtsp,srt,crypto"
LIVE_FORMATS = VIDEO_FORMATS + ",hls,rtsp,rtp,sdp,mpjpeg,live_flv"
# Formats of Pillow that hold pixels and nothing else. Not here: EPS, which starts Ghostscript, and the likes of it.
IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
# Codecs that only turn bytes into bytes. Zarr's registry also has one that unpickles.
ZARR_CODECS = frozenset(
    "adler32 astype bitround blosc bytes bz2 crc32 crc32c delta fixedscaleoffset fletcher32 gzip lz4 lzma quantize "
    "sharding_indexed shuffle transpose zlib zstd".split()
)


@dataclass(frozen=True)
class Limits:
    """How much memory the contents of a file may take: bytes.

    ``harmless`` is allowed to any file. ``growth``: a larger one may take so many times its own bytes. Real data
    compresses by 2 to 20; zeros by 230 to 1000. ``share``: of the free memory, what data may take at most, because a
    run needs about as much again. ``small``: the longest text that is read as a whole, such as a summary.
    """

    harmless: int = 256 * 2**20
    growth: int = 100
    share: float = 0.75
    small: int = 2**24


LIMITS = Limits()


def most_memory(stored: int, max_memory: int | None) -> int:
    """How many bytes the contents of a file of ``stored`` bytes may take; ``max_memory`` is what the user allows."""
    if max_memory is not None:
        return max_memory
    plausible = max(LIMITS.harmless, LIMITS.growth * stored)
    return min(plausible, int(free_memory() * LIMITS.share))


def open_foreign(address: Address, inside: Path | None = None) -> IO[bytes]:
    """The plain file at an address, open for reading; ``inside``: the folder that no link may lead out of."""
    path = address.path
    if inside is not None and not path.resolve().is_relative_to(inside.resolve()):
        raise address.bad("it is a link that leads out of its folder, which is not followed.")
    number = open_without_waiting(path)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise address.bad("it is not a plain file.")
    return os.fdopen(number, "rb")


def read_small(path: Path) -> str:
    """The text of a small file, such as a summary in JSON; a ValueError for anything else of that name."""
    address = Address(path)
    with open_foreign(address) as file:
        content = file.read(LIMITS.small + 1)
    if len(content) > LIMITS.small:
        raise address.bad(f"it has more than {size(LIMITS.small)}.")
    return content.decode("utf-8")


def read_json(path: Path) -> Any:
    """What a small file of JSON holds; a ValueError for anything else of that name."""
    try:
        return json.loads(read_small(path))
    except RecursionError:
        raise Address(path).bad("its brackets are too deep.") from None


def stored_bytes(address: Address) -> int:
    """How many bytes a file has, or all files of a folder together; an error where one of them is no plain file."""
    if not address.path.is_dir():
        with open_foreign(address) as file:
            return os.fstat(file.fileno()).st_size
    total = 0
    for folder, folders, names in os.walk(address.path):
        for path in (os.path.join(folder, name) for name in (*folders, *names)):
            about = os.lstat(path)
            if not (stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode)):
                raise address.bad(
                    f"{os.path.relpath(path, address.path)!r} in it is a symbolic link or no plain file, and not "
                    "followed. Copy the store with 'cp -rL' first."
                )
            total += about.st_size if stat.S_ISREG(about.st_mode) else 0
    return total


def open_zip(
    address: Address, file: IO[bytes], most: int, names: Collection[str] | None = None
) -> zipfile.ZipFile:
    """A zip archive whose members together take at most ``most`` bytes, and none of which is a link or encrypted.

    ``names``: only these will be read, and count.
    """
    archive = zipfile.ZipFile(file)
    members = archive.infolist()
    known = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # Python inflates the others without a limit
    if any(stat.S_ISLNK(member.external_attr >> 16) for member in members):
        raise address.bad("a part of it is a symbolic link.")
    if any(member.compress_type not in known or member.flag_bits & 1 for member in members):
        raise address.bad("a part of it is compressed or encrypted in a way that is not known.")
    counted = (member for member in members if names is None or member.filename in names)
    check_memory(address, sum(member.file_size for member in counted), most)
    return archive


def check_memory(address: Address, claimed: int, most: int) -> None:
    """Refuse contents of ``claimed`` bytes where ``most`` may be taken."""
    if claimed > most:
        raise address.bad(
            f"its contents would take {size(claimed)} of memory, more than the limit of {size(most)} for such a file. "
            "If it is meant so, raise it with --max-memory (max_memory)."
        )


def size(count: float) -> str:
    """Bytes for people.

    >>> size(512), size(2.5e9), size(1e19)
    ('512 bytes', '2.5 GB', '1e+07 TB')
    """
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= power:
            return f"{count / power:.3g} {unit}"
    return f"{count:.0f} bytes"


def open_video(address: Address, file: IO[bytes]) -> Any:
    """PyAV's container of an open video file. FFmpeg may use VIDEO_FORMATS and open nothing else."""
    av = needed("av")
    try:
        return av.open(
            _unowned(file), options={"format_whitelist": VIDEO_FORMATS, "protocol_whitelist": "none"}
        )
    except (av.error.FFmpegError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise address.bad(f"it is not a video that can be read: {said}.") from error


def open_stream(source: Any, device: bool) -> Any:
    """PyAV's container of a live stream: an open file, an address such as ``rtsp://…``, or a device."""
    av = needed("av")
    if device:
        return av.open(source, format="v4l2")
    is_address = isinstance(source, str)
    formats, protocols = (LIVE_FORMATS, LIVE_PROTOCOLS) if is_address else (VIDEO_FORMATS, "none")
    given = source if is_address or source is sys.stdin.buffer else _unowned(source)
    return av.open(given, options={"format_whitelist": formats, "protocol_whitelist": protocols})


def _unowned(file: IO[bytes]) -> _Unowned:
    """The same open file, for as long as FFmpeg's container lives, which does not close it."""
    with file:
        return _Unowned(os.dup(file.fileno()), "rb")


class _Unowned(io.FileIO):
    """An open file that is closed when nobody refers to it any more."""

    def __del__(self) -> None:
        self.close()


def open_image(path: Path, inside: Path | None = None) -> Any:
    """The image as Pillow opens it; a ValueError that names the file, also for an image that claims an absurd size."""
    address = Address(path)
    needed("PIL")
    from PIL import Image, UnidentifiedImageError

    file = open_foreign(address, inside)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(file, formats=IMAGE_FORMATS)
    except Exception as error:
        file.close()
        known = f"it is none of {', '.join(IMAGE_FORMATS)}"
        said = known if isinstance(error, UnidentifiedImageError) else error
        raise address.bad(f"the image cannot be opened ({said}). Replace or remove it.") from error
    image._exclusive_fp = True  # so that closing the image closes the file
    return image


def check_codecs(address: Address, folder: Path) -> None:
    """Refuse a Zarr array that is encoded with anything but ZARR_CODECS, or described at an absurd length."""
    metadata = zarr_metadata(folder)
    if not metadata:
        raise address.bad("its metadata is damaged.")
    if metadata.get("storage_transformers"):
        raise address.bad("its storage transformers are not known.")
    for name in _codec_names([metadata.get(name) for name in ("compressor", "filters", "codecs")]):
        if name.lower().removeprefix("numcodecs.") not in ZARR_CODECS:
            raise address.bad(
                f"it is encoded with {name!r}, which is not among the codecs that are known to be safe."
            )


def zarr_metadata(folder: Path) -> dict[str, Any]:
    """The description of the Zarr array in a folder; empty where there is none, or none that can be read."""
    for path in (folder / ".zarray", folder / "zarr.json"):
        try:
            found = read_json(path) if path.is_file() else None
        except ValueError:
            continue
        if isinstance(found, dict) and (path.name == ".zarray" or found.get("node_type") == "array"):
            return found
    return {}


def _codec_names(part: Any) -> list[str]:
    """All names and ids in a description of codecs, however deep."""
    if isinstance(part, dict):
        own = [str(part[key]) for key in ("id", "name") if key in part]
        return own + _codec_names(list(part.values()))
    return [name for item in part for name in _codec_names(item)] if isinstance(part, list) else []
