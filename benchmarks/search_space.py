"""Counts a templated product over a whole space of choices, so that searches of it can be tried a thousand times.

Each choice is a kernel of its own, captured and run on the emulator: its answers are compared with float64, and the
estimate of its time on an H200 is kept, modelled and not measured, with what it was made of. Writes
benchmarks/results/search_space.json. It needs no GPU and takes minutes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from course import results
from systems.search.product import CHOICES, Choice, name_of, source_of
from warplab.emulator import execute
from warplab.emulator.model.estimate import estimate
from warplab.hardware.chips import H200
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE, ArrayArgument, HostCall, Plan, Role

FILE = results.DIRECTORY / "search_space.json"
COMMAND = "python -m benchmarks.search_space"
SHAPES = ((256, 256, 64), (32, 1024, 64))  # m, n, k: one as wide as high, one of few rows
_AT_ONCE = 12  # choices in one file: a capture process has 40 s of a processor
_BOUND = 2.0**-24


def captured(
    choices: Sequence[Choice], shape: tuple[int, int, int], architecture: str = EMULATED_ARCHITECTURE
) -> list[Plan]:
    """A plan for each choice, of a product of this shape."""
    m, n, k = shape
    arguments = (
        ArrayArgument("a", "float32", (m, k), Role.INPUT),
        ArrayArgument("b", "float32", (k, n), Role.INPUT),
        ArrayArgument("c", "float32", (m, n), Role.OUTPUT),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "product.py"
        path.write_text(source_of(choices), encoding="utf-8")
        calls = [HostCall(name_of(choice), arguments) for choice in choices]
        return capture(path, calls, (architecture,))


def count(plan: Plan, choice: Choice, inputs: dict[str, NDArray[np.float32]]) -> list[results.Record]:
    """What the emulator says of one choice. Raises AssertionError if its product is wrong or it has findings."""
    run = execute(plan, inputs, architecture=EMULATED_ARCHITECTURE, caches=H200)
    a, b = (inputs[name].astype(np.float64) for name in "ab")
    assert not run.findings, run.findings
    assert (abs(run.outputs["c"] - a @ b) <= a.shape[1] * _BOUND * (abs(a) @ abs(b))).all(), choice
    modelled = estimate(run, H200)
    shape = (a.shape[0], b.shape[1], a.shape[1])
    conditions = f"modelled, not measured; bound by {modelled.launches[0].bound.name}"
    counted = run.launches[0].total.warp_instructions
    where = name_of(choice), shape, "float32"
    microseconds = modelled.seconds * 1e6
    return [
        results.Record("product", "estimated time", microseconds, "us", *where, conditions=conditions),
        results.Record("product", "warp instructions", counted, "instructions", *where),
    ]


def main() -> None:
    """Count every choice for every shape, or every so many of them, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only every so many choices; nothing is kept then")
    options = parser.parse_args()
    records: list[results.Record] = []
    for shape in SHAPES:
        m, n, k = shape
        random = np.random.default_rng(0)
        inputs = {"a": random.standard_normal((m, k), np.float32), "b": random.standard_normal((k, n), np.float32)}
        chosen = CHOICES[:: options.every]
        for begin in range(0, len(chosen), _AT_ONCE):
            some = chosen[begin : begin + _AT_ONCE]
            for choice, plan in zip(some, captured(some, shape), strict=True):
                records += count(plan, choice, inputs)
                print(f"{'x'.join(map(str, shape)):14} {name_of(choice):16} {records[-2].value:8.2f} us", flush=True)
    if options.every == 1:
        results.write(FILE, results.make_header(COMMAND), records)


if __name__ == "__main__":
    main()
