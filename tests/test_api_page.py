"""docs/api.md: every public name, as the docstrings have it."""

from __future__ import annotations

import pytest

import warplab
from scripts import api

pytestmark = pytest.mark.pages


def test_the_page_has_every_public_name_and_is_up_to_date() -> None:
    assert sorted(name for names in api.SECTIONS.values() for name in names) == sorted(warplab.__all__)
    assert api.PAGE.read_text() == api.page(), "run: python -m scripts.api"
