"""Who proposes in words: what they are told, what counts as an answer, and searches repeated from what was said."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from systems.search.__main__ import asking, main, task_of
from systems.search.by_words import PATIENCE, TRANSCRIPT, ByWords, Exchange, NothingRecordedError, Transcript
from systems.search.half_product import CHOICES, HalfChoice
from systems.search.trials import Log, search
from warplab.errors import WarplabError

SHAPE = 128, 192, 1280
WORDS = {choice.name: json.dumps(asdict(choice)) for choice in CHOICES}
FIRST, SECOND = CHOICES[:2]


def costs_of(transcript: Transcript) -> dict[HalfChoice, float]:
    """What the questions say of choices that were tried before."""
    found = {}
    for line in transcript.exchanges[-1].asked.split("Tried so far:\n")[1].splitlines():
        said, cost = line.split(" cost ")
        found[HalfChoice(**json.loads(said))] = float(cost)
    return found


def offered(transcript: Transcript) -> list[HalfChoice]:
    """The choices that were there when it was recorded, by the values that its first question gives."""
    found = re.findall(r'"(\w+)": one of (\[.*\])', transcript.exchanges[0].asked)
    values = {name: json.loads(text) for name, text in found}
    return [choice for choice in CHOICES if all(getattr(choice, name) in some for name, some in values.items())]


def test_the_recorded_search_is_had_again_without_asking() -> None:
    """Eight trials, all of different possible choices; the first proposal was none, and was corrected."""
    transcript = Transcript.read(TRANSCRIPT)
    costs = costs_of(transcript)
    possible = [choice for choice in offered(transcript) if choice.takes(SHAPE)]
    proposer = ByWords(possible, transcript.replay(), task_of(SHAPE))
    log = search(proposer, lambda choice: costs.get(choice, 9.0), 8)  # what the last one took, no question says
    assert len(log.trials) == 8 == len(transcript.exchanges) - 1 and transcript.task == task_of(SHAPE)
    assert [trial.choice for trial in log.trials[:-1]] == list(costs)
    assert "That is not a possible combination." in transcript.exchanges[1].asked
    assert log.best is not None and log.best.cost == min(costs.values())


def test_another_search_finds_no_answers_in_it() -> None:
    with pytest.raises(NothingRecordedError, match="the search is another one"):
        search(ByWords(CHOICES, Transcript.read(TRANSCRIPT).replay(), "Another task."), lambda choice: 1.0, 8)


def test_what_is_told_is_the_task_the_choices_and_the_log() -> None:
    asked: list[str] = []

    def ask(text: str) -> str:
        asked.append(text)
        return WORDS[(FIRST, SECOND)[len(asked) - 1].name]

    search(ByWords(CHOICES, ask, "The task."), lambda choice: None if choice == FIRST else 2.5, 2)
    assert all(text.startswith("The task.\n") and '"splits": one of [1, 2, 3, 4, 8]' in text for text in asked)
    assert "Nothing has been tried." in asked[0] and f"{WORDS[FIRST.name]} cost wrong" in asked[1]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("I would rather not.", "There is no JSON object in that."),
        ('{"rows": 32', "There is no JSON object in that."),
        ("{rows: 32}", "There is no JSON object in that."),
        ('{"rows": 32}', "That is not a possible combination."),
        (WORDS[FIRST.name].replace("32", "33", 1), "That is not a possible combination."),
        (WORDS[FIRST.name], "That has been tried."),
        ("__import__('os').abort()", "There is no JSON object in that."),
    ],
)
def test_what_is_no_choice_is_said_so_and_given_up_at_last(answer: str, why: str) -> None:
    asked: list[str] = []
    log: Log[HalfChoice] = search(ByWords([FIRST], lambda text: WORDS[FIRST.name], ""), lambda choice: 1.0, 1)
    proposer = ByWords(CHOICES, lambda text: asked.append(text) or answer, "")  # type: ignore[func-returns-value]
    assert proposer.propose(log) is None and len(asked) == PATIENCE
    assert why not in asked[0] and why in asked[1]


def test_the_last_object_counts() -> None:
    answer = f"First I thought {WORDS[FIRST.name]}, but {WORDS[SECOND.name]} it is."
    assert ByWords(CHOICES, lambda text: answer, "").propose(Log()) == SECOND


def test_a_transcript_is_a_file_and_back(tmp_path: Path) -> None:
    said = Transcript("nobody", "a task", [Exchange("a question", "an \N{CHECK MARK} answer")])
    said.write(tmp_path / "said.json")
    assert Transcript.read(tmp_path / "said.json") == said
    (tmp_path / "said.json").write_text("{}")
    with pytest.raises(NothingRecordedError, match="is no transcript"):
        Transcript.read(tmp_path / "said.json")


@pytest.mark.processes
def test_a_program_is_asked_on_its_standard_input() -> None:
    upper = f"{sys.executable} -c 'import sys; print(sys.stdin.read().upper())'"
    assert asking(upper)("a question") == "A QUESTION\n"
    with pytest.raises(WarplabError, match="'warplab-no-such-program', failed"):
        asking("warplab-no-such-program")("a question")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["64", "64", "64", "--by", "words"], "name a program with --ask"),
        (["64", "60", "64"], "n and k have to be multiples of 8"),
        (["4096", "4096", "4096"], "the emulator takes 134,217,728"),
    ],
)
def test_what_cannot_be_searched_is_said(
    options: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["search", *options])
    assert main() == 2 and words in capsys.readouterr().err


@pytest.mark.processes
def test_a_search_by_a_program_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One real trial: compiled, emulated, compared and estimated; the log and what was said are kept."""
    (tmp_path / "answer.txt").write_text(WORDS[FIRST.name])
    answer = f"""{sys.executable} -c 'print(open("{tmp_path / "answer.txt"}").read())'"""
    files = ["--transcript", str(tmp_path / "said.json"), "--log", str(tmp_path / "log.json")]
    monkeypatch.setattr(
        sys, "argv", ["search", "64", "64", "64", "--by", "words", "--tries", "1", "--ask", answer, *files]
    )
    assert main() == 0
    (trial,) = json.loads((tmp_path / "log.json").read_text())
    assert trial["choice"] == asdict(FIRST) and 1 < trial["cost"] < 100
    assert len(Transcript.read(tmp_path / "said.json").exchanges) == 1
    assert f"The best of 1: {FIRST}" in capsys.readouterr().out
