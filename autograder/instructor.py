"""The commands of an instructor's desk beside `autograder class`: what goes out to a class and to its platforms.

Their options are in `instructor_options`, so that other commands need nothing of what these import.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from autograder.classroom.anonymity import Shown
from autograder.classroom.entries import ClassError, read_text
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.ledger import RECORD, Ledger
from autograder.classroom.table import TABLE, table
from autograder.records.report import plain
from autograder.records.text import clean
from autograder.report.json_file import dump
from autograder.spec.lab import find_any, known_labs
from warplab.files import write_whole


def _lines(results: Path, lab: str | None = None) -> list[GradeLine]:
    """What a class's record holds, of one lab or of all. Raises ClassError."""
    record = results / RECORD
    with Ledger(record, reads=True) as ledger:
        found = [line for line in ledger.lines() if lab in (None, line.lab)]
    if lab is not None and not found:
        raise ClassError(f"The record {record} holds nothing of a lab {lab!r}.")
    return found


def export(options: argparse.Namespace, console: Console) -> int:
    """`autograder export`. Raises ClassError, LabError, OSError."""
    lines = _on_time(options, _lines(options.results)) if options.late else _lines(options.results, options.lab)
    if options.late_days and not options.late:
        raise ClassError("--late-days needs a table of who was late: name it with --late.")
    if options.to == "nbgrader":
        from autograder.platforms.nbgrader_gradebook import import_grades

        _say(console, f"{import_grades(lines, options.out)} grades written to {options.out}")
        for line in lines:
            if line.counts is not None:
                _say(console, clean(f"not exported: {line.student}, {line.lab}: {line.points:g} points, {line.why}"))
        return 0
    skipped: list[str] = []
    if options.to == "gradescope":
        from autograder.platforms.bundle import gradescope_delivered

        if options.lab is None:
            raise ClassError("An autograder of Gradescope grades one lab: name it with --lab.")
        write_whole(options.out, gradescope_delivered(lines, _attempts(options.results, options.lab)))
    else:
        write_whole(options.out, _written(options, lines, skipped if options.skip_unknown else None))
    for words in skipped:
        _say(console, clean(f"not exported: {words}"))
    _say(console, f"Written: {options.out}")
    return 0


def _on_time(options: argparse.Namespace, lines: list[GradeLine]) -> list[GradeLine]:
    """The lines to export, with what lateness leaves of their points; free days are counted over all labs."""
    from autograder.classroom.late import Late, read_days, without_late_points

    if options.to not in ("canvas", "moodle"):
        raise ClassError(f"--late is for canvas and moodle: {options.to} counts late days by rules of its own.")
    if options.late_days < 0 or not (0 <= options.late_penalty <= 100 and 0 <= options.late_cap <= 100):
        raise ClassError("--late-days is 0 or more, --late-penalty a share from 0 to 100 percent, as is --late-cap.")
    lines = [one for line in lines for one in line.each()]
    late = Late(read_days(options.late), options.late_days, options.late_penalty, options.late_cap)
    return [line for line in without_late_points(lines, late) if options.lab in (None, line.lab)]


def _attempts(results: Path, lab: str) -> list[GradeLine]:
    """Every attempt at a lab that has a grade."""
    with Ledger(results / RECORD, reads=True) as ledger:
        return [line for line in ledger.attempts() if line.lab == lab and line.status]


def _written(options: argparse.Namespace, lines: list[GradeLine], skipped: list[str] | None) -> str | bytes:
    """The file for Canvas or Moodle."""
    from autograder.platforms import gradebook

    if options.to == "canvas-feedback":
        return _comments(options, lines, skipped)
    if options.to == "moodle" and options.gradebook is None:
        return gradebook.moodle(lines, options.key, options.scale)
    if options.gradebook is None:
        words = {
            "canvas": "Canvas imports its own gradebook: export it there, and name the file with --gradebook.",
            "moodle-feedback": "Moodle's numbers of students are in the grading worksheet: name it with --gradebook.",
        }
        raise ClassError(words[options.to])
    exported = read_text(options.gradebook)
    if options.to == "canvas":
        return _canvas(options, lines, exported, skipped)
    if options.lab is None:
        raise ClassError("A grading worksheet of Moodle is of one assignment: name its lab with --lab.")
    if options.to == "moodle":
        return gradebook.worksheet(lines, exported, options.lab, options.scale, skipped)
    return gradebook.feedback_files(_pages(options.results, lines), exported, skipped)


def _comments(options: argparse.Namespace, lines: list[GradeLine], skipped: list[str] | None) -> bytes:
    from autograder.classroom.entries import Download
    from autograder.overview.feedback import feedback_page
    from autograder.platforms.canvas_comments import comments

    if options.lab is None or options.submissions is None:
        raise ClassError(
            "Canvas takes feedback for one assignment, in the names of its download: name the lab with --lab, and the "
            "download with --submissions."
        )
    with Ledger(options.results / RECORD, reads=True) as ledger:
        names, pseudonyms = ledger.names(), ledger.pseudonyms()
    with Download(options.submissions) as download:
        downloaded = [entry.path.name for entry in download.entries()]
    birds = {one.student: pseudonyms[line.student] for line in lines for one in line.each()}
    return comments(
        lines,
        downloaded,
        lambda number: names.get(number.casefold(), number),
        lambda line: feedback_page(line.student, [line], birds[line.student]),
        skipped,
    )


def _pages(results: Path, lines: list[GradeLine]) -> dict[str, str]:
    from autograder.overview.feedback import feedback_page

    names = _pseudonyms(results)
    theirs = [(one, names[line.student]) for line in lines for one in line.each()]
    return {one.student: feedback_page(one.student, [one], bird) for one, bird in theirs}


def _canvas(options: argparse.Namespace, lines: list[GradeLine], exported: str, skipped: list[str] | None) -> str:
    from autograder.platforms import gradebook

    pairs = [text.partition("=") for text in options.column]
    if any(not title for _, _, title in pairs):
        raise ClassError("--column takes a lab and a column's title: --column 03_transpose='Transpose (1234)'.")
    named = {lab: title for lab, _, title in pairs}
    columns = {line.lab: named.get(line.lab, line.lab) for line in gradebook.graded(lines)}
    return gradebook.canvas(lines, exported, columns, options.scale, skipped)


def policy(options: argparse.Namespace, console: Console) -> int:
    """`autograder policy`. Raises ClassError, OSError."""
    from autograder.classroom.policy import read_policy

    with _record(options, reads=options.names is None and options.file is None) as ledger:
        if options.names is not None:
            with _changes(ledger, options.results, console):
                ledger.hide_names(not options.names)
        if options.file is None:
            _say(console, ledger.setting("policy") or "No policy: the newest attempt counts, whenever it came.")
            if ledger.shown().hidden:
                _say(console, "Names are hidden where grades are looked at.")
            return 0
        text = read_text(options.file)
        extensions = read_policy(text, str(options.file)).extensions
        known = {one.student for line in ledger.attempts() for one in (line, *line.each())}
        for student in sorted(extensions.keys() - known - {person.id for person in ledger.people()}):
            _say(console, clean(f"note: {student} has an extension, and is not in the record"))
        with _changes(ledger, options.results, console):
            ledger.keep_setting("policy", text, f"policy set: {' '.join(text.split())}")
    return 0


def override(options: argparse.Namespace, console: Console) -> int:
    """`autograder override`. Raises ClassError, OSError."""
    if (options.score is None) != options.withdraw or (options.score is not None and not 0 <= options.score < 1e6):
        raise ClassError("Name the points with --score (0 or more), or take an override back with --withdraw.")
    if not options.reason.strip():
        raise ClassError("An override needs a --reason, which the student may read.")
    reason = " ".join(clean(options.reason).split())
    with _record(options) as ledger:
        student = ledger.shown().real(options.student)
        if options.appeal is not None:
            about = [(line.student, line.lab) for line in ledger.log() if line.number == options.appeal]
            if about != [(student, options.lab)]:
                raise ClassError(f"The log has no appeal {options.appeal} of {options.student} for {options.lab}.")
            reason += f" (appeal {options.appeal})"
        with _changes(ledger, options.results, console):
            if options.withdraw:
                ledger.withdraw_override(student, options.lab, reason)
            else:
                ledger.override(student, options.lab, options.score, reason)
    return 0


def log(options: argparse.Namespace, console: Console) -> int:
    """`autograder log`. Raises ClassError."""
    with _record(options, reads=not options.appeal) as ledger:
        shown = ledger.shown()
        student = shown.real(options.student) if options.student else None
        if options.appeal:
            if not (options.student and options.lab):
                raise ClassError("An appeal is of one student for one lab: name them with --student and --lab.")
            lines = [one for line in ledger.attempts() for one in (line, *line.each())]
            if not any((one.student, one.lab) == (student, options.lab) for one in lines):
                raise ClassError(f"{options.student} has handed in nothing for {options.lab}: see results.csv.")
            number = ledger.write_log(student or "", options.lab, f"appeal: {' '.join(options.appeal.split())}")
            _say(console, f"Appeal {number}: answer it with `autograder override ... --appeal {number}`.")
            return 0
        for line in ledger.log():
            if student in (None, line.student) and options.lab in (None, line.lab):
                about = ", ".join(text for text in (shown.of(line.student), line.lab) if text)
                _say(console, clean(f"{line.number:5d}  {line.at}  {line.who}  {about}: {shown.words(line.words)}"))
    return 0


@contextmanager
def _record(options: argparse.Namespace, reads: bool = False) -> Iterator[Ledger]:
    """The record of a class, to be changed by the person who runs this, or only read. Raises ClassError."""
    record = options.results / RECORD
    if not record.is_file():
        raise ClassError(f"There is no record {record}: grade the class first, with `autograder class`.")
    with Ledger(record, getattr(options, "by", None) or "", reads) as ledger:
        yield ledger


@contextmanager
def _changes(ledger: Ledger, results: Path, console: Console) -> Iterator[None]:
    """Say whose points a change of the record changes, and write the table anew. Raises OSError."""
    before = {(line.student, line.lab): line.points for line in ledger.lines()}
    yield
    shown, lines = ledger.shown(), list(ledger.lines())
    for line in lines:
        if (then := before.get((line.student, line.lab), 0.0)) != line.points:
            words = f"{shown.of(line.student)}, {line.lab}: {then:g} -> {line.points:g} {line.why}"
            _say(console, clean(words.rstrip()))
    write_whole(results / TABLE, table(shown.lines(lines), shown.people(ledger.people())))


def harness(options: argparse.Namespace, console: Console) -> int:
    """`autograder harness`. Raises ClassError, LabError, OSError."""
    from autograder.platforms import bundle
    from autograder.platforms.nbgrader_course import write_course

    names = options.lab or (known_labs() if options.platform == "nbgrader" else [])
    if not names or (len(names) > 1 and options.platform != "nbgrader"):
        raise ClassError(f"What is written for {options.platform} grades one lab: name it with --lab.")
    labs = [find_any(name) for name in names]
    if options.platform == "nbgrader":
        written = write_course(labs, options.out, options.gpu)
    elif options.platform == "prairielearn":
        written = bundle.write_prairielearn(labs[0], options.out)
    else:
        made = bundle.gradescope_inside if options.platform == "gradescope" else bundle.otter
        write_whole(options.out, made(labs[0]))
        written = [options.out]
    for path in written:
        _say(console, f"Written: {path}")
    return 0


def feedback(options: argparse.Namespace, console: Console) -> int:
    """`autograder feedback`. Raises ClassError, OSError."""
    from autograder.overview.feedback import write_feedback

    files = write_feedback(_lines(options.results), options.out, _pseudonyms(options.results))
    _say(console, f"Written: {len(files)} pages in {options.out}")
    return 0


def stats(options: argparse.Namespace, console: Console) -> int:
    """`autograder stats`. Raises ClassError, OSError."""
    from autograder.overview.stats import lab_stats, words

    found = lab_stats(_shown(options.results).lines(_lines(options.results)))
    for lab in found:
        for line in words(lab):
            _say(console, line)
    if options.json:
        write_whole(options.json, dump([plain(lab) for lab in found]))
    return 0


def leaderboard(options: argparse.Namespace, console: Console) -> int:
    """`autograder leaderboard`. Raises ClassError, OSError."""
    from autograder.overview.leaderboard import leaderboard_page, places

    shown = _shown(options.results)
    if options.names and shown.hidden:
        raise ClassError("Names are hidden: leave --names out, or show names with `autograder policy --show-names`.")
    best = places(shown.lines(_lines(options.results, options.lab)), options.lab)
    names = None if options.names or shown.hidden else shown.pseudonyms
    write_whole(options.out, leaderboard_page(options.lab, best, names))
    _say(console, f"Written: {options.out}, {len(best)} places")
    return 0


def desk(options: argparse.Namespace, console: Console) -> int:
    """`autograder desk`. Raises ClassError, OSError."""
    from autograder.overview.desk import Desk

    try:
        server = Desk(options.results, options.port)
    except OSError as error:
        raise ClassError(
            f"Port {options.port} cannot be served ({error.strerror}): choose another with --port."
        ) from None
    with server:
        _say(console, f"The class is at {server.address} until you press Ctrl-C.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


def similar(options: argparse.Namespace, console: Console) -> int:
    """`autograder similar`. Raises ClassError, LabError, DeviceError, OSError."""
    from autograder.overview import compared_texts
    from autograder.overview import similar as hints
    from autograder.overview.alike import given_runs, pairs
    from autograder.overview.alike_groups import entries
    from autograder.records.machine import choose_machine, require_isolation
    from autograder.report.terminal import progress_bar

    lab = find_any(options.lab)
    shown = _shown(options.results)
    texts = compared_texts.handed_in(shown.lines(_lines(options.results, options.lab)), lab)
    texts += compared_texts.solutions(lab)
    for results in options.earlier:
        texts += compared_texts.earlier(results, lab, shown.hidden)
    for folder in options.known:
        texts += compared_texts.collected(folder, lab)
    machine = None if options.tokens_only else choose_machine("emulator", lab.needs)
    if machine is not None:
        require_isolation(machine.isolation, options.results, options.allow_reduced_isolation)
    with progress_bar(console, "reading" if machine is None else "compiling") as progress:
        works = hints.works(texts, lab, machine, options.allow_reduced_isolation, progress)
    given = given_runs(hints.starters(lab))
    found = pairs(works, given)
    listed = entries(found)
    out = options.out or options.results / hints.FOLDER / hints.file_name(lab, shown.hidden)
    write_whole(out, hints.page(lab, found, listed, given))
    for entry in listed[: options.show]:
        pasted = f" ({entry.pasted} is in there)" if entry.pasted and entry.pasted not in entry.title else ""
        _say(console, clean(f"{entry.strongest:4.0%}  {entry.title}{pasted}"))
    _say(console, f"Written: {out}, {len(found)} pairs compared")
    return 0


def release(options: argparse.Namespace, console: Console) -> int:
    """`autograder release`. Raises ReleaseError, LabError, OSError."""
    from autograder.release import leaks, write_release

    for name in options.rungs:
        find_any(name)
    files = write_release(options.out, [find_any(name) for name in options.lab or known_labs()], options.rungs)
    for leak in leaks(options.out):
        _say(console, f"{leak.file} has {leak.lines} of {leak.of} lines of the solution {leak.solution}.")
    _say(console, f"Written: {len(files)} files in {options.out}")
    return 0


def _shown(results: Path) -> Shown:
    """What students are called where grades are looked at."""
    with Ledger(results / RECORD, reads=True) as ledger:
        return ledger.shown()


def _pseudonyms(results: Path) -> dict[str, str]:
    with Ledger(results / RECORD, reads=True) as ledger:
        return ledger.pseudonyms()


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
