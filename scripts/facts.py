"""Writes docs/facts.md, every fact of the notebooks that carries a citation, with where it comes from: `make facts`.

A citation is a link that stands inside the sentence, list item or table row whose fact it supports:

    [source: document, place](https://...)                   somebody's document
    [measured: record](../benchmarks/results/FILE.json)      a record of ours
    [counted: what](#Heading-of-this-notebook)               cells of that section count it, on every machine

`python -m scripts.facts uncited` lists sentences that give a figure and cite nothing, for a reader to judge:
some follow from what was said before, some belong to an exercise.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat

from warplab import results

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
PAGE = ROOT / "docs" / "facts.md"

_CITATION = re.compile(r"\[(source|measured|counted): ([^\]]+)\]\(([^)\s]+)\)")
_ITEM = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+")
_RULE = re.compile(r"^\|[\s:|-]+\|$")
_ABBREVIATIONS = "".join(rf"(?<!\b{text})" for text in (r"al\.", r"e\.g\.", r"i\.e\.", r"vs\.", r"ch\.", r"Fig\."))
_END = re.compile(rf"(?:(?<=[.!?])|(?<=[.!?]\*\*)|(?<=[.!?]\))){_ABBREVIATIONS}\s+")
_TAG = re.compile(r"</?(?:details|summary|sub|sup|br)\s*/?>")
_FIGURE = re.compile(
    r"\d[\d,.]*\s*(?:[kMGT]i?B\b|[GT]B/s|[TP]?FLOP/s|[MG]Hz|watts|W\b|ns\b|cycles|registers|SMs|warps|lanes|banks|bytes|"
    r"sectors|nanoseconds|tensor cores|schedulers|wavefronts)"
)
_INTRODUCTION = """\
# Facts and where they come from

This page is made by `make facts` from the citations in the notebooks; CONTRIBUTING.md says how they are written. A fact
is the sentence, list item or table row that the citation stands in. *Measured* is a record of `benchmarks/results`,
*counted* a section of the notebook whose cells count it on any machine, everything else a document.
"""


@dataclass(frozen=True)
class Citation:
    """A link from a fact to what supports it. `kind`: source, measured or counted; `target` as the notebook has it."""

    kind: str
    text: str
    target: str


@dataclass(frozen=True)
class Fact:
    """One supported statement, in Markdown on one line, and the heading of the section that it stands in."""

    statement: str
    section: str
    citations: tuple[Citation, ...]


def facts_of(notebook: nbformat.NotebookNode) -> list[Fact]:
    """The facts of a notebook's Markdown cells, in order."""
    found = []
    for section, block in _blocks(notebook):
        found += [fact for sentence in _sentences(block) if (fact := _fact(sentence, section))]
    return found


def uncited(notebook: nbformat.NotebookNode) -> list[str]:
    """Sentences with a number of something that hardware has, and no citation; questions are left out."""
    return [
        sentence
        for _, block in _blocks(notebook)
        for sentence in _sentences(block)
        if _FIGURE.search(_CITATION.sub("", sentence)) and not _CITATION.search(sentence) and not sentence.endswith("?")
    ]


def problems_of(notebook: nbformat.NotebookNode, facts: list[Fact]) -> list[str]:
    """What is wrong with the citations of a notebook, a sentence each."""
    problems = []
    for fact in facts:
        where = f"in {fact.section!r}: {fact.statement[:60]!r}"
        if not re.search(r"\w", fact.statement):
            problems.append(f"{where} states nothing: put the citation into the sentence that states the fact")
        problems += [f"{where}: {problem}" for c in fact.citations if (problem := _problem(c, notebook))]
    return problems


def page(notebooks: dict[str, nbformat.NotebookNode]) -> str:
    """The text of docs/facts.md for notebooks by name. A notebook that cites nothing is left out."""
    parts = [_INTRODUCTION]
    for name, notebook in notebooks.items():
        facts = facts_of(notebook)
        if not facts:
            continue
        heading = next((line[2:] for line in notebook.cells[0].source.splitlines() if line.startswith("# ")), name)
        rows = [f"| {_cell(fact.statement)} | {_support(fact, name)} |" for fact in facts]
        parts.append("\n".join([f"## {heading}\n", "| fact | from |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def read_notebooks() -> dict[str, nbformat.NotebookNode]:
    """Every notebook of the course by name, in order, from its source."""
    return {path.stem: jupytext.read(path) for path in sorted((NOTEBOOKS / "source").glob("*.md"))}


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 if a citation is wrong; the page is then left as it was."""
    notebooks = read_notebooks()
    if arguments == ["uncited"]:
        for name, made in notebooks.items():
            print("\n".join(f"{name}: {sentence}" for sentence in uncited(made)))
        return 0
    problems = [
        f"{name} {p}" for name, notebook in notebooks.items() for p in problems_of(notebook, facts_of(notebook))
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    PAGE.write_text(page(notebooks), encoding="utf-8")
    return 0


def _blocks(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """Paragraphs, list items and table rows of the Markdown cells, each on one line, with the heading above it."""
    section = ""
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        text = re.sub(r"^```.*?^```$", "", cell.source, flags=re.S | re.M)
        block: list[str] = []
        for line in [*text.splitlines(), ""]:
            starts_anew = bool(_ITEM.match(line)) or line.startswith(("|", "#")) or not line.strip()
            if starts_anew and block:
                yield section, " ".join(block)
                block = []
            if line.startswith("#"):
                section = line.lstrip("#").strip()
            elif line.strip() and not _RULE.match(line.strip()):
                block.append(_ITEM.sub("", line).strip())


def _sentences(block: str) -> list[str]:
    """A table row is one sentence. A full stop in a citation ends none; a citation after one belongs before it."""
    if block.startswith("|"):
        return [block]
    citations: list[str] = []

    def hide(match: re.Match) -> str:
        citations.append(match.group())
        return f"\x01{len(citations) - 1}\x01"

    hidden = _CITATION.sub(hide, block)
    hidden = re.sub(r"([.!?])((?:\s*\x01\d+\x01)+)", r"\2\1", hidden)
    return [re.sub(r"\x01(\d+)\x01", lambda m: citations[int(m.group(1))], part) for part in _END.split(hidden)]


def _fact(sentence: str, section: str) -> Fact | None:
    citations = tuple(Citation(*match.groups()) for match in _CITATION.finditer(sentence))
    if not citations:
        return None
    statement = _TAG.sub("", _CITATION.sub("", sentence))
    if statement.startswith("|"):
        statement = " · ".join(part.strip(" ;,") for part in statement.strip("|").split("|") if part.strip(" ;,"))
    statement = re.sub(r"\(\s*[,;\s]*\)", "", statement)
    statement = re.sub(r"\s+([.,;:!?)])", r"\1", " ".join(statement.split()))
    return Fact(re.sub(r"[,;]+\.", ".", statement), section, citations)


def _problem(citation: Citation, notebook: nbformat.NotebookNode) -> str | None:
    if citation.kind == "source":
        return None if citation.target.startswith("https://") else f"{citation.target} is no https address"
    if citation.kind == "counted":
        headings = {anchor(line.lstrip("#").strip()) for cell in notebook.cells if cell.cell_type == "markdown"
                    for line in cell.source.splitlines() if line.startswith("#")}  # fmt: skip
        return None if citation.target in headings else f"no heading of this notebook has the anchor {citation.target}"
    path = (NOTEBOOKS / citation.target).resolve()
    if path.parent != results.DIRECTORY or not path.is_file():
        return f"{citation.target} is no file of benchmarks/results, written as ../benchmarks/results/FILE.json"
    name = citation.text.split(",")[0].strip()
    names = {record.name for record in results.read(path).records}
    return None if name in names else f"{path.name} has no record called {name!r}"


def anchor(heading: str) -> str:
    """The link to a heading within a notebook, as JupyterLab makes it."""
    return "#" + heading.replace(" ", "-")


def _support(fact: Fact, notebook: str) -> str:
    links = []
    for citation in fact.citations:
        target = citation.target
        if target.startswith("#"):
            target = f"../notebooks/{notebook}.ipynb{target}"
        label = citation.text if citation.kind == "source" else f"{citation.kind}: {citation.text}"
        links.append(f"[{_cell(label)}]({target})")
    return "; ".join(links)


def _cell(text: str) -> str:
    """Text that can stand in a cell of a Markdown table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
