"""Runs notebooks from their Markdown source and keeps the outputs: `make notebooks`.

Without names all of them; `python -m scripts.notebooks 05_roofline` runs one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from warplab.files import write_whole

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
SECONDS = 600  # a cell
WIDGET = "application/vnd.jupyter.widget-view+json"


def main(names: list[str]) -> int:
    """Exit code 0, or 1 at the first notebook with a cell that fails; its old .ipynb then stays as it was."""
    sources = sorted((FOLDER / "source").glob("*.md"))
    if unknown := set(names) - {source.stem for source in sources}:
        print(f"There is no notebook {sorted(unknown)[0]!r} in notebooks/source.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as nobodys:
        os.environ["WARPLAB_DATA"] = nobodys  # the author's own progress in the quizzes is not the reader's
        for source in sources:
            if names and source.stem not in names:
                continue
            print(source.name, flush=True)
            notebook = jupytext.read(source)
            resources = {"metadata": {"path": str(FOLDER)}}
            client = NotebookClient(
                notebook, timeout=SECONDS, kernel_name="python3", resources=resources, store_widget_state=False
            )
            try:
                client.execute()
            except CellExecutionError as error:
                print(f"{source.name}: {error}", file=sys.stderr)
                return 1
            drop_widgets(notebook)
            write_whole(FOLDER / f"{source.stem}.ipynb", nbformat.writes(notebook) + "\n")
    return 0


def drop_widgets(notebook: nbformat.NotebookNode) -> None:
    """Take the live form of widgets out of the outputs: in a saved notebook no kernel answers them.

    What a widget shows besides, a text or a figure, stays; an output that is nothing else goes.
    """
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        kept = []
        for output in cell.outputs:
            data = output.get("data", {})
            if data.pop(WIDGET, None) is None or set(data) - {"text/plain"}:
                kept.append(output)
        cell.outputs = kept


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
