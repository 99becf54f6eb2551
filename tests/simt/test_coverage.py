"""The page of instructions is what the decoder says, and the decoder has no handler that the page leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplab.simt.lowering import coverage
from warplab.simt.lowering.lowering import MALFORMED, Lowering

PAGE = Path(__file__).parents[2] / "docs" / "instructions.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == coverage.page(), "run: python -m warplab.simt.lowering.coverage > docs/instructions.md"


def test_every_handler_is_on_the_page() -> None:
    assert coverage.unlisted() == []


def test_the_decoder_is_really_asked() -> None:
    assert coverage.takes("add.rn.f32", "f32 f32 f32")
    assert not coverage.takes("add.rx.f32", "f32 f32 f32")
    assert not coverage.takes("frobnicate.u32", "u32 u32")
    assert coverage.expand("a{.x,.y}{,.z}") == ["a.x", "a.x.z", "a.y", "a.y.z"]


def test_no_handler_fails_by_a_fault_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that is not taken is refused by name; an error in a handler would look the same to who runs the kernel."""
    failed: list[str] = []
    lower = Lowering.lower

    def noted(lowering: Lowering) -> None:
        lower(lowering)
        failed.extend(note for key, note in lowering.notes.items() if key == MALFORMED)

    monkeypatch.setattr(Lowering, "lower", noted)
    coverage.rows()
    assert failed == []
    coverage.takes("mov.u32", "b32")
    assert len(failed) == 1
