"""`autograder desk`: a page of a class that one can watch while it is graded, served to this machine alone.

It only reads the record. The address holds a secret, since other users of the machine can reach its ports.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import quote, unquote, urlsplit

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.ledger import RECORD, Ledger, LogLine
from autograder.overview import compared_texts, similar
from autograder.overview.alike import given_runs, pairs
from autograder.overview.alike_groups import entries
from autograder.overview.stats import BINS, LabStats, lab_stats
from autograder.records.text import clean
from autograder.report.html_page import desk_page, page
from autograder.spec.lab import LabError, find_any

HOST = "127.0.0.1"
SECONDS = 10  # between two looks of an open page
_LOG = 20  # lines of the log on the page of the class
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True)
class Row:
    """One student at one lab, as the table shows it."""

    student: str
    called: str
    lab: str
    status: str
    points: str
    attempt: int
    finished: str
    problem: str


@dataclass(frozen=True)
class Overview:
    """A lab in figures: `waiting` has no grade yet, `bars` are heights from 0 to 1, a tenth of the points each."""

    stats: LabStats
    waiting: int
    bars: tuple[float, ...]


@dataclass(frozen=True)
class View:
    """What a record shows: the lines that count, and the log; under pseudonyms while names are `hidden`."""

    lines: list[GradeLine]
    log: list[LogLine]
    hidden: bool


def read(results: Path) -> View:
    """What the record in a folder shows. Raises ClassError."""
    with Ledger(results / RECORD, reads=True) as ledger:
        shown = ledger.shown()
        log = [replace(line, student=shown.of(line.student), words=shown.words(line.words)) for line in ledger.log()]
        return View(shown.lines(ledger.lines()), log, shown.hidden)


def overviews(lines: list[GradeLine]) -> list[Overview]:
    """Each lab's figures."""
    found = []
    for stats in lab_stats(lines):
        waiting = sum(line.lab == stats.lab and not line.status and not line.problem for line in lines)
        most = max(stats.bins) or 1
        found.append(Overview(stats, waiting, tuple(count / most for count in stats.bins)))
    return found


def rows(lines: list[GradeLine], lab: str) -> list[Row]:
    """The students of a lab, the fewest points first."""
    mine = sorted((line for line in lines if line.lab == lab), key=lambda line: (line.points, line.student))
    return [
        Row(
            line.student, line.called, line.lab, line.status or "waiting",
            f"{line.points:g} of {line.max_score:g}" if line.status else "", line.attempt,
            line.finished[:16].replace("T", " "), clean(line.problem),
        )
        for line in mine
    ]  # fmt: skip


def front(results: Path) -> str:
    """The page of the whole class. Raises ClassError."""
    view = read(results)
    labs = overviews(view.lines)
    tables = [(lab.stats.lab, rows(view.lines, lab.stats.lab)) for lab in labs]
    strays = [clean(f"{line.student}: {line.problem}") for line in view.lines if not line.lab]
    latest = list(reversed(view.log[-_LOG:]))
    return desk_page(f"Class in {results.name}", labs, tables, latest, strays, SECONDS, BINS, quote)


def evidence(results: Path, student: str) -> str | None:
    """One student's reports and log; None if nobody is called so. Raises ClassError."""
    view = read(results)
    theirs = [line for line in view.lines if line.student == student]
    if not theirs:
        return None
    reports = [report for line in theirs if (report := line.graded())]
    notes = [
        clean(f"{line.lab or line.file}: {line.problem or 'not graded yet.'}") for line in theirs if not line.report
    ]
    notes += [clean(f"{line.at}, {line.who}: {line.lab} {line.words}") for line in view.log if line.student == student]
    return page(reports, title=clean(f"{theirs[0].called or student} ({student})"), notes=notes)


class Likeness:
    """The pages of submissions that are alike: what `autograder similar` has kept, else a comparison by tokens."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._busy = Lock()  # one comparison at a time
        self._pages: dict[str, tuple[list[compared_texts.ComparedText], str]] = {}

    def page(self, name: str) -> str | None:
        """The page of a lab; None if the class has no such lab. Raises ClassError."""
        view = read(self._results)
        try:
            lab = find_any(name) if name in {line.lab for line in view.lines} else None
        except LabError as error:
            raise ClassError(str(error)) from None
        if lab is None:
            return None
        kept = self._results / similar.FOLDER / similar.file_name(lab, view.hidden)
        if kept.is_file():
            return kept.read_text(encoding="utf-8", errors="replace")
        texts = compared_texts.handed_in(view.lines, lab) + compared_texts.solutions(lab)
        with self._busy:
            if self._pages.get(name, ([], ""))[0] != texts:
                given = given_runs(similar.starters(lab))
                found = pairs(similar.works(texts, lab, None), given)
                self._pages[name] = texts, similar.page(lab, found, entries(found), given)
            return self._pages[name][1]


class Desk(ThreadingHTTPServer):
    """Serves a class's record at `address`. Raises OSError if the port is taken."""

    daemon_threads = True

    def __init__(self, results: Path, port: int = 0) -> None:
        self.results, self.secret = results, secrets.token_urlsafe(16)
        read(results)
        self.likeness = Likeness(results)
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        """What a browser opens."""
        return f"http://{HOST}:{self.server_port}/{self.secret}/"


class _Handler(BaseHTTPRequestHandler):
    server: Desk
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        # A page elsewhere whose name is made to lead here does not know this name, or the secret.
        known = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        parts = urlsplit(self.path).path.split("/")
        if self.headers.get("Host") not in known or not secrets.compare_digest(
            parts[1].encode(), self.server.secret.encode()
        ):
            return self._send(HTTPStatus.FORBIDDEN, "Open the address that `autograder desk` printed.")
        try:
            text = self._page([unquote(part) for part in parts[2:]])
        except ClassError as error:
            return self._send(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        if text is None:
            return self._send(HTTPStatus.NOT_FOUND, "There is no such page.")
        return self._send(HTTPStatus.OK, text)

    def _page(self, place: list[str]) -> str | None:
        """The page at a place below the secret; None if there is none."""
        if place == [""]:
            return front(self.server.results)
        if len(place) != 2:
            return None
        if place[0] == similar.FOLDER:
            return self.server.likeness.page(place[1])
        return evidence(self.server.results, place[1]) if place[0] == "student" else None

    def _send(self, status: HTTPStatus, text: str) -> None:
        content = text.encode(errors="replace")
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(
                name, value if status is HTTPStatus.OK or name != "Content-Type" else "text/plain; charset=utf-8"
            )
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal is the instructor's."""
