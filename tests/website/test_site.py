"""The site as a reader sees it in Chromium: chapter 00 with its outputs, and a few other pages."""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sphinx.cmd.build import build_main

from scripts import notebooks
from tests.browser import chromium, faint, picture, sideways
from website import stage

pytestmark = pytest.mark.processes

CHAPTER = "notebooks/00_start_here"
PAGES = (f"{CHAPTER}.ipynb", "labs/03_transpose/README.md", "docs/glossary.md", "docs/panel.md")
NAMES = [name.rpartition(".")[0] for name in PAGES]
MOST_BYTES = 1_500_000
WAIT = 60_000  # ms, on a busy machine
THEMES = ("light", "dark")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its HTML."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(notebooks, "EXECUTED", folder / "executed")
        patched.setattr(stage, "EXTRA", folder / "extra")
        patched.setattr(stage, "pages", lambda: [Path(name) for name in PAGES])
        patched.setenv("WARPLAB_DATA", os.environ.get("WARPLAB_DATA", ""))  # what `execute` sets
        patched.setenv(notebooks.DRAW_STATES, "1")
        assert notebooks.execute([notebooks.SOURCES / f"{Path(CHAPTER).name}.md"]) == []
        stage.lay_out(folder / "source")
        built = ["-q", "-W", "--keep-going", "-c", str(stage.ROOT / "website"), str(folder / "source")]
        assert build_main([*built, str(folder / "html")]) == 0
    return folder / "html"


class Quiet(SimpleHTTPRequestHandler):
    """Answers without a word."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served: opened from disk, a search finds pages, and cannot quote them."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page of a browser that has never been here; what fails in it, or asks another machine, fails the test."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(WAIT)
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    own = (address, "data:")
    opened.on("request", lambda asked: None if asked.url.startswith(own) else wrong.append(asked.url))
    yield opened
    opened.close()
    assert wrong == []


def show(page: Any, address: str, name: str, theme: str = "light") -> None:
    page.add_init_script(f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}')")
    page.goto(f"{address}{name}.html")
    page.wait_for_load_state("load")


def test_pages_are_small(site: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in site.rglob("*.html")}
    assert len(sizes) > 4 and [(name, size) for name, size in sizes.items() if size > MOST_BYTES] == []


def test_a_search_finds_the_page_that_says_it(page: Any, address: str) -> None:
    show(page, address, CHAPTER)
    page.keyboard.press("Control+k")
    page.keyboard.type("microscope")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results a >> text=The panel in JupyterLab")
    picture(page, "site-search")
    page.click("#search-results a >> text=The panel in JupyterLab")
    page.wait_for_selector("article h1:has-text('The panel in JupyterLab')")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", [*NAMES, "search"])
def test_texts_have_contrast(page: Any, address: str, name: str, theme: str) -> None:
    show(page, address, name, theme)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    picture(page, f"site-{Path(name).name}-{theme}")
    for folded in page.query_selector_all("details:not([open]) > summary"):
        folded.evaluate("summary => summary.parentElement.open = true")
    assert faint(page, "body", 15 if name == "search" else 40) == []


@pytest.mark.parametrize("name", [*NAMES, "index", "search"])
def test_a_page_fits_on_a_phone(page: Any, address: str, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    show(page, address, name)
    picture(page, f"site-{Path(name).name}-390")
    assert sideways(page) <= 0


def test_an_answer_is_hidden_until_it_is_asked_for(page: Any, address: str) -> None:
    show(page, address, CHAPTER)
    source = (stage.ROOT / "notebooks" / "source" / f"{Path(CHAPTER).name}.md").read_text(encoding="utf-8")
    asked = len(re.findall(r"= predict\(", source))
    folded = page.locator("details:has(> summary:text-is('Show me'))")
    assert folded.count() >= asked - 1 > 1
    inside = folded.first.locator("p").first
    assert not inside.is_visible()
    folded.first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert inside.is_visible()


def test_a_slider_moves_without_a_kernel(page: Any, address: str) -> None:
    show(page, address, CHAPTER)
    explorer = page.locator(".wl-states").first
    explorer.evaluate("node => node.closest('details') && (node.closest('details').open = true)")
    slider, image = explorer.locator("input").first, explorer.locator("img")
    words, before = explorer.locator("output").first, image.get_attribute("src")
    assert words.inner_text() == "2"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert words.inner_text() == "3" == slider.get_attribute("aria-valuetext")
    assert image.get_attribute("src") != before
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 300
    picture(page, "site-slider")
    page.keyboard.press("ArrowLeft")
    assert image.get_attribute("src") == before


def test_the_keyboard_reaches_the_text_and_the_next_page(page: Any, address: str) -> None:
    show(page, address, CHAPTER)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to main content"
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#main-content'")
    page.locator("a.right-next").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("article h1:has-text('transpose')")


def test_every_picture_says_what_it_shows(page: Any, address: str) -> None:
    for name in NAMES:
        show(page, address, name)
        described = page.eval_on_selector_all("article img", "images => images.map(image => image.alt.trim().length)")
        assert all(length > 5 for length in described), name


CUT = """nodes => nodes.filter(node => node.checkVisibility() && node.scrollWidth > node.clientWidth + 1)
    .map(node => node.textContent.trim().slice(0, 60))"""


def test_a_printed_page_cuts_no_line_and_no_table(page: Any, address: str) -> None:
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 without its margins
    page.emulate_media(media="print")
    for name in NAMES:
        show(page, address, name)
        page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
        assert page.eval_on_selector_all("article :is(pre, table, .cell_output td)", CUT) == [], name
        picture(page, f"site-{Path(name).name}-print")
