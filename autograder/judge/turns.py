"""Who may use GPUs that several gradings share: any number of those who only compute, or one who measures.

Gradings that wait to measure go before those that wait to compute, and the latter then compute together. The locks are
files' (flock(2)), so a process that dies gives its turn back.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from warplab.folders import cache_folder
from warplab.hardware.device import Device


class Turns:
    """The turns on a GPU, taken through files in its folder, which is made; with several folders, on all of those GPUs
    at once. Raises OSError where a folder cannot be made."""

    def __init__(self, *folders: Path) -> None:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        self.seconds = 0.0  # that turns have lasted, without the waiting for them
        # In one order for all, or two who want the same GPUs would wait for each other
        self._places = [(folder / "door", folder / "room") for folder in sorted(folders)]

    @classmethod
    def on(cls, gpus: Sequence[Device]) -> Turns:
        """Those that all gradings of one user on this machine share."""
        return cls(*(cache_folder() / "turns" / f"{platform.node()}-{gpu.uuid}" for gpu in gpus))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Use the GPU beside others that compute."""
        with self._held(alone=False):
            yield

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Have the GPU, or all of them, alone."""
        with self._held(alone=True):
            yield

    @contextmanager
    def _held(self, alone: bool) -> Iterator[None]:
        import fcntl  # not everywhere; where it is not there is no sandbox, so no class is graded

        with ExitStack() as stack:
            for outside, inside in self._places:
                # A grading that measures holds the door until it is done, so those that compute gather in front of it
                # and then use the GPU side by side. They do not wait for ever: each grading computes before it measures
                room = stack.enter_context(open(inside, "ab"))
                with ExitStack() as passing:
                    door = (stack if alone else passing).enter_context(open(outside, "ab"))
                    fcntl.flock(door, fcntl.LOCK_SH if alone else fcntl.LOCK_EX)
                    fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            start = time.monotonic()
            try:
                yield
            finally:
                self.seconds += time.monotonic() - start
