"""Runs every notebook from its Markdown source and keeps the outputs: `make notebooks`."""

from __future__ import annotations

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
SECONDS = 600  # a cell


def main() -> int:
    """Exit code 0, or 1 at the first notebook with a cell that fails; its old .ipynb then stays as it was."""
    for source in sorted((FOLDER / "source").glob("*.md")):
        print(source.name, flush=True)
        notebook = jupytext.read(source)
        resources = {"metadata": {"path": str(FOLDER)}}
        client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=resources)
        try:
            client.execute()
        except CellExecutionError as error:
            print(f"{source.name}: {error}", file=sys.stderr)
            return 1
        nbformat.write(notebook, FOLDER / f"{source.stem}.ipynb")
    return 0


if __name__ == "__main__":
    sys.exit(main())
