"""The classes of sizes of the labs: their nominal sizes, the work of what is counted and timed, and their secrecy."""

from __future__ import annotations

import pytest

from autograder.spec.lab import Lab, find_lab, kernel_labs
from autograder.spec.task import Case, Dimensions

LABS = [find_lab(name) for name in kernel_labs()]
SEEDS = range(200)

pytestmark = pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)


def cases(lab: Lab) -> list[Case]:
    return [*lab.task.correctness, lab.task.profile, lab.task.timing]


def work(lab: Lab, dimensions: Dimensions) -> float:
    return lab.task.bytes_moved(dimensions) + lab.task.flops(dimensions)


def test_nominal_sizes_are_of_their_class(lab: Lab) -> None:
    for case in cases(lab):
        assert not case.sizes or dict(case.dimensions) in case.sizes, case.name
        assert all(size.keys() == case.dimensions.keys() for size in case.sizes), case.name


def test_what_matters_is_drawn(lab: Lab) -> None:
    for case in cases(lab):
        if case.hidden or case in (lab.task.profile, lab.task.timing):
            assert len({tuple(size.items()) for size in case.sizes}) >= 3, case.name
    fixed = [case for case in lab.task.correctness if not case.sizes]
    assert all(max(case.dimensions.values()) <= 16 for case in fixed)


def test_no_size_is_had_by_most_seeds(lab: Lab) -> None:
    for case in (lab.task.profile, lab.task.timing):
        drawn = [tuple(lab.drawn(seed).case(case.name).dimensions.items()) for seed in SEEDS]
        assert max(drawn.count(size) for size in set(drawn)) < len(drawn) / 2


def test_what_is_counted_costs_the_same(lab: Lab) -> None:
    nominal = work(lab, lab.task.profile.dimensions)
    for size in lab.task.profile.sizes:
        assert 0.9 < work(lab, size) / nominal < 1.1, size


def test_what_is_timed_takes_about_as_long(lab: Lab) -> None:
    nominal = work(lab, lab.task.timing.dimensions)
    for size in lab.task.timing.sizes:
        assert 0.95 < work(lab, size) / nominal < 1.05, size


def test_the_emulator_can_run_every_size(lab: Lab) -> None:
    for case in (*lab.task.correctness, lab.task.profile):
        sizes = case.sizes or (case.dimensions,)
        assert case.needs_gpu or max(lab.task.flops(size) for size in sizes) <= 5e7, case.name
