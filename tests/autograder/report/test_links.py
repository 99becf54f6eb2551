from __future__ import annotations

from pathlib import Path

from autograder.report.links import Links, heading
from tests.autograder.report.example_reports import SCRIPT

SAID = "Begin with line 14. Read labs/03_transpose/README.md, section 'Sectors and banks'."


def test_a_handout_is_linked_to_its_section_and_the_rest_is_escaped() -> None:
    linked = Links("../..").linked(SCRIPT + SAID)
    assert (
        '<a href="../../labs/03_transpose/README.md#sectors-and-banks">labs/03_transpose/README.md, section' in linked
    )
    assert SCRIPT not in linked and linked.endswith("</a>.")


def test_without_a_root_nothing_is_linked() -> None:
    assert "<a" not in Links().linked(SAID)


def test_urls_are_relative_to_the_page() -> None:
    links = Links.between(Path("/a/out"), Path("/a"), Path("/a/labs/x/submission.py"))
    assert links == Links("..", "../labs/x/submission.py")


def test_headings_become_fragments_as_in_rendered_markdown() -> None:
    assert heading("Reuse, in numbers") == "#reuse-in-numbers"
    assert heading(None) == ""
