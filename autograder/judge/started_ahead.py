"""Workers for one's own submissions, started while the command that will use them is still being imported.

A process takes half a second to start in its sandbox, and one that emulates a second more to import what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from warplab.worker.process import Sandbox, Worker, WorkerError

_started: dict[bool, Future[tuple[Sandbox, Worker] | None]] = {}  # by whether it holds the GPU


def begin(gpu: bool, kept_in: Callable[[], Sandbox | None], first: str, seconds: float) -> None:
    """Start a worker that is kept in what `kept_in` gives, if that is anything, beside what the caller does; with `gpu`
    one that holds the GPU. Once it has started it is asked for `first` of its own accord, so that it imports that."""
    starter = ThreadPoolExecutor(1, "started-ahead")
    _started[gpu] = starter.submit(_start, kept_in)
    starter.submit(_ask, _started[gpu], first, seconds)
    starter.shutdown(wait=False)


def taken(sandbox: Sandbox) -> Worker:
    """The worker that was started in exactly this, which is the caller's from now on, or one that has not started."""
    if found := _popped(sandbox.gpu):
        kept_in, worker = found
        if kept_in == sandbox:
            return worker
        worker.close()
    return Worker(sandbox)


def close_rest() -> None:
    """End those that nobody has taken."""
    for gpu in list(_started):
        if found := _popped(gpu):
            found[1].close()


def _popped(gpu: bool) -> tuple[Sandbox, Worker] | None:
    """What was begun of this kind, once it has started. Why it did not is no matter here: whoever needs one has it
    start anew, and is told."""
    starting = _started.pop(gpu, None)
    return None if starting is None or starting.exception() else starting.result()


def _start(kept_in: Callable[[], Sandbox | None]) -> tuple[Sandbox, Worker] | None:
    sandbox = kept_in()
    if sandbox is None:
        return None
    worker = Worker(sandbox)
    worker.start()
    return sandbox, worker


def _ask(starting: Future[tuple[Sandbox, Worker] | None], first: str, seconds: float) -> None:
    if starting.exception():
        return
    with suppress(WorkerError):  # it may be closed meanwhile, and must not start again for this
        if found := starting.result():
            found[1].call_if_started(first, timeout=seconds)
