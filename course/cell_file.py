"""A cell's text as a file whose lines are those that the notebook numbers, the magic's own line among them."""

from __future__ import annotations

from typing import Any

from IPython.core.getipython import get_ipython


def cell_file(magic: str, line: str, cell: str) -> str:
    """The text of a file for the cell `%%magic line`, whose text below that line is `cell`.

    The magic's line becomes a comment. Empty lines above it, which IPython drops, are put back.
    """
    head = f"%%{magic} {line.strip()}".rstrip()
    return "\n" * _lines_above(head) + f"# {head}\n{cell}"


def _lines_above(head: str) -> int:
    """Empty lines above the magic in the cell that runs now; 0 if that cannot be told."""
    shell: Any = get_ipython()
    typed = getattr(getattr(shell, "history_manager", None), "input_hist_raw", None)
    if not typed:
        return 0
    above, found, _ = typed[-1].partition(head)
    return above.count("\n") if found and not above.strip() else 0
