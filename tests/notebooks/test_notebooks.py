"""The notebooks: source and .ipynb agree, every cell runs on a machine without a GPU, links and paths are sound."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook, new_output

from scripts.notebooks import WIDGET, drop_widgets
from tests import warm_captures
from tests.sampling import WHOLE

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
SOURCES = sorted((FOLDER / "source").glob("*.md"))
NAMES = [path.stem for path in SOURCES]
# `make test` runs the first of those without exercises; of those with exercises cells run in the tests of these.
EXERCISED = [name for name in NAMES if Path(__file__).with_name(f"test_exercises_{name[:2]}.py").exists()]
PLAIN = [name for name in NAMES if name not in EXERCISED]
RUN = [source for source in SOURCES if WHOLE or source.stem == PLAIN[0]]
SECONDS = 900  # for a cell, on a machine that is very busy


def paired(source: Path) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / f"{source.stem}.ipynb", as_version=4)


def cells(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source.strip()) for cell in notebook.cells if cell.source.strip()]


def text_of(output: nbformat.NotebookNode) -> str:
    data = output.get("data", {})
    shown = [data.get(kind, "") for kind in ("text/plain", "text/html", "text/markdown")]
    return "".join([output.get("text", ""), *shown])


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
@pytest.mark.pages
def test_notebook_and_source_have_the_same_cells(source: Path) -> None:
    assert cells(jupytext.read(source)) == cells(paired(source)), f"run `make notebooks`: {source.name} has changed"


@pytest.mark.pages
def test_every_notebook_has_a_source() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
@pytest.mark.pages
def test_links_lead_somewhere(source: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", source.read_text(encoding="utf-8"), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        assert link.startswith("https://") or (FOLDER / link).is_file(), f"{source.name} links to {link}"
    for path in re.findall(r"`((?:labs|solutions)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), f"{source.name} names {path}"


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
@pytest.mark.pages
def test_kept_outputs_are_whole_and_tell_nothing_of_the_machine(source: Path) -> None:
    """The outputs that readers see: no cell left out, no error, no path of the machine that made them."""
    private = re.compile(rf"{re.escape(str(ROOT))}|{re.escape(str(Path.home()))}/|/tmp/|Traceback")
    for cell in paired(source).cells:
        if cell.cell_type != "code":
            continue
        assert cell.execution_count is not None, f"never run: {cell.source[:60]!r}"
        for output in cell.outputs:
            assert output.output_type != "error", output.get("evalue")
            assert not (found := private.search(text_of(output))), f"{found and found.group()} in {cell.source[:60]!r}"


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
@pytest.mark.parametrize("source", RUN, ids=lambda source: source.stem)
def test_runs_without_a_gpu(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "need_torch()" in source.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    notebook = jupytext.read(source)
    if warm_captures.ARE_USED:
        notebook.cells.insert(0, new_code_cell(f"import {warm_captures.__name__} as warm\nwarm.use()"))
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        startup_timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": FOLDER}},
    )
    kernel = client.create_kernel_manager()
    with tempfile.TemporaryDirectory() as folder:
        # Sockets of its own: a port that is chosen now may be another's when the kernel has started.
        kernel.transport, kernel.ip = "ipc", str(Path(folder, "kernel"))
        client.execute()  # raises CellExecutionError, which shows the cell
    printed = "\n".join(text_of(output) for cell in notebook.cells for output in cell.get("outputs", []))
    assert "judge error" not in printed
    kinds = {kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})}
    assert "image/png" in kinds, "no figure was drawn"
