"""What a lab asks for whose submissions attack a naive judge: kernels that it passes though they are none.

A flag is captured if the naive judge, with that flag's hole open, passes the kernel, if it does not with all holes
closed, and if what the kernel left then shows how. The first two are said in the kernel's own process, which could
forge them; the third is computed from arrays, elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from autograder.spec.records import AskedFunction, RecordCase, RecordTask
from autograder.spec.seeds import uniform
from warplab.plan.capture.records import RecordForm
from warplab.plan.model import HostCall, ScalarArgument

Matrix = NDArray[np.float32]
Inputs = tuple[Matrix, Matrix]
PARAMETERS = ("gpu", "a", "b", "c")


@dataclass(frozen=True)
class Call:
    """One call of a kernel by the naive judge with all holes closed: what it was given, and what it left.

    `at_return` is its output when it returned, `later` when all streams were done and what it returned was looked at.
    """

    given: Inputs
    left: Inputs
    at_return: Matrix
    later: Matrix
    raised: bool


@dataclass(frozen=True)
class Flag(AskedFunction):
    """One function of the submission. `part` is the part of the grade that its points belong to.

    `calls` makes the inputs of the naive judge's calls with that seed; `missing` says what these calls do not show of
    the attack, nothing if they show it. They are `blank` if they hold no numbers. A kernel that `takes_no_time` is
    right, and the naive judge says that it took none.
    """

    part: str
    calls: Callable[[int], Sequence[Inputs]]
    missing: Callable[[Sequence[Call]], str]
    takes_no_time: bool = False
    blank: bool = False

    def host_call(self, case: RecordCase) -> HostCall:
        """The call to capture."""
        return HostCall(self.function, tuple(ScalarArgument(name, 0) for name in PARAMETERS))

    def drawn_calls(self, seed: int) -> Sequence[Inputs]:
        """The inputs of the naive judge's calls in a grade with that seed."""
        return self.calls(naive_seed(seed))


def naive_seed(seed: int) -> int:
    """The naive judge's own seed in a grade: as secret as the grade's."""
    return int(uniform(seed, "attack", "the naive judge's seed", 0) * 2**52)


def flag(
    function: str,
    part: str,
    calls: Callable[[int], Sequence[Inputs]],
    missing: Callable[[Sequence[Call]], str],
    takes_no_time: bool = False,
    blank: bool = False,
) -> Flag:
    """A flag, which is its only case."""
    return Flag(function, (), RecordCase(function, {}), part, calls, missing, takes_no_time, blank)


@dataclass(frozen=True)
class AttackTask(RecordTask[Flag]):
    """What `labs/<lab>/task.py` defines as TASK where lab.toml has `kind = "attacks"`.

    `judge` is the text of the naive judge, and `no_time` seconds that no honest call is below.
    """

    kind: ClassVar = "attacks"
    form: ClassVar = RecordForm.ATTACKS
    noun: ClassVar = "attack"
    required: ClassVar = ()
    judged_on: ClassVar = "a naive judge, in processes of this machine"

    judge: str
    no_time: float
