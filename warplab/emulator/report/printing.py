"""What device printf wrote: the interpreter keeps raw argument bytes, this formats them."""

from __future__ import annotations

import re
import struct
from functools import partial

import numpy as np

from warplab.emulator.core.state.layout import PRINT_RECORD_BYTES
from warplab.emulator.memory import AddressSpace

_CONVERSION = re.compile(r"%(?:(%)|([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp]))")


_WIDEST = 1000


class _Arguments:
    """Reads a vprintf argument block: each argument aligned to its size."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, size: int, code: str) -> int | float:
        self.place = -(-self.place // size) * size
        chunk = self.data[self.place : self.place + size].ljust(size, b"\0")
        self.place += size
        return struct.unpack("<" + code, chunk)[0]


def _bounded(digits: str | None) -> str | None:
    """A width or precision that cannot fill the memory with blanks."""
    return str(max(-_WIDEST, min(int(digits), _WIDEST))) if digits else digits


def _format_one(match: re.Match[str], arguments: _Arguments, space: AddressSpace) -> str:
    percent, flags, width, precision, length, kind = match.groups()
    if percent:
        return "%"
    width = str(arguments.take(4, "i")) if width == "*" else width or ""
    precision = str(arguments.take(4, "i")) if precision == "*" else precision
    width, precision = _bounded(width) or "", _bounded(precision)
    template = "%" + flags + width + (f".{precision}" if precision is not None else "")
    if kind in "eEfFgGaA":
        value = arguments.take(8, "d")
        return float(value).hex() if kind in "aA" else (template + kind) % value
    if kind == "s":
        return (template + "s") % space.read_string(int(arguments.take(8, "q")))
    if kind == "p":
        return f"0x{int(arguments.take(8, 'Q')):x}"
    if kind == "c":
        return (template + "c") % chr(int(arguments.take(4, "i")) & 255)
    wide = length in ("l", "ll", "j", "z", "t")
    code = ("q" if wide else "i") if kind in "di" else ("Q" if wide else "I")
    value = int(arguments.take(8 if wide else 4, code))
    return (template + ("d" if kind in "diu" else kind)) % value


def format_prints(space: AddressSpace, data: np.ndarray, room: int) -> tuple[str, int]:
    """The print records of a launch in the order in which the warps issued them, and the room that is left.

    A record takes as many characters of the room as its text or its format has, whichever is longer: a format may give
    nothing and still be work. The last text is cut to fit, and no room is left then.
    """
    output = []
    for start in range(0, data.size, PRINT_RECORD_BYTES):
        record = data[start : start + PRINT_RECORD_BYTES].tobytes()
        text = space.read_string(struct.unpack("<q", record[:8])[0])
        arguments = _Arguments(record[8:])
        written = _CONVERSION.sub(partial(_format_one, arguments=arguments, space=space), text)
        output.append(written[:room])
        room -= max(len(written), len(text))
        if room <= 0:
            return "".join(output), 0
    return "".join(output), room
