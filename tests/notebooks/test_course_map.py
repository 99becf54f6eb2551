"""The map of the course: its rule by hand-counted sources, that its pages are up to date, that the core path fits."""

from __future__ import annotations

import pytest

from scripts import course_map

pytestmark = pytest.mark.pages

WORDS = "word " * 149 + "word"  # a minute


def test_minutes_follow_the_rule() -> None:
    core = f"# 09 · Nine\n\n{WORDS}\n\n```{{code-cell}} ipython3\nx = 1  # not a heading, nor prose\n```\n"
    asked = "```{code-cell} ipython3\na = predict('09 a', 'b', 'c')\n```\n\n## 2 · Short questions\n\n**1.** Why?\n"
    own = '\n### Exercise 1: do it\n\n## 3 · Quiz\n\n```{code-cell} ipython3\nquiz("09_nine")\n```\n'
    read_elsewhere = f"\n## Who built on this\n\n{WORDS}\n"
    spent, optional = course_map.minutes(core + asked + own + read_elsewhere)
    assert (round(spent), optional) == (1 + 1 + (1 + 3) + 3 + 10 + (1 + 10), 0)


def test_a_link_counts_by_its_words_and_a_comment_not_at_all() -> None:
    linked = (
        WORDS.replace("word", '[word](https://a.example/b "one two three")')
        + "<!-- no source: five words that hide -->"
    )
    assert course_map.minutes(linked) == (1, 0)


@pytest.mark.parametrize(
    ("headings", "expected"),
    [
        (("# T", "## 1 · A · optional", "### B", "## 2 · C"), (2, 2)),
        (("# T", "## 1 · A", "### B · optional", "### C", "## 2 · D"), (4, 1)),
        (("# T", "## 1 · A · optional", "### B · optional", "### C"), (1, 3)),
    ],
)
def test_optional_reaches_to_the_next_heading_of_its_level(
    headings: tuple[str, ...], expected: tuple[int, int]
) -> None:
    text = "".join(f"{heading}\n\n{WORDS}\n\n" for heading in headings)
    assert tuple(map(round, course_map.minutes(text))) == expected


def test_an_appendix_is_optional_as_a_whole() -> None:
    assert course_map.minutes(f"# A\n\n{WORDS}\n\n## 1 · B\n\n{WORDS}\n", appendix=True) == (
        0,
        pytest.approx(2, abs=0.05),
    )


def test_pages_are_up_to_date() -> None:
    stale = [path.name for path, text in course_map.written().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `make pages`"


def test_the_core_path_is_complete_and_fits_its_weeks() -> None:
    known = course_map.chapters()
    weeks = course_map.term(known)
    taught = [chapter.name for lessons, _, _ in weeks for chapter in lessons]
    assert taught == [chapter.name for chapter in known if not chapter.is_appendix]
    assert sum(hours for _, _, hours in weeks) <= 60
    assert len(weeks) == 10


@pytest.mark.parametrize("page", ["README.md", "notebooks/source/00_start_here.md"])
def test_every_chapter_is_in_the_lists(page: str) -> None:
    text = (course_map.ROOT / page).read_text(encoding="utf-8")
    names = [chapter.name for chapter in course_map.chapters() if not chapter.is_appendix]
    assert [name for name in names if f"{name}.ipynb" not in text and name not in page] == []


def test_every_lab_follows_one_chapter() -> None:
    followed = [lab for chapter in course_map.chapters() for lab in chapter.labs]
    assert sorted(set(followed)) == course_map.labs()


def test_chapters_come_after_those_that_they_need() -> None:
    known = course_map.chapters()
    order = [chapter.name for chapter in known if not chapter.is_appendix]
    for chapter in known:
        later = order if chapter.is_appendix else order[: order.index(chapter.name)]
        assert set(chapter.before) <= set(later), chapter.name
