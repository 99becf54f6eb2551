"""Chapter 01 in JupyterLab 4 with ipywidgets 7.8, the last of the older widgets, in an environment of its own."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchmarks.toolkits import BASELINE, ENVIRONMENTS, Environment, build
from scripts.notebooks import SOURCES, paired, text_of
from tests.autograder.panel.lab_server import TOKEN, lab_server
from tests.browser import chromium, picture

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright (pip install playwright)")
pytestmark = pytest.mark.instructor

WIDGETS = ("ipywidgets==7.8.5", "jupyterlab_widgets==1.1.11", "widgetsnbextension==3.6.10", "ipython-genutils==0.2.0")
WAIT = 300_000  # ms, on a busy machine
CHAPTER = "01_threads_and_blocks"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    (baseline,) = (environment for environment in ENVIRONMENTS if environment.name == BASELINE)
    packages = (*baseline.packages, "jupyterlab")
    older = Environment("ipywidgets 7", baseline.constraints, packages, WIDGETS, "3.11")
    return str(build(older, tmp_path_factory.mktemp("older") / "venv"))


def test_the_sliders_of_chapter_01_move_and_are_saved(python: str, tmp_path: Path) -> None:
    with lab_server(tmp_path, python) as server, chromium() as browser:
        chapter = server.root / "mine" / f"{CHAPTER}.ipynb"
        chapter.parent.mkdir()
        chapter.write_text(text_of(paired(SOURCES / f"{CHAPTER}.md")))
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(WAIT)
        page.goto(f"{server.url}/lab/tree/mine/{CHAPTER}.ipynb?token={TOKEN}&reset")
        page.wait_for_selector("text=Python 3 (ipykernel) | Idle")
        page.click("text=Run >> nth=0")
        page.click("text=Run All Cells")
        idle, end = 0, time.monotonic() + 4 * WAIT / 1000
        while idle < 5 and time.monotonic() < end:  # between two cells it is idle for a moment
            page.wait_for_timeout(1000)
            waiting = page.locator(".jp-InputPrompt:text-is('[*]:')").count()
            idle = 0 if waiting or "Idle" not in page.inner_text("#jp-main-statusbar") else idle + 1
        for call, moved in (("explore_waves()", ["10", "1"]), ("explore_edge()", ["1026"])):
            cell = page.locator(".jp-Cell", has_text=call).last
            cell.scroll_into_view_if_needed()
            image, words = cell.locator(".widget-image").first, cell.locator(".widget-readout")
            before = image.get_attribute("src")
            cell.locator(".ui-slider-handle").first.focus()
            page.keyboard.press("ArrowRight")
            sync_api.expect(words).to_have_text(moved)
            sync_api.expect(image).not_to_have_attribute("src", before, timeout=WAIT)
            picture(page, f"older-widgets-{call.partition('(')[0]}")
        page.locator("button:has-text('Show me')").first.click()
        page.wait_for_selector("text=No prediction was written down")
        before, end = chapter.stat().st_mtime_ns, time.monotonic() + WAIT / 1000
        page.keyboard.press("Control+s")
        while chapter.stat().st_mtime_ns == before and time.monotonic() < end:
            page.wait_for_timeout(100)
        page.click("text=Kernel >> nth=0")
        page.click("text=Shut Down Kernel")
        page.wait_for_selector("text=No Kernel >> nth=0")
        page.reload()
        cell = page.locator(".jp-Cell", has_text="explore_waves()").last
        cell.scroll_into_view_if_needed()
        sync_api.expect(cell.locator(".widget-readout")).to_have_text(["10", "1"], timeout=WAIT)
        cells = json.loads(chapter.read_text())["cells"]
        errors = [o["evalue"] for each in cells for o in each.get("outputs", []) if o["output_type"] == "error"]
        assert errors == []
