"""Names of compiled functions that do not depend on how many were compiled before.

Numba counts the function objects that it compiles and writes the count into each symbol (an ABI tag: `B2v8`). A kernel
that is defined inside the host function is a new object in every call, so the same code would have another name each
time. Here versions are counted anew in each kernel, in the order in which its PTX names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TAG = re.compile(r"B(\d{1,2})v(\d{1,9})(?=B)")  # a tag with the module's flags follows it


def versions(ptx: str) -> dict[str, str]:
    """The versions that a module names, each with its new number."""
    found = dict.fromkeys(m.group(2) for m in _tags(ptx))
    return {version: str(number) for number, version in enumerate(found, 1)}


def renumbered(text: str, numbers: Mapping[str, str]) -> str:
    """A module, or a symbol, with the new numbers; a version that has none stays as it is."""
    pieces, start = [], 0
    for m in _tags(text):
        tag = f"v{numbers.get(m.group(2), m.group(2))}"
        pieces += [text[start : m.start()], f"B{len(tag)}{tag}"]
        start = m.end()
    return "".join([*pieces, text[start:]])


def _tags(text: str) -> list[re.Match[str]]:
    """Where a tag's length is the one that it states: `B2v8`, but not `B2v88`."""
    return [m for m in _TAG.finditer(text) if int(m.group(1)) == len(m.group(2)) + 1]
