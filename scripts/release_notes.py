"""Prints what the changelog says of the version of this checkout, for whoever publishes a release of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from warplab import __version__

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str:
    """The section of a version, without its heading; empty if there is none."""
    found = re.search(rf"^## {re.escape(version)}$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


if __name__ == "__main__":
    words = notes(CHANGELOG.read_text(), __version__)
    if not words:
        sys.exit(f"CHANGELOG.md has no section '## {__version__}': write it, or correct the version in pyproject.toml.")
    print(words)
