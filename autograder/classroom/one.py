"""Grades one submission of a class, in a process that Dask has started: what goes in and comes out is plain data."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from autograder.classroom.clusters import number_here, own_group
from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.kinds import kind_of
from autograder.judge.pipeline import grade
from autograder.judge.turns import Turns
from autograder.records.machine import Machine, choose_machine, require_isolation
from autograder.records.request import Request
from autograder.records.status import Executor
from autograder.spec.lab import find_any
from warplab.hardware.device import alike, all_present, present
from warplab.sandbox.isolation import Isolation

_LONGEST_NAME = 200  # bytes: what file systems take


@cache
def _machine(device: str, needs: str) -> Machine:
    """That of this process, which keeps to one GPU of several: as many processes have each."""
    gpus = [] if device == "emulator" else alike()
    return choose_machine(device, needs, index=gpus[number_here() % len(gpus)].index if gpus else 0)


def grade_one(file: str, content: bytes, lab: str, seed: int, device: str, allow_reduced: bool) -> dict[str, Any]:
    """The report (Report.to_json()) of a submission by its file's name and bytes, in a worker that nobody has used.
    `gpu_seconds` in it says how long it had a GPU.

    Raises DeviceError where this machine cannot grade other people's work.
    """
    own_group()
    found = find_any(lab)
    machine = _machine(device, found.needs)
    with tempfile.TemporaryDirectory(prefix="warplab-class-") as folder:
        name = (
            Path(file).name if 0 < len(Path(file).name.encode(errors="replace")) <= _LONGEST_NAME else "submission.py"
        )
        source = Path(folder) / name
        source.write_bytes(content)
        require_isolation(machine.isolation, source, allow_reduced)
        with ConfinedWorker(machine, own=False) as worker:
            worker.start()
            require_isolation(worker.isolation or Isolation.REDUCED, source, allow_reduced)
            turns = None
            if machine.device is Executor.GPU:
                gpus = all_present() if kind_of(found).all_gpus else [present(machine.index)]
                turns = Turns.on([gpu for gpu in gpus if gpu is not None])
            request = Request(found, source, machine, seed, crowded=True)
            report = grade(request, worker, turns=turns).to_json()
            return report | {"gpu_seconds": turns.seconds if turns else 0.0}
