"""An interrupt ends what threads wait for, at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENDLESS_HOST = "def axpy(alpha, x, y, out):\n    while True:\n        pass\n"
ENDLESS_KERNEL = """\
from numba import cuda


@cuda.jit
def kernel(x, out):
    while x[0] == x[0]:
        out[0] = 1


def axpy(alpha, x, y, out):
    kernel[64, 64](x, out)
"""
INTERRUPTED_CALL = """\
import os, signal, threading
from warplab.worker.process import Worker
with Worker() as worker:
    worker.start()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        worker.call("subprocess:call", timeout=60, args=["sleep", "30"])
    except KeyboardInterrupt:
        print("interrupted")
    print(worker.call("subprocess:call", timeout=60, args=["true"]))
"""
IN_A_POOL = """\
import os, signal, threading
from concurrent.futures import ThreadPoolExecutor
from warplab.interrupts import Stopped, ends_threads
from warplab.worker.process import Worker
workers = [Worker(), Worker()]
for worker in workers:
    worker.start()
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    with ThreadPoolExecutor(2) as pool, ends_threads():
        futures = [pool.submit(w.call, "subprocess:call", timeout=60, args=["sleep", "30"]) for w in workers]
        [future.result() for future in futures]
except KeyboardInterrupt:
    print([type(future.exception()) is Stopped for future in futures])
with ThreadPoolExecutor(1) as pool, ends_threads():
    print(pool.submit(workers[0].call, "math:sqrt", timeout=60).exception().kind)
for worker in workers:
    worker.close()
"""
pytestmark = pytest.mark.processes


def run(arguments: Sequence[str], interrupt_after: float = 0.0) -> tuple[int, str, float]:
    """The exit code, what was printed, and the seconds from the interrupt on."""
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if interrupt_after:
        time.sleep(interrupt_after)
        process.send_signal(signal.SIGINT)
    start = time.monotonic()
    printed, _ = process.communicate(timeout=60)
    return process.returncode, printed, time.monotonic() - start


@pytest.mark.parametrize("source", [ENDLESS_HOST, ENDLESS_KERNEL], ids=["host", "kernel"])
def test_a_grade_is_stopped_at_once(source: str, tmp_path: Path) -> None:
    (tmp_path / "submission.py").write_text(source)
    grade = ["-m", "autograder", "grade", str(tmp_path / "submission.py"), "--lab", "01_axpy", "--device", "emulator"]
    code, printed, seconds = run([*grade, "--allow-reduced-isolation"], interrupt_after=4.0)
    assert printed == "autograder: stopped by you, nothing was graded.\n"
    assert code == 3
    assert seconds < 20  # not the 40 s that the host code may take, nor the minutes that a case may


def test_a_users_own_host_code_is_stopped_at_once(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("while True:\n    pass\n")
    code, printed, seconds = run(["-m", "warplab", "run", str(tmp_path / "own.py")], interrupt_after=3.0)
    assert printed == "warplab run: stopped by you, nothing was run.\n"
    assert code == 2 and seconds < 20


def test_a_call_is_stopped_and_its_answer_is_not_taken_for_the_next_ones() -> None:
    _, printed, seconds = run(["-c", INTERRUPTED_CALL])
    assert printed == "interrupted\n0\n" and seconds < 25


def test_calls_of_threads_are_stopped_and_later_ones_are_not() -> None:
    _, printed, seconds = run(["-c", IN_A_POOL])
    assert printed == "[True, True]\nTypeError\n" and seconds < 25
