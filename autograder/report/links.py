"""Links in a report's sentences to sections of handouts, and to pages beside the report.

A report knows neither where it will be read nor where the labs are, so the maker of a page passes both.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

_HANDOUT = re.compile(r"(labs/\w+/README\.md)(?:, section '([^']+)')?")


@dataclass(frozen=True)
class Links:
    """Where a page of reports finds what is beside it: `root` is the folder of the labs' folder and `submission` the
    file that was graded, `history` the page of one's own grades, all as URLs from the page. An empty one is not linked.
    `microscope` is a page of what the warps did, `grades` a sentence about one's grades so far."""

    root: str = ""
    submission: str = ""
    history: str = ""
    grades: str = ""
    microscope: str = ""

    @staticmethod
    def between(
        page: Path, root: Path, submission: Path | None = None, history: Path | None = None, grades: str = ""
    ) -> Links:
        """Those of a page in a folder `page`."""

        def url(path: Path | None) -> str:
            if path is None:
                return ""
            try:
                relative = os.path.relpath(path.resolve(), page.resolve())
            except ValueError:  # on another drive
                return path.resolve().as_uri()
            return Path(relative).as_posix()

        return Links(url(root), url(submission), url(history), grades)

    def linked(self, text: str) -> Markup:
        """A text, escaped, with links to the handouts it names."""
        made, done = Markup(), 0
        for found in _HANDOUT.finditer(text):
            url = self._handout(found)
            made += escape(text[done : found.start()])
            made += Markup('<a href="{}">{}</a>').format(url, found[0]) if url else escape(found[0])
            done = found.end()
        return made + escape(text[done:])

    def _handout(self, found: re.Match[str]) -> str:
        return f"{self.root}/{found[1]}{heading(found[2])}" if self.root else ""


def heading(section: str | None) -> str:
    """The fragment of a section in a page made of Markdown."""
    words = re.sub(r"[^\w\- ]", "", section or "").strip().lower().replace(" ", "-")
    return f"#{words}" if words else ""
