"""The confined worker sees what was compiled for it, also when nothing was yet as it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.judge import confined_worker
from autograder.records.machine import Machine
from autograder.records.status import Device
from warplab.plan.model import EMULATED_ARCHITECTURE
from warplab.worker.process import Worker

EMULATOR = Machine(Device.EMULATOR, EMULATED_ARCHITECTURE, "emulator")


def test_what_is_compiled_after_it_was_made_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_ahead(target: str, payload: object) -> bool:
        compiled.append(str(tmp_path))
        return True

    monkeypatch.setattr(confined_worker, "_compiled_folders", lambda: compiled)
    monkeypatch.setattr(confined_worker, "compile_ahead", compile_ahead)
    monkeypatch.setattr(Worker, "call", lambda *_, **__: None)
    with confined_worker.ConfinedWorker(EMULATOR, own=False) as worker:
        assert str(tmp_path) not in {copy[0] for copy in worker._sandbox.copies}
        worker.call(confined_worker.WARM_UP, timeout=1, parts=[])
        assert str(tmp_path) in {copy[0] for copy in worker._sandbox.copies}
