"""Sentences that every form of a report has."""

from __future__ import annotations

from autograder.records.report import BudgetResult, SecondOpinion


def _words(counter: str) -> str:
    return counter.replace("_", " ")


def budget_words(budget: BudgetResult) -> str:
    """One sentence about a budget that was exceeded."""
    name = _words(next(iter(budget.parts)) if len(budget.parts) == 1 else budget.counter)
    if len(budget.parts) > 1:
        name += f" ({', '.join(f'{amount:,} {_words(part)}' for part, amount in budget.parts.items())})"
    times = budget.value / budget.limit if budget.limit > 0 else 0.0
    excess = f" ({times:,.{1 if times < 10 else 0}f} times)" if times else ""
    return f"{budget.value:,} {name} where {budget.limit:,.0f} are allowed{excess}. {budget.reason}"


def opinion_words(opinion: SecondOpinion) -> str:
    """One sentence about an opinion."""
    if opinion.agrees is None:
        return f"{opinion.tool} gave no report in time on the case {opinion.case!r}."
    lines = f" on line {', '.join(str(line) for line in opinion.lines)}" if opinion.lines else ""
    errors = f"{opinion.errors} error{'s' if opinion.errors != 1 else ''}"
    said = f"reports {errors}{lines}" if opinion.errors else "finds nothing"
    same = "as the emulator does" if opinion.agrees else "which the emulator does not: the grade is the emulator's"
    return f"{opinion.tool} {said} on the case {opinion.case!r}, {same}."
