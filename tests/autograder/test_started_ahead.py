"""Workers that are started before a command knows what for: it gets them, or they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.judge import started_ahead
from autograder.judge.confined_worker import _MISSING, sandbox
from autograder.spec.lab import CHECKOUT
from warplab.worker.process import Sandbox, Worker, WorkerError, WorkerFault

pytestmark = pytest.mark.processes

READS = sandbox(True, False, False, None)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    started_ahead.close_rest()


def _begin(kept_in: Sandbox | None) -> None:
    started_ahead.begin(False, lambda: kept_in, _MISSING, 60.0)


def _process(worker: Worker) -> subprocess.Popen[bytes]:
    assert worker._process is not None
    return worker._process


def test_who_asks_for_the_same_sandbox_gets_the_process_that_was_started() -> None:
    _begin(READS)
    with started_ahead.taken(sandbox(True, False, False, None)) as worker:
        started = _process(worker)
        assert isinstance(worker.call(_MISSING, timeout=60.0, parts=[]), list)
        assert _process(worker) is started
        with started_ahead.taken(READS) as another:  # one process is one taker's
            assert another._process is None


def test_who_asks_for_another_sandbox_does_not_and_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[subprocess.Popen[bytes]] = []
    ordinary = Worker.close

    def close(self: Worker) -> None:
        if self._process is not None:
            closed.append(self._process)
        ordinary(self)

    monkeypatch.setattr(Worker, "close", close)
    _begin(READS)
    reduced = sandbox(True, True, False, None)
    assert reduced != READS
    with started_ahead.taken(reduced) as worker:
        assert worker._process is None
    assert closed and all(process.poll() is not None for process in closed)


def test_others_submissions_get_another_sandbox_than_ones_own() -> None:
    assert sandbox(False, False, False, None) != READS


@pytest.mark.parametrize("fault", [WorkerError(WorkerFault.NOT_STARTED, "no"), OSError(28, "No space left")])
def test_what_does_not_start_is_tried_again_by_who_asks(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Worker) -> None:
        raise fault

    monkeypatch.setattr(Worker, "start", start)
    _begin(READS)
    assert started_ahead._started[False].exception() is fault  # waits for it
    monkeypatch.undo()
    with started_ahead.taken(READS) as worker:
        assert isinstance(worker.call(_MISSING, timeout=60.0, parts=[]), list)


def test_what_did_not_start_needs_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Worker) -> None:
        raise OSError(28, "No space left")

    monkeypatch.setattr(Worker, "start", start)
    _begin(READS)
    started_ahead.close_rest()


def test_one_that_is_closed_before_it_is_asked_does_not_start_again() -> None:
    worker = Worker(READS)
    worker.start()
    worker.close()
    started: Future[tuple[Sandbox, Worker] | None] = Future()
    started.set_result((READS, worker))
    started_ahead._ask(started, _MISSING, 60.0)
    assert worker._process is None


def test_without_a_sandbox_nothing_is_started() -> None:
    _begin(None)
    with started_ahead.taken(replace(READS, memory=1)) as worker:
        assert worker._process is None


def test_a_command_leaves_nothing_that_it_did_not_need(tmp_path: Path) -> None:
    """Neither a process nor its folder: the submission is refused before anything is asked of a worker."""
    submission = tmp_path / "submission.py"
    submission.write_text("def axpy(:\n")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "autograder", "check", str(submission), "--lab", "01_axpy"]
    run = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True)
    assert run.returncode in (1, 3), run.stdout + run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["submission.py"]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            assert os.fsencode(tmp_path) not in path.read_bytes()
