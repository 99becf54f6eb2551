"""The panel as a learner sees it: JupyterLab in Chromium. Screenshots stay in build/screenshots."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from autograder.spec.lab import CHECKOUT
from tests.autograder.panel.lab_server import TOKEN, LabServer, lab_server

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright (pip install playwright)")
pytestmark = pytest.mark.processes

PICTURES = CHECKOUT / "build" / "screenshots"
WAIT = 120_000  # ms, for a kernel or a first check on a busy machine
sync_api.expect.set_options(timeout=WAIT)
FILE = "labs/03_transpose/submission.py"
FAULTY = """\
from numba import cuda

@cuda.jit
def kernel(a, out):
    i = cuda.grid(1)
    out[i, 0] = a[0, i]

def transpose(a, out):
    kernel[a.shape[1] + 1, 1](a, out)
"""
FAULT = "out[i, 0] = a[0, i]"
SCORE = "#warplab-panel .wl-score"
THEMES = "@jupyterlab/apputils-extension/themes.jupyterlab-settings"
# Colours of every text in the panel beside the background that it is seen on, as WCAG 2 has contrast.
CONTRASTS = """() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = colour => channels(colour).slice(0, 3)
    .map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = node => {
    const colour = getComputedStyle(node).backgroundColor;
    return channels(colour)[3] === 0 ? behind(node.parentElement) : colour;
  };
  const shown = [...document.querySelectorAll('#warplab-panel *')].filter(node => node.offsetParent && !node.disabled
    && [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim()));
  return shown.map(node => {
    const [dark, light] = [getComputedStyle(node).color, behind(node)].map(luminance).sort((a, b) => a - b);
    return [node.textContent.slice(0, 40), (light + 0.05) / (dark + 0.05)];
  });
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    with lab_server(tmp_path_factory.mktemp("panel")) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        try:
            started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"needs Chromium (playwright install chromium): {error}")
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, server: LabServer) -> Iterator[Any]:
    """A page of a browser that has never been here; what fails in it fails the test."""
    (server.root / FILE).write_text(FAULTY)
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    opened.set_default_timeout(WAIT)
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert errors == []


def open_file(page: Any, server: LabServer, path: str) -> None:
    page.goto(f"{server.url}/lab/tree/{path}?token={TOKEN}&reset")
    page.wait_for_selector("#warplab-panel li", state="attached")


def picture(page: Any, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"panel-{name}.png")


def test_a_lab_is_checked_and_its_faulty_line_is_marked(page: Any, server: LabServer) -> None:
    open_file(page, server, FILE)
    assert page.is_visible("#warplab-panel")
    sync_api.expect(page.locator("#warplab-panel h2")).to_have_text("03_transpose · submission.py")
    page.click("#warplab-panel button:has-text('Check') >> nth=0")
    page.wait_for_selector(SCORE)
    assert [mark.inner_text().strip() for mark in page.query_selector_all(".cm-content .wl-squiggle-error")] == [FAULT]
    page.hover(".wl-squiggle-error")
    assert page.inner_text(".wl-tooltip").startswith("Line 6 reads a[")
    picture(page, "light")
    page.click(".wl-opening button:has-text('Line 6')")
    page.wait_for_selector("text=Ln 6, Col 1")


def test_counters_follow_what_is_typed(page: Any, server: LabServer) -> None:
    open_file(page, server, FILE)
    page.wait_for_selector(SCORE)  # the file is checked when it is opened
    page.click(f".cm-line:has-text('{FAULT}')")
    page.keyboard.press("Home")
    page.keyboard.type("if i < a.shape[1]: ")
    page.wait_for_selector(".wl-squiggle-error", state="detached")
    counters = page.inner_text("#warplab-panel table")
    assert "sectors read from global memory" in counters
    assert (server.root / FILE).read_text() == FAULTY  # nothing was saved
    page.click("text=Check as I type")
    before = page.inner_text(SCORE)
    page.keyboard.type(" ")
    page.wait_for_timeout(3000)
    assert page.inner_text(SCORE) == before


def test_a_submitted_cell_is_marked(page: Any, server: LabServer) -> None:
    cells = ["%load_ext course.magics", f"\n%%submit 03_transpose\n{FAULTY}", "1 + 1"]
    made = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "outputs": [], "execution_count": None, "source": text}
        for n, text in enumerate(cells)
    ]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}
    notebook = {"cells": made, "metadata": spec, "nbformat": 4, "nbformat_minor": 5}
    (server.root / "cells.ipynb").write_text(json.dumps(notebook))
    open_file(page, server, "cells.ipynb")
    page.wait_for_selector("text=Python 3 (ipykernel) | Idle")
    page.click(".jp-Cell >> nth=0 >> .cm-content")
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(".jp-Cell .wl-squiggle-error")
    marked = page.query_selector_all(".jp-Cell .cm-line.wl-line-error")
    assert [mark.inner_text().strip() for mark in marked] == [FAULT]
    assert "03_transpose · cell of cells.ipynb" in page.inner_text("#warplab-panel h2")
    picture(page, "cell")


def test_the_microscope_is_docked_and_shut_in(page: Any, server: LabServer) -> None:
    open_file(page, server, FILE)
    page.wait_for_selector(SCORE)
    page.click("#warplab-panel button:has-text('Microscope')")
    frame = page.wait_for_selector(".wl-microscope iframe").content_frame()
    frame.wait_for_selector("text=kernel, block (0, 0, 0)")
    with pytest.raises(sync_api.Error, match="SecurityError|cross-origin|sandboxed"):
        frame.evaluate("window.parent.document.title")
    picture(page, "microscope")


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_texts_have_contrast_and_fit_in_a_narrow_window(page: Any, server: LabServer, theme: str) -> None:
    settings = server.root.parent / "config" / "lab" / "user-settings" / THEMES
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"theme": theme}))
    open_file(page, server, FILE)
    page.wait_for_selector(SCORE)
    assert page.evaluate("document.body.dataset.jpThemeName") == theme
    found = page.evaluate(CONTRASTS)
    assert len(found) > 30 and [(words, contrast) for words, contrast in found if contrast < 4.5] == []
    page.click(".lm-TabBar-tab[data-id=filebrowser]")
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(500)
    wide, inner, right = page.evaluate(
        "(panel => [panel.scrollWidth, panel.clientWidth, panel.getBoundingClientRect().right])"
        "(document.querySelector('#warplab-panel'))"
    )
    assert wide <= inner and right <= 390
    picture(page, f"narrow-{theme.split()[-1].lower()}")
