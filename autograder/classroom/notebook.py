"""The submissions in a notebook: what its last cells that write them would write.

Cells are read and not run, and their identifiers not asked for: a missing or doubled cell of tests changes nothing
here, and of two cells that write the same the last one counts, as it does when the notebook is run.
"""

from __future__ import annotations

import re
from typing import Any

NOTEBOOK = ".ipynb"
WRITEFILE = "submission.py"  # stands for %%writefile, which names no lab
_WRITES = re.compile(
    r"\s*%%(?:writefile\s+(?:\./)?submission(?:_cuda)?\.py|submit\s+(?P<lab>\S+))\s*\n(?P<code>.*)", re.DOTALL
)


def written_by(notebook: dict[str, Any]) -> dict[str, str]:
    """The code that each lab's last cell of `%%submit` has, under its lab, and that of `%%writefile submission.py`
    under WRITEFILE; the last of the notebook first. Cells without code do not count."""
    found: dict[str, str] = {}
    for cell in notebook["cells"]:
        source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        written = _WRITES.fullmatch(source) if cell["cell_type"] == "code" else None
        if written and written["code"].strip():
            lab = written["lab"] or WRITEFILE
            found.pop(lab, None)
            found[lab] = written["code"]
    return dict(reversed(found.items()))
