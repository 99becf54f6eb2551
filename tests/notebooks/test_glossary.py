"""The glossary: in order, each word once, and each in the chapter that its row leads to; the chapters lead to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.pages

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "glossary.md"
ROW = re.compile(r"^\| (?P<word>[^|]+?) \| (?P<meaning>[^|]+?) \| \[(?P<number>\d\d\w?)\]\((?P<link>[^)]+)\) \|$", re.M)
ROWS = [match.groupdict() for match in ROW.finditer(PAGE.read_text(encoding="utf-8"))]


def test_each_line_of_the_table_is_a_row_and_words_are_in_order() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(ROWS) == len(lines) - 1 > 40, "a row is: word, meaning, [number](link)"
    words = [row["word"].lower().replace("'", "") for row in ROWS]
    assert words == sorted(set(words))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["word"])
def test_the_chapter_is_there_and_uses_the_word(row: dict[str, str]) -> None:
    chapter = (PAGE.parent / row["link"]).resolve()
    assert chapter.is_file() and re.match(rf"(appendix_)?{row['number']}_", chapter.name)
    text = (chapter.parent / "source" / f"{chapter.stem}.md").read_text(encoding="utf-8")
    assert re.search(rf"\b{re.escape(row['word'].removesuffix('s'))}", " ".join(text.split()), re.IGNORECASE)


@pytest.mark.parametrize("number", [f"{number:02}" for number in range(9)])
def test_the_chapter_leads_to_the_glossary(number: str) -> None:
    (source,) = (ROOT / "notebooks" / "source").glob(f"{number}_*.md")
    assert "(../docs/glossary.md)" in source.read_text(encoding="utf-8")
