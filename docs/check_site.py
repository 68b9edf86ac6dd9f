"""Does every link of the built site lead somewhere, and does a page ask for nothing outside of it?

``python docs/check_site.py docs/_build/html`` looks at every link, picture, style and script of every page.
``--browser FOLDER`` serves the site to Chromium, writes pictures of PAGES at two widths, and reports every request that
left the folder.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

PAGES = (
    "index.html",
    "what_do_you_know.html",
    "tutorials/data_scientist.html",
    "comparison.html",
    "coming_from.html",
    "gallery/index.html",
    "api/rankwolf.decompose.html",
    "choosing_delta.html",
    "path.html",
    "genindex.html",
)
WIDTHS = (1400, 400)
# What a browser fetches by itself when it shows the page.
FETCHED = {"img": "src", "script": "src", "source": "src", "iframe": "src", "video": "src"}

# Words that end outside of the window, where no bar scrolls to them.
CUT_OFF = """width => [...document.querySelectorAll(".bd-article *")]
  .filter(one => !one.children.length && one.textContent.trim() && !one.closest("pre, .pst-scrollable-table-container"))
  .filter(one => one.getBoundingClientRect().right > width + 1)
  .map(one => one.textContent.trim())"""


class Page(HTMLParser):
    """The places of a page (``ids``), where it leads (``links``), and what it fetches (``parts``)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.parts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what matters of one tag."""
        found = {name: value or "" for name, value in attrs}
        self.ids.update(found[name] for name in ("id", "name") if found.get(name))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in (
            "canonical",
            "index",
            "search",
            "next",
            "prev",
            "author",
        ):
            self.parts.append(found.get("href", ""))
        elif FETCHED.get(tag) in found:
            self.parts.append(found[FETCHED[tag]])


def faults(site: Path) -> tuple[list[str], int]:
    """What is wrong, a line each; and how many links and parts were looked at."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    wrong, looked = [] if pages else [f"no page in {site}"], 0
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for address in page.links + page.parts:
            parts = urlsplit(address)
            looked += 1
            if parts.scheme or parts.netloc:
                if address in page.parts and parts.scheme != "data":
                    wrong.append(f"{name}: fetches {address}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                wrong.append(f"{name}: {address} is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                wrong.append(f"{name}: {address} has no such place")
    return sorted(set(wrong)), looked


def look(site: Path, folder: Path) -> list[str]:
    """Pictures of PAGES at WIDTHS; the requests that left the site, and what does not fit into the window."""
    from playwright.sync_api import sync_playwright

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_address[1]}/"
    folder.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    requests = 0
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width in WIDTHS:
            window = browser.new_page(viewport={"width": width, "height": 900})
            seen: list[str] = []
            window.on("request", lambda request, seen=seen: seen.append(request.url))
            for page in PAGES:
                window.goto(home + page, wait_until="networkidle")
                reach = window.evaluate("document.documentElement.scrollWidth")
                if reach > width:
                    wrong.append(f"{page} is {reach} wide in a window of {width}")
                cut = window.evaluate(CUT_OFF, width)
                wrong += [f"{page} in a window of {width}: {words!r} is cut off" for words in cut]
                window.screenshot(
                    path=folder / f"{page.replace('/', '_').removesuffix('.html')}_{width}.png",
                    full_page=True,
                )
            requests += len(seen)
            wrong += [f"left the site: {url}" for url in seen if not url.startswith((home, "data:"))]
        browser.close()
    server.shutdown()
    print(f"{len(PAGES) * len(WIDTHS)} pictures in {folder}, {requests} requests")
    return wrong


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("site", type=Path)
    parser.add_argument("--browser", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    wrong, looked = faults(options.site)
    if options.browser:
        wrong += look(options.site, options.browser)
    print(
        "\n".join(wrong)
        or f"{looked:,} links and parts of pages lead somewhere; nothing is fetched from outside"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
