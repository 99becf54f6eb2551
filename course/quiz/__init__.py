"""Questions to each chapter: `from course.quiz import quiz`, then `quiz("05_roofline")` in a notebook's cell.

The bank is in course/quiz/bank, one readable file a chapter. Parameters are drawn from a seed: the text given here,
else $WARPLAB_QUIZ_SEED, else the same for everybody. `python -m course.quiz` prints sheets.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from course.quiz.bank import BankError, chapters, load
from course.quiz.draw import draw
from course.quiz.progress import Progress

if TYPE_CHECKING:
    from course.quiz.widget import Quiz

__all__ = ["BankError", "Progress", "chapters", "default_seed", "draw", "load", "quiz", "standing"]


def default_seed() -> str:
    """What an instructor may set for each student: $WARPLAB_QUIZ_SEED, else "0"."""
    return os.environ.get("WARPLAB_QUIZ_SEED") or "0"


def quiz(chapter: str, *, more: bool = False, seed: str | None = None) -> Quiz:
    """The questions that end a chapter, given by name or number, to be shown by a notebook; the others with `more`.

    Raises BankError for an unknown chapter.
    """
    from course.quiz.widget import Quiz

    loaded = load(chapter)
    return Quiz(
        loaded,
        [draw(question, seed or default_seed()) for question in loaded.questions if question.more is more],
        Progress(),
    )


def standing(*, seed: str | None = None) -> list[tuple[str, int, int]]:
    """Each chapter's title, how many of its questions the learner has solved, and how many it has."""
    progress, chosen = Progress(), seed or default_seed()
    loaded = [load(name) for name in chapters()]
    return [(c.title, progress.solved(chosen, [q.id for q in c.questions]), len(c.questions)) for c in loaded]
