"""Words that pages do not use: each line of NOT_USED is a pattern and what to write in its place.

codespell holds the spelling (`scripts/spelling.txt`); it knows words and no phrases.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "*.md",
    "docs/**/*.md",
    "labs/*/*.md",
    "labs/*/lab.toml",
    "notebooks/source/*.md",
    "course/quiz/bank/*.toml",
    "autograder/**/*.md",
    "autograder/**/*.html",
    "changelog.d/*.md",
    "benchmarks/*.md",
    "corpus/*.md",
    "website/*.md",
)
_THING = r"(?:thread|warp|block|SM|GPU|rank|request|load|store|cycle|second|byte|token|step|row|tile|launch)"
NOT_USED = {
    r"(?<!each )(?<!last )(?<!some )(?<!most )(?<!all )of\s+which\b": "two sentences, or `one of them`",
    r"\b(?:for|to|of|by)\s+who\b(?! [^.]*\?)": "`for a reader who`, `to the thread that`",
    r"(?:^|[.!:] |\| |\* )Who [^.?!]*[.!]": "the one who acts: `A thread that ...`",
    r"\bunder\s+way\b": "`in flight`, `running`",
    r"\bwants? to be\b": "`should be`",
    r"\bmend(?:s|ed|ing)?\b": "`fix`, `correct`",
    rf"\b(?:bytes|FLOP|sectors|requests|instructions|cycles|wavefronts|tokens|registers) an? {_THING}\b": "`per`",
}


def pages() -> list[Path]:
    return sorted(page for pattern in PAGES for page in ROOT.glob(pattern))


def prose(text: str) -> str:
    """A page without code, links' targets and comments; lines keep their numbers."""
    code = r"```.*?^```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->|https?://\S+"
    return re.sub(code, lambda found: "\n" * found.group().count("\n"), text, flags=re.DOTALL | re.MULTILINE)


def found(text: str) -> list[str]:
    """Of each use the line, the words and what to write."""
    read, uses = prose(text), []
    for pattern, better in NOT_USED.items():
        for use in re.finditer(pattern, read, re.MULTILINE):
            line = read.count("\n", 0, use.end()) + 1
            uses.append(f"{line}: {' '.join(use.group().split())!r}: write {better}")
    return uses


@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_uses_none_of_them(page: Path) -> None:
    assert found(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("128 cycles a warp-wide multiply-add", 1),
        ("128 cycles per warp-wide multiply-add", 0),
        ("Who loads late has nothing under way.", 2),
        ("Who drives a ring? Threads that copy.", 0),
        ("8 experts of\nwhich two are empty", 1),
        ("3 chains, each of which waits", 0),
        ("`mend(x)` and\n```\nmend = 3\n```\n", 0),
    ],
)
def test_a_use_is_found_in_prose_and_not_in_code(text: str, uses: int) -> None:
    assert len(found(text)) == uses
