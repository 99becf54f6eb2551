"""Every kernel of the validation corpus on the emulator: no findings and NumPy's results, or the fault it was made for.

What is marked as a gap must fail, so that the mark is removed when the emulator has learnt it. A fourth of each file
runs, and all of them with WARPLAB_WHOLE=1.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab
from benchmarks import validate
from corpus.emulator.catalogue import ENTRIES
from corpus.emulator.compare import compare, elements_apart, units_apart
from corpus.emulator.entry import Approximate, Entry, Fault, Subject
from corpus.emulator.faults import FAULTS, marked_lines
from tests.emulator.corpus.files import ARCHITECTURE, plans_of_file
from tests.sampling import part_of
from warplab import emulator
from warplab.plan.model import Plan

pytestmark = pytest.mark.processes

CHECKED = part_of(ENTRIES, 4, lambda entry: entry.file)
BUDGET = 1_000_000  # warp instructions; the largest correct kernel takes a tenth


def _parameters(subjects: tuple[Subject, ...]) -> list:
    def marks(subject: Subject) -> list[pytest.MarkDecorator]:
        return [pytest.mark.xfail(reason=subject.gap, strict=True)] if subject.gap else []

    return [pytest.param(s, id=s.name, marks=marks(s)) for s in subjects]


@cache
def _plans(file: str) -> dict[str, Plan]:
    """The plans of all subjects of one file."""
    subjects = [s for s in (*CHECKED, *FAULTS) if s.file == file]
    return plans_of_file(subjects)


def _plan(subject: Subject) -> Plan:
    return _plans(subject.file)[subject.name]


@pytest.mark.parametrize("entry", _parameters(CHECKED))
def test_correct_kernel(entry: Entry) -> None:
    inputs = entry.draw()
    execution = emulator.execute(_plan(entry), inputs, architecture=ARCHITECTURE, instruction_budget=BUDGET)
    assert [f.message for f in execution.findings] == []
    assert compare(entry, inputs, execution.outputs) == ""


@pytest.mark.parametrize("fault", _parameters(FAULTS))
def test_faulty_kernel(fault: Fault) -> None:
    plan, marked = _plan(fault), marked_lines(fault)
    assert fault.kind in marked.values()
    execution = emulator.execute(plan, fault.draw(), architecture=ARCHITECTURE, instruction_budget=BUDGET)
    found = [f for f in execution.findings if f.kind is fault.kind]
    said = [(f.line, f.message) for f in execution.findings]
    assert found, said
    assert all(marked.get(f.line) is fault.kind for f in found), said
    assert {f.kind for f in execution.findings} <= {fault.kind, *fault.extra}, said


def test_names_are_unique_and_the_corpus_is_large() -> None:
    names = [s.name for s in (*ENTRIES, *FAULTS)]
    assert len(set(names)) == len(names)
    assert len(ENTRIES) > 400 and len(FAULTS) > 110, "some were not found"


def test_inputs_are_the_same_each_time() -> None:
    for entry in ENTRIES[::20]:
        first, second = entry.draw(), entry.draw()
        assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_expectations_notice_one_wrong_element() -> None:
    for name in ("headers/warp_algorithms", "language/long_division", "shared_store_2_bytes/reversed"):
        entry = next(e for e in ENTRIES if e.name == name)
        inputs = entry.draw()
        plan = plans_of_file([entry])[name]  # make test checks some of the entries only
        execution = emulator.execute(plan, inputs, architecture=ARCHITECTURE)
        output = next(iter(execution.outputs.values()))
        output.reshape(-1)[-1] += 1
        assert "1 of" in compare(entry, inputs, execution.outputs)


def test_units_apart() -> None:
    one = np.array([1, -1, 0, np.nan, 1], np.float32)
    other = np.array([np.nextafter(np.float32(1), np.float32(2)), -1, -0.0, np.nan, 2], np.float32)
    assert units_apart(one, other).tolist() == [1, 0, 0, 0, 1 << 23]
    assert elements_apart(one, other, Approximate(1, "")) == 1
    assert elements_apart(one, other, None) == 3


@pytest.mark.parametrize(
    ("name", "array", "index", "thread"),
    [
        ("bounds/neighbour", "a", (50,), (49, 0, 0)),
        ("bounds/bad_index", "out", (64,), (40, 0, 0)),
        ("bounds/before_the_first", "a", (-1,), (0, 0, 0)),
        ("bounds/rows_for_columns", "a", (30, 0), (14, 0, 0)),
        ("reads/last_element_missing", "scratch", (63,), (63, 0, 0)),
    ],
)
def test_finding_names_array_index_and_thread(
    name: str, array: str, index: tuple[int, ...], thread: tuple[int, int, int]
) -> None:
    fault = next(f for f in FAULTS if f.name == name)
    execution = emulator.execute(_plan(fault), fault.draw(), architecture=ARCHITECTURE)
    found = next(f for f in execution.findings if f.kind is fault.kind)
    assert (found.array, found.index, found.thread) == (array, index, thread)


def test_race_names_the_element() -> None:
    fault = next(f for f in FAULTS if f.name == "race/barrier_too_early")
    execution = emulator.execute(_plan(fault), fault.draw(), architecture=ARCHITECTURE)
    line = min(marked_lines(fault))
    written = [f for f in execution.findings if f.line == line]
    assert written and all(f.thread is not None and f.index == (f.thread[0],) for f in written)


def test_labs_that_may_differ_are_compared_within_their_bound() -> None:
    task = find_lab("05_softmax").task
    values = generate(np, task, task.profile, 1)
    expected = task.expected(np, values)["out"].astype(np.float32)
    bound = validate._within_the_bound(task, values)
    assert elements_apart(expected * np.float32(1 + 2**-22), expected, bound) == 0
    assert elements_apart(expected * np.float32(1.01), expected, bound) == np.count_nonzero(expected)
