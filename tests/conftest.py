"""Tests that need a GPU are skipped where there is none, so that `pytest` alone works on every machine."""

from __future__ import annotations

import pytest

from warplab.hardware import count


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu") or item.get_closest_marker("multigpu")]
    if not marked:
        return
    gpus = count()
    for item in marked:
        if gpus < 1:
            item.add_marker(pytest.mark.skip(reason="needs a GPU and there is none"))
        elif gpus < 2 and item.get_closest_marker("multigpu"):
            item.add_marker(pytest.mark.skip(reason="needs two GPUs and there is one"))
