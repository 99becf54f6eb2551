"""A per-user cache of files that can be made again: written whole or not at all, checked when read.

It lies where `warplab.folders` says. A folder that cannot be written to
makes things slower, never wrong.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from warplab.files import write_whole
from warplab.folders import cache_folder

_DIGEST = 32


def folder() -> Path:
    """The cache's folder, which may not exist yet."""
    return cache_folder()


def key_of(*parts: str | bytes) -> str:
    """A file name for what these parts determine."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def read(kind: str, key: str) -> bytes | None:
    """What was written under this key, or None if nothing was or if the file is damaged."""
    try:
        data = (folder() / kind / key).read_bytes()
    except (OSError, RuntimeError):
        return None
    content = data[_DIGEST:]
    return content if hashlib.sha256(content).digest() == data[:_DIGEST] else None


def write(kind: str, key: str, content: bytes) -> None:
    """Keep content under a key, if the folder allows it."""
    with suppress(OSError, RuntimeError):
        write_whole(folder() / kind / key, hashlib.sha256(content).digest() + content)
