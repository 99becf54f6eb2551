"""A line and a bar in a cell's output that say what is being done, until the answer takes their place."""

from __future__ import annotations

import html

from IPython import display


class Waiting:
    """Shows "`what` ..." at once; its method `progress` is what `autograder.judge.pipeline.grade` calls."""

    def __init__(self, what: str) -> None:
        self._what, self._said = what, ("", 0.0)
        self._shown = display.display(_Line(what, 0.0), display_id=True)

    def progress(self, step: str, fraction: float) -> None:
        """Say that this step has begun and that this share of the work, 0 to 1, is done, unless it has been said."""
        if (step, round(fraction, 2)) != self._said:
            self._said = step, round(fraction, 2)
            self._shown.update(_Line(f"{self._what}: {step}", fraction))

    def answer(self, item: object) -> None:
        """Show this instead; text as it stands."""
        self._shown.update(display.Pretty(item) if isinstance(item, str) else item)


class _Line:
    def __init__(self, words: str, done: float) -> None:
        self._words, self._done = words, done

    def __repr__(self) -> str:
        return f"{self._words} ... ({self._done:.0%})"

    def _repr_html_(self) -> str:
        bar = f'<progress max="1" value="{self._done:.2f}" style="width:12em;vertical-align:middle"></progress>'
        return f"{bar} <em>{html.escape(self._words)} ...</em>"
