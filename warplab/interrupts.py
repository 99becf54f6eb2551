"""An interrupt that works at once, though threads wait for processes: whoever waits says how to end what it waits for.

Python interrupts the main thread alone, and a pool of threads is left only when all of them are done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from warplab.errors import WarplabError

_ends: dict[object, Callable[[], None]] = {}  # of what is waited for now
_lock = threading.Lock()
_stopping = threading.Event()
_depth = 0  # of blocks that end their threads, of the main thread


class Stopped(WarplabError):
    """What a thread waited for was ended, because the user interrupted the main thread."""


@contextmanager
def waits_for(end: Callable[[], None]) -> Iterator[None]:
    """Around waiting for a process in any thread: an interrupt calls `end`. Raises Stopped once that has happened."""
    key = object()
    with _lock:
        if interrupted():
            raise Stopped("stopped by you")
        _ends[key] = end
    try:
        yield
    except Exception as error:
        if interrupted():
            raise Stopped("stopped by you") from error
        raise
    finally:
        with _lock:
            _ends.pop(key, None)
    if interrupted():
        raise Stopped("stopped by you")


def interrupted() -> bool:
    """Whether what this thread waits for is no longer wanted. The main thread has its own interrupt."""
    return _stopping.is_set() and not _is_main()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def end_waits() -> None:
    """End what other threads wait for, and all that they would wait for from now on."""
    with _lock:
        _stopping.set()
        ends = list(_ends.values())
    for end in ends:
        end()


@contextmanager
def ends_threads() -> Iterator[None]:
    """Around what waits for threads, inside of their pool: an interrupt ends all that they wait for, then goes on."""
    global _depth
    if not _is_main():
        yield
        return
    if not _depth:
        _stopping.clear()
    _depth += 1
    try:
        yield
    except KeyboardInterrupt:
        end_waits()
        raise
    finally:
        _depth -= 1
