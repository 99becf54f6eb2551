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
    """Start a worker in the sandbox that `kept_in` gives, if any, while the caller goes on; with `gpu` it holds
    the GPU. It then calls `first`, so that what `first` imports is loaded."""
    starter = ThreadPoolExecutor(1, "started-ahead")
    _started[gpu] = starter.submit(_start, kept_in)
    starter.submit(_ask, _started[gpu], first, seconds)
    starter.shutdown(wait=False)


def taken(sandbox: Sandbox) -> Worker:
    """A worker for this sandbox, which the caller must close: the one begun earlier if its sandbox is equal, else one
    that has not started yet."""
    if found := _popped(sandbox.gpu):
        kept_in, worker = found
        if kept_in == sandbox:
            return worker
        worker.close()
    return Worker(sandbox)


def close_rest() -> None:
    """Close the workers that no caller has taken."""
    for gpu in list(_started):
        if found := _popped(gpu):
            found[1].close()


def _popped(gpu: bool) -> tuple[Sandbox, Worker] | None:
    """The worker begun earlier, once it has started; None if it failed. The failure is ignored here: a caller that
    needs a worker starts a new one, which reports the same failure."""
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
