"""A line in a cell's output that says what is being done, until the answer takes its place."""

from __future__ import annotations

from IPython import display


class Waiting:
    """Shows "`what` ..." at once; its method `progress` is what `autograder.judge.pipeline.grade` calls."""

    def __init__(self, what: str) -> None:
        self._what, self._step = what, ""
        self._shown = display.display(_line(what), display_id=True)

    def progress(self, step: str, fraction: float) -> None:
        """Say that this step has begun, unless it has been said."""
        if step != self._step:
            self._step = step
            self._shown.update(_line(f"{self._what}: {step}"))

    def answer(self, item: object) -> None:
        """Show this instead; text as it stands."""
        self._shown.update(display.Pretty(item) if isinstance(item, str) else item)


def _line(words: str) -> display.Markdown:
    return display.Markdown(f"*{words} ...*")
