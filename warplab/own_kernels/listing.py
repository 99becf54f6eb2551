"""The source of a run: the text of each file or cell that its kernels come from, one after the other.

The first keeps its own lines, which is the usual case: all in one file or cell. What is needed later follows below a
line that says where it is from, so that every line of the plan is a line of one text.
"""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import warplab
from warplab.isa.entry import shift_lines
from warplab.plan.capture.source import Source

NAME = "own.py"  # what the plan calls the text
_LIBRARIES = [
    *(Path(sysconfig.get_path(key)).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib")),
    Path(warplab.__path__[0]).resolve(),
]


def is_library(file: str) -> bool:
    """Whether a file is Python's, a package's or Warplab's own, and not the user's."""
    return file.startswith("<frozen") or any(folder in Path(file).resolve().parents for folder in _LIBRARIES)


class Listing(Source):
    """A source that takes in a file when a line of it is first asked for.

    `texts` are sources that lie in no file, cells of a notebook, by the file name that their code has.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__("", f"/{NAME}", NAME)
        self._texts = dict(texts)
        self._python = ""  # the text without what is no Python
        self._strings: dict[str, int] = {}  # the line before the first one of each source that lies in no text
        self.places: dict[str, int] = {}  # the line before the first one of each file
        self._foreign: set[str] = set()

    def line_in(self, file: str, line: int) -> int | None:
        """The line of the listing that a line of the user's code is; None for code of libraries."""
        if file == self.path:
            return line
        place = self._place(file)
        return None if place is None else place + line

    def _place(self, file: str) -> int | None:
        known = next((f for f in self.places if f == file or file.endswith(f"/{f}")), None)
        if known is None and file not in self._foreign:
            known = self._taken(file)
            if known is None:
                self._foreign.add(file)
        return None if known is None else self.places[known]

    def _taken(self, file: str) -> str | None:
        """Take a file's text in; None if it is not the user's, or not to be read."""
        key = next((f for f in self._texts if f == file or file.endswith(f"/{f}")), file)
        text = self._texts.get(key)
        if text is None:
            path = Path(file)
            if path.suffix != ".py" or is_library(file):
                return None
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                return None
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            return None
        self.places[key] = self._append(text, Path(key).name if Path(key).exists() else "a cell")
        return key

    def _append(self, text: str, name: str, python: bool = True) -> int:
        """Put a text below the others; returns the number of the line before its first one."""
        gap = "\n" if self.text and not self.text.endswith("\n") else ""
        gap += f"# ---- what follows is from {name} ----\n" if self.text else ""
        place = (self.text + gap).count("\n")
        self._python += gap + (text if python else "\n" * text.count("\n"))
        self.replace_text(self.text + gap + text, self._python)
        return place

    def ours(self, ptx: str) -> str:
        """The PTX with the lines of all files as lines of the listing."""
        for file in self.files_in(ptx):
            self._place(file)
        for file, place in self.places.items():
            ptx = shift_lines(ptx, file, place, self.path)
        return super().ours(ptx)

    @staticmethod
    def files_in(ptx: str) -> list[str]:
        """The files that a PTX text has lines of."""
        return [line.split('"')[1] for line in ptx.splitlines() if line.lstrip().startswith(".file") and '"' in line]

    def literal_line(self, code: str) -> int | None:
        """The line where a string starts, in what is taken in or else in any of the texts that could be.

        What is nowhere becomes a part of the listing itself.
        """
        found = super().literal_line(code) if self.text else None
        if found is not None:
            return found
        for file, text in reversed(list(self._texts.items())):
            try:
                line = Source(text, file, file).literal_line(code)
            except (SyntaxError, ValueError):
                continue
            if line is not None:
                return self.line_in(file, line)
        if code not in self._strings:
            self._strings[code] = self._append(code.rstrip("\n") + "\n", "a string", python=False)
            self.places[f"<string {len(self._strings)}>"] = self._strings[code]
        return self._strings[code] + 1

    def origin(self, line: int) -> tuple[str, int]:
        """The file and the line in it of a line of the listing; ("", 0) if it is of none."""
        before = [(place, file) for file, place in self.places.items() if place < line]
        place, file = max(before, default=(0, ""))
        return (file, line - place) if file else ("", 0)
