"""Tests that need a GPU are skipped where there is none; `tiers` has what a test may start."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import tempfile
from contextlib import suppress
from typing import Any

import pytest

from tests import stored, tiers
from warplab.hardware import count

# With it jsonschema, which nbformat imports, makes 38 parsers of addresses: seconds for what no schema of ours asks.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# What a learner's grades and answers go to: the tests' are nobody's progress.
os.environ.setdefault("WARPLAB_DATA", tempfile.mkdtemp(prefix="warplab-tests-"))

with suppress(ImportError):  # tests on a GPU do without
    from hypothesis import HealthCheck, settings

    # An example may wait for a busy machine, and all who run the tests try the same examples.
    settings.register_profile(
        "warplab", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("warplab")

# A shell has its background jobs ignore Ctrl-C, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    tiers.begin(item)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    tiers.end()


def pytest_sessionfinish() -> None:
    stored.save()


def pytest_collection(session: pytest.Session) -> None:
    """Each of several workers imports its share of the test files first, for all have to import all of them: where
    pytest has not kept them yet with what it writes for their assertions, that is written once and not by each."""
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    gc.disable()  # until all is there, of which nothing is garbage
    root, folders = session.config.rootpath, (session.config.invocation_params.dir / a for a in session.config.args)
    files = sorted((f for folder in folders for f in folder.rglob("test_*.py")), key=lambda f: f.stat().st_size)
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # whoever collects it says so
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay until the end: nobody need look again whether they are garbage."""
    gc.collect()
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("cold_captures"):
            item.add_marker(pytest.mark.processes)
    marked = [item for item in items if item.get_closest_marker("gpu") or item.get_closest_marker("multigpu")]
    if not marked:
        return
    gpus = count()
    for item in marked:
        if gpus < 1:
            item.add_marker(pytest.mark.skip(reason="needs a GPU and there is none"))
        elif gpus < 2 and item.get_closest_marker("multigpu"):
            item.add_marker(pytest.mark.skip(reason="needs two GPUs and there is one"))
