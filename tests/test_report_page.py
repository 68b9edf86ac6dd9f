"""The page of ``rankwolf separate`` in a real browser, opened from the disk: Chromium, driven by Playwright."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="the extra 'video' is not installed")
pytest.importorskip("av", reason="the extra 'video' is not installed")

from video_files import scene, write_images

import rankwolf as rw
from rankwolf.cli.main import main
from rankwolf.report import figures, page
from rankwolf.report.events import Sighting, events_of
from rankwolf.report.solving import solve_charts
from rankwolf.report.video_page import MOST_FRAMES, Album

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page about a folder whose name has to be escaped."""
    folder = tmp_path_factory.mktemp("page")
    source = write_images(folder / "a <b>&amp; 'c'", scene().frames[:50])
    assert main(["separate", str(source), "-o", str(folder / "out"), "--quiet"]) == 0
    return folder / "out" / "report.html"


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: make system-packages")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, report):
    """The page, and everything that the browser complained of or asked for."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    noise: list[str] = []
    tab.on("console", lambda message: noise.append(f"console: {message.text}"))
    tab.on("pageerror", lambda error: noise.append(f"error: {error}"))
    tab.on(
        "request", lambda request: noise.append(request.url) if not request.url.startswith("data:") else None
    )
    tab.goto(report.as_uri())
    yield tab, noise
    tab.close()


def test_no_complaint_and_no_request_but_for_the_page(opened, report):
    tab, noise = opened
    tab.wait_for_timeout(200)
    assert noise == [report.as_uri()]
    assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", report.read_text())


def test_pictures_load(opened):
    tab, _ = opened
    for panel in ("observed", "background", "foreground", "mask"):
        size = tab.eval_on_selector(
            f"#{panel}", "image => [image.complete, image.naturalWidth, image.naturalHeight]"
        )
        assert size == [True, 128, 96]
    strip = tab.eval_on_selector_all("[data-shot] img", "images => images.map(image => image.naturalWidth)")
    assert 1 <= len(strip) <= 12
    assert all(width >= 40 for width in strip)


def test_the_slider_changes_every_picture(opened):
    tab, noise = opened
    panels = ("observed", "background", "foreground", "mask")

    def sources():
        return [tab.get_attribute(f"#{panel}", "src") for panel in panels]

    tab.focus("#slider")
    tab.keyboard.press("Home")
    first, label, line = sources(), tab.inner_text("#where"), tab.get_attribute("#now", "x1")
    assert "frame0.png" in label
    tab.keyboard.press("End")
    assert all(before != after for before, after in zip(first, sources(), strict=True))
    assert "frame49.png" in tab.inner_text("#where")
    assert float(tab.get_attribute("#now", "x1")) > float(line)
    tab.keyboard.press("Home")
    assert sources() == first
    assert len(noise) == 1


def test_a_telephone_shows_everything(browser, report):
    """At 400 pixels: no sideways scrolling, a slider for a thumb, legible charts, the mask's model."""
    tab = browser.new_page(viewport={"width": 400, "height": 800})
    tab.goto(report.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") == 400
    assert tab.eval_on_selector("#slider", "slider => slider.getBoundingClientRect().height") >= 40
    assert tab.eval_on_selector("#slider", "slider => slider.getBoundingClientRect().width") > 300
    text = "texts => Math.min(...texts.map(text => text.getBoundingClientRect().height))"
    assert tab.eval_on_selector_all(".chart .tick.x", text) >= 9
    assert tab.eval_on_selector("#model", "image => image.naturalWidth") == 128
    tab.close()


def test_the_strip_leads_to_its_frame(opened):
    tab, _ = opened
    button = tab.locator("[data-shot]").last
    button.click()
    assert tab.input_value("#slider") == button.get_attribute("data-shot")
    assert button.get_attribute("aria-current") == "true"
    assert tab.locator('[aria-current="true"]').count() == 1


def test_play_moves_and_pause_stops(opened):
    tab, _ = opened
    tab.focus("#slider")
    tab.keyboard.press("Home")
    tab.click("#play")
    for _ in range(100):  # not wait_for_function: the page's policy forbids what it injects
        if int(tab.input_value("#slider")) >= 2:
            break
        tab.wait_for_timeout(50)
    tab.click("#play")
    stopped = tab.input_value("#slider")
    assert int(stopped) >= 2
    tab.wait_for_timeout(400)
    assert tab.input_value("#slider") == stopped


def test_what_it_says(opened):
    tab, _ = opened
    assert tab.inner_text("h1").endswith("a <b>&amp; 'c'")
    text = tab.text_content("main")  # with what is below the fold
    for words in (
        "certified gap",
        "Singular values of L",
        "Convergence",
        "How much moves",
        "rankwolf separate",
        "lambda S",
    ):
        assert words in text
    assert tab.locator("svg.chart").count() == 4
    for chart in tab.locator("svg.chart").all():
        assert chart.locator("polyline, circle").count() >= 1


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (420, "light")])
def test_nothing_is_wider_than_the_window(browser, report, width, scheme, tmp_path):
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.goto(report.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    picture = tmp_path / "page.png"
    tab.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 50_000
    tab.close()


class Frame:
    """What the album looks at."""

    def __init__(self, number, activity):
        self.number, self.activity = number, activity
        self.observed = self.background = self.foreground = np.zeros((4, 6), np.uint8)
        self.mask = np.zeros((4, 6), np.bool_)


@pytest.mark.parametrize("count", [1, 50, MOST_FRAMES, MOST_FRAMES + 1, 1000, 5003])
@pytest.mark.parametrize("known", [True, False])
def test_the_album_spans_the_video_and_keeps_its_peaks(count, known):
    rng = np.random.default_rng(count)
    activity = rng.random(count)
    album = Album()
    for number in range(count):
        album.visit(Frame(number, activity[number]), count if known else None)
    shots = album.shots()
    numbers = [shot.number for shot in shots]
    assert min(count, MOST_FRAMES // 2) <= len(shots) <= MOST_FRAMES
    assert numbers == sorted(set(numbers))
    assert max(np.diff([0, *numbers, count - 1])) <= 2 * album.window
    assert int(activity.argmax()) in numbers
    for shot in shots:
        window = shot.number // album.window * album.window
        assert shot.activity == activity[window : window + album.window].max()


@pytest.mark.doubts
def test_the_legend_names_the_objective_that_the_curve_is_above():
    """It is zero where the objective is smallest, which need not be at the end."""
    fit = rw.decompose(scene().frames[:6, ::4, ::4].reshape(6, -1), delta=0.01, rng=0)
    fit = replace(fit, objective=2.0 * min(record.objective for record in fit.history))
    chart = str(solve_charts(fit)[1]["chart"])
    assert "above the smallest objective" in chart
    assert "last objective" not in chart


def test_charts_survive_odd_data():
    """No points, one point, equal points, zero and infinity on a logarithmic axis."""
    for x, y in [
        ([], []),
        ([1.0], [2.0]),
        ([1.0, 2.0], [3.0, 3.0]),
        ([0.0, 1.0], [0.0, np.inf]),
        ([1, 2], [1e-300, 1e300]),
    ]:
        for log in (False, True):
            svg = str(figures.line_chart([figures.Series("a<b", x, y, dots=True)], "x", "y", log_y=log))
            assert svg.startswith("<svg")
            assert "nan" not in svg
            assert "a<b" not in svg


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.42, "0.4~s"), (12.3, "12~s"), (185.0, "3~min 5~s"), (3600.0, "60~min 0~s")]
)
def test_durations(seconds, text):
    assert page.duration(seconds) == text.replace("~", "\N{NO-BREAK SPACE}")
    assert page.percent(float("nan")) == "unknown"
    assert page.percent(0.00034) == "0.034 %"
    assert page.percent(1.0) == "100 %"


def test_an_event_ends_where_the_object_is_elsewhere_or_was_gone_for_long():
    def seen(number, left):
        return Sighting(number, (0.4, 0.6, left, left + 0.1), 0.02)

    def numbers(*sightings):
        return [
            [sighting.number for sighting in event.sightings] for event in events_of(sightings, window=10)
        ]

    assert numbers(seen(3, 0.1), seen(14, 0.2), seen(25, 0.3)) == [[3, 14, 25]]
    assert numbers(seen(3, 0.1), None, seen(14, 0.8)) == [[3], [14]]
    assert numbers(seen(3, 0.1), None, seen(29, 0.1)) == [[3], [29]]
    assert events_of([seen(3, 0.1), Sighting(9, (0.4, 0.7, 0.1, 0.3), 0.05)], 10)[0].best.number == 9
