"""Starts and ends an MPS daemon with pipes and logs in a folder of its own. No setting of the card is changed."""

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
    """Environment variables that lead a process to the daemon of a folder, and to none if there is none."""
    return {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}


@contextmanager
def no_daemon() -> Iterator[Mapping[str, str]]:
    """Environment variables that keep a process away from a daemon that the machine may have."""
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        yield environment(folder)


@contextmanager
def daemon() -> Iterator[Mapping[str, str]]:
    """The environment variables of a daemon's clients. The daemon ends afterwards.

    Raises WarplabError if the machine has no MPS or the daemon does not start.
    """
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


def _run(command: list[str], folder: str, typed: str = "") -> None:
    log = Path(folder) / "output"
    with log.open("a+") as out:  # a daemon keeps its output open: no pipe to wait for
        try:
            variables = os.environ | environment(folder)
            made = subprocess.run(
                command, input=typed, text=True, stdout=out, stderr=out, timeout=SECONDS, env=variables
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WarplabError(f"{CONTROL} did not answer: {error}.") from None
        if made.returncode:
            out.seek(0)
            raise WarplabError(f"{CONTROL} ended with {made.returncode}: {out.read().strip()[-300:]}")
