"""The kinds of labs: each specification has its object, and each lab the kind that its lab.toml names."""

from __future__ import annotations

import tomllib

import pytest

from autograder.judge.kinds import KINDS, kind_of
from autograder.spec.lab import TASKS, find_any, known_labs


def test_every_specification_has_one_kind() -> None:
    assert [kind.task for kind in KINDS] == list(TASKS)
    assert len({task.kind for task in TASKS}) == len(TASKS)


@pytest.mark.parametrize("name", known_labs())
def test_a_lab_is_of_the_kind_that_it_names(name: str) -> None:
    lab = find_any(name)
    named = tomllib.loads((lab.folder / "lab.toml").read_text(encoding="utf-8")).get("kind", "kernels")
    assert kind_of(lab).task is type(lab.task) and lab.task.kind == named
