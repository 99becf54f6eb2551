"""A learner's own copies of the chapters: `make lab` opens mine/, so that studying changes no file of the course.

A copy that the learner has not changed is renewed with its chapter; one that they have changed stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from autograder.spec.lab import CHECKOUT
from warplab.files import write_whole

_MADE = ".made.json"  # the digest of each copy as it was written


def lay_out(chapters: Path, mine: Path) -> list[str]:
    """Write the copies that are missing or old. Gives the names of changed copies whose chapter is newer.

    Raises OSError.
    """
    record = mine / _MADE
    made: dict[str, str] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    newer = []
    for chapter in sorted(chapters.glob("*.ipynb")):
        text, copy = chapter.read_text(encoding="utf-8"), mine / chapter.name
        if made.get(chapter.name) == _digest(text) and copy.exists():
            continue
        if copy.exists() and _digest(copy.read_text(encoding="utf-8")) != made.get(chapter.name):
            newer.append(chapter.name)
            continue
        write_whole(copy, text)
        made[chapter.name] = _digest(text)
        write_whole(record, json.dumps(made, indent=1) + "\n")
    return newer


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> int:
    """Exit code 0, or 2 if the copies cannot be written."""
    mine = CHECKOUT / "mine"
    try:
        newer = lay_out(CHECKOUT / "notebooks", mine)
    except OSError as error:
        print(f"The chapters could not be copied to {mine} ({error.strerror}): make it writable.", file=sys.stderr)
        return 2
    for name in newer:
        print(f"mine/{name} has your changes and stays; to get the newer chapter, rename it and run make lab again.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
