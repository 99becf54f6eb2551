"""Writes docs/facts.md, every fact of the notebooks that carries a citation, with where it comes from: `make pages`.

A citation is a link that stands inside the sentence, list item or table row whose fact it supports:

    [[source]](https://... "document, place")                   somebody's document
    [[measured]](../benchmarks/results/FILE.json "record")      a record of ours
    [[counted]](#Heading-of-this-notebook "what")               cells of that section count it, on every machine

Readers see the one word, which opens what it names, and over it what that is.

A figure that needs none, because it follows from others or is one of our own code, is marked behind its sentence:

    <!-- no source: why -->                                  not shown in the notebook; docs/facts.md lists the sentence

`python -m scripts.facts uncited` lists sentences that give a figure and have neither; the tests ask that there be none.
What is asked of a reader is left out: predictions, exercises, quizzes, and the answers behind them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat

from course import results
from warplab.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
PAGE = ROOT / "docs" / "facts.md"

_CITATION = re.compile(r'\[\[(source|measured|counted)\]\]\(([^)\s]+) "([^"]+)"\)')
_ITEM = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+")
_RULE = re.compile(r"^\|[\s:|-]+\|$")
_ABBREVIATIONS = "".join(rf"(?<!\b{text})" for text in (r"al\.", r"e\.g\.", r"i\.e\.", r"vs\.", r"ch\.", r"Fig\."))
_END = re.compile(rf"(?:(?<=[.!?])|(?<=[.!?]\*\*)|(?<=[.!?]\))){_ABBREVIATIONS}\s+")
_TAG = re.compile(r"</?(?:details|summary|sub|sup|br)\s*/?>")
_MARK = re.compile(r"<!-- no source: (.+?) -->")
_CHAPTER_LINK = re.compile(r"\]\((?=\w+\.ipynb[)#])")
_EARLY = re.compile(r"^[ \t]*<!-- no source: .+?-->", re.M)
_ASKED = re.compile(r"(?:\d+ · )?(?:Exercises?|Work it out|Quiz|Summary|Explain it)\b")  # headings
_FIGURE = re.compile(
    r"(?<![\w.,])\d(?:[\d,.]*\d)?\s*(?:[kKMGT]i?B|[GT]B/s|[TP]?FLOP/s|[MG]Hz|watts|W|ns|nanoseconds|cycles|bits|bytes|"
    r"sectors|wavefronts|registers|SMs|warps|lanes|wide|banks|partitions|tensor cores|schedulers)\b"
    r"|\b(?:two|three|four|eight|sixteen|thirty-two) (?:banks|partitions|tensor cores|schedulers)\b",
    re.IGNORECASE,
)
_INTRODUCTION = """\
# Facts and where they come from

This page is made by `make pages` from the citations in the notebooks; CONTRIBUTING.md says how they are written. A fact
is the sentence, list item or table row that the citation stands in. *Measured* is a record of `benchmarks/results`,
*counted* a section of the notebook whose cells count it on any machine, everything else a document. Behind the facts of
a notebook stand its sentences that give a figure and cite nothing, each with the reason. Predictions, exercises and
quizzes, with their answers, ask for figures and are not searched for them.
"""


@dataclass(frozen=True)
class Citation:
    """A link from a fact to what supports it. `kind`: source, measured or counted; `target` as the notebook has it."""

    kind: str
    target: str
    text: str


@dataclass(frozen=True)
class Fact:
    """One supported statement, in Markdown on one line, and the heading of the section that it stands in."""

    statement: str
    section: str
    citations: tuple[Citation, ...]


@dataclass(frozen=True)
class Block:
    """A paragraph, list item or table row on one line. `asked`: it is a question to the reader, or its answer."""

    section: str
    text: str
    asked: bool


def facts_of(notebook: nbformat.NotebookNode) -> list[Fact]:
    """The facts of a notebook's Markdown cells, in order."""
    found = []
    for block in _blocks(notebook):
        found += [fact for sentence in _sentences(block.text) if (fact := _fact(sentence, block.section))]
    return found


def marked(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """Sentences that are marked as needing no source, each with the reason."""
    sentences = (sentence for block in _blocks(notebook) for sentence in _sentences(block.text))
    return [(_plain(sentence), mark.group(1)) for sentence in sentences if (mark := _MARK.search(sentence))]


def uncited(notebook: nbformat.NotebookNode) -> list[str]:
    """Sentences with a number of something that hardware has, and neither a citation nor a mark; no questions."""
    return [
        sentence
        for block in _blocks(notebook)
        if not block.asked
        for sentence in _sentences(block.text)
        if _FIGURE.search(sentence)
        and not _CITATION.search(sentence)
        and not _MARK.search(sentence)
        and not sentence.rstrip("*").endswith("?")
    ]


def problems_of(notebook: nbformat.NotebookNode, facts: list[Fact]) -> list[str]:
    """What is wrong with the citations of a notebook, a sentence each."""
    problems = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (early := _EARLY.search(cell.source)):
            problems.append(f"{early.group().strip()!r} begins a line and so ends its paragraph: put it behind a word")
    for sentence, why in marked(notebook):
        if not _FIGURE.search(sentence):
            problems.append(f"{sentence[:60]!r} gives no figure that is searched for: take the mark {why!r} away")
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
        facts, own = facts_of(notebook), marked(notebook)
        if not facts and not own:
            continue
        heading = next((line[2:] for line in notebook.cells[0].source.splitlines() if line.startswith("# ")), name)
        rows = [f"| {_cell(_from_docs(fact.statement))} | {_support(fact, name)} |" for fact in facts]
        parts.append("\n".join([f"## {heading}\n", "| fact | from |", "|---|---|", *rows]) + "\n")
        if own:
            rows = [f"| {_cell(sentence)} | {_cell(why)} |" for sentence, why in own]
            parts.append("\n".join(["| needs no source | because |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def read_notebooks() -> dict[str, nbformat.NotebookNode]:
    """Every notebook of the course by name, in order, from its source."""
    return {path.stem: jupytext.read(path) for path in sorted((NOTEBOOKS / "source").glob("*.md"))}


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 if a citation is wrong; the page is then left as it was."""
    notebooks = read_notebooks()
    if arguments == ["uncited"]:
        for name, made in notebooks.items():
            for sentence in uncited(made):
                print(f"{name}: {sentence}")
        return 0
    problems = [
        f"{name} {p}" for name, notebook in notebooks.items() for p in problems_of(notebook, facts_of(notebook))
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    write_whole(PAGE, page(notebooks))
    return 0


def _blocks(notebook: nbformat.NotebookNode) -> Iterator[Block]:
    """The blocks of the Markdown cells, each with the heading above it."""
    headings: dict[int, str] = {}  # by level, those above this line
    in_answer = False
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        text = re.sub(r"^```.*?^```$", "", cell.source, flags=re.S | re.M)
        lines: list[str] = []
        for line in [*text.splitlines(), ""]:
            starts_anew = bool(_ITEM.match(line)) or line.startswith(("|", "#")) or not line.strip()
            if starts_anew and lines:
                block = " ".join(lines)
                asked = in_answer or block.startswith("**Predict") or any(map(_ASKED.match, headings.values()))
                yield Block(list(headings.values())[-1] if headings else "", block, asked)
                lines = []
            if "<details>" in line or "</details>" in line:
                in_answer = "</details>" not in line
            if line.startswith("#"):
                level = len(line) - len(line.lstrip("#"))
                headings = {n: heading for n, heading in headings.items() if n < level}
                headings[level] = line.lstrip("#").strip()
            elif line.strip() and not _RULE.match(line.strip()):
                lines.append(_ITEM.sub("", line).strip())


def _sentences(block: str) -> list[str]:
    """A table row is one sentence. A full stop in a citation or mark ends none, and one behind it belongs before it."""
    if block.startswith("|"):
        return [block]
    kept: list[str] = []

    def hide(match: re.Match) -> str:
        kept.append(match.group())
        return f"\x01{len(kept) - 1}\x01"

    hidden = _MARK.sub(hide, _CITATION.sub(hide, block))
    hidden = re.sub(r"([.!?])((?:\s*\x01\d+\x01)+)", r"\2\1", hidden)
    return [re.sub(r"\x01(\d+)\x01", lambda m: kept[int(m.group(1))], part) for part in _END.split(hidden)]


def _fact(sentence: str, section: str) -> Fact | None:
    citations = tuple(Citation(*match.groups()) for match in _CITATION.finditer(sentence))
    if not citations:
        return None
    return Fact(_plain(sentence), section, citations)


def _plain(sentence: str) -> str:
    """A sentence without its citations and marks, and without what they leave behind."""
    statement = _TAG.sub("", _MARK.sub("", _CITATION.sub("", sentence)))
    if statement.startswith("|"):
        statement = " · ".join(part.strip(" ;,") for part in statement.strip("|").split("|") if part.strip(" ;,"))
    statement = re.sub(r"\(\s*[,;\s]*\)", "", statement)
    statement = re.sub(r"\s+([.,;:!?)])", r"\1", " ".join(statement.split()))
    return re.sub(r",(?=[,;:.])", "", re.sub(r"[,;]+\.", ".", statement))


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


def _from_docs(statement: str) -> str:
    """A statement whose links to other notebooks work from docs; those to other folders do already."""
    return _CHAPTER_LINK.sub("](../notebooks/", statement)


def _cell(text: str) -> str:
    """Text that can stand in a cell of a Markdown table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
