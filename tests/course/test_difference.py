"""What changed between two rungs, line by line."""

from __future__ import annotations

from course.difference import changes

BEFORE = "int a;\nfor (;;) {\n    work();\n}\nint gone;\n"
AFTER = "int a;\nif (first)\n    for (;;) {\n        work();\n    }\n\nint came;\n"


def test_lines_that_were_only_indented_are_the_same() -> None:
    assert list(changes(BEFORE, AFTER)) == [("+", 2, "if (first)"), ("-", 5, "int gone;"), ("+", 7, "int came;")]


def test_a_text_does_not_differ_from_itself() -> None:
    assert not list(changes(AFTER, AFTER))


def test_both_changes_make_the_one_text_of_the_other() -> None:
    gone, came = ([line.strip() for sign, _, line in changes(BEFORE, AFTER) if sign == s] for s in "-+")
    old, new = ([line.strip() for line in text.splitlines() if line.strip()] for text in (BEFORE, AFTER))
    assert sorted([line for line in old if line not in gone] + came) == sorted(new)
