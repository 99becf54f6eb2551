"""Writes what a handout says of its lab's grade: points, scale and budgets, as the judge uses them.

A handout has a block between two comments, which `autograder handouts` fills from lab.toml and task.py. The table
`[handout]` of lab.toml says in words what earns each part's points; every figure comes from where the judge takes it.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from autograder.report.words import listed
from autograder.spec.lab import AnyLab, LabError, find_any, known_labs
from autograder.spec.lab_task import NominalBudget
from autograder.spec.task import Dimensions, Task
from autograder.written import WrittenFile

BEGIN = "<!-- BEGIN GRADE (written by `autograder handouts`) -->"
END = "<!-- END GRADE -->"
PARTS = ("correctness", "safety", "traffic", "efficiency")
_BLOCK = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
_SAFE_FIRST = "Traffic and efficiency earn points only if the kernel is right and nothing is found under safety."
_RULE = "[How points are computed](../../docs/grading.md#how-points-are-computed)."


def handouts() -> list[WrittenFile]:
    """The handout of every lab with its block filled. Raises LabError."""
    return [handout(find_any(name)) for name in known_labs()]


def handout(lab: AnyLab) -> WrittenFile:
    """The same of one lab."""
    path = lab.folder / "README.md"
    text = path.read_text(encoding="utf-8")
    block = f"{BEGIN}\n{grade_block(lab)}{END}"
    text, found = _BLOCK.subn(lambda match: block, text)
    if found != 1:
        raise LabError(f"{path} has no block for the grade, or several. Write one line {BEGIN} and below it {END}.")
    return WrittenFile(path, text)


def grade_block(lab: AnyLab) -> str:
    """The table of parts, the budgets at nominal sizes, and where the rule of points stands. Raises LabError."""
    path = lab.folder / "lab.toml"
    texts = tomllib.loads(path.read_text(encoding="utf-8"))
    words = texts.get("handout", {})
    if missing := [part for part in PARTS if not words.get(part)]:
        raise LabError(f"{path} does not say what earns points for {missing[0]}. Add it to the table [handout].")
    plan = [_plan(texts), ""] if "hours" in texts else []
    rows = [f"| {part} | {getattr(lab.points, part):g} | {_earned(lab, part, words[part])} |" for part in PARTS]
    table = ["| part | points | what earns them |", "|---|---|---|", *rows]
    safe = [_SAFE_FIRST, *_tensor_floor(lab.task)] if isinstance(lab.task, Task) else []
    return "\n".join([*plan, *table, "", *_budgets(lab.task.nominal_budgets()), *safe, _RULE]) + "\n"


def _plan(texts: Mapping[str, Any]) -> str:
    """How long the lab takes, and what it needs, with links to where that was taught."""
    low, high = texts["hours"]
    needed = [f"[{what}](../../{where})" for what, where in texts.get("before", ())]
    return f"Plan {low:g} to {high:g} hours. The lab needs {listed(needed)}."


def _tensor_floor(task: Task) -> list[str]:
    """The least that tensor cores must do, where the lab asks for them."""
    if not task.tensor_share:
        return []
    least = task.tensor_share * task.flops(task.profile.dimensions) / 2
    return [f"Both also need tensor cores to make {least:,.0f} multiply-adds or more at that size."]


def _earned(lab: AnyLab, part: str, words: str) -> str:
    if part != "efficiency" or "efficiency" not in lab.task.required:
        return words
    if not lab.points.efficiency:
        return words
    scale = lab.efficiency
    words += f": full points at {_percent(scale.target)} of {lab.task.bound_by}, none at {_percent(scale.floor)}"
    measured = lab.task.measured_points
    if not measured:
        return words
    return f"{lab.points.efficiency - measured:g} points: {words}; {measured:g} points: the measured time on GPUs"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _budgets(budgets: Sequence[NominalBudget]) -> list[str]:
    if not budgets:
        return []
    sizes = [_size(budget.size) for budget in budgets]
    if all(size == sizes[0] for size in sizes):
        head = f"Budgets at the nominal size {sizes[0]}. They follow the size that a grade draws:"
        columns, rows = "| counter | at most |", [_row(budget) for budget in budgets]
    else:
        head = "Budgets at the nominal sizes. They follow the sizes that a grade draws:"
        columns = "| function | nominal size | counter | at most |"
        rows = [f"| `{function}` | {_size(own[0].size)} {_joined(own)}" for function, own in _by_function(budgets)]
    return [head, "", columns, "|---" * (columns.count("|") - 1) + "|", *rows, ""]


def _row(budget: NominalBudget) -> str:
    return f"| `{budget.counter}` | {_most(budget)} |"


def _most(budget: NominalBudget) -> str:
    return f"{math.floor(budget.most):,}"  # counters are whole


def _joined(budgets: Sequence[NominalBudget]) -> str:
    """One row for all budgets of a function: each rank may have one."""
    counters = [f"`{budget.counter}`" for budget in budgets]
    named = f"{counters[0]} to {counters[-1]}" if len(counters) > 2 else ", ".join(counters)
    return f"| {named} | {', '.join(_most(budget) for budget in budgets)} |"


def _by_function(budgets: Sequence[NominalBudget]) -> list[tuple[str, list[NominalBudget]]]:
    return [(function, list(own)) for function, own in groupby(budgets, key=lambda budget: budget.function)]


def _size(size: Dimensions) -> str:
    return ", ".join(f"*{name}* = {value:,}" for name, value in size.items())
