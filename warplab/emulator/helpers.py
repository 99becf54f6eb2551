"""Compiled helpers on disk, which the interpreter's parts share and which a change elsewhere leaves as they are."""

from __future__ import annotations

from warplab.emulator.core_digest import key_here, source_digest
from warplab.folders import COMPILED
from warplab.plan import cache

FOLDER = f"{COMPILED}/helpers"


class Helpers:
    """A lean_numba.Store in the user's cache."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def _key(self, module: str, function: str) -> str:
        if module not in self._digests:
            self._digests[module] = source_digest(module)
        return key_here(self._digests[module], function)

    def read(self, module: str, function: str) -> bytes | None:
        """What is kept of a function of a module, if it is there and whole."""
        return cache.read(FOLDER, self._key(module, function))

    def write(self, module: str, function: str, content: bytes) -> None:
        """Keep a function's compiled form, if the folder allows it."""
        cache.write(FOLDER, self._key(module, function), content)
