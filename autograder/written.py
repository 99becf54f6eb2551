"""A file that a command writes from other files, and whether it is up to date."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WrittenFile:
    """A file's path and the text that it must have."""

    path: Path
    text: str

    @property
    def up_to_date(self) -> bool:
        """Whether the file has that text."""
        return self.path.is_file() and self.path.read_text(encoding="utf-8") == self.text
