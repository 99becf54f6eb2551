"""The desk: what the record says, to this machine alone, and nothing that a student wrote as more than text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from urllib.parse import quote, urlsplit

import pytest

from autograder.classroom.entries import ClassError
from autograder.classroom.hand_in import HandedIn
from autograder.classroom.ledger import RECORD, Ledger
from autograder.overview.desk import Desk
from autograder.records.report import PartResult, Report
from autograder.records.status import Executor, Part, Status
from tests.browser import chromium, faint, picture, sideways

EVIL = "<script>alert(1)</script>/?#é"


def grade(points: float) -> dict:
    parts = (
        PartResult(Part.CORRECTNESS, Status.PASSED, points, 75),
        *(PartResult(part, Status.NOT_MEASURED, 0, 0) for part in (Part.SAFETY, Part.TRAFFIC, Part.EFFICIENCY)),
    )
    return Report(
        "01_axpy", "", "submission.py", Status.PASSED, "", parts, 100, Executor.EMULATOR, "", {}
    ).to_json()  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Ledger(tmp_path / RECORD) as ledger:
        ledger.take_in([HandedIn(s, "01_axpy", "submission.py", b"x = 1") for s in ("ada", EVIL, "eve")])
        for one in ledger.waiting():
            if one.student != "eve":
                ledger.keep(one.number, grade(60.0 if one.student == "ada" else 75.0))
    server = Desk(tmp_path)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ask(desk: Desk, path: str, method: str = "GET", host: str = "") -> tuple[int, str, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", desk.server_port, timeout=30)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.headers)


def test_it_shows_the_class_and_one_student(desk: Desk) -> None:
    home = urlsplit(desk.address).path
    status, text, headers = ask(desk, home)
    assert status == 200 and "2 of 3 judged" in text and "60 of 75" in text and "waiting" in text
    assert "<script>" not in text and "default-src 'none'" in headers["Content-Security-Policy"]
    links = re.findall(r'href="(student/[^"]+)"', text)
    assert links[0] == "student/eve"  # who has least comes first
    for student in ("ada", EVIL):
        assert f"student/{quote(student, safe='')}" in links
        status, text, _ = ask(desk, f"{home}student/{quote(student, safe='')}")
        assert status == 200 and "attempt 1 graded" in text and "<script>" not in text
    assert ask(desk, f"{home}student/nobody")[0] == 404
    assert ask(desk, home, "HEAD")[:2] == (200, "")


@pytest.mark.processes
def test_its_texts_have_contrast_and_fit_on_a_phone(desk: Desk) -> None:
    with chromium() as browser:
        for theme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme=theme)
            for name, least in (("", 20), ("student/ada", 5)):
                page.goto(f"{desk.address}{name}")
                picture(page, f"desk-{name.replace('/', '-') or 'class'}-{theme}")
                assert sideways(page) <= 0
                assert faint(page, "html", least) == []


@pytest.mark.processes
def test_it_shows_who_is_alike(desk: Desk) -> None:
    """By tokens of what is there now, until `autograder similar` has kept a page."""
    home = urlsplit(desk.address).path
    assert 'href="similar/01_axpy"' in ask(desk, home)[1]
    text = "def axpy(a, x, y, out):\n    for i in range(len(x)):\n        out[i] = a * x[i] + y[i] * (x[i] - 1) / 2\n"
    with Ledger(desk.results / RECORD) as ledger:
        ledger.take_in([HandedIn(student, "01_axpy", "submission.py", text.encode()) for student in ("ada", EVIL)])
    status, page, _ = ask(desk, f"{home}similar/01_axpy")
    assert status == 200 and "tokens 100%" in page and "<script" not in page
    assert ask(desk, f"{home}similar/02_none")[0] == ask(desk, f"{home}similar/..%2F..")[0] == 404
    (desk.results / "similar").mkdir()
    (desk.results / "similar" / "01_axpy.html").write_text("kept")
    assert ask(desk, f"{home}similar/01_axpy")[1] == "kept"


def test_it_answers_nobody_else_and_changes_nothing(desk: Desk) -> None:
    home = urlsplit(desk.address).path
    assert desk.server_address[0] == "127.0.0.1"
    for path, host in (("/", ""), ("/wrong/", ""), ("/student/ada", ""), (home, "evil.example"), (home, "127.0.0.1:1")):
        status, text, _ = ask(desk, path, host=host)
        assert status == 403 and "ada" not in text
    assert ask(desk, home, "POST")[0] == 501


def test_it_watches_while_another_run_writes(desk: Desk) -> None:
    home = urlsplit(desk.address).path
    with Ledger(desk.results / RECORD) as ledger:
        ledger.take_in([HandedIn("max", "01_axpy", "submission.py", b"x = 2")])
        assert "2 of 4 judged" in ask(desk, home)[1]
        for one in ledger.waiting():
            ledger.keep(one.number, grade(10.0))
        assert "4 of 4 judged" in ask(desk, home)[1]


def test_a_folder_without_a_record_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ClassError, match="There is no record"):
        Desk(tmp_path)
    (tmp_path / RECORD).write_text("something else")
    with pytest.raises(ClassError, match="is not a record"):
        Desk(tmp_path)
