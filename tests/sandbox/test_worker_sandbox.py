"""A worker that a stranger's kernel has taken over: what it can reach, in every isolation that this machine has."""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sandbox import targets
from warplab.sandbox import cgroup
from warplab.sandbox.isolation import Isolation
from warplab.worker import process, wire
from warplab.worker.process import Sandbox, Worker, WorkerError, WorkerFault

TARGETS = "tests.sandbox.targets"
STRONG = (Isolation.BUBBLEWRAP, Isolation.LANDLOCK)
CHECKOUT = Path(__file__).resolve().parents[2]
HERE = Path(targets.__file__).parent
SANDBOX = Sandbox(packages=("tests.sandbox",), readable=(str(HERE.parent / "__init__.py"), str(HERE)))

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's"), pytest.mark.processes]


def confined(isolation: Isolation, **more: object) -> Worker:
    """A worker in this isolation, or a skip that says why there is none."""
    made = Worker(replace(SANDBOX, isolations=(isolation,), **more))  # type: ignore[arg-type]
    try:
        made.start()
    except WorkerError as error:
        pytest.skip(f"{isolation} does not work here: {error}")
    return made


@pytest.fixture(scope="module", params=STRONG)
def kept(request: pytest.FixtureRequest) -> Iterator[Worker]:
    with confined(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def attempt(kept: Worker, what: str, *arguments: object) -> str:
    return kept.call(f"{TARGETS}:attempt", timeout=30, what=what, arguments=[str(a) for a in arguments])


def test_a_worker_outlives_the_thread_that_started_it(kept: Worker) -> None:
    def process() -> object:
        return kept.call(f"{TARGETS}:process", timeout=30)

    kept.close()
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(process).result()
    time.sleep(0.5)  # for a signal to arrive
    assert process() == first


def test_files_of_the_judge_are_out_of_reach(kept: Worker, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("1")
    for path in (tmp_path / "secret", CHECKOUT / "pyproject.toml", CHECKOUT / "solutions", CHECKOUT / "tests" / "labs"):
        assert attempt(kept, "list" if path.is_dir() else "read", path) != "done", path


def test_what_it_runs_cannot_be_changed(kept: Worker) -> None:
    assert attempt(kept, "read", process.__file__) == "done"
    assert attempt(kept, "change code", process.__file__) != "done"
    assert attempt(kept, "chmod", process.__file__) != "done"


def test_there_is_no_network(kept: Worker, port: int) -> None:
    assert attempt(kept, "connect", port) != "done"
    assert attempt(kept, "unix socket") != "done"


def test_other_processes_and_the_machine_are_out_of_reach(kept: Worker) -> None:
    assert attempt(kept, "ptrace", os.getpid()) != "done"
    for what in ("mount", "session", "memfd", "large file"):
        assert attempt(kept, what) != "done", what


def test_a_library_that_asks_for_the_user_gets_a_name(kept: Worker) -> None:
    # PyTorch names a folder so; without accounts `pwd` raises
    assert kept.call(f"{TARGETS}:user", timeout=30) == "learner"


@pytest.mark.parametrize("isolation", Isolation)
def test_nothing_is_imported_from_the_current_folder(
    isolation: Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A download called json.py ran as the judge; so did the autograder of whatever checkout one stood in."""
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "downloaded-1.0.dist-info").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with confined(isolation) as made:
        assert str(tmp_path) not in made.call(f"{TARGETS}:paths", timeout=30)
    with Worker() as trusted:
        assert str(tmp_path) not in trusted.call(f"{TARGETS}:paths", timeout=30)


def test_memory_is_bounded_for_all_processes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """With control groups where there are some, and by a watchdog where there are none."""
    for make in (cgroup.make, lambda memory, processes: None):
        monkeypatch.setattr(process.cgroup, "make", make)
        with Worker(replace(SANDBOX, memory=768 << 20)) as made, pytest.raises(WorkerError) as caught:
            made.call(f"{TARGETS}:fill_memory", timeout=60)
        assert caught.value.status is WorkerFault.MEMORY, caught.value


def test_processes_are_bounded_where_there_are_control_groups() -> None:
    with Worker(SANDBOX) as made:
        made.start()
        if made._group is None:
            pytest.skip("this user may make no control groups here")
        folders = made._group.folders
        assert 0 < made.call(f"{TARGETS}:start_processes", timeout=60) < 600
    assert not any(folder.exists() for folder in folders)  # and nothing of it is left


@pytest.mark.parametrize(
    "frame",
    [
        b"x" * 16,
        struct.pack("<QQ", 1 << 40, 0),
        struct.pack("<QQ", 2, 1 << 40) + b"{}",
        struct.pack("<QQ", 100_000, 0) + b"[" * 100_000,
        struct.pack("<QQ", 21, 0) + b'{"result":{"__blob__":',
        wire.encode({"result": {"__blob__": 8, "dtype": "object", "shape": [1]}}),
        wire.encode({"result": {"__blob__": 8, "dtype": "float64", "shape": [1]}}),
        wire.encode({"result": {"__blob__": -8}}),
        wire.encode(["no", "answer"]),
        wire.encode({"status": "splendid", "message": "", "kind": ""}),
        wire.encode({"status": "error"}),
    ],
)
def test_an_answer_that_is_none_is_a_crash(frame: bytes) -> None:
    with Worker(SANDBOX) as made, pytest.raises(WorkerError) as caught:
        made.call(f"{TARGETS}:forge", timeout=30, frame=frame)
    assert caught.value.status is WorkerFault.CRASHED


def test_an_isolation_that_does_not_hold_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker says what it could reach; without its confinement that is everything."""
    monkeypatch.setattr(process, "_confined", _unconfined(process._confined))
    with pytest.raises(WorkerError, match="open a connection, read a file of the judge") as caught:
        Worker(replace(SANDBOX, isolations=(Isolation.LANDLOCK,))).start()
    assert caught.value.status is WorkerFault.NOT_STARTED


def _unconfined(real):
    def start(sandbox, isolation, scratch, bait):
        made = real(sandbox, Isolation.REDUCED, scratch, bait)
        at = made.command.index("-c") + 1
        disarm = "import warplab.worker.process as w; w.confine = lambda *a: None\nprogram.main()\n"
        made.command[at] = made.command[at].replace("program.main()\n", disarm)
        return made

    return start
