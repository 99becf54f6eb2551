"""What a plan needs to know of a PTX module, read from its text: entries, parameters, launch bounds, externals.

The emulator has the full parser; this one reads declarations only, so that capture need not load it.
Directives follow the PTX ISA: .entry, .param, .maxntid, .reqntid, .reqnctapercluster, .maxnreg, .shared, .extern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from warplab.plan.model import Dim3

_SYMBOL = r"[A-Za-z_$%][\w$]*"
_ENTRY = re.compile(
    rf"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.entry\s+({_SYMBOL})\s*(?:\(([^)]*)\))?([^{{;]*)\{{", re.MULTILINE
)
_PARAM = re.compile(
    rf"\.param\s+(?:\.align\s+(\d+)\s+)?\.([a-z]\d+)\s*(?:\.ptr(?:\s*\.\w+)*(?:\s*\.align\s+\d+)?\s+)?({_SYMBOL})"
    r"\s*(?:\[(\d+)\])?"
)
_DIMENSIONS = re.compile(r"\.(maxntid|reqntid|reqnctapercluster)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_SHARED = re.compile(
    rf"^[ \t]*(?:\.visible\s+|\.weak\s+)*\.shared\s+(?:\.align\s+(\d+)\s+)?\.([a-z]\d+)\s+({_SYMBOL})((?:\[\d+\])*)",
    re.MULTILINE,
)
_EXTERN = re.compile(rf"\.extern\s+\.func\s*(?:\([^)]*\))?\s*({_SYMBOL})\s*[(;]")
_FILE = re.compile(r'^([ \t]*\.file[ \t]+\d+[ \t]+")([^"\n]*)(")', re.MULTILINE)
_COMPILER = re.compile(r"Cuda compilation tools, release [\d.]+, V([\d.]+)")
_LOC = re.compile(r"[ \t]*\.loc[ \t]+(\d+)[ \t]+(\d+)")
_WIDTH = re.compile(r"[a-z](\d+)")

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


def entries(ptx: str) -> dict[str, Entry]:
    """All kernels of a module, by symbol."""
    return {m.group(1): _entry(m.group(1), m.group(2) or "", m.group(3)) for m in _ENTRY.finditer(ptx)}


def _entry(name: str, parameters: str, directives: str) -> Entry:
    dims: dict[str, Dim3] = {}
    for m in _DIMENSIONS.finditer(directives):
        dims[m.group(1)] = (int(m.group(2)), int(m.group(3) or 1), int(m.group(4) or 1))
    found = tuple(_parameter(m) for m in _PARAM.finditer(parameters))
    maximum = prod(dims["maxntid"]) if "maxntid" in dims else None
    return Entry(name, found, maximum, dims.get("reqntid"), dims.get("reqnctapercluster"))


def _parameter(m: re.Match[str]) -> EntryParameter:
    width = _type_size(m.group(2))
    return EntryParameter(m.group(2), width * int(m.group(4) or 1), int(m.group(1) or width))


def _type_size(ptx_type: str) -> int:
    m = _WIDTH.fullmatch(ptx_type)
    return max(1, int(m.group(1)) // 8) if m else 8


def static_shared_bytes(ptx: str, entry: str) -> int:
    """Bytes of the statically sized shared arrays that an entry declares or names, each aligned.

    Arrays that only a function it calls uses are not seen; ptxas gives the exact figure when the code is assembled.
    """
    body = _body(ptx, entry)
    total = 0
    for m in _SHARED.finditer(ptx):
        if not re.search(rf"(?<![\w$]){re.escape(m.group(3))}(?![\w$])", body):
            continue
        width = _type_size(m.group(2))
        count = prod(int(n) for n in re.findall(r"\d+", m.group(4)))
        align = int(m.group(1) or width)
        total = (total + align - 1) // align * align + width * count
    return total


def _body(ptx: str, entry: str) -> str:
    """The text from an entry's opening brace to the next entry."""
    start, end = 0, 0
    for m in _ENTRY.finditer(ptx):
        if start:
            end = m.start()
            break
        if m.group(1) == entry:
            start = m.end()
    return ptx[start : end or len(ptx)] if start else ""


def externals(ptx: str) -> list[str]:
    """Functions that the module calls but does not contain, without those that the driver itself provides."""
    return [name for name in dict.fromkeys(_EXTERN.findall(ptx)) if name not in _BUILT_IN]


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


def with_max_registers(ptx: str, entry: str, registers: int) -> str:
    """The module with `.maxnreg` on one entry.

    Numba hands max_registers to its linker; a plan has no linker options, the limit belongs to the code.
    """
    for m in _ENTRY.finditer(ptx):
        if m.group(1) == entry:
            brace = m.end() - 1
            return f"{ptx[:brace]}.maxnreg {registers}\n{ptx[brace:]}"
    return ptx


def line_of(ptx: str, ptx_line: int, file: str) -> int | None:
    """The source line, in `file`, that a line of the PTX (counted from 1) was made from; None if it is of another."""
    numbers = {m.group(1).split()[1] for m in _FILE.finditer(ptx) if m.group(2) == file}
    for text in reversed(ptx.splitlines()[:ptx_line]):
        if text.startswith("}"):  # the end of the function before
            return None
        m = _LOC.match(text)
        if m:
            return int(m.group(2)) if m.group(1) in numbers and int(m.group(2)) else None
    return None
