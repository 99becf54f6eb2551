"""What a learner has answered, kept on their own machine and nowhere else."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autograder.own_history import data_folder
from warplab.files import write_whole

_VERSION = 1


@dataclass(frozen=True)
class State:
    """One question of one seed: wrong and right answers given until it was solved, and when that was (UTC)."""

    tries: int = 0
    solved: bool = False
    date: str = ""


class Progress:
    """The file of answers. It is read again before each change, so that two open notebooks do not undo each other.

    Where it cannot be written, progress lasts as long as this object, and `problem` says so in one sentence.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or data_folder() / "quiz.json"
        self.problem = ""
        self._answers: dict[str, dict[str, State]] = {}

    def state(self, seed: str, question: str) -> State:
        """What is known of a question, nothing at first."""
        return self._read().get(seed, {}).get(question, State())

    def record(self, seed: str, question: str, right: bool) -> State:
        """Count an answer and keep the file. A question that is solved stays solved, and counts no more tries."""
        answers = self._read()
        old = answers.setdefault(seed, {}).get(question, State())
        if old.solved:
            return old
        date = datetime.now(UTC).isoformat(timespec="seconds") if right else ""
        answers[seed][question] = state = State(old.tries + 1, right, date)
        self._answers = answers
        self._write(answers)
        return state

    def solved(self, seed: str, questions: list[str]) -> int:
        """How many of these questions are solved."""
        states = self._read().get(seed, {})
        return sum(states.get(question, State()).solved for question in questions)

    def _read(self) -> dict[str, dict[str, State]]:
        if self.problem:
            return self._answers
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["version"] != _VERSION:
                raise ValueError
            return {
                seed: {q: State(**_checked(s)) for q, s in given.items()} for seed, given in data["answers"].items()
            }
        except FileNotFoundError:
            return self._answers
        except OSError as error:
            self.problem = (
                f"Your progress cannot be read from {self.path} ({error.strerror}): it is not kept this time."
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            self._set_aside()
        return self._answers

    def _set_aside(self) -> None:
        """A file that is not ours is kept under another name, never written over."""
        aside = self.path.with_name(f"{self.path.name}.unreadable")
        try:
            os.replace(self.path, aside)
        except OSError:
            self.problem = f"{self.path} is damaged and cannot be moved: your progress is not kept this time."

    def _write(self, answers: dict[str, dict[str, State]]) -> None:
        data = {
            "version": _VERSION,
            "answers": {seed: {q: asdict(s) for q, s in given.items()} for seed, given in answers.items()},
        }
        try:
            write_whole(self.path, json.dumps(data, indent=1))
        except OSError as error:
            self.problem = f"Your progress cannot be kept in {self.path} ({error.strerror}): it lasts until you leave."


def _checked(state: dict[str, Any]) -> dict[str, Any]:
    if not (type(state["tries"]) is int and type(state["solved"]) is bool and type(state["date"]) is str):
        raise ValueError
    return state
