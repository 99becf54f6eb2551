"""docs/facts.md: what is taken for a fact, which citations are refused, and that the page is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from scripts import facts

RESULTS = "../benchmarks/results/ceilings.json"


def notebook(*cells: str):
    return new_notebook(cells=[new_markdown_cell(cell) for cell in cells])


def statements(*cells: str) -> list[str]:
    return [fact.statement for fact in facts.facts_of(notebook(*cells))]


def test_the_fact_is_the_sentence_around_the_citation() -> None:
    text = (
        "Nobody says this. An SM has four\nschedulers [source: H100 whitepaper, p. 18. Figure 7](https://a.example/w)."
        " Jia et al. say (so). **Nor this.** It takes 4.2 cycles."
        "[measured: copy](../benchmarks/results/ceilings.json) The end."
    )
    assert statements(text) == ["An SM has four schedulers.", "It takes 4.2 cycles."]


def test_items_and_rows_are_facts_of_their_own() -> None:
    text = (
        "* one line is 128 bytes [source: guide](https://a.example)\n  in four sectors\n* another item\n\n"
        "| what | how much | from |\n|---|---|---|\n| banks | 32 | [source: guide](https://a.example) |\n| no | 1 | |\n"
    )
    assert statements(text) == ["one line is 128 bytes in four sectors", "banks · 32"]


def test_citations_in_brackets_leave_nothing_behind() -> None:
    (fact,) = facts.facts_of(notebook("## A b\n\nx is 1 ([source: p](https://p.example), [counted: c](#A-b))."))
    assert fact.statement == "x is 1." and fact.section == "A b"
    assert [(c.kind, c.text, c.target) for c in fact.citations] == [
        ("source", "p", "https://p.example"),
        ("counted", "c", "#A-b"),
    ]


def test_code_is_not_read() -> None:
    made = new_notebook(cells=[new_code_cell("# x is 1 [source: p](https://p.example)")])
    assert facts.facts_of(made) == []
    assert statements("```python\nx [source: p](https://p.example)\n```") == []


@pytest.mark.parametrize(
    ("citation", "complaint"),
    [
        ("[source: p](http://p.example)", "no https address"),
        ("[measured: nothing](../benchmarks/results/ceilings.json)", "no record called 'nothing'"),
        ("[measured: copy](../benchmarks/results/absent.json)", "no file of benchmarks/results"),
        ("[measured: copy](../README.md)", "no file of benchmarks/results"),
        ("[counted: p](#Nowhere)", "no heading"),
    ],
)
def test_a_citation_that_leads_nowhere_is_refused(citation: str, complaint: str) -> None:
    made = notebook(f"# Here\n\nx is 1 {citation}.")
    (problem,) = facts.problems_of(made, facts.facts_of(made))
    assert complaint in problem


def test_a_citation_without_a_fact_is_refused() -> None:
    made = notebook("[source: p](https://p.example)")
    (problem,) = facts.problems_of(made, facts.facts_of(made))
    assert "states nothing" in problem


def test_good_citations_pass_and_links_work_from_docs() -> None:
    made = notebook(f"# 9 · Here\n\nx|y is 1 [counted: c](#9-·-Here). z is 2 [measured: copy, in TB/s]({RESULTS}).")
    assert facts.problems_of(made, facts.facts_of(made)) == []
    text = facts.page({"09_here": made})
    assert "## 9 · Here" in text
    assert "| x\\|y is 1. | [counted: c](../notebooks/09_here.ipynb#9-·-Here) |" in text
    assert (facts.PAGE.parent / RESULTS).is_file(), "the link of a record works from docs as from notebooks"


def test_figures_without_a_citation_are_listed() -> None:
    text = "An SM has 4 schedulers. It has 64 warps [source: g](https://g.example). Has it 32 banks? Nothing here."
    assert facts.uncited(notebook(text)) == ["An SM has 4 schedulers."]


def test_the_page_is_up_to_date() -> None:
    notebooks = facts.read_notebooks()
    problems = [p for made in notebooks.values() for p in facts.problems_of(made, facts.facts_of(made))]
    assert problems == []
    assert Path(facts.PAGE).read_text(encoding="utf-8") == facts.page(notebooks), "run `make facts`"
