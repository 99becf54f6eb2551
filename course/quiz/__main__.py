"""Prints a quiz as Markdown, to hand out: `python -m course.quiz 04 --seed alice`, with `--answers` for the grader."""

from __future__ import annotations

import argparse
import sys

from course.quiz import chapters, default_seed, draw, load
from course.quiz.sheet import markdown
from warplab.errors import WarplabError


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 for a chapter that is not there."""
    parser = argparse.ArgumentParser(prog="python -m course.quiz", description="Print a quiz as Markdown.")
    parser.add_argument("chapter", help=f"one of {', '.join(chapters())}, or its number")
    parser.add_argument("--seed", default=default_seed(), help="text that the parameters are drawn from")
    parser.add_argument("--answers", action="store_true", help="with worked answers and sources")
    given = parser.parse_args(arguments)
    try:
        chapter = load(given.chapter)
        print(markdown(chapter, [draw(q, given.seed) for q in chapter.questions], answers=given.answers), end="")
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
