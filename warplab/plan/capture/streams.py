"""Streams and events while a submission is captured: they are there, and change nothing.

Launches become part of the plan in the order in which they are made, whatever stream they are made on, and run in that
order: a program that is right on streams is right so. What asks for a time has no answer before the kernels have run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from warplab.plan.capture.arrays import unsupported

NO_TIME = "the kernels are not run yet, and the executor times them; leave the timing out"


class CapturedEvent:
    """An event of Numba or CuPy."""

    done = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        """Nothing: launches run in order."""

    def synchronize(self) -> None:
        """Nothing: launches run in order."""

    def wait(self, stream: Any = None) -> None:
        """Nothing: launches run in order."""

    def query(self) -> bool:
        """Always: what lies before it is recorded."""
        return True

    def elapsed_time(self, other: Any) -> NoReturn:
        """Refused."""
        unsupported("Asking for the time between events", NO_TIME)


class CapturedStream:
    """A stream of Numba or CuPy; CuPy's are context managers, too."""

    done = True
    ptr = 0
    handle = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> CapturedStream:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    def use(self) -> CapturedStream:
        """The stream itself."""
        return self

    def synchronize(self) -> None:
        """Nothing: launches run in order."""

    def query_done(self) -> bool:
        """Always: what lies before it is recorded."""
        return True

    def record(self, event: Any = None) -> CapturedEvent:
        """An event."""
        return event or CapturedEvent()

    def wait_event(self, event: Any) -> None:
        """Nothing: launches run in order."""

    @contextlib.contextmanager
    def auto_synchronize(self) -> Iterator[CapturedStream]:
        """The stream itself."""
        yield self

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        unsupported(f"Using .{name} of a stream", "launch the kernels in the order in which they are to run")


DEFAULT_STREAM = CapturedStream()


def check_stream(stream: Any, kernel: str) -> None:
    """Refuse what is no stream that the host function was given: None, 0 or a CapturedStream."""
    if stream is None or isinstance(stream, CapturedStream) or (isinstance(stream, int) and stream == 0):
        return
    unsupported(f"Launching '{kernel}' on a foreign stream", "use cuda.stream() or cupy.cuda.Stream(), or none")
