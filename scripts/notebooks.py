"""Pairs notebooks with their Markdown source, and runs them.

`python -m scripts.notebooks --pair` writes the minutes below each title, docs/map.md (scripts/course_map.py), and
notebooks/*.ipynb from notebooks/source, without outputs. Without the option it also runs them, into build/notebooks
with their outputs: all that changed, or those that are named.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from course.figures.explore import DRAW_STATES
from scripts import course_map
from warplab.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
SOURCES = FOLDER / "source"
EXECUTED = ROOT / "build" / "notebooks"
SECONDS = 900  # a cell, on a machine that is very busy
HAD_WIDGET = "warplab_widget"  # in an output's metadata
WIDGET = "application/vnd.jupyter.widget-view+json"
# What a chapter's outputs come from, besides its source.
_BEHIND = ("autograder", "benchmarks/results", "course", "labs", "solutions", "systems", "warplab")
_SUFFIXES = frozenset({".css", ".cu", ".cuh", ".html", ".js", ".json", ".md", ".py", ".toml", ".zip"})


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, 1 where a cell fails or a front matter is wrong, 2 where there is no such notebook."""
    parser = argparse.ArgumentParser(prog="python -m scripts.notebooks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as 05_roofline; all of them if left out")
    parser.add_argument("--pair", action="store_true", help="write the notebooks without running them")
    chosen = parser.parse_args(arguments)
    sources = sorted(SOURCES.glob("*.md"))
    if unknown := set(chosen.names) - {source.stem for source in sources}:
        print(f"There is no notebook {sorted(unknown)[0]!r} in notebooks/source.", file=sys.stderr)
        return 2
    if course_map.main():
        return 1
    for source in sources:
        write_whole(FOLDER / f"{source.stem}.ipynb", text_of(paired(source)))
    for other in sorted(set(FOLDER.glob("*.ipynb")) - {FOLDER / f"{source.stem}.ipynb" for source in sources}):
        print(f"notebooks/{other.name} has no source and stays: move it away if it is no chapter.", file=sys.stderr)
    if chosen.pair:
        return 0
    problems = execute([source for source in sources if not chosen.names or source.stem in chosen.names])
    print("\n".join(problems), end="\n" * bool(problems), file=sys.stderr)
    return 1 if problems else 0


def paired(source: Path) -> nbformat.NotebookNode:
    """The notebook of a Markdown source, without outputs. A cell keeps its id as long as its text stays."""
    notebook = jupytext.read(source)
    known: set[str] = set()
    for cell in notebook.cells:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()
        cell.id = next(name for n in range(len(digest)) if (name := digest[n : n + 8]) not in known)
        known.add(cell.id)
    return notebook


def text_of(notebook: nbformat.NotebookNode) -> str:
    """The notebook's file."""
    return nbformat.writes(notebook) + "\n"


def execute(sources: Iterable[Path]) -> list[str]:
    """Run the notebooks whose outputs in build/notebooks are missing or old, two at a time; gives what failed."""
    EXECUTED.mkdir(parents=True, exist_ok=True)
    behind = digest_of(_BEHIND)
    with tempfile.TemporaryDirectory() as nobodys, ThreadPoolExecutor(2) as pool:
        os.environ["WARPLAB_DATA"] = nobodys  # the author's own progress in the quizzes is not the reader's
        os.environ[DRAW_STATES] = "1"
        return [problem for problem in pool.map(lambda source: _execute(source, behind), sources) if problem]


def _execute(source: Path, behind: str) -> str:
    """Run one notebook, unless its outputs are of the same source and code; what failed, or nothing."""
    digest = hashlib.sha256(source.read_bytes() + behind.encode()).hexdigest()
    target = EXECUTED / f"{source.stem}.ipynb"
    if target.exists() and nbformat.read(target, as_version=4).metadata.get("warplab_digest") == digest:
        return ""
    print(source.name, flush=True)
    notebook = paired(source)
    try:
        run(notebook)
    except CellExecutionError as error:
        return f"{source.name}: {error}"
    drop_widgets(notebook)
    notebook.metadata["warplab_digest"] = digest
    write_whole(target, text_of(notebook))
    return ""


def run(notebook: nbformat.NotebookNode) -> None:
    """Run a notebook's cells in its folder, keeping outputs. Raises CellExecutionError, which shows the cell."""
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        startup_timeout=SECONDS,
        resources={"metadata": {"path": str(FOLDER)}},
        store_widget_state=False,
    )
    kernel = client.create_kernel_manager()
    with tempfile.TemporaryDirectory() as folder:
        # Sockets of its own: a port that is chosen now may be another's when the kernel has started.
        kernel.transport, kernel.ip = "ipc", str(Path(folder, "kernel"))
        client.execute()


def as_shown(name: str) -> str:
    """The file of a notebook as it was last run; without outputs where it never was."""
    executed = EXECUTED / f"{name}.ipynb"
    return executed.read_text(encoding="utf-8") if executed.exists() else text_of(paired(SOURCES / f"{name}.md"))


def digest_of(folders: Iterable[str]) -> str:
    """A digest of the sources and data in folders of the repository."""
    whole = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in _SUFFIXES):
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def drop_widgets(notebook: nbformat.NotebookNode) -> None:
    """Take the live form of widgets out of the outputs: in a saved notebook no kernel answers them.

    What a widget shows besides, a text or a figure, stays and says in its metadata that it had one; an output that is
    nothing else goes.
    """
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        kept = []
        for output in cell.outputs:
            data = output.get("data", {})
            had = data.pop(WIDGET, None) is not None
            if not had or set(data) - {"text/plain"}:
                kept.append(output)
                if had:
                    output.metadata[HAD_WIDGET] = True
        cell.outputs = kept


if __name__ == "__main__":
    sys.exit(main())
