"""Files that are there whole or not at all, whoever reads them meanwhile and however the writer ends."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Make or replace the file at `path`, with its folder; text as UTF-8. Raises OSError with the name of `path` or of
    its folder, and leaves what was there.

    A process that is killed here may leave a file behind that begins with a dot, which no pattern for reports matches.
    """
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:  # unlike tempfile, with the permissions of any new file
            file.write(data)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # there is none where none can be made
            temporary.unlink()
        if isinstance(error, OSError):  # of the temporary file, or of none where the disc is full
            error.filename, error.filename2 = str(path), None
        raise
