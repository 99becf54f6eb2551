"""Readable names of C++ variables (Itanium ABI), for messages; only the name itself, without types or scopes."""

from __future__ import annotations

import re

_LENGTH = re.compile(r"\d+")


def _source_names(text: str) -> list[str]:
    """The identifiers at the start of `text`, each written with its length before it."""
    names = []
    while match := _LENGTH.match(text):
        end = match.end() + int(match[0])
        names.append(text[match.end() : end])
        text = text[end:]
    return names


def demangled(name: str) -> str:
    """The variable's own name: `count` for `_ZZ6kernelPfE5count`, `table` for `_ZN4math5tableE` and `_ZL5table`.

    A name that is not mangled, or mangled in a way that is not understood, comes back as it is.
    """
    if name.startswith("_ZZ"):
        # Parameter types may hold an E too: the right one is followed by one name that ends the text.
        for match in re.finditer(r"E(?=\d)", name):
            names = _source_names(name[match.end() :])
            if names and re.fullmatch(rf"\d+{re.escape(names[0])}(_\d+|__\d+_)?", name[match.end() :]):
                return names[0]
        return name
    nested = re.match(r"_ZN[KVrO]*L?(.*)E$", name)
    names = _source_names(nested[1]) if nested else _source_names(name[3:]) if name.startswith("_ZL") else []
    return names[-1] if names and names[-1] else name
