"""A judge for searches of the half-precision product that needs no GPU: the emulator compares and estimates."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from systems.search.half_product import UNIT_OF_SIZES, HalfChoice, Shape, source_of
from warplab.emulator import execute
from warplab.emulator.model.estimate import estimate
from warplab.errors import WarplabError
from warplab.hardware.chips import H200
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE, ArrayArgument, HostCall, Role

MOST_WORK = 1 << 27  # multiply-adds: seconds of a processor
_UNIT, _HALF_UNIT, _SMALLEST = 2.0**-24, 2.0**-11, 2.0**-24


class Emulated:
    """Microseconds that a choice would take for a shape on an H200: modelled, not measured.

    Raises WarplabError for a shape that the product does not take or the emulator would need minutes for.
    """

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        m, n, k = self.shape = shape
        if min(shape) < 1 or n % UNIT_OF_SIZES or k % UNIT_OF_SIZES:
            raise WarplabError(f"{m} x {n} x {k}: sizes begin at 1, and n and k have to be multiples of 8.")
        if m * n * k > MOST_WORK:
            words = f"{m} x {n} x {k} are {m * n * k:,} multiply-adds, and the emulator takes {MOST_WORK:,}"
            raise WarplabError(
                f"{words}: ask for a smaller product of the same form, or run benchmarks.search on a GPU."
            )
        random = np.random.default_rng(seed)
        self._inputs = {
            name: random.standard_normal(size).astype(np.float16) for name, size in (("a", (m, k)), ("b", (k, n)))
        }
        a, b = (self._inputs[name].astype(np.float64) for name in "ab")
        sums = (k + 16) * _UNIT * (abs(a) @ abs(b))  # what float32 sums in any order are off by, and a third more
        self._true = a @ b
        self._allowed = _HALF_UNIT * (abs(self._true) + sums) + sums + _SMALLEST / 2

    def __call__(self, choice: HalfChoice) -> float | None:
        """None for a wrong product, or one with findings."""
        m, n, k = self.shape
        arguments = (
            ArrayArgument("a", "float16", (m, k), Role.INPUT),
            ArrayArgument("b", "float16", (k, n), Role.INPUT),
            ArrayArgument("c", "float16", (m, n), Role.OUTPUT),
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "product.py"
            path.write_text(source_of([choice], H200.sms, EMULATED_ARCHITECTURE), encoding="utf-8")
            (plan,) = capture(path, [HostCall(f"{choice.name}_product", arguments)], (EMULATED_ARCHITECTURE,))
        run = execute(plan, self._inputs, architecture=EMULATED_ARCHITECTURE)
        right = (abs(run.outputs["c"].astype(np.float64) - self._true) <= self._allowed).all()
        return None if run.findings or not right else estimate(run, H200).seconds * 1e6
