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
    starting = _started.pop(sandbox.gpu, None)
    found = None
    with suppress(WorkerError):  # whoever calls it has it try again, and is told
        found = starting.result() if starting else None
    if found is None:
        return Worker(sandbox)
    if found[0] == sandbox:
        return found[1]
    found[1].close()
    return Worker(sandbox)


def close_rest() -> None:
    """End those that nobody has taken."""
    while _started:
        _, starting = _started.popitem()
        with suppress(WorkerError):
            if found := starting.result():
                found[1].close()


def _start(kept_in: Callable[[], Sandbox | None]) -> tuple[Sandbox, Worker] | None:
    sandbox = kept_in()
    if sandbox is None:
        return None
    worker = Worker(sandbox)
    worker.start()
    return sandbox, worker


def _ask(starting: Future[tuple[Sandbox, Worker] | None], first: str, seconds: float) -> None:
    with suppress(WorkerError):  # it may be closed meanwhile, and is asked again
        if found := starting.result():
            found[1].call(first, timeout=seconds)
