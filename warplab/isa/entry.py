"""What a plan needs to know of a PTX module: entries, parameters, launch bounds, externals, lines; and small edits.

`warplab.isa.declarations` reads the module; the emulator has a full parser of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import MappingProxyType

from warplab.isa.declarations import DeclaredFunction, declarations
from warplab.isa.text import offset_of, plain

Dim3 = tuple[int, int, int]

_FILE = re.compile(r'^([ \t]*+\.file[ \t]++\d++[ \t]++")([^"\n]*+)(")', re.MULTILINE)
_NUMBERED_FILE = re.compile(r'^([ \t]*+\.file[ \t]++(\d++)[ \t]++)"([^"\n]*+)"', re.MULTILINE)
# A line of a file: of an instruction, or where it was inlined.
_PLACE = re.compile(r"((?:^[ \t]*+\.loc|inlined_at)[ \t]++(\d{1,9})[ \t]++)(\d{1,9})", re.MULTILINE)
_COMPILER = re.compile(r"Cuda compilation tools, release [\d.]+, V([\d.]+)")
_LOC = re.compile(r"[ \t]*+\.loc[ \t]++(\d{1,9})[ \t]++(\d{1,9})\b")
_PRINTF = re.compile(r"(?<![\w$%])vprintf(?![\w$%])")

# Provided by the driver's own device runtime, without any library being linked.
_BUILT_IN = frozenset({"vprintf", "malloc", "free", "__assertfail"})


@dataclass(frozen=True)
class EntryParameter:
    """One `.param`: its PTX type ("f32", "u64", "b8"), its size and alignment in bytes."""

    type: str
    size: int
    align: int

    @property
    def is_aggregate(self) -> bool:
        """Whether it is a byte array: a struct or a vector type passed by value."""
        return self.type == "b8" and self.size > 1


@dataclass(frozen=True)
class Entry:
    """One kernel of a PTX module."""

    name: str
    parameters: tuple[EntryParameter, ...]
    max_threads: int | None  # threads a block may have at most, from .maxntid
    required_block: Dim3 | None  # from .reqntid
    cluster: Dim3 | None  # from .reqnctapercluster


@lru_cache(16)
def entries(ptx: str) -> Mapping[str, Entry]:
    """All kernels of a module, by symbol. Raises PtxError, as everything here that reads declarations."""
    return MappingProxyType({f.name: _entry(f) for f in declarations(ptx).functions if f.is_entry and f.is_defined})


def _entry(function: DeclaredFunction) -> Entry:
    dims = function.dimensions
    found = tuple(EntryParameter(p.type, p.size, p.align) for p in function.parameters)
    maximum = prod(dims[".maxntid"]) if ".maxntid" in dims else None
    return Entry(function.name, found, maximum, dims.get(".reqntid"), dims.get(".reqnctapercluster"))


def static_shared_bytes(ptx: str, entry: str) -> int:
    """Bytes of the statically sized shared arrays that an entry declares or names, each aligned.

    Arrays that only a function it calls uses are not seen; ptxas gives the exact figure when the code is assembled.
    """
    module = declarations(ptx)
    named = next((f.shared for f in module.functions if f.name == entry and f.is_defined), frozenset())
    total = 0
    for v in module.variables:
        if v.space == "shared" and not v.external and v.function in ("", entry) and v.name in named:
            align = max(v.align, 1)
            total = (total + align - 1) // align * align + v.size
    return total


def externals(ptx: str) -> list[str]:
    """Functions that the module calls but does not contain, without those that the driver itself provides.

    A vprintf of another form than compilers declare is none of the driver's: it could not be silenced.
    """
    named = dict.fromkeys(f.name for f in declarations(ptx).functions if f.external and not f.is_entry)
    strange = {f.name for f in declarations(ptx).functions if f.name == "vprintf" and not f.result}
    return [name for name in named if name not in _BUILT_IN or name in strange]


def compiler_version(ptx: str) -> str:
    """The version of the compiler that wrote the module, from its header, such as "13.0.88"; "" if it does not say."""
    m = _COMPILER.search(ptx[:1000])
    return m.group(1) if m else ""


def rename_files(ptx: str, path: str, name: str) -> str:
    """The module with every `.file` reduced to a name: `name` for the submission at `path`, else the last component.

    Captures run in random folders and headers lie anywhere; without this the same submission would give different PTX
    on each machine and each time.
    """

    def renamed(m: re.Match[str]) -> str:
        file = name if m.group(2) == path else re.split(r"[/\\\\]", m.group(2))[-1]
        return m.group(1) + file + m.group(3)

    return _FILE.sub(renamed, ptx)


def shift_lines(ptx: str, file: str, by: int, to: str) -> str:
    """The module with the lines of one `.file`, named by its path or the end of it, as lines further down in `to`."""
    numbers = {
        m.group(2) for m in _NUMBERED_FILE.finditer(ptx) if m.group(3) == file or m.group(3).endswith(f"/{file}")
    }

    def shifted(m: re.Match[str]) -> str:
        return f"{m.group(1)}{int(m.group(3)) + by}" if m.group(2) in numbers else m.group(0)

    def renamed(m: re.Match[str]) -> str:
        return f'{m.group(1)}"{to}"' if m.group(2) in numbers else m.group(0)

    return _NUMBERED_FILE.sub(renamed, _PLACE.sub(shifted, ptx)) if numbers else ptx


def variable_size(ptx: str, symbol: str) -> int | None:
    """Bytes of a variable of global or constant memory of the module; None if it has none of this name."""
    found = (v for v in declarations(ptx).variables if v.name == symbol and v.space in ("const", "global"))
    return next((v.size for v in found if not v.function), None)


def with_initial(ptx: str, symbol: str, content: bytes) -> str:
    """The module with `content`, as many bytes as the variable has, as what one of its variables starts with."""
    declared = re.compile(
        rf"(\.(?:const|global)\b[^;{{}}]*?)\.\w++\s++({re.escape(symbol)})\s*+(?:\[[^\]]*+\]\s*+)*(=[^;]*+)?;"
    )
    m = declared.search(plain(ptx))
    if m is None:
        return ptx
    align = "" if ".align" in m.group(1) else f".align {16 if len(content) % 16 == 0 else 8} "
    values = ", ".join(map(str, content))
    return f"{ptx[: m.start()]}{m.group(1)}{align}.b8 {symbol}[{len(content)}] = {{{values}}};{ptx[m.end() :]}"


def with_max_registers(ptx: str, entry: str, registers: int) -> str:
    """The module with `.maxnreg` on one entry, if the assembler would obey such a limit there.

    Numba and CuPy give the limit to the assembler; a plan has no assembler options, so the code carries it. ptxas
    ignores its option for an entry with `.maxntid` or `.reqntid` ("overriding global maxrregcount with entry-specific
    value computed using thread count", ptxas 13.0), so such an entry stays as it is.
    """
    for f in declarations(ptx).functions:
        if f.is_entry and f.is_defined and f.name == entry and not {".maxntid", ".reqntid"} & set(f.dimensions):
            brace = offset_of(plain(ptx), f.brace)
            return f"{ptx[:brace]}.maxnreg {registers}\n{ptx[brace:]}"
    return ptx


def without_printing(ptx: str) -> str:
    """The module with a printf that prints nothing; lines keep their numbers.

    The driver formats what kernels print on the host, in the process that judges: `%2000000000d` costs it seconds and
    gigabytes a launch. Nobody reads it there; the emulator keeps what is printed, for the learner.
    """
    declared = [f for f in declarations(ptx).functions if f.name == "vprintf" and f.external and f.result]
    if not declared:
        return ptx
    text = plain(ptx)
    pieces, start = [], 0
    edits = [(m.start(), m.end(), "_warplab_silence") for m in _PRINTF.finditer(text)]
    for f in declared:
        extern, end = text.index(".extern", offset_of(text, f.first)), offset_of(text, f.end)
        edits += [(extern, extern + len(".extern"), ""), (end, end + 1, f" {{ st.param.b32 [{f.result}], 0; ret; }}")]
    for begin, end, replacement in sorted(edits):
        pieces += [ptx[start:begin], replacement]
        start = end
    return "".join([*pieces, ptx[start:]])


def line_of(ptx: str, ptx_line: int, file: str) -> int | None:
    """The source line, in `file`, that a line of the PTX (counted from 1) was made from; None if it is of another."""
    numbers = {m.group(1).split()[1] for m in _FILE.finditer(ptx) if m.group(2) == file}
    for text in reversed(ptx.split("\n")[:ptx_line]):
        if text.startswith("}"):  # the end of the function before
            return None
        m = _LOC.match(text)
        if m:
            return int(m.group(2)) if m.group(1) in numbers and int(m.group(2)) else None
    return None
