"""The text of a PTX module without comments and strings, and its tokens: what declarations are read from.

PTX is a stranger's, so every step takes time that grows with the length of the text and no faster: each pattern is told
by its first character which of its alternatives it is in, and never gives back what it took. What ptxas would read
differently (lines that begin with #, which rename its messages) or not at all is refused here.
"""

from __future__ import annotations

import re
from itertools import islice

from warplab.errors import PlanError

# Comments do not nest and strings have no escapes (found by trying them on ptxas 13.0).
_UNSPOKEN = re.compile(r'//[^\n]*+|/\*.*?(?:\*/|\Z)|"[^"]*+(?:"|\Z)', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_TOKEN = re.compile(r'"[^"]*+"|\.?[\w$%]++|[^\s\w$%]', re.ASCII)


class PtxError(PlanError):
    """PTX that cannot be read or that no kernel needs; `ptx_line` is the line of the PTX, counted from 1."""

    def __init__(self, message: str, ptx_line: int) -> None:
        super().__init__(f"{message} (line {ptx_line} of the PTX)")
        self.message = message
        self.ptx_line = ptx_line


def plain(ptx: str) -> str:
    """The text with blanks in place of comments and of what strings hold; every other character keeps its place.

    Raises PtxError for a comment or a string without an end, a control character, or a # that is in neither.
    """

    def blank(m: re.Match[str]) -> str:
        found = m.group()
        if found[0] == '"':
            if len(found) < 2 or found[-1] != '"' or "\n" in found:
                raise PtxError("a string has no end on its line", line_at(ptx, m.start()))
            return '"' + " " * (len(found) - 2) + '"'
        if found[1] == "*" and (len(found) < 4 or not found.endswith("*/")):
            raise PtxError("a comment has no end", line_at(ptx, m.start()))
        return " " * len(found)

    text = _UNSPOKEN.sub(blank, ptx)
    if m := _CONTROL.search(ptx):
        raise PtxError("it has a control character", line_at(ptx, m.start()))
    if "#" in text:
        raise PtxError("it has a '#': leave out lines for a preprocessor", line_at(ptx, text.index("#")))
    return text


def tokens(text: str) -> list[str]:
    """The tokens of a `plain` text: names, numbers, names with a leading point, and single other characters."""
    return _TOKEN.findall(text)


def offset_of(text: str, index: int) -> int:
    """Where token number `index` of a `plain` text begins; the text's length for the one after its last."""
    m = next(islice(_TOKEN.finditer(text), index, None), None)
    return m.start() if m else len(text)


def line_at(text: str, offset: int) -> int:
    """The number of the line, counted from 1, that an offset into a text is in."""
    return text.count("\n", 0, offset) + 1
