"""Whatever is killed while a batch is graded, every submission ends with one right verdict and whole reports.

WARPLAB_FAULTS sets how many processes are killed during fifty submissions (`make test-long`: a hundred).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from autograder.records.status import Status
from autograder.report import json_file
from autograder.spec.lab import CHECKOUT
from benchmarks.class_faults import descendants
from tests.autograder.handmade import make_lab
from warplab.plan.capture.escape_probe import strongest

FAULTS = int(os.environ.get("WARPLAB_FAULTS", "6"))
SUBMISSIONS = 50 if FAULTS >= 50 else 7
PATIENCE = 600.0  # seconds, and as much again a fault: only what hangs takes that long, on any machine
MOST = 2  # faults of one sort during one grade: what the judge promises to bear
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc"),
]

CUDA = '''
import cupy

kernel = cupy.RawKernel(r"""
extern "C" __global__ void twice(float factor, const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}
""", "twice")

def twice(factor, x, out):
    kernel(((x.size + 127) // 128,), (128,), (cupy.float32(factor), x, out, cupy.int32(x.size)))
'''
# What is submitted, in turns, with the status and the points that it must get.
KINDS = (
    (CUDA, Status.PASSED, 70.0),
    (CUDA.replace("float32(factor)", "float32(factor + 1)"), Status.WRONG_ANSWER, 0.0),
    (CUDA.replace("(128,)", "(64,)"), Status.PARTIAL, 50.0),
    (CUDA.replace("def twice", "deff twice"), Status.SYNTAX_ERROR, 0.0),
    (CUDA.replace("    kernel(", "    1 / 0\n    kernel("), Status.HOST_ERROR, 0.0),
    (CUDA + "\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", Status.HOST_CRASHED, 0.0),
    (CUDA.replace("x[i];", "x[i] +;"), Status.COMPILE_ERROR, 0.0),
)


def children(process: int, words: str) -> list[int]:
    """Processes whose command line has `words`, below a process."""
    return [one for one, command in descendants(process).items() if words in command]


SORTS = ("worker", "capture", "judge")


def victims(judge: int, sort: str) -> list[int]:
    """The processes of a sort that could be killed now; the judge in the middle of a grade, not while it starts."""
    if sort == "judge":
        return [judge] if children(judge, "warplab") else []
    return children(judge, "warplab.worker.process" if sort == "worker" else "warplab-capture-")


def start(folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.autograder.fault_judge", str(folder), strongest()]
    return subprocess.Popen(command, cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": str(CHECKOUT)})


def test_every_submission_ends_with_one_right_verdict(tmp_path: Path) -> None:
    draw = random.Random(2024)
    make_lab(tmp_path)
    queue, reports = tmp_path / "queue", tmp_path / "reports"
    queue.mkdir()
    reports.mkdir()
    for number in range(SUBMISSIONS):
        (queue / f"{number:02}.py").write_text(KINDS[number % len(KINDS)][0])

    killed: Counter[str] = Counter()
    during: Counter[tuple[str, int]] = Counter()
    judge, starts, due = start(tmp_path), 1, time.monotonic()
    deadline = time.monotonic() + PATIENCE * (1 + FAULTS)
    while len(done := list(reports.glob("*.json"))) < SUBMISSIONS:
        assert time.monotonic() < deadline, f"{len(done)} reports after {dict(killed)}"
        for path in done:
            json.loads(path.read_text())  # whole at any moment
        if judge.poll() is not None:
            judge, starts = start(tmp_path), starts + 1
        wanted = FAULTS * (len(done) + 1) / SUBMISSIONS  # spread over the whole run
        fewest = min(killed[sort] for sort in SORTS)
        sort = draw.choice([sort for sort in SORTS if killed[sort] == fewest])  # as many of each on any machine
        if killed.total() < min(wanted, FAULTS) and time.monotonic() >= due and during[sort, len(done)] < MOST:
            found = victims(judge.pid, sort)
            if found:
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(found), signal.SIGKILL)
                    killed[sort] += 1
                    during[sort, len(done)] += 1
                due = time.monotonic() + draw.uniform(0, 0.6)
        time.sleep(0.005)
    judge.wait(PATIENCE)

    assert killed.total() >= 0.8 * FAULTS and len(killed) == 3, dict(killed)
    assert starts > killed["judge"] / 2
    for number in range(SUBMISSIONS):
        _, status, score = KINDS[number % len(KINDS)]
        (report,) = json.loads((reports / f"{number:02}.json").read_text())["reports"]
        assert (report["status"], report["score"]) == (status, score), (number, report["message"], dict(killed))
    assert sorted(p.name for p in reports.iterdir() if not p.name.startswith(".")) == [
        f"{number:02}.json" for number in range(SUBMISSIONS)
    ]


def test_what_a_killed_judge_leaves_ends_by_itself(tmp_path: Path) -> None:
    """Neither a worker nor a capture outlives its judge, whatever they are doing."""
    make_lab(tmp_path)
    (tmp_path / "queue").mkdir()
    (tmp_path / "reports").mkdir()
    (tmp_path / "queue" / "0.py").write_text(CUDA)
    # It sleeps: a processor's time is limited in any capture, and nothing but the judge's end is to end this one.
    (tmp_path / "queue" / "1.py").write_text("import time\n\nwhile True:\n    time.sleep(1)\n")
    judge = start(tmp_path)
    deadline = time.monotonic() + PATIENCE
    while not ((tmp_path / "reports" / "0.json").exists() and victims(judge.pid, "capture")):
        assert time.monotonic() < deadline and judge.poll() is None
        time.sleep(0.05)
    left = victims(judge.pid, "capture") + victims(judge.pid, "worker")
    assert len(left) >= 2
    judge.kill()
    judge.wait()
    deadline = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{process}/cmdline").exists() and running(process) for process in left):
        assert time.monotonic() < deadline, "something still runs"
        time.sleep(0.1)


def running(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_report_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", lambda *names: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        json_file.write_reports([], path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
