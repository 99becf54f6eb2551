"""Who may use a GPU that several gradings share: any number of those who only compute, or one who measures.

The locks are files' (flock(2)), so a process that dies gives its turn back.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warplab.folders import cache_folder


class Turns:
    """The turns on one GPU, taken through files in `folder`, which is made. Raises OSError where it cannot be."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._door, self._room = folder / "door", folder / "room"

    @classmethod
    def on_this_machine(cls) -> Turns:
        """Those that all gradings of one user on this machine share: of the GPUs that they see."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        name = "".join(letter if letter.isalnum() else "_" for letter in f"{platform.node()}-{visible}")
        return cls(cache_folder() / "turns" / name)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Use the GPU beside others that compute."""
        with self._held(alone=False):
            yield

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Have the GPU alone."""
        with self._held(alone=True):
            yield

    @contextmanager
    def _held(self, alone: bool) -> Iterator[None]:
        import fcntl  # not everywhere; where it is not there is no sandbox, so no class is graded

        # Whoever waits for the room stands in the door: nobody who came later gets in before
        with open(self._door, "ab") as door, open(self._room, "ab") as room:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(door, fcntl.LOCK_UN)
            yield
