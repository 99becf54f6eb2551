"""Control codes of machine code from Volta on, read from a cubin: how long an instruction holds its warp, for what it
waits, and what it signals when it is done.

An instruction is 128 bits. From bit 105 on: 4 bits of cycles until the warp may issue its next one, 1 bit of a hint, 3
bits with the barrier that it signals once its result is written, 3 with the one once its operands are read (7: none),
and 6 with the barriers that it waits for (Jia, Maggioni, Staiger, Scarpazza: Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking, arxiv.org/abs/1804.06826, section 2.1).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_SIZE = 16  # bytes of an instruction
_SECTION = struct.Struct("<IIQQQQIIQQ")  # a section header of a 64-bit ELF file
_NAME, _OFFSET, _LENGTH = 0, 4, 5
_TEXT = b".text."
_NONE = 7


class Control(NamedTuple):
    """`wrote` and `read` are barriers, -1 for none; `waits` has bit b set for barrier b."""

    stall: int  # cycles
    wrote: int
    read: int
    waits: int


def control_codes(image: bytes) -> dict[str, tuple[Control, ...]]:
    """The control codes of each kernel and function of a cubin, in the order of their instructions.

    Empty for what is no 64-bit ELF file.
    """
    try:
        return _sections(image)
    except (struct.error, ValueError):
        return {}


def _sections(image: bytes) -> dict[str, tuple[Control, ...]]:
    if image[:5] != b"\x7fELF\x02":
        return {}
    (start,) = struct.unpack_from("<Q", image, 40)
    count, names = struct.unpack_from("<2H", image, 60)
    headers = [_SECTION.unpack_from(image, start + _SECTION.size * number) for number in range(count)]
    strings = headers[names][_OFFSET]
    found = {}
    for header in headers:
        begin = strings + header[_NAME]
        name = image[begin : image.index(b"\0", begin)]
        if name.startswith(_TEXT):
            code = image[header[_OFFSET] : header[_OFFSET] + header[_LENGTH]]
            upper = (words[1] for words in struct.iter_unpack("<2Q", code[: len(code) // _SIZE * _SIZE]))
            found[name.removeprefix(_TEXT).decode()] = tuple(_control(word >> 41) for word in upper)
    return found


def _control(bits: int) -> Control:
    wrote, read = bits >> 5 & 7, bits >> 8 & 7
    return Control(bits & 15, -1 if wrote == _NONE else wrote, -1 if read == _NONE else read, bits >> 11 & 63)
