"""The page of instructions is what the decoder says, and the decoder has no handler that the page leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplab.emulator.lowering import coverage
from warplab.emulator.lowering.lowering import LoweringError

PAGE = Path(__file__).parents[2] / "docs" / "instructions.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == coverage.page(), (
        "run: python -m warplab.emulator.lowering.coverage > docs/instructions.md"
    )


def test_every_handler_is_on_the_page() -> None:
    assert coverage.unlisted() == []


def test_the_decoder_is_really_asked() -> None:
    assert coverage.takes("add.rn.f32", "f32 f32 f32")
    assert not coverage.takes("add.rx.f32", "f32 f32 f32")
    assert not coverage.takes("frobnicate.u32", "u32 u32")
    assert coverage.expand("a{.x,.y}{,.z}") == ["a.x", "a.x.z", "a.y", "a.y.z"]


def test_a_handler_that_fails_is_not_an_instruction_that_is_refused() -> None:
    """Every form on the page is taken or refused by name; a fault of a handler's own is neither."""
    coverage.rows()
    with pytest.raises(LoweringError, match="'mov.u32 .*' by a fault of its own"):
        coverage.takes("mov.u32", "b32")
