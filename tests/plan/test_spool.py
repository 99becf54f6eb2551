"""Captures through a folder: a judge and a service that share nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plan.conftest import X, Y, call
from tests.plan.good import GOOD
from warplab.plan.capture import service, spool
from warplab.plan.capture.child_process import CaptureFault
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.submission import answer_of

pytestmark = pytest.mark.cold_captures


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    stop = threading.Event()
    thread = threading.Thread(target=service.serve, args=(tmp_path, stop))
    for name in ("requests", "answers"):  # they are in the containers' images
        (tmp_path / name).mkdir()
    thread.start()
    monkeypatch.setenv(spool.VARIABLE, str(tmp_path))
    yield tmp_path
    stop.set()
    thread.join()


def test_the_answer_is_the_one_that_a_child_of_this_process_gives(served, monkeypatch) -> None:
    through = answer_of(GOOD, "s.py", [call(X, Y)])
    monkeypatch.delenv(spool.VARIABLE)
    assert through == answer_of(GOOD, "s.py", [call(X, Y)])
    assert not list((served / "requests").iterdir()) and not list((served / "answers").iterdir())


def test_a_child_that_dies_is_a_failure_of_its_submission(served) -> None:
    with pytest.raises(CaptureFailure) as caught:
        answer_of("import os\nos._exit(0)\n", "s.py", [call(X, Y)])
    assert caught.value.status is CaptureStatus.CRASHED


def test_no_service_is_a_fault_of_the_machine(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(spool.VARIABLE, str(tmp_path))
    with pytest.raises(CaptureFault, match="No capture can be asked for"):
        answer_of(GOOD, "s.py", [call(X, Y)])
    (tmp_path / "requests").mkdir()
    monkeypatch.setattr(spool, "ALIVE_SECONDS", 0.1)
    with pytest.raises(CaptureFault, match="start the container"):
        answer_of(GOOD, "s.py", [call(X, Y)])
    assert not list((tmp_path / "requests").iterdir())


def test_a_spool_that_nobody_made_is_not_made_by_the_judge(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(spool.VARIABLE, str(tmp_path / "spool"))
    with pytest.raises(CaptureFault, match="No capture can be asked for"):
        answer_of(GOOD, "s.py", [call(X, Y)])
    assert not list(tmp_path.iterdir())


def test_a_link_beside_a_request_is_not_written_through(tmp_path, monkeypatch) -> None:
    """Who has taken over the service sees a request's name, and could have the judge write elsewhere."""
    private = tmp_path / "private"
    private.write_text("private")
    monkeypatch.setenv(spool.VARIABLE, str(tmp_path))
    monkeypatch.setattr(spool, "ALIVE_SECONDS", 0.1)
    monkeypatch.setattr(spool.secrets, "token_hex", lambda _: "name")
    (tmp_path / "requests").mkdir()
    (tmp_path / "requests" / ".name").symlink_to(private)
    with pytest.raises(CaptureFault, match="start the container"):
        answer_of(GOOD, "s.py", [call(X, Y)])
    assert private.read_text() == "private"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}\n",
        b"[" * 9000,
        b"\xff\n",
        b'{"outcome": "answer", "more": 1}\n',
        b'{"outcome": "failure", "line": 1}\n',
    ],
)
def test_an_answer_without_the_form_is_no_answer(tmp_path: Path, content: bytes) -> None:
    answer = tmp_path / "answer"
    answer.write_bytes(content)
    with pytest.raises(CaptureFault, match="no usable answer"):
        spool._opened(spool._content(answer), lambda seconds: None)


def test_an_answer_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_bytes(json.dumps({"outcome": "answer"}).encode() + b"\nsecret")
    (tmp_path / "answer").symlink_to(private)
    with pytest.raises(CaptureFault, match="cannot be read"):
        spool._content(tmp_path / "answer")
