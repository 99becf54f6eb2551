"""An MPS daemon of one's own: pipes and logs in a folder of its own, and no setting of the card changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from warplab.errors import WarplabError

CONTROL = "nvidia-cuda-mps-control"
SECONDS = 15.0


def environment(folder: str) -> dict[str, str]:
    """Variables by which a process finds the daemon of a folder, or none if the folder has no daemon."""
    return {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}


@contextmanager
def none() -> Iterator[Mapping[str, str]]:
    """Variables that keep a process out of whatever daemon the machine has."""
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        yield environment(folder)


@contextmanager
def daemon() -> Iterator[Mapping[str, str]]:
    """A daemon, and the variables of its clients; it is told to end afterwards. Raises WarplabError where there is no
    MPS or it does not start."""
    program = shutil.which(CONTROL)
    if program is None:
        raise WarplabError(f"There is no {CONTROL} on this machine.")
    with tempfile.TemporaryDirectory(prefix="mps-", ignore_cleanup_errors=True) as folder:
        _run([program, "-d"], folder)
        try:
            yield environment(folder)
        finally:
            with suppress(WarplabError):
                _run([program], folder, "quit -t 5\n")


def _run(command: list[str], folder: str, words: str = "") -> None:
    log = Path(folder) / "words"
    with log.open("a+") as out:  # a daemon keeps its output open: no pipe to wait for
        try:
            variables = os.environ | environment(folder)
            made = subprocess.run(
                command, input=words, text=True, stdout=out, stderr=out, timeout=SECONDS, env=variables
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WarplabError(f"{CONTROL} did not answer: {error}.") from None
        if made.returncode:
            out.seek(0)
            raise WarplabError(f"{CONTROL} ended with {made.returncode}: {out.read().strip()[-300:]}")
