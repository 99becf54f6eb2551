"""The panel's requests to a real Jupyter server: who may ask, and what is graded."""

from __future__ import annotations

import http.cookiejar
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import panel
from autograder.panel.contents import contents
from autograder.spec.lab import solutions_folder
from tests.autograder.panel.lab_server import LABS, TOKEN, LabServer, lab_server

pytestmark = pytest.mark.processes

FILE = "labs/03_transpose/submission.py"
FAULTY = """\
from numba import cuda

@cuda.jit
def kernel(a, out):
    i = cuda.grid(1)
    out[i, 0] = a[0, i]

def transpose(a, out):
    kernel[a.shape[1] + 1, 1](a, out)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    with lab_server(tmp_path_factory.mktemp("panel")) as started:
        yield started


def body(text: str = FAULTY, path: str | None = FILE, way: str = "check") -> dict[str, object]:
    return {"text": text, "path": path, "way": way}


def test_a_stranger_gets_nothing(server: LabServer) -> None:
    for headers in ({}, {"Authorization": "token wrong"}, {"Cookie": "_xsrf=1", "X-XSRFToken": "1"}):
        assert server.asked("contents", headers=headers) == (403, [])
        assert server.asked("grade", body(), headers=headers) == (403, [])
        assert server.asked("microscope", body(), headers=headers) == (403, [])


def test_the_pages_scripts_are_the_servers_own_and_are_asked_for_again(server: LabServer) -> None:
    def got(name: str, **headers: str) -> tuple[int, str, bytes]:
        asked = urllib.request.Request(f"{server.url}/warplab/page/{name}", headers=headers)
        try:
            with urllib.request.urlopen(asked) as answer:
                return answer.status, answer.headers["Cache-Control"], answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, "", b""

    login = {"Authorization": f"token {TOKEN}"}
    files = list((Path(panel.__path__[0]) / "page").iterdir())
    assert len(files) > 3
    for path in files:
        assert got(path.name, **login) == (200, "no-cache", path.read_bytes())
        assert got(path.name)[2] != path.read_bytes()  # the login's page
    for name in ("../handlers.py", "..%2Fhandlers.py", "handlers.py", "missing.js", ""):
        assert got(name, **login)[0] == 404


def test_a_page_of_another_site_cannot_grade(server: LabServer) -> None:
    """The login's cookie alone, which a browser sends along for anybody, is not enough."""
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    opener.open(f"{server.url}/lab?token={TOKEN}").read()
    cookies = {cookie.name: cookie.value for cookie in jar}
    sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    assert server.asked("contents", headers=sent)[0] == 200
    assert server.asked("grade", body("", way="live"), headers=sent)[0] == 403
    assert server.asked("grade", body("", way="live"), headers=sent | {"X-XSRFToken": cookies["_xsrf"]})[0] == 200


def test_the_list_has_the_labs_of_this_server(server: LabServer) -> None:
    status, (found,) = server.asked("contents")
    assert status == 200 and [lab["name"] for lab in found["labs"]] == list(LABS)
    assert found["labs"][1]["files"][0] == FILE
    assert found["chapters"] == contents(server.root)["chapters"]  # this checkout's, none of them below the folder


ENDLESS_HOST = "def transpose(a, out):\n    while True:\n        pass\n"
ENDLESS_KERNEL = FAULTY.replace("    i = cuda.grid(1)\n", "    i = 0\n    while i == 0:\n        out[0, 0] = a[0, 0]\n")


@pytest.mark.parametrize(
    ("text", "step"), [(ENDLESS_HOST, "capturing"), (ENDLESS_KERNEL, "running")], ids=["host", "kernel"]
)
def test_a_server_ends_at_once_whatever_is_graded(text: str, step: str, tmp_path: Path) -> None:
    with lab_server(tmp_path) as server:
        asked = urllib.request.Request(
            f"{server.url}/warplab/grade", json.dumps(body(text)).encode(), {"Authorization": f"token {TOKEN}"}
        )
        answer = urllib.request.urlopen(asked)
        said = ""
        while step not in said:
            said = json.loads(answer.readline())["step"]
        start = time.monotonic()
    assert time.monotonic() - start < 30  # a capture alone may take 60 s, and both graded on for longer


NO_WAY = {"text": "", "path": FILE}


@pytest.mark.parametrize("asked", [NO_WAY, body(way="regrade"), body() | {"text": 1}, body() | {"path": 3}, [1], "x"])
def test_a_body_of_another_form_is_refused(server: LabServer, asked: object) -> None:
    assert server.asked("grade", asked)[0] == 400


def test_other_files_are_not_graded(server: LabServer) -> None:
    (server.root / "own.py").write_text(FAULTY)
    for path in ("own.py", "../progress/quiz.json", f"{server.root}/{FILE}/../../../own.py"):
        status, answers = server.asked("grade", body(path=path))
        assert status == 200 and answers == [{"error": f"{path} is no lab's file. Open labs/<lab>/submission.py."}]
        assert server.asked("microscope", body(path=path)) == (200, answers)


def test_an_open_file_is_checked_as_it_stands_in_the_editor(server: LabServer) -> None:
    before = (server.root / FILE).read_text()
    status, (*steps, last) = server.asked("grade", body())
    assert status == 200 and steps[0]["step"] == "capturing" and all(0 <= step["fraction"] <= 1 for step in steps)
    report = last["report"]
    assert report["lab"] == "03_transpose" and report["max_score"] == 75
    assert [(mark["line"], mark["severity"]) for mark in report["marks"]] == [(6, "error")]
    assert "Line 6 " in report["opening"] and (server.root / FILE).read_text() == before


def test_a_cell_is_checked_with_its_own_lines(server: LabServer) -> None:
    cell = "\n%%submit 03_transpose\n" + FAULTY
    *_, last = server.asked("grade", body(cell, path=None))[1]
    assert [mark["line"] for mark in last["report"]["marks"]] == [8]


def test_a_submission_finds_nothing_of_the_one_before(server: LabServer) -> None:
    """They share a process that captures are forked from."""
    spoiled = "from numba import cuda\ncuda.grid = None\ncuda.jit = None\nimport os\nos.environ.clear()\n"
    assert "error" not in server.asked("grade", body(spoiled + "def transpose(a, out): pass\n", way="live"))[1][-1]
    right = (solutions_folder() / "03_transpose" / "submission.py").read_text()
    assert server.asked("grade", body(right, way="live"))[1][-1]["report"]["full_marks"]
    in_cuda = (solutions_folder() / "03_transpose" / "submission_cuda.py").read_text()
    path = "labs/03_transpose/submission_cuda.py"
    assert server.asked("grade", body(in_cuda, path, way="live"))[1][-1]["report"]["full_marks"]
    assert not server.asked("grade", body(way="live"))[1][-1]["report"]["full_marks"]


def test_only_grades_count_as_progress(server: LabServer) -> None:
    def words() -> str:
        return server.asked("contents")[1][0]["labs"][1]["progress"]

    server.asked("grade", body(way="live"))
    assert words() == "not begun"
    server.asked("grade", body(way="grade"))
    assert words().startswith("0 of 75 on ")
    history = server.root.parent / "progress" / "grades.jsonl"
    assert [json.loads(line)["file"] for line in history.read_text().splitlines()] == ["submission.py"]


def test_the_microscope_shows_the_editors_kernel(server: LabServer) -> None:
    status, (found,) = server.asked("microscope", body())
    assert status == 200 and "<title>kernel, block (0, 0, 0)" in found["page"] and len(found["page"]) < 2_000_000


def test_the_microscope_says_why_it_has_nothing_to_show(server: LabServer) -> None:
    assert "is not valid Python" in server.asked("microscope", body("def transpose(:"))[1][0]["error"]
    words = server.asked("microscope", body("def transpose(a, out):\n    pass\n"))[1][0]["error"]
    assert "'transpose' launched no kernel" in words
