"""A chapter that needs torch says so in one sentence."""

from __future__ import annotations

import sys

import pytest

from course.torch_needed import TorchMissing, need_torch


def test_without_torch_it_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TorchMissing, match="^This chapter needs torch: run `make torch` in the checkout, then restart"):
        need_torch()


def test_with_it_there_is_nothing_to_say() -> None:
    pytest.importorskip("torch")
    need_torch()
