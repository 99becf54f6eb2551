"""What all captures of one submission may take together, whichever of its labs' many processes takes it.

Each process has a limit of its own. A submission has many: hidden cases apart, a step of each rank, two for each flag.
The time is that of a processor, so that a busy machine refuses nobody; the dearest reference, lab 10's, takes 20 s.
"""

from __future__ import annotations

import threading

from autograder.records.rejection import Rejected
from autograder.records.status import Status
from warplab.plan.capture.child_process import LEAST_SECONDS, PROCESSOR_SECONDS

SECONDS = 60


class Allowance:
    """Seconds of a processor that are left to a submission's captures. Threads may share it."""

    def __init__(self) -> None:
        self._left = float(SECONDS)
        self._lock = threading.Lock()

    def take(self, side_by_side: int) -> int:
        """Seconds for the next process, of `side_by_side` that run at once. Raises Rejected where none are left."""
        with self._lock:
            seconds = int(min(self._left, SECONDS / side_by_side, PROCESSOR_SECONDS))
            if seconds < LEAST_SECONDS:
                words = (
                    f"The host code has used up the {SECONDS} s of a processor that all its calls have together: look "
                )
                raise Rejected(Status.HOST_TIMEOUT, words + "for long loops outside the kernels.")
            self._left -= seconds
            return seconds

    def give_back(self, seconds: float) -> None:
        """What a process did not use of what was taken for it."""
        with self._lock:
            self._left += max(seconds, 0.0)
