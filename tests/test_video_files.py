"""Files as they are: real ones, made with PyAV, that a player shows rightly and a naive reader does not."""

from __future__ import annotations

import os
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra 'video' is not installed")

import av
from video_files import cut, names, pictures, run, scene, summary_of, write_images, write_video

from rankwolf.video.picture_writers import Shape, VideoSink
from rankwolf.video.reading import Selection, open_frames


def turned(path, target):
    """The same mp4 with the matrix of a telephone that was held upright: a quarter turn to the right."""
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 4 + 4 + 20 + 16  # version and flags, times and ids, layer and volume
    one = 1 << 16
    assert struct.unpack(">9i", content[at : at + 36]) == (one, 0, 0, 0, one, 0, 0, 0, 1 << 30)
    content[at : at + 36] = struct.pack(
        ">9i", 0, one, 0, -one, 0, 0, scene().frames.shape[1] * one, 0, 1 << 30
    )
    target.write_bytes(bytes(content))
    return target


def test_a_portrait_video_is_upright(tmp_path):
    frames = scene().frames[:8]
    plain = write_video(tmp_path / "plain.mp4", frames)
    reader = open_frames(turned(plain, tmp_path / "turned.mp4"), Selection())
    assert (reader.height, reader.width) == (128, 96)
    np.testing.assert_array_equal(np.stack(list(reader)), np.rot90(pictures(plain), -1, (1, 2)))


def test_a_portrait_video_stays_upright_in_the_results(tmp_path):
    path = turned(write_video(tmp_path / "plain.mp4", scene().frames[:24]), tmp_path / "turned.mp4")
    assert run(path, "-o", tmp_path / "out", "--quiet", "--no-report") == 0
    assert pictures(tmp_path / "out" / "background.mp4").shape == (24, 128, 96)


def write_timed(path, frames, times, aspect=None):
    """Frames at these times, in milliseconds: a variable rate."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:], "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        if aspect:
            stream.codec_context.sample_aspect_ratio = aspect
        for frame, time in zip(frames, times, strict=True):
            picture = av.VideoFrame.from_ndarray(frame, format="gray")
            picture.pts, picture.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def variable_times(count):
    """A second at 30 frames, then three a second."""
    return [33 * k if k < 15 else 33 * 15 + 333 * (k - 15) for k in range(count)]


def test_a_variable_rate_is_not_called_damage(tmp_path, capsys):
    frames = scene().frames[:30]
    path = write_timed(tmp_path / "variable.mkv", frames, variable_times(30))
    reader = open_frames(path, Selection())
    assert len(list(reader)) == 30
    assert reader.losses(strict=True) is None
    assert run(path, "-o", tmp_path / "out", "--quiet", "--strict", "--no-report") == 0
    assert summary_of(tmp_path / "out")["frames"] == 30
    assert capsys.readouterr().err == ""


def test_a_truncated_mkv_still_is(tmp_path):
    frames = np.random.default_rng(0).integers(0, 255, (60, 96, 128)).astype(np.uint8)
    whole = write_timed(tmp_path / "whole.mkv", frames, [100 * k for k in range(60)])
    reader = open_frames(cut(whole, tmp_path / "cut.mkv", 0.6), Selection())
    seen = len(list(reader))
    assert 20 < seen < 50
    with pytest.raises(ValueError, match=f"its last frame is at 3.* of 5.9 seconds. Give --end {seen} "):
        reader.losses(strict=False)


def test_the_shape_of_pixels_is_kept(tmp_path):
    path = write_timed(
        tmp_path / "wide.mkv", scene().frames[:24], [40 * k for k in range(24)], Fraction(4, 3)
    )
    assert run(path, "-o", tmp_path / "out", "--quiet", "--no-report") == 0
    with av.open(str(tmp_path / "out" / "mask.mp4")) as container:
        assert container.streams.video[0].sample_aspect_ratio == Fraction(4, 3)


def write_with_sound(path, frames):
    with av.open(str(path), "w") as container:
        video, audio = container.add_stream("libx264", rate=10), container.add_stream("aac", rate=8000)
        video.height, video.width, video.pix_fmt = *frames.shape[1:], "yuv420p"
        audio.layout = "mono"
        for frame in frames:
            container.mux(video.encode(av.VideoFrame.from_ndarray(frame, format="gray")))
        container.mux(video.encode(None))
        tone = np.sin(np.arange(8000 * len(frames) // 10) * 0.3).astype(np.float32)
        for first in range(0, tone.size, 1024):
            sound = av.AudioFrame.from_ndarray(tone[None, first : first + 1024], format="fltp", layout="mono")
            sound.sample_rate, sound.pts = 8000, first
            container.mux(audio.encode(sound))
        container.mux(audio.encode(None))
    return path


def seconds_of_sound(path):
    with av.open(str(path)) as container:
        if not container.streams.audio:
            return 0.0
        return sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))


def test_sound_is_copied_when_it_is_asked_for(tmp_path):
    path = write_with_sound(tmp_path / "talk.mp4", scene().frames[:40])
    assert run(path, "-o", tmp_path / "silent", "--quiet", "--no-report") == 0
    assert seconds_of_sound(tmp_path / "silent" / "mask.mp4") == 0.0
    assert run(path, "-o", tmp_path / "loud", "--audio", "--quiet", "--no-report", "--start", 10) == 0
    for name in ("background", "foreground", "mask"):
        assert seconds_of_sound(tmp_path / "loud" / f"{name}.mp4") == pytest.approx(3.0, abs=0.3)
        assert pictures(tmp_path / "loud" / f"{name}.mp4").shape[0] == 30


def test_colours_are_found_by_looking(tmp_path):
    gray = scene().frames[:3]
    color = np.stack([gray, 255 - gray, gray // 2], axis=-1)
    as_it_is = Selection(color=None)
    for frames, channels in ((gray, 1), (color, 3), (np.repeat(gray[..., None], 3, axis=-1), 1)):
        name = f"{frames.ndim}{channels}"
        assert open_frames(write_video(tmp_path / f"{name}.mp4", frames), as_it_is).channels == channels
        assert open_frames(write_images(tmp_path / name, frames), as_it_is).channels == channels


def test_a_pattern_is_a_folder_of_its_own(tmp_path):
    write_images(tmp_path / "in", scene().frames[:20], "left{}.png")
    assert run(str(tmp_path / "in" / "left1?.png"), "-o", tmp_path / "out", "--quiet", "--no-report") == 0
    assert names(tmp_path / "out" / "mask") == {f"left{k}.png" for k in range(10, 20)}


def test_an_address_is_called_an_address(tmp_path, capsys):
    assert run("https://example.org/a.mp4", "-o", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "'https://example.org/a.mp4' is an address" in error and "--live" in error
    assert error.count("\n") == 1
    assert run(tmp_path / "nothing*.png", "-o", tmp_path / "out") == 2
    assert "has no images" in capsys.readouterr().err


def test_photographs_are_turned_as_the_camera_was_held(tmp_path):
    from PIL import Image

    exif, plain = Image.Exif(), scene().frames[0]
    exif[0x0112] = 6  # a quarter turn to the right makes it upright
    Image.fromarray(plain).save(tmp_path / "a.jpg", exif=exif, quality=100)
    reader = open_frames(tmp_path, Selection())
    assert (reader.height, reader.width) == plain.shape[::-1]
    np.testing.assert_allclose(next(iter(reader)), np.rot90(plain, -1), atol=8)


def test_a_stream_may_be_a_pattern_and_keeps_the_shape_of_its_pixels(tmp_path):
    write_images(tmp_path / "cam", scene().frames[:24])
    live = ("--live", "--warm-up", "20", "--quiet")
    assert run(tmp_path / "cam" / "*.png", "-o", tmp_path / "pattern", *live) == 0
    assert pictures(tmp_path / "pattern" / "mask.mkv").shape == (24, *scene().frames.shape[1:])
    times = [40 * k for k in range(24)]
    wide = write_timed(tmp_path / "wide.mkv", scene().frames[:24], times, Fraction(4, 3))
    assert run(wide, "-o", tmp_path / "wide", *live) == 0
    with av.open(str(tmp_path / "wide" / "mask.mkv")) as container:
        assert container.streams.video[0].sample_aspect_ratio == Fraction(4, 3)


def test_colours_are_forced_or_refused(tmp_path):
    path = write_images(tmp_path / "gray", scene().frames[:24])
    for option, channels in (("--color", 3), ("--gray", 1), ("--no-report", 1)):
        assert run(path, "-o", tmp_path / option, "--no-report", "--quiet", option) == 0
        assert summary_of(tmp_path / option)["channels"] == channels


@pytest.mark.parametrize(("name", "codec"), [("video.mkv", "ffv1"), ("video.mp4", "libx264")])
def test_a_full_disk_is_one_error_and_the_file_is_closed(name, codec, tmp_path, capfd):
    """Before, FFmpeg printed a traceback, or kept a file open whose header did not fit."""
    path = tmp_path / name
    path.symlink_to("/dev/full")
    sink = VideoSink(path, codec, Shape(48, 64))
    frame = np.random.default_rng(0).integers(0, 255, (48, 64)).astype(np.uint8)

    def write_many():
        for _ in range(200):
            sink.write(frame)

    with pytest.raises(OSError, match="No space left") as caught:
        write_many()
    assert caught.value.filename == str(path)
    sink.abandon()
    assert capfd.readouterr().err == ""
    links = [Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    assert not any(link.is_symlink() and os.readlink(link) == "/dev/full" for link in links)
