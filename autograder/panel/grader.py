"""Grades for the panel, one after the other, in confined workers that stay warm as long as the server runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from autograder import own_history
from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.panel.target import GRADE, LIVE, Target
from autograder.records.machine import Machine, choose_machine
from autograder.records.report import Report
from autograder.records.request import Request
from warplab.files import write_whole


class Grader:
    """Used by one thread at a time, except for `close`."""

    def __init__(self) -> None:
        self._workers: dict[Machine, ConfinedWorker] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="warplab-panel-")

    def grade(self, target: Target, way: str, progress: Callable[[str, float], None]) -> Report:
        """CHECK leaves out the hidden cases, GRADE is a grade of the learner's history, LIVE is a check without a GPU.

        Raises DeviceError, OSError.
        """
        source = Path(self._folder.name) / target.name
        write_whole(source, target.text)
        machine = choose_machine("emulator" if way == LIVE else "auto", target.lab.oldest, own=True)
        if machine not in self._workers:
            self._workers[machine] = ConfinedWorker(machine, own=True)
        report = grade(Request(target.lab, source, machine, quick=way != GRADE), self._workers[machine], progress)
        if way == GRADE and target.kept:
            own_history.keep(report)
        return report

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._folder.cleanup()
