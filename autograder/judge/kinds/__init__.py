"""The kinds of labs, an object each. A new kind is listed here, and its specification in `autograder.spec.lab`."""

from __future__ import annotations

from typing import Any

from autograder.judge.kinds.attacks import Attacks
from autograder.judge.kinds.checkpoints import Checkpoints
from autograder.judge.kinds.kernels import Kernels
from autograder.judge.kinds.lab_kind import LabKind
from autograder.judge.kinds.pipelines import Pipelines
from autograder.judge.kinds.programs import Programs
from autograder.judge.kinds.schedules import Schedules
from autograder.spec.lab import AnyLab

KINDS: tuple[LabKind[Any, Any], ...] = (Kernels(), Schedules(), Pipelines(), Programs(), Checkpoints(), Attacks())
_BY_NAME = {kind.task.kind: kind for kind in KINDS}


def kind_of(lab: AnyLab) -> LabKind[Any, Any]:
    """The kind of a lab."""
    return _BY_NAME[lab.task.kind]
