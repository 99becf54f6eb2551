"""Other processes that use the GPU while something is timed are noticed, and idle ones are not."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu


def watched() -> float:
    from warplab.gpu.executor import on_stream
    from warplab.gpu.sharing import Company
    from warplab.gpu.stopwatch import race

    with on_stream() as stream:
        company = Company(stream)
        race({"company": company}, stream, budget_seconds=0.3)
        return company.share


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
