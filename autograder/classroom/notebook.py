"""The submission in a notebook: what its last cell that writes `submission.py` would write.

Cells are read and not run, and their identifiers not asked for: a missing or doubled cell of tests changes nothing
here, and of two cells that write the file the last one counts, as it does when the notebook is run.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from autograder.classroom.entries import NOTEBOOK, Entry

_WRITES = re.compile(r"\s*%%(?:writefile\s+(?:\./)?submission(?:_cuda)?\.py|submit\s+\S+)\s*\n(?P<code>.*)", re.DOTALL)


def without_notebook(entry: Entry) -> Entry:
    """An entry whose content is Python: of a notebook, its submission; other files stay as they are."""
    if entry.problem or entry.path.suffix != NOTEBOOK:
        return entry
    try:
        code = submission_in(json.loads(entry.content))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return replace(entry, content=b"", problem=f"{entry.path} is no notebook that can be read.")
    if code is None:
        words = f"{entry.path} has no cell that begins with %%writefile submission.py or %%submit."
        return replace(entry, content=b"", problem=words)
    return replace(entry, content=code.encode(errors="replace"))


def submission_in(notebook: dict[str, Any]) -> str | None:
    """The code of the last cell that writes a submission and is not empty; None if there is none."""
    found = None
    for cell in notebook["cells"]:
        source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        written = _WRITES.fullmatch(source) if cell["cell_type"] == "code" else None
        if written and written["code"].strip():
            found = written["code"]
    return found
