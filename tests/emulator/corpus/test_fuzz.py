"""A sample of the fuzzer's cases, the same ones each time; and that it would notice."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import fuzz
from corpus.fuzzing import cases, guard
from tests.sampling import WHOLE
from warplab.emulator import memory

pytestmark = pytest.mark.processes

CASES = 150 if WHOLE else 75
POKE = """
import ctypes
from corpus.fuzzing.guard import guarded
from warplab.emulator import memory
with guarded():
    piece = memory.aligned_bytes({size})
    print("ready", flush=True)
    ctypes.memset(piece.ctypes.data + {place}, 1, 1)
"""


def test_no_case_of_the_sample_crashes() -> None:
    tally = fuzz.fuzz(seed=3, cases=CASES)
    assert tally.crashes == []
    assert tally.cases == CASES
    assert {verdict for _, verdict in tally.verdicts} >= {"ran", "finding", "refused"}


@pytest.mark.parametrize(("size", "place"), [(4096, 4096), (4096, -4097), (1000, 4096), (1000, -4000)])
def test_a_byte_outside_kills_the_process(size: int, place: int) -> None:
    command = [sys.executable, "-c", POKE.format(size=size, place=place)]
    run = subprocess.run(command, cwd=fuzz.ROOT, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (-11, "ready\n")


@pytest.mark.parametrize("place", [-1, 1000, 1023])
def test_a_byte_beside_a_piece_is_noticed(place: int) -> None:
    with pytest.raises(guard.OutOfBounds), guard.guarded():
        piece = memory.aligned_bytes(1000)
        import ctypes

        ctypes.memset(piece.ctypes.data + place, 1, 1)


def test_a_case_follows_from_its_number() -> None:
    for number in range(20):
        again = cases.make(3, number)
        assert cases.make(3, number).material == again.material
    assert cases.make(3, 1).material != cases.make(4, 1).material


def test_a_process_that_dies_is_a_crash(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Of three cases the second kills its process; the third is run all the same."""
    child = tmp_path / "child.py"
    child.write_text(
        "import os, sys\nseed, first, last = map(int, sys.argv[1:])\nfor n in range(first, last):\n"
        "    print('start', n, flush=True)\n    if n == 1: os.kill(os.getpid(), 11)\n"
        "    print('end', n, 'a kind|ran', flush=True)\n"
    )
    popen = subprocess.Popen
    monkeypatch.setattr(fuzz.subprocess, "Popen", lambda c, **k: popen([sys.executable, str(child), *c[3:]], **k))
    tally = fuzz.fuzz(seed=1, cases=3)
    assert tally.verdicts["a kind", "ran"] == 2
    assert [(c.number, c.what) for c in tally.crashes] == [(1, "the process ended with -11")]
