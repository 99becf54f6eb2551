"""One kernel of the corpus: what it is called with, where its inputs come from, and what it should compute."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from corpus.emulator import draws
from corpus.emulator.draws import Draw
from warplab.plan.execution import FindingKind
from warplab.plan.model import ArrayArgument, HostCall, Role, ScalarArgument

FOLDER = Path(__file__).resolve().parent
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Approximate:
    """How far the emulator may be from the GPU where hardware approximates, and why.

    A difference is allowed if it is at most `ulp` units in the last place of the GPU's value or at most `absolute`.
    """

    ulp: int
    why: str
    absolute: float = 0.0


@dataclass(frozen=True)
class Subject:
    """A host function of the corpus with the arguments of one call; `inputs` says how arrays are drawn, by name.

    An array that `inputs` does not name holds any bits if it is of integers, else numbers close to N(0, 1).
    """

    name: str
    file: str  # below this folder
    function: str
    arguments: tuple[ArrayArgument | ScalarArgument, ...]
    inputs: Mapping[str, Draw] = field(default_factory=dict)
    gap: str = field(default="", kw_only=True)  # what the emulator lacks for it; empty if nothing

    @property
    def path(self) -> Path:
        """The file that defines the host function."""
        return FOLDER / self.file

    @property
    def call(self) -> HostCall:
        """What to capture."""
        return HostCall(self.function, self.arguments)

    def draw(self) -> dict[str, np.ndarray]:
        """The INPUT and INOUT arrays, the same for the same name."""
        generator = np.random.default_rng(zlib.crc32(self.name.encode()))
        drawn = {}
        for argument in self.arguments:
            if isinstance(argument, ArrayArgument) and argument.role is not Role.OUTPUT:
                source = self.inputs.get(argument.name, draws.plain)
                drawn[argument.name] = draws.drawn(generator, source, argument.shape, np.dtype(argument.dtype))
        return drawn


@dataclass(frozen=True)
class Entry(Subject):
    """A correct kernel.

    `expected(values)` gives outputs by name, from the inputs and scalars by name; of fewer rows than the output, the
    first ones. Those of the output's own dtype must be met bit for bit; those of a wider type to within rounding:
    `tolerance` relative to the largest expected value.
    """

    expected: Callable[[dict], dict[str, np.ndarray]] | None = None
    tolerance: float = 0.0  # 0: a few units of the output's dtype
    approximate: Approximate | None = None
    uncounted: str = ""  # why Nsight Compute's counters are not comparable; empty if they are

    def values(self, inputs: Arrays) -> dict:
        """All arguments by name, outputs as they are poisoned before the first launch."""
        result: dict = {}
        for a in self.arguments:
            if isinstance(a, ScalarArgument):
                result[a.name] = a.value
            else:
                result[a.name] = inputs[a.name].copy() if a.name in inputs else poisoned(a.dtype, a.shape)
        return result


@dataclass(frozen=True)
class Fault(Subject):
    """A faulty kernel: each finding of kind `kind` is at one of its lines that are marked `<- finding: kind`.

    `tool` is the tool of compute-sanitizer that reports it ("" if none does), `extra` further kinds that may follow.
    """

    kind: FindingKind = FindingKind.RACE
    tool: str = ""
    extra: tuple[FindingKind, ...] = ()


def read(name: str, dtype: str, *shape: int) -> ArrayArgument:
    """An array that kernels only read."""
    return ArrayArgument(name, dtype, shape, Role.INPUT)


def write(name: str, dtype: str, *shape: int) -> ArrayArgument:
    """An array that kernels fill."""
    return ArrayArgument(name, dtype, shape, Role.OUTPUT)


def update(name: str, dtype: str, *shape: int) -> ArrayArgument:
    """An array that kernels change."""
    return ArrayArgument(name, dtype, shape, Role.INOUT)


def scalar(name: str, value: int | float) -> ScalarArgument:
    """A number for the host function."""
    return ScalarArgument(name, value)


def poisoned(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """What an output holds where nothing was written."""
    array = np.empty(shape, dtype)
    array.view(np.uint8)[...] = 0xFF
    return array
