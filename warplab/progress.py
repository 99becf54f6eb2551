"""Says how far compiling the emulator is: lines on standard error, and in a notebook, which shows those red, a bar."""

from __future__ import annotations

import html
import sys
from typing import Any

_BAR = (
    "<div><style>@keyframes warplab-grow {{ from {{ width: 0 }} to {{ width: 96% }} }}</style>{words}"
    '<div style="max-width:40em;height:.6em;border-radius:.3em;background:#8884;overflow:hidden">'
    '<div style="height:100%;background:#3b8bd0;animation:warplab-grow {seconds:.0f}s ease-out both"></div></div></div>'
)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return _shell() is not None


def _shell() -> Any:
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found else None
    return shell if hasattr(shell, "kernel") else None


class Progress:
    """What one compilation says, from `begin` to `end`; `quiet` says nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet, self._shown = quiet, None

    def begin(self, words: str, seconds: float) -> None:
        """Compiling begins and will take about so many seconds."""
        if self._quiet or not in_notebook():
            self.line(words)
            return
        from IPython.display import HTML, display

        self._shown = display(HTML(_BAR.format(words=html.escape(words), seconds=seconds)), display_id=True)

    def line(self, words: str) -> None:
        """A part is ready; a bar does not need that."""
        if not self._quiet and self._shown is None:
            print(words, file=sys.stderr, flush=True)

    def end(self, words: str) -> None:
        """All of it is ready, or failed: the words take the bar's place."""
        if self._shown is None:
            self.line(words)
            return
        from IPython.display import Pretty

        self._shown.update(Pretty(words))
