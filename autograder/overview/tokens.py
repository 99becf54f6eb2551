"""A submission as tokens, Python's and CUDA C++'s, which renaming, layout and comments do not change.

It reads a stranger's text, so it runs in a sandboxed process (`TokenReader`), which has a time limit.
"""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated, Self

import msgspec

import autograder
from warplab.worker.process import Sandbox, Worker, WorkerError, WorkerFault

SECONDS = 10.0  # for one submission; a reference takes a hundredth of a second
MEMORY = 1 << 30  # bytes
NAME, NUMBER, STRING = "name", "0", "text"
MOST_TOKENS = 50_000  # of a submission; the longest reference has 6,000
_DROPPED = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
_STARTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.NL, tokenize.COMMENT}
_DEVICE_CODE = ("__global__", "__device__")
_WIDE = re.compile(r"[ \t\f]{81,}")  # wider than anybody indents, and read again for each character behind it
# No branch of it can fail after it has begun, so that a text is read in one pass.
_CUDA = re.compile(
    r"(?P<left>\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|\\\n)"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?)"
    r"|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*+)"
    r"|(?P<word>[A-Za-z_]\w*+)"
    r"|(?P<sign><<<|>>>|[-+*/%&|^=!<>]=|<<|>>|->|::|&&|\|\||\+\+|--|.)",
    re.DOTALL,
)
_WORDS = """
auto bool break case char class const constexpr continue decltype default delete do double else enum explicit extern
false float for friend goto if inline int int8_t int16_t int32_t int64_t long namespace new noexcept nullptr operator
private protected public register reinterpret_cast restrict return short signed sizeof size_t static static_assert
static_cast struct switch template this true typedef typename uint8_t uint16_t uint32_t uint64_t union unsigned using
virtual void volatile while __align__ __constant__ __device__ __forceinline__ __global__ __host__ __launch_bounds__
__managed__ __noinline__ __restrict__ __shared__ blockDim blockIdx gridDim threadIdx warpSize dim3 asm
"""
_KEYWORDS = frozenset(_WORDS.split())  # of CUDA C++, and what it predefines


@dataclass(frozen=True)
class Token:
    """One token without what a student calls it, and the line of the submission that it is on."""

    kind: str
    line: int


def tokens(text: str) -> list[Token]:
    """The first MOST_TOKENS tokens of a submission, as far as it can be read: every name is one token, every number and
    text too.

    Texts with device code are read as CUDA C++, documentation is left out.
    """
    found: list[Token] = []
    before = tokenize.ENCODING
    try:
        for one in tokenize.generate_tokens(io.StringIO(_WIDE.sub(" " * 80, text)).readline):
            if one.type == tokenize.STRING and any(word in one.string for word in _DEVICE_CODE):
                found += _cuda(one.string, one.start[0])
            elif one.type == tokenize.STRING and before in _STARTS:
                pass  # a docstring
            elif one.type not in _DROPPED:
                found.append(Token(_kind(one), one.start[0]))
            before = one.type
            if len(found) >= MOST_TOKENS:
                break
    except (tokenize.TokenError, SyntaxError):
        pass  # what comes before the fault
    return found[:MOST_TOKENS]


def told(text: str) -> dict[str, list]:
    """The tokens as plain data: {"kinds", "lines"}."""
    found = tokens(text)
    return {"kinds": [one.kind for one in found], "lines": [one.line for one in found]}


class TokenReader:
    """Reads submissions in a sandboxed process, started when there is one to read. Use as a context manager."""

    def __init__(self) -> None:
        package = str(Path(autograder.__path__[0]))
        self._reading = Lock()
        self._worker = Worker(
            Sandbox(packages=("autograder",), readable=(package,), memory=MEMORY, address_space=2 * MEMORY, file_size=0)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()

    def read(self, text: str) -> tuple[Token, ...]:
        """The tokens of a text; none of one that takes more than a text may. Raises WorkerError where no process can be
        started."""
        try:
            with self._reading:
                found = self._worker.call(f"{__name__}:{told.__name__}", timeout=SECONDS, text=text)
            answer = msgspec.convert(found, _Told)
        except WorkerError as error:
            if error.status is WorkerFault.NOT_STARTED:
                raise
            return ()
        except msgspec.ValidationError:
            return ()
        return tuple(Token(kind, line) for kind, line in zip(answer.kinds, answer.lines, strict=False))


class _Told(msgspec.Struct):
    kinds: Annotated[list[Annotated[str, msgspec.Meta(max_length=40)]], msgspec.Meta(max_length=MOST_TOKENS)]
    lines: Annotated[list[int], msgspec.Meta(max_length=MOST_TOKENS)]


def _kind(one: tokenize.TokenInfo) -> str:
    if one.type == tokenize.NAME:
        return one.string if keyword.iskeyword(one.string) else NAME
    return NUMBER if one.type == tokenize.NUMBER else STRING if one.type == tokenize.STRING else one.string


def _cuda(text: str, line: int) -> Iterator[Token]:
    """The tokens of device code in a Python text that begins on `line`."""
    inner = text.lstrip("rRbBuU")
    quote = inner[:3] if inner[:3] in ('"""', "'''") else inner[:1]
    inner = inner[len(quote) : len(inner) - len(quote)]
    for number, one in enumerate(_CUDA.finditer(inner)):
        if number > 2 * MOST_TOKENS:
            return
        word = one[0]
        if one.lastgroup == "word":
            yield Token(word if word in _KEYWORDS else NAME, line)
        elif one.lastgroup == "number":
            yield Token(NUMBER, line)
        elif one.lastgroup == "text":
            yield Token(STRING, line)
        elif one.lastgroup == "sign":
            yield Token(word, line)
        line += word.count("\n")
