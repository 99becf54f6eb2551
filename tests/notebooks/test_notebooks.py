"""The notebooks: source and .ipynb agree, every cell runs on a machine without a GPU, links and paths are sound."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from scripts import notebooks
from scripts.notebooks import WIDGET, drop_widgets
from tests import warm_captures

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
SOURCES = sorted((FOLDER / "source").glob("*.md"))
# Those that show tables and kernels only, or whose figures wait for a prediction.
WITHOUT_FIGURES = {"05b_patterns", "10b_layer", "appendix_09_engineering", "appendix_16_tiles_and_slices"}
NAMES = [path.stem for path in SOURCES]


def text_of(output: nbformat.NotebookNode) -> str:
    data = output.get("data", {})
    shown = [data.get(kind, "") for kind in ("text/plain", "text/html", "text/markdown")]
    return "".join([output.get("text", ""), *shown])


@pytest.mark.pages
def test_notebooks_are_their_sources_without_outputs() -> None:
    made = {source.stem: notebooks.text_of(notebooks.paired(source)) for source in SOURCES}
    assert {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.ipynb")} == made, "run `make pages`"


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
@pytest.mark.pages
def test_links_lead_somewhere(source: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", source.read_text(encoding="utf-8"), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        assert link.startswith("https://") or (FOLDER / link).is_file(), f"{source.name} links to {link}"
    for path in re.findall(r"`((?:labs|solutions)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), f"{source.name} names {path}"


@pytest.mark.pages
def test_saved_notebooks_keep_what_widgets_show_without_a_kernel() -> None:
    both = new_output("display_data", {WIDGET: {}, "text/html": "<p>", "text/plain": "a quiz"})
    alone = new_output("display_data", {WIDGET: {}, "text/plain": "a slider"})
    plain = new_output("execute_result", {"text/plain": "4"})
    notebook = new_notebook(cells=[new_code_cell(outputs=[both, alone, plain])])
    drop_widgets(notebook)
    shown = [set(output.data) for output in notebook.cells[0].outputs]
    assert shown == [{"text/html", "text/plain"}, {"text/plain"}]


@pytest.mark.processes
@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_runs_without_a_gpu(source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every cell runs, and what readers see is whole: no error, no path of the machine, a figure."""
    if "need_torch()" in source.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    monkeypatch.setenv("WARPLAB_DATA", str(tmp_path))
    notebook = notebooks.paired(source)
    if warm_captures.ARE_USED:
        notebook.cells.insert(0, new_code_cell(f"import {warm_captures.__name__} as warm\nwarm.use()"))
    notebooks.run(notebook)  # raises CellExecutionError, which shows the cell
    private = re.compile(rf"{re.escape(str(ROOT))}|{re.escape(str(Path.home()))}/|/tmp/|Traceback|judge error")
    kinds = set()
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        for output in cell.outputs:
            kinds |= set(output.get("data", {}))
            assert not (found := private.search(text_of(output))), f"{found and found.group()} in {cell.source[:60]!r}"
    assert "image/png" in kinds or source.stem in WITHOUT_FIGURES, "no figure was drawn"
