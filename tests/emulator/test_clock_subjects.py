"""The kernels that the model of time is held against compute what NumPy says, and each is in one half."""

from __future__ import annotations

import pytest

from benchmarks.clock.subjects import HELD, TUNING, half_of, lab_files
from benchmarks.clock.textbook import TEXTBOOK, Textbook
from corpus.emulator.compare import compare
from corpus.emulator.plans import assemble_file
from warplab import emulator
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan

SMALL = {case.function: case for case in reversed(TEXTBOOK)}  # the first size of each


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return assemble_file(list(SMALL.values()), EMULATED_ARCHITECTURE)


@pytest.mark.processes
@pytest.mark.parametrize("case", SMALL.values(), ids=lambda case: case.name)
def test_a_textbook_kernel_computes_what_numpy_does(case: Textbook, plans: dict[str, Plan]) -> None:
    inputs = case.draw()
    run = emulator.execute(plans[case.name], dict(inputs), architecture=EMULATED_ARCHITECTURE)
    assert not run.findings
    assert compare(case, inputs, run.outputs) == ""


def test_sizes_of_a_kernel_are_in_one_half_and_neither_half_is_small() -> None:
    halves: dict[str, set[str]] = {}
    for case in TEXTBOOK:
        halves.setdefault(case.function, set()).add(half_of(f"textbook/{case.name}"))
    assert all(len(half) == 1 for half in halves.values())
    names = [f"textbook/{case.name}" for case in TEXTBOOK] + [file.name for file in lab_files()]
    assert len(set(names)) == len(names) >= 120
    assert min(sum(half_of(name) == half for name in names) for half in (TUNING, HELD)) > len(names) / 3
