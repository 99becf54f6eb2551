"""The options of the instructor's commands (`instructor`), which are imported when one of them runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

_EXPORTS = ("canvas", "canvas-feedback", "moodle", "moodle-feedback", "gradescope", "nbgrader")
Command = Callable[..., argparse.ArgumentParser]


def add_commands(command: Command) -> None:
    """Add the commands to the parser of `autograder`; `command(name, run, summary)` makes one."""
    sub = command("export", _later("export"), "Write a class's grades as a platform imports them.")
    _add_results(sub)
    sub.add_argument("--to", choices=_EXPORTS, required=True, help="the platform")
    sub.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file; nbgrader: its gradebook.db")
    sub.add_argument("--lab", help="only this lab; gradescope needs one")
    sub.add_argument(
        "--gradebook",
        type=Path,
        metavar="CSV",
        help="what the platform exported: Canvas's gradebook, Moodle's worksheet",
    )
    sub.add_argument(
        "--submissions", type=Path, metavar="PLACE", help="canvas-feedback: Canvas's download, a folder or an archive"
    )
    sub.add_argument(
        "--scale",
        type=_scale,
        metavar="POINTS",
        help="what a lab's maximum becomes; `column`: the platform's points",
    )
    sub.add_argument("--skip-unknown", action="store_true", help="skip students that the platform's table lacks")
    sub.add_argument(
        "--column", action="append", default=[], metavar="LAB=TITLE", help="canvas: a lab's column; may be repeated"
    )
    sub.add_argument(
        "--key", default="Email address", help="moodle: what the students' names are (default: %(default)s)"
    )
    sub.add_argument(
        "--late", type=Path, metavar="CSV", help="canvas, moodle: days late, in columns student, lab and days"
    )
    sub.add_argument(
        "--late-days", type=int, default=0, metavar="N", help="free days of a student, all labs together (default: 0)"
    )
    sub.add_argument(
        "--late-penalty",
        type=float,
        default=10.0,
        metavar="PERCENT",
        help="of the points, each further day (default: 10)",
    )
    sub.add_argument(
        "--late-cap", type=float, default=100.0, metavar="PERCENT", help="of the points, at most (default: 100)"
    )

    sub = command("policy", _later("policy"), "Show or set which attempt counts and what lateness costs.")
    _add_results(sub)
    sub.add_argument("file", metavar="TOML", type=Path, nargs="?", help="the rules (default: show those in force)")
    names = sub.add_mutually_exclusive_group()
    names.add_argument(
        "--show-names", dest="names", action="store_true", default=None, help="show names where grades are looked at"
    )
    names.add_argument("--hide-names", dest="names", action="store_false", help="show pseudonyms there")
    _add_by(sub)

    sub = command("override", _later("override"), "Set a student's points for a lab by hand, whatever is graded later.")
    _add_results(sub)
    sub.add_argument("--student", required=True, help="the ID, as in results.csv")
    sub.add_argument("--lab", required=True, help="the lab")
    sub.add_argument("--score", type=float, metavar="POINTS", help="what counts")
    sub.add_argument("--withdraw", action="store_true", help="let what is graded count again")
    sub.add_argument("--reason", required=True, help="why; it is kept, and the student may read it")
    sub.add_argument("--appeal", type=int, metavar="N", help="the number of the appeal that this answers")
    _add_by(sub)

    sub = command("log", _later("log"), "Show who changed what in a record, and note appeals.")
    _add_results(sub)
    sub.add_argument("--student", help="only of this student")
    sub.add_argument("--lab", help="only of this lab")
    sub.add_argument("--appeal", metavar="WORDS", help="note an appeal of --student for --lab")
    _add_by(sub)

    sub = command("harness", _later("harness"), "Write what a platform needs to grade labs itself.")
    sub.add_argument("platform", choices=("gradescope", "otter", "prairielearn", "nbgrader"))
    sub.add_argument("--lab", action="append", metavar="LAB", help="the lab; nbgrader: may be repeated (default: all)")
    sub.add_argument("--out", type=Path, required=True, metavar="PATH", help="a zip, or a folder for several files")
    sub.add_argument("--gpu", action="store_true", help="nbgrader: a cell for efficiency too, which a GPU must grade")

    sub = command("release", _later("release"), "Write the repository that students get: no solutions, no corpus.")
    sub.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new or an empty folder")
    sub.add_argument("--lab", action="append", metavar="LAB", help="only this lab; may be repeated (default: all)")
    sub.add_argument(
        "--rungs", action="append", default=[], metavar="LAB", help="a closed lab: with the steps to its solution"
    )

    sub = command("feedback", _later("feedback"), "Write a page a student with all their grades.")
    _add_results(sub)
    sub.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the pages go")

    sub = command("stats", _later("stats"), "Say how a class did: points, hardest case, time.")
    _add_results(sub)
    sub.add_argument("--json", type=Path, metavar="FILE", help="also write it as JSON")

    sub = command("desk", _later("desk"), "Serve a page of the class to this machine's browser, while it is graded.")
    _add_results(sub)
    sub.add_argument("--port", type=int, default=0, help="the port (default: a free one)")

    sub = command("leaderboard", _later("leaderboard"), "Write a page with the best submissions of a lab.")
    _add_results(sub)
    sub.add_argument("--lab", required=True, help="the lab")
    sub.add_argument("--out", type=Path, required=True, metavar="FILE", help="the page, HTML")
    sub.add_argument("--names", action="store_true", help="show students by name (default: by pseudonyms)")

    sub = command("similar", _later("similar"), "Write hints at submissions of a lab that are alike.")
    _add_results(sub)
    sub.add_argument("--lab", required=True, help="the lab")
    sub.add_argument(
        "--out", type=Path, metavar="FILE", help="the page, HTML (default: in RESULTS, where `desk` shows it)"
    )
    sub.add_argument(
        "--earlier",
        type=Path,
        action="append",
        default=[],
        metavar="RESULTS",
        help="compare with an earlier class too; may be repeated",
    )
    sub.add_argument(
        "--known",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="compare with texts too, such as answers of assistants; may be repeated",
    )
    sub.add_argument("--show", type=int, default=5, metavar="N", help="entries named here too (default: %(default)s)")
    sub.add_argument("--tokens-only", action="store_true", help="compile nothing, which takes seconds a submission")
    sub.add_argument(
        "--allow-reduced-isolation", action="store_true", help="compile even where submissions could read your files"
    )


def _scale(text: str) -> float | str:
    if text == "column":
        return text
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError("a number above 0, or `column`")
    return value


def _add_by(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", metavar="NAME", help="the name for the log (default: the user's name)")


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", metavar="RESULTS", type=Path, help="the --out folder of `autograder class`")


def _later(name: str) -> Callable[[argparse.Namespace, Console], int]:
    """The command of that name, which imports what it needs when it runs."""

    def run(options: argparse.Namespace, console: Console) -> int:
        try:
            from autograder import instructor

            chosen: Callable[[argparse.Namespace, Console], int] = getattr(instructor, name)
            return chosen(options, console)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped by you.") from None  # not "nothing was graded": none of these grade

    return run
