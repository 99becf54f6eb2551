"""Gradings that share a GPU, in threads and in processes: whoever measures has it alone, and is not passed over."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from autograder.judge.turns import Turns
from autograder.spec.lab import CHECKOUT

pytest.importorskip("fcntl")
HOLDS = """
import sys
from pathlib import Path
from autograder.judge.turns import Turns
with getattr(Turns(Path(sys.argv[1])), sys.argv[2])():
    print("in", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path, how: str) -> subprocess.Popen[str]:
    """A process that keeps its turn until its standard input ends."""
    command = [sys.executable, "-c", HOLDS, str(folder), how]
    made = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None and made.stdout.readline() == "in\n"
    return made


def test_what_measures_has_the_gpu_alone(tmp_path: Path) -> None:
    inside, seen = [], []

    def use(measure: bool) -> None:
        turns = Turns(tmp_path)
        with turns.measuring() if measure else turns.computing():
            inside.append(measure)
            time.sleep(0.002)
            seen.append(tuple(inside))
            inside.remove(measure)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, [number % 5 == 0 for number in range(100)]))
    assert all(users == (True,) for users in seen if True in users)
    assert max(len(users) for users in seen) > 1, "those who only compute share it"


def test_who_comes_after_one_that_waits_to_measure_waits_too(tmp_path: Path) -> None:
    order: list[str] = []
    turns = Turns(tmp_path)

    def use(name: str, how: str) -> None:
        with getattr(turns, how)():
            order.append(name)

    def waits_at(door: bool) -> bool:
        import fcntl

        with open(tmp_path / ("door" if door else "room"), "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    with ExitStack() as stack:
        stack.enter_context(turns.computing())
        first = threading.Thread(target=use, args=("measures", "measuring"))
        first.start()
        while not waits_at(door=True):
            time.sleep(0.001)
        later = threading.Thread(target=use, args=("computes", "computing"))
        later.start()
        assert order == []
    first.join(60)
    later.join(60)
    assert order == ["measures", "computes"]


LOCKS = Path("/proc/locks")


def waiting(folder: Path) -> int:
    """The number of threads that the system lists as waiting for one of the two locks."""
    nodes = {(folder / name).stat().st_ino for name in ("door", "room")}
    found = (line.split() for line in LOCKS.read_text().splitlines() if "-> FLOCK" in line)
    return sum(int(fields[6].split(":")[-1]) in nodes for fields in found)


@pytest.mark.skipif(not LOCKS.exists(), reason="the system does not list waiting threads")
def test_gradings_that_compute_gather_while_others_measure(tmp_path: Path) -> None:
    """While one grading measures, two that compute and two that measure arrive in turn. The two that measure go first.
    Then the two that compute run side by side."""
    order, together = list[str](), threading.Barrier(2)
    turns = Turns(tmp_path)

    def use(how: str) -> None:
        with getattr(turns, how)():
            if how == "computing":
                together.wait(60)
            order.append(how)

    with ThreadPoolExecutor(4) as pool, turns.measuring():
        for number, how in enumerate(("computing", "measuring", "computing", "measuring"), 1):
            pool.submit(use, how)
            while waiting(tmp_path) < number:
                time.sleep(0.001)
    assert order == ["measuring", "measuring", "computing", "computing"]


@pytest.mark.processes
def test_a_process_that_dies_gives_its_turn_back(tmp_path: Path) -> None:
    with holder(tmp_path, "measuring") as other:
        other.kill()
    with Turns(tmp_path).measuring():
        pass


def test_turns_on_several_gpus_are_turns_on_each(tmp_path: Path) -> None:
    """Some want one of two GPUs, some both, named in either order: all come through, and nobody beside one alone."""
    inside: dict[str, list[bool]] = {"a": [], "b": []}
    seen: list[tuple[bool, ...]] = []

    def use(number: int) -> None:
        gpus, alone = ("ab", "ba", "a", "b")[number % 4], number % 3 == 0
        turns = Turns(*(tmp_path / gpu for gpu in gpus))
        with turns.measuring() if alone else turns.computing():
            for gpu in gpus:
                inside[gpu].append(alone)
            time.sleep(0.002)
            seen.extend(tuple(inside[gpu]) for gpu in gpus)
            for gpu in gpus:
                inside[gpu].remove(alone)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(96)))
    assert len(seen) == 96 * 3 // 2
    assert all(users == (True,) for users in seen if True in users)


@pytest.mark.processes
def test_who_measures_on_one_gpu_waits_for_none_of_another(tmp_path: Path) -> None:
    with holder(tmp_path / "a", "measuring") as other:
        with Turns(tmp_path / "b").measuring():
            pass
        other.kill()


@pytest.mark.processes
def test_processes_compute_side_by_side(tmp_path: Path) -> None:
    with holder(tmp_path, "computing") as other:
        with Turns(tmp_path).computing():
            pass
        other.kill()
