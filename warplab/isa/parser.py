"""PTX text to `ptx.Module`. Accepts what NVVM and NVRTC emit, and hand-written PTX of that kind."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import PurePath

from warplab.errors import PlanError
from warplab.isa.syntax import (
    TYPE_BITS,
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
)
from warplab.isa.text import PtxError, line_at, plain

_STRING = re.compile(r'"[^"]*"')
_SPACE = re.compile(r"\s+")
_LINE_DIRECTIVE = re.compile(r"\.(loc|file|version|target|address_size)\b([^\n]*)")
_SECTION = re.compile(r"\.section\s+[^{};]*\{[^}]*\}", re.S)
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_HEADER = re.compile(r"((?:\.(?:visible|extern|weak|common)\s+)*)\.(entry|func)\b")
_STATEMENT = re.compile(r"[^;{}]+(?:\{[^{}]*\}[^;{}]*)*;")
_INSTRUCTION = re.compile(r"(?:@(!?)\s*([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*);", re.S)
# What names one of two operands only is damaged: the passes over a function look at both.
_TAKE_TWO = frozenset(("ld", "ldu", "st", "atom", "red", "mov", "cvt", "cvta"))
# Of a line more than seven digits long nothing is taken: no submission has so many lines.
_PLACE = r"(\d{1,9})\s+(\d{1,7})\s+(\d{1,9})"
_LOC = re.compile(rf"\s*{_PLACE}(?:[^\n]*?inlined_at\s+{_PLACE})?")
_INLINED = re.compile(rf"\.loc\s+{_PLACE}[^\n]*?inlined_at\s+{_PLACE}")
_FILE = re.compile(r'\.file\s+(\d{1,9})\s+"([^"]*)"')
_NAME = r"[A-Za-z_$%][\w$.]*"
_ARRAY = re.compile(rf"({_NAME})\s*((?:\[[^\]]*\]\s*)*)(?:=\s*(.*))?$", re.S)
_RANGE = re.compile(r"(%?[\w$]+?)<(\d+)>$")
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)U?$")
_POINTEE = re.compile(r"\.ptr\b(?:\s*\.(?:global|shared|local|const))?(?:\s*\.align\s+\d+)?")
_OFFSET = re.compile(rf"({_NAME})\s*\+\s*(-?\w+)$")
_SPACES = ("global", "shared", "local", "const", "param")
# What a text may ask for. Compilers stay far below; a text beyond could only be meant to exhaust the reader.
MAX_TEXT = 8 << 20  # characters
MAX_REGISTERS = 100_000  # of a function
MAX_VARIABLE = 256 << 20  # bytes
MAX_ALIGNMENT = 1 << 16  # bytes
MAX_NESTING = 64  # blocks in blocks
MAX_INLINED = 64  # functions inlined in each other whose lines are followed
MAX_OPERAND_NESTING = 4  # groups in operands
_REFERENCE = re.compile(r"\.(texref|samplerref|surfref)\b")
MAX_WORDS = 32  # in front of a variable's name
MAX_NAME = 4096  # characters of a variable's
MAX_DIGITS = 100  # of a number; Python itself refuses to read thousands
_GLUED = re.compile(r"(?:\.\w+\s*|\d+\s*)+")  # the directives of a declaration, between which no blank need be
_SKIPPED = (".pragma", ".maxntid", ".minnctapersm", ".reqntid", ".maxnreg", ".alias", ".noreturn", ".callprototype")


def _cleaned(text: str) -> tuple[str, dict[int, str]]:
    """The text without comments and with empty strings, and the files that .file directives number."""
    try:
        spoken = plain(text)
    except PtxError as error:
        raise PlanError(f"This PTX cannot be read: {error}; compile the kernel again.") from None
    files = {int(match[1]): text[match.start(2) : match.end(2)] for match in _FILE.finditer(spoken)}
    return _STRING.sub('""', spoken), files


class _Unreadable(Exception):
    """A piece of text that is not what it should be."""


def _error(near: str) -> _Unreadable:
    return _Unreadable(near)


_Place = tuple[int, ...]  # file, line, column


class _Lines:
    """Which lines of the submission the current .loc stands for: its own, and that of the outermost call around it."""

    def __init__(self, text: str, files: dict[int, str], source_name: str) -> None:
        wanted = PurePath(source_name).name
        self.ours = {n for n, path in files.items() if PurePath(path.replace("\\\\", "/")).name == wanted}
        # Where the code of a place was inlined. A call that was inlined itself is a place with an entry of its own,
        # which may stand anywhere in the text.
        self.calls: dict[_Place, _Place] = {}
        for match in _INLINED.finditer(text):
            numbers = tuple(map(int, match.groups()))
            self.calls.setdefault(numbers[:3], numbers[3:])
        self.start()

    def start(self) -> None:
        """A function begins: nothing is known of its first instructions."""
        self.current = self.outermost = 0

    def locate(self, arguments: str) -> None:
        match = _LOC.match(arguments)
        if not match:
            return
        place: _Place | None = tuple(int(g) for g in match.groups()[:3])
        assert place is not None
        if match[4]:
            self.calls[place] = tuple(int(g) for g in match.groups()[3:])
        if place[0] in self.ours and not place[1]:
            return  # code that the compiler made up: it belongs to whatever came before
        lines: list[int] = []
        followed = bool(match[4])
        for _ in range(MAX_INLINED):
            if place is None:
                break
            if place[0] in self.ours and place[1]:
                lines.append(place[1])
            # What was not inlined here may be inlined elsewhere.
            place, followed = self.calls.get(place) if followed else None, True
        if lines:
            self.current, self.outermost = lines[0], lines[-1]


class _Scope:
    """Register and variable names of a function, with nested blocks."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.stack: list[dict[str, Register]] = [{}]
        self.aliases: list[dict[str, str]] = [{}]
        self.labels: list[dict[str, str]] = [{}]
        self.starts = [0]  # where each block begins in the body
        self.counter = 0

    def open(self) -> None:
        if len(self.stack) > MAX_NESTING:
            raise PlanError(f"This PTX has more than {MAX_NESTING} blocks inside each other; write fewer.")
        self.stack.append({})
        self.aliases.append({})
        self.labels.append({})
        self.starts.append(len(self.function.body))

    def close(self) -> None:
        self.stack.pop()
        self.aliases.pop()
        labels, start = self.labels.pop(), self.starts.pop()
        if labels:
            self._rename_targets(labels, start)

    def label(self, name: str) -> str:
        """Declare a label. Those of inner blocks, such as inline assembly's, get names of their own."""
        if len(self.stack) <= 2:
            return name
        self.counter += 1
        self.labels[-1][name] = f"{name}@{self.counter}"
        return self.labels[-1][name]

    def _rename_targets(self, labels: dict[str, str], start: int) -> None:
        """Jumps may stand before their label, so a block's are known only at its end."""
        for item in self.function.body[start:]:
            if isinstance(item, Instruction):
                item.operands = tuple(
                    Symbol(labels[o.name]) if isinstance(o, Symbol) and o.name in labels else o for o in item.operands
                )

    def declare(self, names: str, kind: str) -> None:
        for name in names.split(","):
            name = name.strip()
            match = _RANGE.match(name)
            count = parse_integer(match[2]) if match else 1
            if len(self.function.registers) + count > MAX_REGISTERS:
                raise PlanError(
                    f"The PTX function {self.function.name[:60]} has more than {MAX_REGISTERS} registers; "
                    "split it into smaller kernels."
                )
            expanded = [f"{match[1]}{i}" for i in range(count)] if match else [name]
            for one in expanded:
                self.stack[-1][one] = Register(len(self.function.registers))
                self.function.registers.append(kind)

    def variable(self, variable: Variable) -> None:
        """Declare a variable; one that hides another of the same name gets a name of its own."""
        name = variable.name
        if name in self.function.variables:
            self.counter += 1
            variable.name = f"{name}@{self.counter}"
        self.aliases[-1][name] = variable.name
        self.function.variables[variable.name] = variable

    def register(self, name: str) -> Register | None:
        for names in reversed(self.stack):
            if name in names:
                return names[name]
        return None

    def symbol(self, name: str) -> str:
        for names in reversed(self.aliases):
            if name in names:
                return names[name]
        return name


def parse_integer(text: str) -> int:
    """A PTX integer literal. Raises ValueError for anything else, a constant expression for example."""
    if len(text) > MAX_DIGITS:
        raise ValueError
    text = text.removesuffix("U")
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def _split(text: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    depth = start = 0
    for position, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and not depth:
            yield text[start:position].strip()
            start = position + 1
    last = text[start:].strip()
    if last:
        yield last


class _Parser:
    def __init__(self, text: str, source_name: str) -> None:
        if len(text) > MAX_TEXT:
            raise PlanError(
                f"This PTX has {len(text)} characters, more than the {MAX_TEXT} that are read; "
                "make the kernel's unrolled loops shorter."
            )
        self.text, files = _cleaned(text)
        self.lines = _Lines(self.text, files, source_name)
        self.near = 0  # where in the text the parser is
        self.counted, self.line = 0, 1  # up to where its lines were counted, and the line there
        self.module = Module()
        self.scope: _Scope | None = None

    def parse(self) -> Module:
        try:
            return self._parse()
        except _Unreadable as error:
            raise self._refusal(str(error)) from None
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, struct.error) as error:
            # The text is not what a step of this parser takes it to be: a number is none, a part is missing.
            raise self._refusal(self.text[self.near : self.near + 200]) from error

    def _refusal(self, near: str) -> PlanError:
        """What is said of a text that cannot be read, with the line of the submission if a .loc has told it."""
        near = " ".join(near[:200].split())[:60]
        start = self.near + len(self.text[self.near :]) - len(self.text[self.near :].lstrip())
        line = f"line {line_at(self.text, start)} of the PTX"
        if self.lines.outermost:
            line += f", line {self.lines.outermost} of the submission"
        if _REFERENCE.search(near):
            return PlanError(
                f"This PTX declares a texture or surface ({line}), which the emulator does not have: use arrays in "
                "global memory."
            )
        return PlanError(f"This PTX cannot be read near {near!r} ({line}); compile the kernel again.")

    def _parse(self) -> Module:
        text, position, end = self.text, 0, len(self.text)
        while position < end:
            self.near = position
            match = _SPACE.match(text, position)
            if match:
                position = match.end()
                continue
            character = text[position]
            if character in "{}":
                self._brace(character)
                position += 1
                continue
            if character == ".":
                match = _LINE_DIRECTIVE.match(text, position) or _SECTION.match(text, position)
                if match is not None:
                    if match.re is _LINE_DIRECTIVE:
                        self._line_directive(match[1], match[2])
                    position = match.end()
                    continue
                match = _HEADER.match(text, position)
                if match and self.scope is None:
                    position = self._header(match)
                    continue
            match = _LABEL.match(text, position)
            if match and self.scope is not None:
                position = self._label(match)
                continue
            match = _STATEMENT.match(text, position)
            if match is None:
                raise _error(text[position : position + 200])
            self._statement(match[0].strip())
            position = match.end()
        if self.scope is not None:
            raise PlanError(
                f"This PTX ends inside the function {self.scope.function.name[:60]}; compile the kernel again."
            )
        return self.module

    def _line_directive(self, name: str, arguments: str) -> None:
        if name == "loc":
            self.lines.locate(arguments)
        elif name == "target":
            self.module.target = arguments.split(",")[0].strip()

    def _brace(self, character: str) -> None:
        if self.scope is None:
            raise _error(character)
        elif character == "{":
            self.scope.open()
        else:
            self.scope.close()
            if len(self.scope.stack) == 1:
                self.scope = None

    def _header(self, match: re.Match[str]) -> int:
        """`.entry name (params) directives {` or a prototype that ends with a semicolon."""
        text = self.text
        depth, position = 0, match.end()
        while text[position] not in "{;" or depth:
            depth += {"(": 1, ")": -1}.get(text[position], 0)
            position += 1  # beyond the end it is an IndexError
        header = text[match.end() : position]
        lists: list[str] = []

        def keep(group: re.Match[str]) -> str:
            lists.append(group[1])
            return f" \x00{len(lists) - 1} "

        words = re.sub(r"\(([^()]*)\)", keep, header).split()
        function = Function(name="", entry=match[2] == "entry")
        for word in words:
            if word.startswith("\x00"):
                variables = [self._variable_of(p, "param") for p in _split(lists[int(word[1:])])]
                if function.name:
                    function.parameters = variables
                else:
                    function.results = variables
            elif not function.name:
                function.name = word
            else:
                break  # directives
        self._directives(function, " ".join(words))
        if text[position] == ";":
            self.module.functions.setdefault(function.name, function)
            return position + 1
        function.defined = True
        self.module.functions[function.name] = function
        self.lines.start()
        self.scope = _Scope(function)
        for variable in function.parameters + function.results:
            self.scope.variable(variable)
        return position

    @staticmethod
    def _directives(function: Function, header: str) -> None:
        """Those that say what clusters a kernel is launched in; the others are for ptxas."""
        shape = re.search(r"\.reqnctapercluster\s+(\d+)\s*(?:,\s*(\d+)\s*)?(?:,\s*(\d+))?", header)
        if shape:
            x, y, z = (int(n or 1) for n in shape.groups())
            function.cluster = x, y, z
        function.explicit_cluster = ".explicitcluster" in header
        limit = re.search(r"\.maxclusterrank\s+(\d+)", header)
        function.max_cluster = int(limit[1]) if limit else 0

    def _label(self, match: re.Match[str]) -> int:
        assert self.scope is not None
        function, position = self.scope.function, match.end()
        table = re.compile(r"\s*\.branchtargets([^;]*);").match(self.text, position)
        if table:
            function.tables[match[1]] = [t.strip() for t in table[1].split(",")]
            return table.end()
        prototype = re.compile(r"\s*\.callprototype[^;]*;", re.S).match(self.text, position)
        if prototype:
            return prototype.end()
        function.body.append(Label(self.scope.label(match[1])))
        return position

    def _variable_of(self, text: str, space: str) -> Variable:
        """A declaration without its leading space: `.align 8 .b8 name[16] = {...}`."""
        text = _POINTEE.sub("", text)  # what a parameter points to
        words = iter(text.split(None, MAX_WORDS))
        align, kind, vector = 0, "", 1
        external = False
        for word in words:
            if not word.startswith("."):
                break
            word = word[1:]
            if word == "align":
                align = parse_integer(next(words, ""))
                if not 0 < align <= MAX_ALIGNMENT or align & (align - 1):
                    raise PlanError(
                        f"This PTX asks for an alignment of {align} bytes; it has to be a power of two and "
                        f"at most {MAX_ALIGNMENT}."
                    )
            elif word in ("v2", "v4"):
                vector = int(word[1])
            elif word in TYPE_BITS:
                kind = word
            elif word == "extern":
                external = True
        if not kind:
            raise _error(text)
        rest = text[text.rindex("." + kind, 0, text.index("=") if "=" in text else len(text)) + len(kind) + 1 :].strip()
        match = _ARRAY.match(rest)
        if not match or len(match[1]) > MAX_NAME:
            raise _error(text)
        element = max(TYPE_BITS[kind] // 8, 1) * vector
        dimensions = re.findall(r"\[([^\]]*)\]", match[2])
        count = 1
        for dimension in dimensions:
            count *= parse_integer(dimension.strip()) if dimension.strip() else 0
            if not 0 <= element * count <= MAX_VARIABLE:
                raise PlanError(
                    f"This PTX declares {match[1][:60]} with more than {MAX_VARIABLE >> 20} MiB; make it smaller, "
                    "or an array that the host function allocates."
                )
        initial, pointers = self._initialiser(match[3], kind) if match[3] else (b"", ())
        size = max(element * count, len(initial))
        return Variable(match[1], space, size, align or element, initial, pointers, external)

    def _initialiser(self, text: str, kind: str) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
        data, pointers = bytearray(), []
        size = TYPE_BITS[kind] // 8
        for item in re.split(r"[{},]", text.rstrip("; \n")):
            item = item.strip()
            if not item:
                continue
            generic = re.match(r"generic\((.*)\)$", item)
            item = generic[1] if generic else item
            if item[0] in "_$" or item[0].isalpha() and not item.startswith(("0f", "0d")):
                if size != 8:
                    raise _error(text)  # half of an address
                name, _, offset = item.partition("+")
                pointers.append((len(data), name.strip(), parse_integer(offset.strip()) if offset else 0))
                data += bytes(size)
                continue
            value = self._number(item)
            bits = _bits(value, kind)
            data += bits.to_bytes(size, "little")
        return bytes(data), tuple(pointers)

    def _number(self, text: str) -> Immediate:
        if text[:2] in ("0f", "0F"):
            return Immediate(int(text[2:], 16), "f32")
        if text[:2] in ("0d", "0D"):
            return Immediate(int(text[2:], 16), "f64")
        if _INTEGER.match(text):
            return Immediate(parse_integer(text))
        try:
            return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64")
        except ValueError:
            raise _error(text) from None

    def _statement(self, text: str) -> None:
        if text[0] != ".":
            self._instruction(text)
            return
        glued = _GLUED.match(text)
        if glued:
            text = glued[0].replace(".", " .").lstrip() + " " + text[glued.end() :].lstrip()
        words = text.split(None, 1)
        if words[0].startswith(_SKIPPED):
            return
        if words[0] == ".reg":
            self._registers(text)
            return
        space = next((w[1:] for w in text.split() if w[1:] in _SPACES and w[0] == "."), None)
        if space is None:
            raise _error(text)
        declaration = text[:-1]
        prefix = declaration[: declaration.index("." + space)]
        body = declaration[len(prefix) + len(space) + 1 :]
        variable = self._variable_of(body, space)
        variable.external = "extern" in prefix
        if self.scope is None:
            self.module.variables.setdefault(variable.name, variable)
        else:
            self.scope.variable(variable)

    def _registers(self, text: str) -> None:
        if self.scope is None:
            raise _error(text)
        match = re.match(r"\.reg\s+(?:\.v[24]\s+)?\.(\w+)\s+(.*);", text, re.S)
        if not match or match[1] not in TYPE_BITS:
            raise _error(text)
        self.scope.declare(match[2], match[1])

    def _instruction(self, text: str) -> None:
        match = _INSTRUCTION.match(text)
        if not match or self.scope is None:
            raise _error(text)
        negated, guard, opcode, operands = match.groups()
        guard_index = -1
        if guard:
            register = self.scope.register(guard)
            if register is None:
                raise _error(text)
            guard_index = register.index
        parsed = tuple(self._operand(o) for o in _split(operands))
        if len(parsed) < 2 and opcode.partition(".")[0] in _TAKE_TWO:
            raise _error(text)
        self.line += self.text.count("\n", self.counted, self.near)
        self.counted = self.near
        lines, negative = self.lines, negated == "!"
        # ptxas names the line where an instruction begins for some and the line where it ends for others.
        places = tuple(dict.fromkeys((self.line, self.line + text.count("\n"))))
        self.scope.function.body.append(
            Instruction(opcode, parsed, guard_index, negative, lines.current, text, lines.outermost, places)
        )

    def _operand(self, text: str, depth: int = 0) -> Operand:
        assert self.scope is not None
        if depth > MAX_OPERAND_NESTING:
            raise _error(text)
        register = self.scope.register(text)
        if register is not None:
            return register
        first = text[0]
        if first == "[":
            return self._address(text[1:-1].strip(), depth)
        if first in "{(":
            return Group(tuple(self._operand(t, depth + 1) for t in _split(text[1:-1])))
        if text == "_":
            return Sink()
        if first == "!":
            return Negated(self._operand(text[1:].strip(), depth + 1))
        if "|" in text:
            left, right = text.split("|")
            return Pair(self._operand(left.strip(), depth + 1), self._operand(right.strip(), depth + 1))
        if first.isdigit() or first in "-+.":
            return self._number(text)
        if first == "%":
            return Special(text[1:])
        if text == "WARP_SZ":
            return Immediate(32)
        match = _OFFSET.match(text)
        if match:
            return Symbol(self.scope.symbol(match[1]), parse_integer(match[2]))
        return Symbol(self.scope.symbol(text))

    def _address(self, text: str, depth: int) -> Address:
        parts = list(_split(text))
        rest = tuple(self._operand(p, depth + 1) for p in parts[1:])
        text = parts[0]
        match = _OFFSET.match(text)
        offset = 0
        if match:
            text, offset = match[1], parse_integer(match[2])
        base = self._operand(text, depth + 1)
        if isinstance(base, Register | Immediate):
            return Address(base, offset, rest)
        if isinstance(base, Symbol):
            return Address(Symbol(base.name), base.offset + offset, rest)
        raise _error(text)


def _bits(value: Immediate, kind: str) -> int:
    """The bits of a literal as a value of type `kind`."""
    width = TYPE_BITS[kind]
    if value.kind == "int":
        if kind in ("f32", "f64"):
            return int.from_bytes(struct.pack("<f" if kind == "f32" else "<d", float(value.value)), "little")
        return value.value & ((1 << width) - 1)
    if value.kind == "f64" and kind == "f32":
        number = struct.unpack("<d", struct.pack("<Q", value.value))[0]
        return int.from_bytes(struct.pack("<f", number), "little")
    if value.kind == "f32" and kind == "f64":
        number = struct.unpack("<f", struct.pack("<I", value.value))[0]
        return int.from_bytes(struct.pack("<d", number), "little")
    return value.value & ((1 << width) - 1)


literal_bits = _bits


def parse(text: str, source_name: str = "submission.py") -> Module:
    """Parse PTX. Instructions carry the line of `source_name` that they came from, 0 where it is unknown.

    Raises PlanError when the text is not PTX.
    """
    return _Parser(text, source_name).parse()
