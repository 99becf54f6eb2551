"""Line information for PTX that stands for itself: each instruction is of the line of the PTX that it stands on."""

from __future__ import annotations

import re

from warplab.isa.text import plain

_PLACE = re.compile(r"[ \t]*+\.(?:loc|file)\b")
_INSTRUCTION = re.compile(r"[ \t]*+[@A-Za-z_$%]")
_ENDS = (";", "{", "}", ":")


def with_own_lines(ptx: str, name: str) -> str:
    """The module with a `.loc` before each instruction that names its line in `ptx`, a file called `name`.

    `.loc` and `.file` of the module itself are dropped: they name another file. Raises PtxError.
    """
    lines: list[str] = []
    depth, ended = 0, True
    for number, (line, bare) in enumerate(zip(ptx.splitlines(), plain(ptx).splitlines(), strict=True), 1):
        if _PLACE.match(bare) and ended:
            lines.append("")
            continue
        if depth and ended and _INSTRUCTION.match(bare):
            lines.append(f".loc 1 {number} 0")
        lines.append(line)
        depth += bare.count("{") - bare.count("}")
        code = bare.strip()
        ended = code.endswith(_ENDS) if code else ended
    return "\n".join([*lines, f'.file 1 "{name}"', ""])
