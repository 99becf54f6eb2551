"""One more that proposes: whoever answers in words, such as a language model, through a function from text to text.

Nobody is asked unless such a function is given. It gets the task, the choices and the log, and nothing of the judge: no
inputs, no seed, no process. What it says is read as data and never run. Everything that was said is kept, so that a
search can be repeated without asking again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from systems.search.trials import Log
from warplab.errors import WarplabError
from warplab.files import write_whole

C = TypeVar("C")
Ask = Callable[[str], str]
TRANSCRIPT = Path(__file__).resolve().parent / "transcript.json"  # of one search, as it went
PATIENCE = 3  # answers that are no choice, one after the other

_OBJECT = re.compile(r"\{[^{}]*\}")
_RULES = """Propose the next choice to try. Answer with one JSON object that has these fields:
{axes}
Not every combination is possible, and none may be tried twice. The smallest cost wins; "wrong" is a choice whose \
answers were wrong.
"""


class NothingRecordedError(WarplabError):
    """A transcript is asked for something that was not said in it."""


@dataclass(frozen=True)
class Exchange:
    """What was asked, and what was answered."""

    asked: str
    answered: str


@dataclass
class Transcript:
    """Everything that was said in a search, in order, with its speaker and subject."""

    who: str
    task: str
    exchanges: list[Exchange] = field(default_factory=list)

    def recording(self, ask: Ask) -> Ask:
        """The same function, but what is said is added here."""

        def asked(text: str) -> str:
            answer = ask(text)
            self.exchanges.append(Exchange(text, answer))
            return answer

        return asked

    def replay(self) -> Ask:
        """A function that answers as was answered then. It raises NothingRecordedError for another question."""
        left = list(self.exchanges)

        def asked(text: str) -> str:
            if not left or left[0].asked != text:
                raise NothingRecordedError("The transcript has no answer to this question: the search is another one.")
            return left.pop(0).answered

        return asked

    def write(self, path: Path) -> None:
        """As JSON. Raises OSError."""
        write_whole(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @staticmethod
    def read(path: Path) -> Transcript:
        """The inverse of `write`. Raises NothingRecordedError for a file that is not one."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return Transcript(data["who"], data["task"], [Exchange(**one) for one in data["exchanges"]])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise NothingRecordedError(f"{path} is no transcript ({error}).") from None


class ByWords(Generic[C]):
    """Asks for each choice. Gives up after PATIENCE answers in a row that are none.

    `choices` are data classes of numbers and words.
    """

    def __init__(self, choices: Sequence[C], ask: Ask, task: str) -> None:
        self._choices, self._ask, self._task = choices, ask, task

    def propose(self, log: Log[C]) -> C | None:
        """The choice that was answered, or None."""
        question = f"{self._task}\n\n{_RULES.format(axes=self._axes())}\n{self._tried(log)}"
        for _ in range(PATIENCE):
            answer = self._ask(question)
            found, why = self._read(answer, log)
            if found is not None:
                return found
            question += f"\nYou answered: {answer.strip()[:300]}\n{why}\n"
        return None

    def _axes(self) -> str:
        lines = []
        for one in fields(self._choices[0]):  # type: ignore[arg-type]
            values = sorted({getattr(choice, one.name) for choice in self._choices})
            lines.append(f'  "{one.name}": one of {json.dumps(values)}')
        return "\n".join(lines)

    def _tried(self, log: Log[C]) -> str:
        if not log.trials:
            return "Nothing has been tried.\n"
        lines = [
            f"{json.dumps(asdict(t.choice))} cost {'wrong' if t.cost is None else format(t.cost, '.4g')}"  # type: ignore[call-overload]
            for t in log.trials
        ]
        return "Tried so far:\n" + "\n".join(lines) + "\n"

    def _read(self, answer: str, log: Log[C]) -> tuple[C | None, str]:
        """The choice in an answer, or why there is none: the last JSON object counts."""
        objects = _OBJECT.findall(answer)
        try:
            said: Any = json.loads(objects[-1]) if objects else None
        except ValueError:
            said = None
        if said is None:
            return None, "There is no JSON object in that."
        same = [choice for choice in self._choices if asdict(choice) == said]  # type: ignore[call-overload]
        if not same:
            return None, "That is not a possible combination."
        if log.tried(same[0]):
            return None, "That has been tried."
        return same[0], ""
