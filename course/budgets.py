"""What a lab gives points for, and its budgets beside a number that a chapter explains."""

from __future__ import annotations

from collections.abc import Callable

from IPython.display import Markdown

from autograder.spec.task import Budget
from course.lesson import Lesson, table


def points(lesson: Lesson) -> Markdown:
    """The lab's points, by part of the grade."""
    parts = ("correctness", "safety", "traffic", "efficiency")
    return table(["part", "points"], [(part, getattr(lesson.lab.points, part)) for part in parts])


def cases_with_points(lesson: Lesson) -> Markdown:
    """The lab's cases that have points of their own."""
    rows = [(case.name, case.points) for case in lesson.lab.task.correctness if case.points]
    return table(["case with separate points", "points"], rows)


def budgets(lesson: Lesson, words: str, beside: Callable[[Budget], float]) -> Markdown:
    """The lab's budgets on its profile case; `beside` gives the last column, which `words` heads."""
    task = lesson.lab.task
    limits = [(b.counter.replace("_", " "), b.limit(task.profile.dimensions), beside(b)) for b in task.budgets]
    return table(["budget", "limit on the profile case", words], limits)


def per_multiply_adds(lesson: Lesson, multiply_adds: int) -> Callable[[Budget], float]:
    """A budget's limit per so many multiply-adds of the matrix product that is the lab's profile case."""
    case = lesson.lab.task.profile.dimensions
    units = case["m"] * case["n"] * case["k"] / multiply_adds
    return lambda budget: budget.limit(case) / units
