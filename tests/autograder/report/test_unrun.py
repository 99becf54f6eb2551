"""Lines that no case reached are named where code is missing a case, and nowhere else."""

from __future__ import annotations

import pytest

from autograder.records.outcome import CaseOutcome
from autograder.records.status import Status
from autograder.report.unrun import unrun_lines, unrun_words

SOURCE = """\
def kernel(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    if x[i] > LIMIT:
        a = x[i]
        # what is rare

        out[i] = a
    else:
        out[i] = 0
    for k in range(4):
        out[i] += k
    assert out[i] >= 0
"""


def case(code: list[int], ran: list[int]) -> CaseOutcome:
    return CaseOutcome("", Status.PASSED, code=code, ran=ran)


def test_lines_that_belong_together_are_one_range() -> None:
    code = [2, 3, 4, 5, 6, 9, 11, 12, 13, 14]
    assert unrun_lines(SOURCE, [case(code, [2, 3, 5, 11, 12, 13])]) == ((4, 4), (6, 9))
    assert unrun_lines(SOURCE, [case(code, [2, 3, 5, 11, 12, 13]), case(code, [4, 6, 9])]) == ()


def test_copies_that_a_compiler_made_and_what_must_not_happen_are_left_out() -> None:
    code = [2, 3, 4, 5, 6, 9, 11, 12, 13, 14]
    everything = [2, 3, 4, 5, 6, 9, 11, 12, 13]
    assert unrun_lines(SOURCE, [case(code, everything)]) == ()  # the assertion's own
    assert unrun_lines(SOURCE, [case([1, *code], everything)]) == ()  # the line of `def`
    for copied in (2, 6, 12):  # what follows in the same part ran
        assert unrun_lines(SOURCE, [case(code, [line for line in everything if line != copied])]) == ()


def test_cases_that_do_not_tell_say_nothing() -> None:
    assert unrun_lines(SOURCE, [case([2, 4], [2]), case([], [])]) == ()


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ((), ""),
        (((4, 4),), "No emulated case reached line 4: nothing shows that it is right."),
        (((6, 9),), "No emulated case reached lines 6 to 9: nothing shows that they are right."),
        (((4, 4), (6, 9)), "No emulated case reached lines 4 and 6 to 9: nothing shows that they are right."),
    ],
)
def test_what_is_said(ranges: tuple[tuple[int, int], ...], words: str) -> None:
    assert unrun_words(ranges) == words


def test_many_places_are_counted() -> None:
    words = unrun_words(tuple((n, n) for n in range(1, 15, 2)))
    assert words.startswith("No emulated case reached lines 1, 3, 5, 7, 9 and 2 more places")
