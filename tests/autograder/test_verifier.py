"""A program of the user's own is asked without being told a verdict, and its own stands beside the judge's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.example_verifier import verdict
from autograder.records.status import Part, Status
from autograder.verifier import NoVerdict, ask, command_of, judged, prompt_of, verified, write_transcript
from tests.autograder.report.example_reports import report

GUARDED = "def kernel(x):\n    i = cuda.grid(1)\n    if i < x.size:\n        x[i] = 0\n"


def test_the_prompt_has_the_task_and_the_kernel_and_no_expectation(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Double every number")
    lab = SimpleNamespace(folder=tmp_path, title="Twice")
    prompt = prompt_of(lab, f"# expect: safety: race: two threads\n# seed: 7\n# a comment\n{GUARDED}")
    assert "Double every number" in prompt and GUARDED.strip() in prompt and "# a comment" in prompt
    assert "expect:" not in prompt and "two threads" not in prompt and "seed" not in prompt


def test_the_example_looks_at_the_submission_alone() -> None:
    task = "<task>\nif i < n\n</task>\n"
    assert verdict(f"{task}<submission>\n{GUARDED}</submission>").startswith("right\n")
    assert verdict(f"{task}<submission>\nx[cuda.grid(1)] = 0\n</submission>").startswith("wrong\n")


def test_a_command_line_is_read_as_a_shell_reads_words() -> None:
    assert command_of("python 'my model.py' --fast") == ("python", "my model.py", "--fast")
    for words, why in (("", "is empty"), ("python 'x", "close its quotes")):
        with pytest.raises(NoVerdict, match=why):
            command_of(words)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('I think it is right')", "did not begin with"),
        ("", "did not begin with"),
        ("raise SystemExit('no key')", r"exit code 1 \(no key\)"),
    ],
)
def test_what_is_no_verdict_is_refused_in_one_sentence(code: str, words: str) -> None:
    with pytest.raises(NoVerdict, match=words):
        ask((sys.executable, "-c", code), "prompt")


@pytest.mark.processes
def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(NoVerdict, match="no-such-verifier cannot be started"):
        ask(("no-such-verifier",), "prompt")


@pytest.mark.processes
def test_a_verdict_is_heard_and_the_prompt_arrives() -> None:
    code = "import sys; print('Wrong.'); print(sys.stdin.read())"
    assert ask((sys.executable, "-c", code), "the prompt") == ("wrong", "Wrong.\nthe prompt\n")


def test_verdicts_of_a_report() -> None:
    assert (judged(report(), Part.CORRECTNESS), judged(report(), Part.SAFETY)) == ("wrong", "wrong")
    assert judged(SimpleNamespace(status=Status.JUDGE_ERROR, parts=()), Part.CORRECTNESS) == "undecided"
    refused = SimpleNamespace(status=Status.COMPILE_ERROR, parts=())
    assert (judged(refused, Part.CORRECTNESS), judged(refused, Part.SAFETY)) == ("wrong", "undecided")
    expected = {Status.WITHHELD: "right", Status.PASSED: "right", Status.RACE: "wrong"}
    for status, words in {**expected, Status.UNSUPPORTED: "undecided", Status.SKIPPED: "undecided"}.items():
        part = SimpleNamespace(part=Part.SAFETY, status=status, judged=status is not Status.SKIPPED)
        assert judged(SimpleNamespace(status=Status.PARTIAL, parts=(part,)), Part.SAFETY) == words


def test_a_transcript_holds_what_was_asked_and_answered(tmp_path: Path) -> None:
    record = verified(report(), ("me",), "the prompt", "right", "right\na guard")
    write_transcript([record], tmp_path / "t.json")
    data = json.loads((tmp_path / "t.json").read_text())
    (read,) = data["records"]
    assert data["format"] == 1 and read["prompt"] == "the prompt" and read["answer"] == "right\na guard"
    assert (read["verifier"], read["judge"], read["emulator"]) == ("right", "wrong", "wrong")
