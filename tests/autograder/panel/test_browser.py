"""The panel as a learner sees it: JupyterLab in Chromium."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from autograder.spec.lab import solutions_folder
from scripts.notebooks import SOURCES, paired, text_of
from tests.autograder.panel.lab_server import TOKEN, LabServer, lab_server
from tests.browser import chromium, faint, picture

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright (pip install playwright)")
pytestmark = pytest.mark.processes

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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    with lab_server(tmp_path_factory.mktemp("panel")) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


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


def test_a_lab_is_checked_and_its_faulty_line_is_marked(page: Any, server: LabServer) -> None:
    open_file(page, server, FILE)
    assert page.is_visible("#warplab-panel")
    sync_api.expect(page.locator("#warplab-panel h2")).to_have_text("03_transpose · submission.py")
    page.click("#warplab-panel button:has-text('Check') >> nth=0")
    page.wait_for_selector(SCORE)
    assert [mark.inner_text().strip() for mark in page.query_selector_all(".cm-content .wl-squiggle-error")] == [FAULT]
    page.hover(".wl-squiggle-error")
    assert page.inner_text(".wl-tooltip").startswith("Line 6 reads a[")
    picture(page, "panel-light")
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
    picture(page, "panel-cell")


def test_a_chapter_is_run_and_what_it_showed_is_there_again(page: Any, server: LabServer) -> None:
    """Its cells, a slider, its reports and their marks: with the kernel gone, and a note where nothing answers."""
    shutil.copytree(solutions_folder() / "01_axpy", server.root / "solutions" / "01_axpy")  # cells show its steps
    (server.root / "mine").mkdir()
    chapter = server.root / "mine" / "00_start_here.ipynb"
    chapter.write_text(text_of(paired(SOURCES / "00_start_here.md")))
    open_file(page, server, "mine/00_start_here.ipynb")
    page.wait_for_selector("text=Python 3 (ipykernel) | Idle")
    page.click("text=Run >> nth=0")
    page.click("text=Run All Cells")
    page.wait_for_selector("text=Python 3 (ipykernel) | Busy")
    page.wait_for_selector("text=Python 3 (ipykernel) | Idle", timeout=5 * WAIT)
    page.keyboard.press("Control+s")
    page.wait_for_selector("text=Saving completed")
    cells = json.loads(chapter.read_text())["cells"]
    assert [o["evalue"] for cell in cells for o in cell.get("outputs", []) if o["output_type"] == "error"] == []

    cell = page.locator(".jp-Cell", has_text="explore_stride()").last
    cell.scroll_into_view_if_needed()
    words = cell.locator(".widget-readout").first
    picture(page, "chapter-before")
    sync_api.expect(words).to_have_text("2")
    image = cell.locator(".widget-image").first
    before = image.get_attribute("src")
    cell.locator(".noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    sync_api.expect(words).to_have_text("3")
    sync_api.expect(image).not_to_have_attribute("src", before)
    picture(page, "chapter-slider")
    page.keyboard.press("Control+s")
    page.wait_for_timeout(2000)

    page.click("text=Kernel >> nth=0")
    page.click("text=Shut Down Kernel")
    page.wait_for_selector("text=No Kernel >> nth=0")
    page.reload()
    page.wait_for_selector(".jp-Notebook")
    submitted = page.locator(".jp-Cell", has_text="def axpy_kernel(alpha, x, y, out, width)").last
    submitted.scroll_into_view_if_needed()
    assert submitted.locator(".warplab-report").is_visible()
    submitted.locator(".cm-line.wl-line").first.wait_for()
    submitted.click(position={"x": 200, "y": 10})
    page.wait_for_selector(SCORE)
    cell.scroll_into_view_if_needed()
    sync_api.expect(words).to_have_text("3")
    note = "getComputedStyle(document.querySelector('.jupyter-widgets-disconnected'), '::before').content"
    assert "its kernel has ended" in page.evaluate(note)
    picture(page, "chapter-again")


def test_the_microscope_is_docked_and_shut_in(page: Any, server: LabServer) -> None:
    open_file(page, server, FILE)
    page.wait_for_selector(SCORE)
    page.click("#warplab-panel button:has-text('Microscope')")
    frame = page.wait_for_selector(".wl-microscope iframe").content_frame()
    frame.wait_for_selector("text=kernel, block (0, 0, 0)")
    with pytest.raises(sync_api.Error, match="SecurityError|cross-origin|sandboxed"):
        frame.evaluate("window.parent.document.title")
    picture(page, "panel-microscope")


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_texts_have_contrast_and_fit_in_a_narrow_window(page: Any, server: LabServer, theme: str) -> None:
    settings = server.root.parent / "config" / "lab" / "user-settings" / THEMES
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"theme": theme}))
    open_file(page, server, FILE)
    page.wait_for_selector(SCORE)
    assert page.evaluate("document.body.dataset.jpThemeName") == theme
    assert faint(page, "#warplab-panel", 30) == []
    page.click(".lm-TabBar-tab[data-id=filebrowser]")
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(500)
    wide, inner, right = page.evaluate(
        "(panel => [panel.scrollWidth, panel.clientWidth, panel.getBoundingClientRect().right])"
        "(document.querySelector('#warplab-panel'))"
    )
    assert wide <= inner and right <= 390
    picture(page, f"panel-narrow-{theme.split()[-1].lower()}")
