"""What a lab of kernels asks for: the trusted specification that `labs/<lab>/task.py` defines as `TASK`.

A task never holds data. Inputs are drawn from a family and a seed, expected values are computed from them after the
student's kernels have finished, and both work on any array module `xp` (NumPy beside the emulator, CuPy on the GPU), so
that a timed output need not leave the card to be checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from autograder.spec.lab_task import LabTask, NominalBudget
from autograder.spec.seeds import uniform
from warplab.plan.model import ArrayArgument, HostCall, Role, ScalarArgument

Array = Any  # a numpy.ndarray or a cupy.ndarray
Dimensions = Mapping[str, int]
Values = Mapping[str, Any]  # arrays and scalars by argument name
Place = Callable[[ModuleType, "Family", Values, Random], None]


def put(array: Array, where: int, value: float) -> None:
    """`array[where] = value` for a contiguous array of floats, with the sign of a zero: CuPy clears memory for any."""
    bits = np.dtype(f"u{array.dtype.itemsize}")
    array.view(bits)[where] = np.array(value, array.dtype).view(bits)[()]


class Family(StrEnum):
    """How inputs are drawn. Integers are small enough that every partial sum is exact, so results compare bitwise.

    What a task places among them (`Task.place`) may be larger, if that stays so.
    """

    INTEGERS = "integers"  # whole numbers in [-4, 4], exact in every dtype of the course
    NORMAL = "normal"  # close to N(0, 1), rounded to the dtype
    WIDE = "wide"  # signs and magnitudes spread over 2^-8 to 2^8


class Ceiling(StrEnum):
    """The measured ceilings that a floor can be computed from (warplab.hardware measures them)."""

    COPY = "copy"  # bytes read plus written a second by a streaming copy
    FP32_FMA = "fp32_fma"  # FLOP/s of dependent-free float32 FMAs, one FMA being two
    TENSOR_FP16 = "tensor_fp16"  # FLOP/s of a dense fp16 product with float32 accumulation
    TENSOR_FP8 = "tensor_fp8"  # the same with e4m3 operands


@dataclass(frozen=True)
class ArraySpec:
    """An array argument of the host function, contiguous and in C order.

    `shape` names dimensions ("m"), products of them ("m*n"), or gives numbers.
    """

    name: str
    dtype: str
    shape: tuple[str | int, ...]
    role: Role


@dataclass(frozen=True)
class ScalarSpec:
    """A scalar argument of the host function: a Python float if `dtype` is a float type, else an int.

    Its value is the dimension of the same name, if there is one, else it is drawn from the case's family.
    """

    name: str
    dtype: str


@dataclass(frozen=True)
class Case:
    """One size and one family of inputs. `hidden` cases are never named to the student.

    `dimensions` is the nominal size, one of the class `sizes`, which lessons and benchmarks use; a grade uses the one
    that its seed draws (`Task.drawn`). A case without a class, such as one of a single element, has only it.

    `points` are for a stage of a long lab: of those for correctness, so many are kept by whoever passes this case
    without a finding, though another case fails. `like` names the case whose size this one has, drawn from the same
    class: what is timed is then what was counted.
    """

    name: str
    dimensions: Dimensions
    family: Family
    sizes: Sequence[Dimensions] = field(default=(), repr=False)
    hidden: bool = False
    needs_gpu: bool = False  # too large for the emulator
    points: float = 0.0
    like: str = ""


@dataclass(frozen=True)
class Budget:
    """An upper limit on the profile case of one counter (a field of warplab.plan.execution.Counters), or of a total of
    several (its TOTALS), where bytes could go another way."""

    counter: str
    limit: Callable[[Dimensions], float]
    reason: str  # what a kernel that exceeds it does wrong, and what to do


@dataclass(frozen=True)
class Task(LabTask):
    """The specification of a lab that asks for kernels.

    `expected(xp, values)` gives each output as float64 (or an exact dtype) of the output's shape. `bound(xp, values)`
    gives the largest absolute error allowed per element, derived from the working precision; 0 asks for equality. For
    the INTEGERS family equality is asked for regardless. `verify(xp, values, outputs, seed)` checks a timed output in
    O(bytes) and gives the largest ratio of error to allowed error (at most 1 passes); without it the full comparison is
    used. Where `verify` bears with small errors, `audit(xp, values, outputs, seed)` says whether the output for inputs
    of the INTEGERS family is exactly right; launches with such inputs are then mixed among the timed ones. `library`
    names what the vendor's library does in place of the kernel (warplab.gpu.library), to be shown beside it.

    `place(xp, family, values, draw)` changes drawn arrays in place, so that what a lab must catch is in its inputs for
    every seed and not only for most: values and rows of its choice, at positions that `draw` picks. It may only assign
    and do what is exact, so that every array module gives the same bits, and no more than a few dozen such operations:
    timed inputs are made by it too.

    `exact_on_integers` is False for a lab whose results are not whole for whole numbers: the bound then holds for the
    INTEGERS family too. `reproducible` is False for one that allows atomic additions of floats, whose order is another
    one each time: two runs need not agree bitwise then, but each must be right. `tensor_cores` is False for one whose
    products are to be made on CUDA cores. `timed` names correctness cases that are timed in place of `timing`, which
    then only says what must be launched: the efficiency is their geometric mean. `stages_use` is a counter that must
    not be 0 on the profile case if cases are to give points of their own (`Case.points`): such points are for a part of
    what is asked, not for less. `tensor_share` is the share of `flops` that tensor cores must do on the profile case,
    as the emulator counts them on every machine: a kernel that keeps all upper limits on CUDA cores earns neither
    traffic nor efficiency. `copied` names the arrays that each of two ranks has a copy of, for a lab with budgets on
    what goes between ranks (autograder.worker.two_ranks).
    """

    kind: ClassVar = "kernels"
    noun: ClassVar = "kernel"
    judged_without_gpu: ClassVar = ("correctness", "safety", "traffic")
    bound_by: ClassVar = "the roofline"
    required: ClassVar = ("efficiency", "languages")

    function: str
    arguments: tuple[ArraySpec | ScalarSpec, ...]
    correctness: tuple[Case, ...]
    profile: Case  # run on the emulator for counters and sanitizers, on every machine
    timing: Case
    expected: Callable[[ModuleType, Values], dict[str, Array]]
    bound: Callable[[ModuleType, Values], dict[str, Array]]
    flops: Callable[[Dimensions], float]
    bytes_moved: Callable[[Dimensions], float]  # each input read once, each output written once
    compute_ceiling: Ceiling
    budgets: tuple[Budget, ...] = ()
    verify: Callable[[ModuleType, Values, Mapping[str, Array], int], float] | None = None
    audit: Callable[[ModuleType, Values, Mapping[str, Array], int], bool] | None = None
    place: Place | None = None
    library: str = ""
    exact_on_integers: bool = True
    reproducible: bool = True
    tensor_cores: bool = True
    stages_use: str = ""
    tensor_share: float = 0.0
    timed: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()

    @property
    def timed_cases(self) -> tuple[str, ...]:
        """The names of the cases that are timed."""
        return self.timed or (self.timing.name,)

    @property
    def nothing(self) -> str:
        """What a report says where a submission came to no kernels."""
        return "No kernel was run."

    @property
    def what_earns(self) -> str:
        """Which submissions earn points beyond those for correctness, in a report's words."""
        return "a kernel whose answers are right"

    def every_case(self) -> tuple[Case, ...]:
        """The correctness cases, then those that are profiled and timed, which may be among them."""
        return (*self.correctness, self.profile, self.timing)

    def nominal_budgets(self) -> list[NominalBudget]:
        """The budgets of the profile case, for a handout."""
        size = self.profile.dimensions
        return [NominalBudget(self.function, size, one.counter, float(one.limit(size))) for one in self.budgets]

    def drawn(self, seed: int) -> Self:
        """The task with the dimensions of every case drawn from its class by the seed."""
        return replace(
            self,
            correctness=tuple(self._drawn(case, seed) for case in self.correctness),
            profile=self._drawn(self.profile, seed),
            timing=self._drawn(self.timing, seed),
        )

    def _drawn(self, case: Case, seed: int) -> Case:
        if not case.sizes:
            return case
        number = int(uniform(seed, "size", self.function, case.like or case.name) * len(case.sizes))
        return replace(case, dimensions=case.sizes[min(number, len(case.sizes) - 1)])

    def exact(self, case: Case) -> bool:
        """Whether the outputs of a case must be equal to what is expected, bit for bit."""
        return self.exact_on_integers and case.family is Family.INTEGERS

    def arrays(self, *roles: Role) -> list[ArraySpec]:
        """Array arguments with one of the roles (all, if none is named), in order."""
        return [a for a in self.arguments if isinstance(a, ArraySpec) and (not roles or a.role in roles)]

    def shape(self, array: ArraySpec, dimensions: Dimensions) -> tuple[int, ...]:
        """The concrete shape of an array argument, in elements."""
        return tuple(
            math.prod(dimensions[name] for name in n.split("*")) if isinstance(n, str) else n for n in array.shape
        )

    def host_call(self, dimensions: Dimensions, scalars: Mapping[str, int | float]) -> HostCall:
        """The call to capture for one case; `scalars` has the values of the scalar arguments."""
        arguments: list[ArrayArgument | ScalarArgument] = []
        for spec in self.arguments:
            if isinstance(spec, ArraySpec):
                arguments.append(ArrayArgument(spec.name, spec.dtype, self.shape(spec, dimensions), spec.role))
            else:
                arguments.append(ScalarArgument(spec.name, scalars[spec.name]))
        return HostCall(self.function, tuple(arguments))
