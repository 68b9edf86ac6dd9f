"""Frames from videos, image folders and arrays: order, selection, size, colour, and what is said of damage."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra 'video' is not installed")

from PIL import Image
from video_files import cut, scene, write_images, write_video

from rankwolf.video.picture import Picture, read_region
from rankwolf.video.reading import Moment, Selection, open_frames
from rankwolf.video.reading.image_folder import natural_key


def read(path, **selection):
    reader = open_frames(path, Selection(**selection))
    return reader, np.stack(list(reader))


@pytest.mark.parametrize(
    ("text", "frame"),
    [("0", 0), ("120", 120), ("12.5s", 125), ("90s", 900), ("1:30", 900), ("1:00:00", 36000)],
)
def test_moments(text, frame):
    assert Moment.parse(text).frame(Fraction(10)) == frame


@pytest.mark.parametrize("text", ["", "abc", "-3", "1.5", "1:2:3:4", "s"])
def test_words_that_are_no_moment(text):
    with pytest.raises(ValueError, match="frame number"):
        Moment.parse(text)


def test_a_time_needs_a_clock(tmp_path):
    path = write_images(tmp_path / "images", scene().frames[:3])
    with pytest.raises(ValueError, match="no clock"):
        read(path, start=Moment(1.0, True))


def test_digits_that_are_no_numbers_are_letters():
    assert sorted(["5²6.png", "5²10.png", "5.png"], key=natural_key) == ["5.png", "5²6.png", "5²10.png"]


def test_natural_order():
    names = ["img10.png", "img9.png", "img1.png", "IMG2.png", "a.png"]
    assert sorted(names, key=natural_key) == ["a.png", "img1.png", "IMG2.png", "img9.png", "img10.png"]


def test_lossless_video_comes_back_bit_for_bit(tmp_path):
    frames = scene().frames[:20]
    reader, seen = read(write_video(tmp_path / "a.mkv", frames, "ffv1"))
    np.testing.assert_array_equal(seen, frames)
    assert (reader.height, reader.width, reader.channels, reader.rate) == (96, 128, 1, 10)
    assert reader.losses(strict=True) is None


def test_selection_of_frames(tmp_path):
    frames = scene().frames[:30]
    path = write_video(tmp_path / "a.mkv", frames, "ffv1")
    reader, seen = read(path, start=Moment(5), end=Moment(26), every=4)
    np.testing.assert_array_equal(seen, frames[5:26:4])
    assert reader.estimate == 6
    _, seen = read(path, start=Moment(0.5, True), end=Moment(2.0, True))
    np.testing.assert_array_equal(seen, frames[5:20])
    with pytest.raises(ValueError, match="--end must lie after"):
        read(path, start=Moment(5), end=Moment(5))
    with pytest.raises(ValueError, match="--start is frame 99"):
        read(path, start=Moment(99))


def test_h264_and_scale(tmp_path):
    frames = scene().frames[:12]
    reader, seen = read(write_video(tmp_path / "a.mp4", frames), scale=0.5)
    assert seen.shape == (12, 48, 64)
    smaller = frames.reshape(12, 48, 2, 64, 2).mean(axis=(2, 4))
    assert np.abs(seen - smaller).mean() < 2.0
    assert reader.count == 12


def test_colour(tmp_path):
    frames = np.stack([scene().frames[:6], 255 - scene().frames[:6], scene().frames[:6] // 2], axis=-1)
    _, seen = read(write_video(tmp_path / "a.mkv", frames, "ffv1"), color=True)
    np.testing.assert_array_equal(seen, frames)
    folder = write_images(tmp_path / "images", frames)
    np.testing.assert_array_equal(read(folder, color=True)[1], frames)
    gray = read(folder)[1]
    expected = frames @ np.array([0.299, 0.587, 0.114])
    assert np.abs(gray - expected).max() <= 1.0


def test_image_folder_in_natural_order(tmp_path):
    frames = scene().frames[:12]
    folder = write_images(tmp_path / "images", frames, "f{}.bmp")
    (folder / "notes.txt").write_text("not an image")
    reader, seen = read(folder)
    np.testing.assert_array_equal(seen, frames)
    assert reader.names[10] == "f10.bmp"


@pytest.mark.parametrize(("low", "high"), [(0, 65535), (7800, 8400), (300, 340)])
def test_deep_images_keep_what_they_show(tmp_path, low, high):
    """A thermal camera uses a few hundred of 65536 levels. Before, 7800 to 8400 became 19 levels."""
    folder = tmp_path / "deep"
    folder.mkdir()
    deep = np.linspace(low, high, 20 * 30).reshape(20, 30).astype(np.uint16)
    Image.fromarray(deep).save(folder / "0.png")
    seen = read(folder)[1][0].astype(float)
    steps = (deep - float(low)) * min(1.0, 255.0 / (high - low))
    assert np.abs(seen - steps).max() <= 0.5 + 1e-6


def test_mixed_sizes_name_the_first_odd_one(tmp_path):
    folder = write_images(tmp_path / "images", scene().frames[:12])
    Image.fromarray(np.zeros((10, 11), np.uint8)).save(folder / "frame10.png")
    Image.fromarray(np.zeros((10, 11), np.uint8)).save(folder / "frame11.png")
    with pytest.raises(ValueError, match=r"'frame0.png' is 128 × 96, 'frame10.png' is 11 × 10"):
        open_frames(folder, Selection())


def test_empty_folder_and_missing_name(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no images"):
        open_frames(tmp_path / "empty", Selection())
    with pytest.raises(FileNotFoundError):
        open_frames(tmp_path / "nowhere.mp4", Selection())


@pytest.mark.parametrize("damage", ["text", "cut"])
def test_corrupt_image_is_named(tmp_path, damage):
    folder = write_images(tmp_path / "images", scene().frames[:6])
    file = folder / "frame4.png"
    file.write_bytes(b"hello" if damage == "text" else file.read_bytes()[:1500])
    with pytest.raises(ValueError, match=r"frame4\.png"):
        read(folder)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float64])
def test_array_files(tmp_path, suffix, dtype):
    frames = scene().frames[:9].astype(dtype)
    path = tmp_path / f"frames{suffix}"
    if suffix == ".npy":
        np.save(path, frames)
    else:
        np.savez_compressed(path, frames=frames, other=np.zeros(3))
    np.testing.assert_array_equal(read(path, start=Moment(1), every=3)[1], scene().frames[1:9:3])
    assert read(path, color=True)[1].shape == (9, 96, 128, 3)


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        (np.zeros((4, 5), np.uint8), "its shape"),
        (np.zeros((4, 5, 6, 2), np.uint8), "its shape"),
        (np.zeros((0, 5, 6), np.uint8), "its shape"),
        (np.full((4, 5, 6), 256), "from 0 to 255"),
        (np.full((4, 5, 6), np.nan), "from 0 to 255"),
        (np.full((4, 5, 6), 0.5), "multiply them by 255"),
        (np.full((4, 5, 6), "a"), "real numbers"),
    ],
)
def test_arrays_that_are_no_frames(tmp_path, frames, says):
    np.save(tmp_path / "frames.npy", frames)
    with pytest.raises(ValueError, match=says):
        read(tmp_path / "frames.npy")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_dark_frames_are_no_reason_to_take_gray_levels_for_fractions(tmp_path, suffix):
    """Before, one nearly black frame was refused as lying between 0 and 1, with the whole file."""
    frames = scene().frames[:6].astype(np.float32)
    frames[[0, 3]] = 0.6
    path = tmp_path / f"frames{suffix}"
    np.save(path, frames) if suffix == ".npy" else np.savez_compressed(path, frames=frames)
    np.testing.assert_array_equal(read(path)[1], np.rint(frames))
    np.testing.assert_array_equal(read(path, end=Moment(1))[1], np.ones((1, 96, 128)))
    assert not read_array(tmp_path, np.zeros((3, 5, 6))).any()
    with pytest.raises(ValueError, match="multiply them by 255"):
        read_array(tmp_path, frames / 255.0)
    with pytest.raises(ValueError, match="from 0 to 255"):
        read_array(tmp_path, frames / 128.0 - 1.0)


def read_array(folder, frames):
    np.save(folder / "array.npy", frames)
    return read(folder / "array.npy")[1]


def test_array_files_that_lie(tmp_path):
    np.save(tmp_path / "short.npy", scene().frames[:9])
    cut(tmp_path / "short.npy", tmp_path / "cut.npy", 0.5)
    (tmp_path / "not.npz").write_bytes(b"PK nothing")
    np.savez(tmp_path / "two.npz", a=scene().frames, b=scene().frames)
    for name in ("cut.npy", "not.npz", "two.npz"):
        with pytest.raises(ValueError, match="Cannot read"):
            read(tmp_path / name)


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Cannot read"):
        read(tmp_path / "objects.npy")


def test_text_named_mp4(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_text("this is no video")
    with pytest.raises(ValueError, match="not a video that can be read"):
        open_frames(path, Selection())


def test_cut_mp4_has_lost_its_index(tmp_path):
    path = write_video(tmp_path / "a.mp4", scene().frames)
    with pytest.raises(ValueError, match="not a video that can be read"):
        open_frames(cut(path, tmp_path / "cut.mp4", 2 / 3), Selection())


def test_cut_avi_says_how_much_is_left(tmp_path):
    """FFmpeg decodes what is there without an error: only the declared count tells."""
    path = write_video(tmp_path / "a.avi", scene().frames, "mpeg4")
    reader, seen = read(cut(path, tmp_path / "cut.avi", 2 / 3))
    assert 40 <= len(seen) < 70
    with pytest.raises(ValueError, match=rf"{len(seen)} frames decoded of 80 declared.*--end {len(seen)} "):
        reader.losses(strict=False)
    reader, _ = read(tmp_path / "cut.avi", end=Moment(len(seen)))
    assert "1 damaged on the way" in reader.losses(strict=False)  # the frame through which the cut goes
    reader, _ = read(tmp_path / "cut.avi", end=Moment(len(seen) - 1))
    assert reader.losses(strict=True) is None


def test_a_small_loss_is_a_warning(tmp_path):
    path = write_video(tmp_path / "a.avi", scene().frames, "mpeg4")
    reader, seen = read(cut(path, tmp_path / "cut.avi", 0.95))
    assert 72 <= len(seen) < 80
    assert f"{len(seen)} frames decoded of 80 declared" in reader.losses(strict=False)
    with pytest.raises(ValueError, match="of 80 declared"):
        reader.losses(strict=True)


def test_an_end_beyond_that_of_a_file_that_declares_no_count_is_its_end(tmp_path):
    """Before, the frames that --end asked for counted as declared, and those that are not there as lost."""
    path = write_video(tmp_path / "a.mkv", scene().frames, "ffv1")
    reader, seen = read(path, end=Moment(1000), every=2)
    assert (reader.count, len(seen)) == (None, 40)
    assert reader.losses(strict=True) is None
    assert reader.estimate == pytest.approx(40, abs=1)
    assert reader.expected is None, "or space on the disk would be reserved for frames that never come"
    assert open_frames(path, Selection(end=Moment(30))).estimate == 30
    reader, _ = read(cut(path, tmp_path / "cut.mkv", 0.6), end=Moment(1000))
    with pytest.raises(ValueError, match="is truncated"):
        reader.losses(strict=False)


def test_region_of_interest(tmp_path):
    region = np.zeros((96, 128), np.uint8)
    region[10:30, 20:50] = 255
    Image.fromarray(region).save(tmp_path / "roi.png")
    picture = Picture(96, 128, 1, read_region(tmp_path / "roi.png", 96, 128))
    frame = scene().frames[0]
    row = picture.to_row(frame)
    assert row.size == picture.columns == 20 * 30
    back = picture.to_frame(row, outside=7)
    np.testing.assert_array_equal(back, np.where(region > 0, frame, 7))
    colour = Picture(96, 128, 3, picture.region)
    thrice = np.repeat(frame[..., None], 3, axis=2)
    np.testing.assert_array_equal(colour.to_frame(colour.to_row(thrice))[10:30, 20:50], thrice[10:30, 20:50])
    Image.fromarray(np.zeros((96, 128), np.uint8)).save(tmp_path / "black.png")
    with pytest.raises(ValueError, match="black everywhere"):
        read_region(tmp_path / "black.png", 96, 128)
