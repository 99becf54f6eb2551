"""Other processes that use the GPU while something is timed are noticed, and idle ones are not."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu


def watched() -> float:
    from warplab.gpu.executor import on_stream
    from warplab.gpu.sharing import SharingProbe
    from warplab.gpu.stopwatch import time_in_turns

    with on_stream() as stream:
        sharing = SharingProbe(stream)
        time_in_turns({"sharing": sharing}, stream, budget_seconds=0.3)
        return sharing.share


def test_alone() -> None:
    assert watched() < 0.001


@pytest.mark.parametrize("load", [1.0, 0.3])
def test_beside_a_busy_process(load: float) -> None:
    command = [sys.executable, "-m", "benchmarks.stopwatch", "--load", str(load)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"busy\n"
            assert watched() > 0.02
        finally:
            process.kill()
