"""docs/facts.md: what is taken for a fact, which citations are refused, and that the page is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from scripts import facts

pytestmark = pytest.mark.pages

RESULTS = "../benchmarks/results/ceilings.json"


def notebook(*cells: str):
    return new_notebook(cells=[new_markdown_cell(cell) for cell in cells])


def statements(*cells: str) -> list[str]:
    return [fact.statement for fact in facts.facts_of(notebook(*cells))]


def test_the_fact_is_the_sentence_around_the_citation() -> None:
    text = (
        'Nobody says this. An SM has four\nschedulers [[source]](https://a.example/w "H100 whitepaper, p. 18. Figure 7").'
        " Jia et al. say (so). **Nor this.** It takes 4.2 cycles."
        '[[measured]](../benchmarks/results/ceilings.json "copy") The end.'
    )
    assert statements(text) == ["An SM has four schedulers.", "It takes 4.2 cycles."]


def test_items_and_rows_are_facts_of_their_own() -> None:
    text = (
        '* one line is 128 bytes [[source]](https://a.example "guide")\n  in four sectors\n* another item\n\n'
        '| what | how much | from |\n|---|---|---|\n| banks | 32 | [[source]](https://a.example "guide") |\n| no | 1 | |\n'
    )
    assert statements(text) == ["one line is 128 bytes in four sectors", "banks · 32"]


def test_citations_in_brackets_leave_nothing_behind() -> None:
    (fact,) = facts.facts_of(notebook('## A b\n\nx is 1 ([[source]](https://p.example "p"), [[counted]](#A-b "c")).'))
    assert fact.statement == "x is 1." and fact.section == "A b"
    assert [(c.kind, c.text, c.target) for c in fact.citations] == [
        ("source", "p", "https://p.example"),
        ("counted", "c", "#A-b"),
    ]


def test_code_is_not_read() -> None:
    made = new_notebook(cells=[new_code_cell('# x is 1 [[source]](https://p.example "p")')])
    assert facts.facts_of(made) == []
    assert statements('```python\nx [[source]](https://p.example "p")\n```') == []


@pytest.mark.parametrize(
    ("citation", "complaint"),
    [
        ('[[source]](http://p.example "p")', "no https address"),
        ('[[measured]](../benchmarks/results/ceilings.json "nothing")', "no record called 'nothing'"),
        ('[[measured]](../benchmarks/results/absent.json "copy")', "no file of benchmarks/results"),
        ('[[measured]](../README.md "copy")', "no file of benchmarks/results"),
        ('[[counted]](#Nowhere "p")', "no heading"),
    ],
)
def test_a_citation_that_leads_nowhere_is_refused(citation: str, complaint: str) -> None:
    made = notebook(f"# Here\n\nx is 1 {citation}.")
    (problem,) = facts.problems_of(made, facts.facts_of(made))
    assert complaint in problem


def test_a_citation_without_a_fact_is_refused() -> None:
    made = notebook('[[source]](https://p.example "p")')
    (problem,) = facts.problems_of(made, facts.facts_of(made))
    assert "states nothing" in problem


def test_good_citations_pass_and_links_work_from_docs() -> None:
    made = notebook(
        f'# 9 · Here\n\nx|y is 1 [[counted]](#9-·-Here "c"). z is 2 [[measured]]({RESULTS} "copy, in TB/s").'
    )
    assert facts.problems_of(made, facts.facts_of(made)) == []
    text = facts.page({"09_here": made})
    assert "## 9 · Here" in text
    assert "| x\\|y is 1. | [counted: c](../notebooks/09_here.ipynb#9-·-Here) |" in text
    assert (facts.PAGE.parent / RESULTS).is_file(), "the link of a record works from docs as from notebooks"


def test_links_of_statements_to_other_notebooks_work_from_docs() -> None:
    made = notebook(
        '# 9 · Here\n\n[Notebook 08](08_hopper.ipynb#1-·-Tiles) and [lab 01](../labs/01_axpy/README.md) '
        'add 3 up [[source]](https://g.example "g").'
    )
    row = next(line for line in facts.page({"09_here": made}).splitlines() if line.startswith("| [Notebook 08]"))
    assert "[Notebook 08](../notebooks/08_hopper.ipynb#1-·-Tiles) and [lab 01](../labs/01_axpy/README.md)" in row


def test_figures_without_a_citation_are_listed() -> None:
    text = 'An SM has 4 schedulers. It has 64 warps [[source]](https://g.example "g"). Has it 32 banks? Nothing here.'
    assert facts.uncited(notebook(text)) == ["An SM has 4 schedulers."]


@pytest.mark.parametrize(
    "figure",
    [
        "228 KiB",
        "4.8 TB/s",
        "700 W",
        "64 bits",
        "four schedulers",
        "16 wide",
        "thirty-two banks",
        "1.98 GHz",
        "2,048 lanes",
    ],
)
def test_what_counts_as_a_figure(figure: str) -> None:
    assert facts.uncited(notebook(f"It has {figure} in all.")) == [f"It has {figure} in all."]


@pytest.mark.parametrize(
    "text", ["float32 registers", "see [02 warps_and_latency](02.ipynb)", "up to rung 5, bytes say"]
)
def test_what_is_no_figure(text: str) -> None:
    assert facts.uncited(notebook(f"They have {text} so.")) == []


def test_what_is_asked_of_the_reader_is_not_searched() -> None:
    asked = (
        "# N\n\n**Predict:** an SM has 4 schedulers.\n\n## 7 · Work it out\n\nIt has 5 warps.\n\n## 8 · Quiz\n\n6 warps.",
        "## 9 · Exercises\n\n7 warps.\n\n### The one with banks\n\n8 banks.",
        "## 10 · More\n\n<details><summary>Answer</summary>\n\n9 banks.\n\n</details>\n\nThere are 10 banks.",
        "**How do its 32 lanes get them?**",
    )
    assert facts.uncited(notebook(*asked)) == ["There are 10 banks."]


def test_a_mark_says_why_there_is_no_source() -> None:
    made = notebook("# N\n\nOur tile has 64 bytes. <!-- no source: 16 floats. Really --> It has 32 banks.")
    assert facts.uncited(made) == ["It has 32 banks."]
    assert facts.marked(made) == [("Our tile has 64 bytes.", "16 floats. Really")]
    assert facts.facts_of(made) == [] and facts.problems_of(made, []) == []
    assert "| Our tile has 64 bytes. | 16 floats. Really |" in facts.page({"n": made})


def test_a_mark_that_nothing_needs_is_refused() -> None:
    (problem,) = facts.problems_of(notebook("A thread is free. <!-- no source: our kernel -->"), [])
    assert "take the mark 'our kernel' away" in problem


def test_a_mark_does_not_begin_a_line() -> None:
    (problem,) = facts.problems_of(notebook("A tile has 64\nbytes.\n<!-- no source: our kernel -->"), [])
    assert "begins a line" in problem


def test_no_figure_of_the_course_is_without_a_citation_or_a_mark() -> None:
    found = {name: sentences for name, made in facts.read_notebooks().items() if (sentences := facts.uncited(made))}
    assert found == {}, "cite these, or mark them as CONTRIBUTING.md says"


def test_no_citation_is_wrong() -> None:
    notebooks = facts.read_notebooks()
    problems = [p for made in notebooks.values() for p in facts.problems_of(made, facts.facts_of(made))]
    assert problems == []
    assert len(facts.page(notebooks).splitlines()) > 400
