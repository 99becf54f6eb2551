"""The capture service: answers the requests in a spool, each in a capture process of its own.

usage: python -m warplab.plan.capture.service SPOOL

It is what runs in the container without a GPU, a network, labs or a class's files (docker/Dockerfile, `capture`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from warplab.files import write_whole
from warplab.plan.capture import child_process, escape_probe, spool
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.protocol import decode_request
from warplab.sandbox.isolation import Isolation, weakest

_PAUSE = 0.05  # seconds between two looks


def serve(place: Path, stop: threading.Event) -> None:
    """Answer requests in `place` until `stop` is set."""
    for name in ("requests", "answers"):
        (place / name).mkdir(parents=True, exist_ok=True)
    isolation = escape_probe.strongest()
    print(f"capture: ready, isolation: {isolation}", flush=True)
    taken: set[str] = set()
    touched = 0.0
    with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        while not stop.is_set():
            if time.monotonic() - touched > 1.0:
                (place / "alive").touch()
                touched = time.monotonic()
            names = {entry.name for entry in os.scandir(place / "requests") if not entry.name.startswith(".")}
            for name in sorted(names - taken):
                pool.submit(_answer, place, name, isolation)
            taken = names
            time.sleep(_PAUSE)


def _answer(place: Path, name: str, isolation: Isolation) -> None:
    """Capture what a request asks for and write its answer; a request that is gone again is nobody's."""
    with suppress(FileNotFoundError):
        content = (place / "requests" / name).read_bytes()
        write_whole(place / "answers" / name, _captured(content, isolation))


def _captured(content: bytes, isolation: Isolation) -> bytes:
    spent: list[float] = []
    try:
        order, body = spool.read_order(content)
        if weakest(order.isolation, isolation) is not order.isolation:
            words = f"The capture service has only {isolation} and the judge asks for {order.isolation}."
            raise child_process.CaptureFault(words)
        answer = child_process.run(decode_request(body), isolation, order.seconds, spent.append)
        return spool.answer_line(None, sum(spent)) + answer
    except (CaptureFailure, child_process.CaptureFault) as failure:
        return spool.answer_line(failure, sum(spent))
    except Exception as error:  # whatever it is, the judge waits for an answer, and other requests for theirs
        return spool.answer_line(child_process.CaptureFault(f"The capture service failed: {type(error).__name__}."))


def main() -> None:
    """Serve the spool that the command line names until the process is ended."""
    serve(Path(sys.argv[1]), threading.Event())


if __name__ == "__main__":
    main()
