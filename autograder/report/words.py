"""Sentences that every form of a report has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from autograder.records.measurement import Library
from autograder.records.report import BudgetResult, Report, SecondOpinion, SimilarRung
from autograder.spec.recorded import Recorded

_NAMED = 2  # rungs that counters do not tell apart
_PLACE = re.compile(r" \(thread \([\d, ]+\) of block \([\d, ]+\)\)(?=\.?$)")  # at the end of a finding's message
_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")
_LINE = re.compile(r"\b[Ll]ine (\d+)\b")
_PLAIN = {
    "global_read_sectors": "sectors read from global memory",
    "global_written_sectors": "sectors written to global memory",
    "thread_read_sectors": "sectors that threads read from global memory",
    "bulk_load_sectors": "sectors that bulk copies read",
    "local_sectors": "sectors of local memory",
    "global_updates": "atomic updates of global memory",
    "shared_read_wavefronts": "wavefronts of reads from shared memory",
    "shared_written_wavefronts": "wavefronts of writes to shared memory",
    "shared_read_conflicts": "bank conflicts of reads",
    "shared_written_conflicts": "bank conflicts of writes",
    "float_instructions": "floating-point instructions",
    "tensor_instructions": "tensor-core instructions",
    "tensor_multiply_adds": "multiply-adds of tensor cores",
    "warpgroup_drains": "waits for all products of a warpgroup",
    "estimated_nanoseconds": "estimated time in ns",
    "warp_instructions": "warp instructions",
    "busiest_sm_sectors": "sectors of the busiest SM",
    "link_read_sectors": "sectors read over the link",
    "link_written_sectors": "sectors written over the link",
    "narrow_signals": "signals that do not reach another GPU",
    "barriers": "warps that arrive at barriers",
}


def plain_name(counter: str) -> str:
    """A counter's name for a reader who does not know Nsight Compute's."""
    return _PLAIN.get(counter, _words(counter))


def without_place(message: str) -> str:
    """A finding's message without the thread and the block."""
    return _PLACE.sub("", message).rstrip(".")


def unsaid(text: str, said: str) -> str:
    """The sentences of a text that `said` does not have already, as they are or behind words that introduce them."""

    def new(sentence: str) -> bool:
        words = without_place(sentence)
        return bool(words) and words not in said and words.partition(": ")[2] not in (said if ": " in words else ())

    return " ".join(sentence for sentence in _END.split(text) if new(sentence))


def first_line(report: Report) -> int:
    """The line of the submission to look at first; 0 if there is none."""
    found = _LINE.search(report.next_step)
    return report.line or (int(found[1]) if found else 0)


def _words(counter: str) -> str:
    return counter.replace("_", " ")


def listed(names: Sequence[str]) -> str:
    """Names with commas and a last "and"."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def without_marks(text: str) -> str:
    """Text of a handout without its marks for italics and code."""
    return text.replace("*", "").replace("`", "")


def budget_words(budget: BudgetResult) -> str:
    """One sentence about a budget that was exceeded."""
    name = _words(next(iter(budget.parts)) if len(budget.parts) == 1 else budget.counter)
    if len(budget.parts) > 1:
        name += f" ({', '.join(f'{amount:,} {_words(part)}' for part, amount in budget.parts.items())})"
    return f"{budget.value:,} {name} where {budget.limit:,.0f} are allowed{_excess(budget)}. {budget.reason}"


def _excess(budget: BudgetResult) -> str:
    return f" ({excess(budget)})" if budget.limit > 0 else ""


def excess(budget: BudgetResult) -> str:
    """By how much a budget was exceeded."""
    if budget.limit <= 0:
        return "none is allowed"
    times = budget.value / budget.limit
    return f"{times - 1:.1%} more" if times < 1.1 else f"{times:,.{1 if times < 10 else 0}f} times"


def opinion_words(opinion: SecondOpinion) -> str:
    """One sentence about an opinion."""
    if opinion.agrees is None:
        return f"{opinion.tool} gave no report in time on the case {opinion.case!r}."
    lines = f" on line {', '.join(str(line) for line in opinion.lines)}" if opinion.lines else ""
    errors = f"{opinion.errors} error{'s' if opinion.errors != 1 else ''}"
    said = f"reports {errors}{lines}" if opinion.errors else "finds nothing"
    same = "as the emulator does" if opinion.agrees else "which the emulator does not: the grade is the emulator's"
    return f"{opinion.tool} {said} on the case {opinion.case!r}, {same}."


def resemblance_words(
    alike: Sequence[SimilarRung],
    nearest: SimilarRung,
    further: SimilarRung | None,
    references: Sequence[SimilarRung],
    known: Recorded,
    section: str,
    changes: str,
) -> str:
    """Sentences about the rungs that a submission is like. `section` of the course explains the way to the reference,
    of which there may be one for each language, the fastest first. `changes` are the counters of the next rung, or of
    the nearest of those it is not like."""
    if not alike:
        which = f"The nearest is {_rung_words(nearest)}{changes and f', {changes}'}."
        return f"No recorded solution of this lab has similar counters. {which}"
    shares = [rung.share for rung in alike if rung.share is not None]
    beside = next((rung.share for rung in references if rung not in alike), None)
    words = f"Its counters are most like those of {_list(alike)}"
    if shares:
        reached = _percent(min(shares))
        if _percent(max(shares)) != reached:
            reached += f" to {_percent(max(shares))}"
        which = "which reached" if len(alike) == 1 else "which they do not tell apart; these reached"
        words += f", {which} {reached} of {known.of} on an {known.gpu}"
    else:
        words += ", whose time is not recorded" if len(alike) == 1 else ", which they do not tell apart"
    if beside and not any(rung.is_reference for rung in alike):
        words += f" (the reference: {_percent(beside)})"
    return f"{words}.{_above_words([*shares, beside], known)}{_further_words(further, alike, section, changes)}"


def _above_words(shares: Sequence[float | None], known: Recorded) -> str:
    """Why a recorded share of more than 100% is no error; empty without one."""
    if known.of != "the roofline" or not any(share and share > 1 for share in shares):
        return ""
    return " A copy sets the roofline, and a kernel that reads more than it writes can move more."


def _further_words(further: SimilarRung | None, alike: Sequence[SimilarRung], section: str, changes: str) -> str:
    if further is None:
        return ""
    with_changes = changes and f", {changes}"
    reached = f", which reached {_percent(further.share)}" if further.share is not None else ""
    if any(rung.is_reference for rung in alike):
        return f" Faster is {_rung_words(further)}{reached}{with_changes}."
    if further.is_reference:
        read = f": read {section}" if section else ""
        return f" Only the reference is above{with_changes}{read}." if read or changes else ""
    return f" Above that is {_rung_words(further)}{reached}{with_changes}."


@dataclass(frozen=True)
class Change:
    """A counter of one's own and of a rung, each relative to what grows with the size."""

    counter: str
    own: float
    other: float


def change_words(changes: Sequence[Change]) -> str:
    """What a rung has, compared with one's own; empty for no change."""
    return f"with {' and '.join(map(_change, changes))}" if changes else ""


def _change(change: Change) -> str:
    name = plain_name(change.counter)
    if not change.other:
        return f"none of your {name}"
    if not change.own:
        return f"{name}: you have none"
    times = change.other / change.own
    if times < 0.05:
        return f"1/{1 / times:,.0f} of your {name}"
    return f"{times:.2f} times your {name}" if times < 0.95 else f"{times:,.1f} times your {name}"


def faster_words(faster: SimilarRung, known: Recorded, changes: str) -> str:
    """A sentence about a rung that is faster than a submission with full points."""
    reached = f"which reached {_percent(faster.share or 0.0)} of {known.of} on an {known.gpu}"
    return f"Faster still is {_rung_words(faster)}, {reached}{changes and f', {changes}'}."


def library_words(library: Library, tensor_cores: bool) -> str:
    """A sentence about a library that is faster than a submission with full points."""
    words = f"{library.name} takes {library.ratio:.0%} of your time"
    if tensor_cores:
        return f"{words}."
    return f"{words}: it computes on tensor cores, which this lab leaves out; their counter is tensor_instructions."


def _list(rungs: Sequence[SimilarRung]) -> str:
    shown = [_rung_words(rung) for rung in rungs[:_NAMED]]
    left = len(rungs) - len(shown)
    shown += [f"{left} other{'s' if left > 1 else ''}"] if left else []
    return listed(shown)


def _rung_words(rung: SimilarRung) -> str:
    if rung.is_reference:
        return "the reference in CUDA C++" if rung.name.endswith("cuda") else "the reference"
    ladder, number = rung.name.split("_")[:2]
    name = f"rung {int(number)}" if ladder == "rung" else f"rung {int(number)} in {ladder.capitalize()}"
    return f'{name} ("{rung.what}")'


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
