"""A submission as tokens, Python's and CUDA C++'s, which renaming, layout and comments do not change."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from pygments.lexers import CudaLexer
from pygments.token import Comment, Keyword, Literal, Name, Number, String, Text

NAME, NUMBER, STRING = "name", "0", "text"
_DROPPED = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
_STARTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.NL, tokenize.COMMENT}
_DEVICE_CODE = ("__global__", "__device__")


@dataclass(frozen=True)
class Token:
    """One token without what a student calls it, and the line of the submission that it is on."""

    kind: str
    line: int


def tokens(text: str) -> list[Token]:
    """The tokens of a submission, as far as it can be read: every name is one token, every number and text too.

    Texts with device code are read as CUDA C++, documentation is left out.
    """
    found: list[Token] = []
    before = tokenize.ENCODING
    try:
        for one in tokenize.generate_tokens(io.StringIO(text).readline):
            if one.type == tokenize.STRING and any(word in one.string for word in _DEVICE_CODE):
                found += _cuda(one.string, one.start[0])
            elif one.type == tokenize.STRING and before in _STARTS:
                pass  # a docstring
            elif one.type not in _DROPPED:
                found.append(Token(_kind(one), one.start[0]))
            before = one.type
    except (tokenize.TokenError, SyntaxError):
        pass  # what comes before the fault
    return found


def _kind(one: tokenize.TokenInfo) -> str:
    if one.type == tokenize.NAME:
        return one.string if keyword.iskeyword(one.string) else NAME
    return NUMBER if one.type == tokenize.NUMBER else STRING if one.type == tokenize.STRING else one.string


def _cuda(text: str, line: int) -> Iterator[Token]:
    """The tokens of device code in a Python text that begins on `line`."""
    inner = text.lstrip("rRbBuU")
    quote = inner[:3] if inner[:3] in ('"""', "'''") else inner[:1]
    inner = inner[len(quote) : len(inner) - len(quote)]
    for kind, word in CudaLexer(stripnl=False, ensurenl=False).get_tokens(inner):
        if kind in Comment.Preproc or kind not in Comment:
            if kind in Name:
                yield Token(NAME, line)
            elif kind in Number:
                yield Token(NUMBER, line)
            elif kind in String or kind in Literal:
                yield Token(STRING, line)
            elif kind in Keyword or (kind not in Text and word.strip()):
                yield Token(word.strip(), line)
        line += word.count("\n")
