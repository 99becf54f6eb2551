"""Every figure that a test of the course draws has type that can be read on a page, and says in words what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from matplotlib.text import Text

from warplab.figures import style

PAGE = 600.0  # points: the 800 pixels of a page, at 96 to an inch
LEAST = 9.0  # points


@pytest.fixture(autouse=True)
def readable_figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[style.Picture] = []
    begin = style.Picture.__init__

    def keep(self: style.Picture, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(style.Picture, "__init__", keep)
    yield
    for picture in made:
        shown = [text for text in picture.findobj(Text) if text.get_visible() and text.get_text().strip()]
        scale = min(1.0, PAGE / (72 * picture.get_size_inches()[0]))
        small = {text.get_text(): text.get_fontsize() * scale for text in shown if text.get_fontsize() * scale < LEAST}
        assert small == {}, "type below 9 points on a page of 800 pixels"
        assert not shown or len(repr(picture)) > len("Figure: ."), (
            "a figure without words for a reader who cannot see it"
        )
