"""What a PTX module declares: functions with their parameters and directives, variables, numbers of registers.

One pass over the tokens, each of which is looked at once. Instructions are stepped over, from their name to their
semicolon. Whatever this reader does not understand it refuses, so that what it reports is all that ptxas will see.
Directives follow the PTX ISA, chapters "State Spaces, Types, and Variables" and "Directives".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NoReturn

from warplab.isa.text import PtxError, line_at, offset_of, plain, tokens

MAX_REGISTERS = 100_000  # that a function declares; the largest kernels of the course have 11,351
MAX_FUNCTIONS = 1000
MAX_ENTRIES = 256
MAX_VARIABLES = 20_000
MAX_DEPTH = 64  # of blocks in a function
# Bytes of one variable. Global memory is bounded by what a case may take of it.
_LARGEST = {"shared": 1 << 20, "local": 1 << 24, "const": 1 << 20, "param": 1 << 16, "global": 1 << 40, "reg": 64}
_LARGEST_INITIALISED = 1 << 22  # bytes, which lie in the machine code

_LINKING = frozenset((".visible", ".extern", ".weak", ".common"))
_SPACES = frozenset("." + space for space in _LARGEST)
_POINTEES = frozenset((".global", ".shared", ".local", ".const", ".generic"))
_LINE_DIRECTIVES = frozenset((".version", ".target", ".address_size", ".file", ".loc", ".pragma", ".section"))
_TABLES = frozenset((".branchtargets", ".calltargets", ".callprototype"))
_BYTES = {
    **{f".{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64)},
    **{".b128": 16, ".f16": 2, ".bf16": 2, ".f16x2": 4, ".bf16x2": 4, ".f32": 4, ".f64": 8, ".pred": 1},
}  # fmt: skip
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
_NAME = re.compile(r"[A-Za-z_$%][\w$%]*+", re.ASCII)
_INTEGER = re.compile(r"(?:0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64}|0[0-7]{1,22}|0|[1-9]\d{0,19})U?", re.ASCII)
_EXPRESSION = "a size is an expression: write the number that it gives"
_MOST_INTEGER = 1 << 63
_MOST_LINE = 1 << 31


@dataclass(frozen=True)
class DeclaredVariable:
    """A variable; `size` in bytes, 0 for one without extent. `function` holds it, "" where that is the module."""

    space: str
    name: str
    type: str  # "f32"
    size: int
    align: int
    function: str = ""
    external: bool = False


@dataclass(frozen=True)
class DeclaredFunction:
    """An entry or a function. `first`, `end` and `brace` are numbers of tokens; without a body `brace` is `end`."""

    name: str
    is_entry: bool
    external: bool
    result: str  # the name of its only result, if that is a `.param .b32`
    parameters: tuple[DeclaredVariable, ...]  # of an entry
    dimensions: Mapping[str, tuple[int, int, int]]  # ".maxntid", ".reqntid", ".reqnctapercluster"
    first: int
    brace: int  # where the body opens
    end: int  # the closing brace, or the semicolon
    shared: frozenset[str]  # variables in shared memory that its body names

    @property
    def is_defined(self) -> bool:
        """Whether it has a body."""
        return self.brace != self.end


@dataclass(frozen=True)
class Declarations:
    """All that a module declares, in the order of its text. `mentions` counts each variable's name in all of it."""

    functions: tuple[DeclaredFunction, ...]
    variables: tuple[DeclaredVariable, ...]
    mentions: Mapping[str, int]


@lru_cache(16)  # the same few texts are asked for by every case of a submission
def declarations(ptx: str) -> Declarations:
    """What a module declares. Raises PtxError, with the line, if it cannot be read or declares absurdly much."""
    text = plain(ptx)
    reader = _Reader(tokens(text))
    try:
        reader.module()
    except _Unread as stop:
        raise PtxError(str(stop), line_at(ptx, offset_of(text, reader.at))) from None
    return Declarations(tuple(reader.functions), tuple(reader.variables), reader.mentions())


class _Unread(Exception):
    """What is wrong with the token that the reader is at."""


class _Reader:
    """A module's tokens and how far they were read: `at` only ever grows."""

    def __init__(self, words: list[str]) -> None:
        self.words = [*words, ""]
        self.at = 0
        self.functions: list[DeclaredFunction] = []
        self.variables: list[DeclaredVariable] = []
        self.defined: set[str] = set()
        self.shared: set[str] = set()
        self.entries = 0
        self.function = ""  # that is being read
        self.registers = 0  # of it

    # Tokens

    def stop(self, message: str = "") -> NoReturn:
        word = self.words[self.at]
        raise _Unread(message or (f"it cannot be read near {word[:40]!r}" if word else "it ends too early"))

    def take(self) -> str:
        word = self.words[self.at]
        if not word:
            self.stop()
        self.at += 1
        return word

    def accept(self, word: str) -> bool:
        found = self.words[self.at] == word
        self.at += found
        return found

    def expect(self, word: str) -> None:
        if not self.accept(word):
            self.stop()

    def name(self) -> str:
        if not _NAME.fullmatch(self.words[self.at]):
            self.stop()
        return self.take()

    def integer(self, most: int = _MOST_INTEGER) -> int:
        """A literal; expressions of several are refused by whoever asks for what comes after it."""
        text = self.words[self.at]
        if not _INTEGER.fullmatch(text):
            self.stop(f"a number was expected instead of {text[:40]!r}" if text else "")
        digits = text.rstrip("U")
        value = int(digits, 8) if digits[0] == "0" and digits.isdigit() else int(digits, 0)
        if value >= most:
            self.stop(f"the number {text} is too large")
        self.at += 1
        return value

    def closed(self, word: str) -> None:
        """The bracket that ends a number."""
        if not self.accept(word):
            self.stop(_EXPRESSION)

    def parenthesised(self) -> list[str]:
        """What stands between a bracket that was read and the one that closes it."""
        start, depth = self.at, 1
        while depth:
            word = self.take()
            depth += (word == "(") - (word == ")")
        return self.words[start : self.at - 1]

    # Module

    def module(self) -> None:
        while self.words[self.at]:
            if not self.line_directive():
                self.declaration()

    def line_directive(self) -> bool:
        """Read a directive that declares nothing, if there is one. Their ends are where their grammar says."""
        word = self.words[self.at]
        if word not in _LINE_DIRECTIVES:
            return False
        self.at += 1
        if word == ".version":
            self.integer()
            self.at += self.words[self.at][:1] == "." and self.words[self.at][1:].isdecimal()
        elif word == ".address_size":
            self.integer()
        elif word == ".target":
            self.name()
            while self.accept(","):
                self.name()
        elif word == ".file":
            self.integer(_MOST_LINE)
            self.string()
            while self.accept(","):
                self.integer()
        elif word == ".loc":
            self.loc()
        elif word == ".pragma":
            self.pragma()
        else:
            self.section()
        return True

    def string(self) -> None:
        if self.take()[0] != '"':
            self.at -= 1
            self.stop()

    def pragma(self) -> None:
        self.string()
        while self.accept(","):
            self.string()
        self.expect(";")

    def loc(self) -> None:
        for _ in range(3):
            self.integer(_MOST_LINE)
        while self.accept(","):
            if self.accept("function_name"):
                self.name()
                if self.accept("+"):
                    self.integer()
            else:
                self.expect("inlined_at")
                for _ in range(3):
                    self.integer(_MOST_LINE)

    def section(self) -> None:
        while self.take() != "{":
            if self.words[self.at - 1][0] != "." and not _NAME.fullmatch(self.words[self.at - 1]):
                self.stop()
        while (word := self.take()) != "}":
            if word in "{;":
                self.stop()

    def declaration(self) -> None:
        first, linking = self.at, set()
        while self.words[self.at] in _LINKING:
            linking.add(self.take())
        word = self.words[self.at]
        external = ".extern" in linking
        if word in (".entry", ".func"):
            if self.function:
                self.stop(f"a {word} stands inside of '{self.function[:80]}'")
            self.at += 1
            self.callable(word == ".entry", external, first)
        elif word in _SPACES:
            self.at += 1
            found = self.declared(word[1:], external)
            self.expect(";")
            self.variables += found
            self.shared.update(v.name for v in found if v.space == "shared")
            if len(self.variables) > MAX_VARIABLES:
                self.stop(f"it declares more than {MAX_VARIABLES} variables")
        elif word == ".alias" and not linking:
            self.at += 1
            self.name()
            self.expect(",")
            self.name()
            self.expect(";")
        else:
            self.stop()

    # Functions

    def callable(self, is_entry: bool, external: bool, first: int) -> None:
        if self.accept(".attribute"):
            self.expect("(")
            self.parenthesised()
        result = ""
        if not is_entry and self.accept("("):
            words = self.parenthesised()
            result = words[2] if len(words) == 3 and words[:2] == [".param", ".b32"] else ""
        name = self.name()
        self.function, self.registers = name, 0
        parameters: tuple[DeclaredVariable, ...] = ()
        if self.accept("("):
            if is_entry:
                parameters = tuple(self.parameters())
            else:
                self.parenthesised()
        dimensions = self.directives()
        brace = self.at
        if not self.accept(";"):
            if name in self.defined:
                self.stop(f"the function '{name[:80]}' is defined twice")
            self.defined.add(name)
            self.expect("{")
            self.body()
        self.function = ""
        end = self.at - 1
        used = frozenset(self.shared.intersection(self.words[brace:end])) if self.shared else frozenset()
        self.functions.append(
            DeclaredFunction(name, is_entry, external, result, parameters, dimensions, first, brace, end, used)
        )
        if len(self.functions) > MAX_FUNCTIONS:
            self.stop(f"it has more than {MAX_FUNCTIONS} functions")
        self.entries += is_entry
        if self.entries > MAX_ENTRIES:
            self.stop(f"it has more than {MAX_ENTRIES} entries")

    def parameters(self) -> list[DeclaredVariable]:
        found: list[DeclaredVariable] = []
        if self.accept(")"):
            return found
        while True:
            self.expect(".param")
            found += self.declared("param", False, several=False)
            if self.accept(")"):
                return found
            self.expect(",")

    def directives(self) -> dict[str, tuple[int, int, int]]:
        """What stands between a function's parameters and its body."""
        dimensions: dict[str, tuple[int, int, int]] = {}
        while (word := self.words[self.at]) not in ("{", ";"):
            if word[:1] != ".":
                self.stop(_EXPRESSION if word and word in "+-*/<>" else "")
            self.at += 1
            if word == ".pragma":
                self.pragma()
                continue
            if self.accept("("):
                self.parenthesised()
            numbers = [self.integer()] if self.words[self.at][:1].isdigit() else []
            while numbers and self.accept(","):
                numbers.append(self.integer())
            if word in (".maxntid", ".reqntid", ".reqnctapercluster"):
                if not 1 <= len(numbers) <= 3:
                    self.stop(f"{word} has not one, two or three numbers")
                x, y, z = numbers + [1] * (3 - len(numbers))
                dimensions[word] = (x, y, z)
        return dimensions

    def body(self) -> None:
        words, depth = self.words, 1
        while depth:
            word = words[self.at]
            if word == "{":
                self.at += 1
                depth += 1
                if depth > MAX_DEPTH:
                    self.stop(f"blocks are nested more than {MAX_DEPTH} deep")
            elif word == "}":
                self.at += 1
                depth -= 1
            elif word == ";":
                self.at += 1
            elif word[:1] == ".":
                self.statement(word)
            elif word and words[self.at + 1] == ":" and _NAME.fullmatch(word):
                self.at += 2
            else:
                self.instruction()

    def statement(self, word: str) -> None:
        if word in _TABLES:
            self.instruction()
        elif not self.line_directive():
            self.declaration()

    def instruction(self) -> None:
        """Step over an instruction. It may have lists in braces, which do not nest."""
        if not self.words[self.at]:
            self.stop(f"the function '{self.function[:80]}' has no end")
        start = self.at
        try:
            end = self.words.index(";", start)
        except ValueError:
            self.stop(f"an instruction has no end, near {self.words[start][:40]!r}")
        inside = self.words[start:end]
        if inside[0] != "@" and not _NAME.fullmatch(inside[0]) and inside[0] not in _TABLES:
            self.stop()
        if "{" in inside or "}" in inside:
            braces = "".join(word for word in inside if word in "{}")
            if braces != "{}" * (len(braces) // 2):
                self.stop(f"an instruction has no end, near {self.words[start][:40]!r}")
        self.at = end + 1

    # Variables

    def declared(self, space: str, external: bool, several: bool = True) -> list[DeclaredVariable]:
        """The variables of one declaration, after its state space and up to what ends it."""
        align, lanes, kind, pointee = 0, 1, "", False
        while (word := self.words[self.at])[:1] == ".":
            self.at += 1
            if word == ".align":
                number = self.integer()
                align = align if pointee else number
            elif word in _VECTORS:
                lanes = _VECTORS[word]
            elif word == ".attribute":
                self.expect("(")
                self.parenthesised()
            elif word == ".ptr":
                pointee = True
            elif not (pointee and word in _POINTEES):
                if kind or word not in _BYTES:
                    self.at -= 1
                    self.stop(f"a variable is of the kind {word[:40]!r}, which is not supported")
                kind = word[1:]
        if not kind:
            self.stop()
        element = _BYTES["." + kind] * lanes
        found = [self.declarator(space, external, kind, element, align)]
        while several and self.accept(","):
            found.append(self.declarator(space, external, kind, element, align))
        return [] if space == "reg" else found

    def declarator(self, space: str, external: bool, kind: str, element: int, align: int) -> DeclaredVariable:
        name = self.name()
        extents: list[int] = []
        unsized = False
        if space == "reg":
            number = 1
            if self.accept("<"):
                number = self.integer()
                self.closed(">")
            self.registers += number
            if self.registers > MAX_REGISTERS:
                self.stop(f"'{self.function[:80]}' declares more than {MAX_REGISTERS} registers")
        while self.accept("["):
            if self.accept("]"):
                unsized = True
            else:
                extents.append(self.integer())
                self.closed("]")
            if len(extents) > 16:
                self.stop(f"the variable '{name[:80]}' has more than 16 dimensions")
        size = element * prod(extents)
        initialised = self.accept("=")
        values = self.initialiser() if initialised else 0
        if unsized:
            size *= values
        if size > (_LARGEST_INITIALISED if initialised else _LARGEST[space]):
            self.stop(f"the variable '{name[:80]}' of {space} memory is absurdly large, {size} bytes")
        return DeclaredVariable(space, name, kind, size, align or element, self.function, external)

    def initialiser(self) -> int:
        """Step over a variable's initialiser; the number of its values."""
        depth, values = 0, 1
        while True:
            word = self.words[self.at]
            if not word or (word == ";" and depth):
                self.stop()
            if depth <= 0 and word in ",;":
                return values
            values += word == ","
            depth += (word in "({") - (word in ")}")
            self.at += 1

    def mentions(self) -> Mapping[str, int]:
        """How often each variable's name stands in the module."""
        names = {v.name for v in self.variables}
        return Counter(word for word in self.words if word in names) if names else {}
