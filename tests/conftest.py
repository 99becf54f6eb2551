"""Tests that need a GPU are skipped where there is none; captures are warm where a test does not ask for cold ones."""

from __future__ import annotations

import gc
import sys

import pytest

from tests import warm_captures
from warplab.hardware import count

# With it jsonschema, which nbformat imports, makes 38 parsers of addresses: seconds for what no schema of ours asks.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def warm_or_cold_captures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture processes are warm, but for tests of what starts, confines and ends them."""
    if warm_captures.ARE_USED and not request.node.get_closest_marker("cold_captures"):
        warm_captures.use(monkeypatch)


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay until the end: nobody need look again whether they are garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


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
