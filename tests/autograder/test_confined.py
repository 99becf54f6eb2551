"""The confined worker finds what was compiled for it, also when nothing was yet as it was started."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.judge import confined_worker
from autograder.judge.confined_worker import GPU_STAGE
from autograder.judge.turns import Turns
from autograder.records.machine import Machine
from autograder.records.status import Executor
from autograder.spec.lab import find_lab
from warplab.emulator import compiled
from warplab.plan.model import EMULATED_ARCHITECTURE
from warplab.worker.process import Worker

pytestmark = pytest.mark.processes

EMULATOR = Machine(Executor.EMULATOR, EMULATED_ARCHITECTURE, "emulator")


@pytest.mark.parametrize("own", [False, True])
def test_parts_of_the_emulator_that_are_compiled_are_there_for_it(own: bool) -> None:
    compiled.compile_parts(compiled.ALWAYS)
    with confined_worker.ConfinedWorker(EMULATOR, own) as worker:
        assert worker.call(confined_worker._MISSING, timeout=60, parts=[]) == []


def test_what_is_missing_is_compiled_by_a_trusted_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the compiler: what matters is who is asked for which parts, and that both see one folder."""
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path))
    asked: list[object] = []
    ordinary = Worker.call

    def call(self: Worker, target: str, **payload: object) -> object:
        if target == confined_worker._COMPILE:
            asked.append((self._sandbox, payload["parts"]))
            return None
        return None if target == confined_worker.WARM_UP else ordinary(self, target, **payload)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "call", call)
    with confined_worker.ConfinedWorker(EMULATOR, own=False) as worker:
        worker.call(confined_worker.WARM_UP, timeout=60, parts=["bulk"])
    assert asked == [(None, ["loop", "arithmetic", "bulk"])]


def test_only_what_runs_kernels_on_the_gpu_is_shown_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, bool] = {}

    def call(self: Worker, target: str, **payload: object) -> list[str]:
        assert self._sandbox is not None
        asked[target] = self._sandbox.gpu and "CUPY_CACHE_DIR" in {name for *_, name in self._sandbox.copies}
        return []

    monkeypatch.setattr(Worker, "call", call)
    monkeypatch.setenv("CUPY_CACHE_DIR", str(Path(__file__).parent))
    with confined_worker.ConfinedWorker(replace(EMULATOR, device=Executor.GPU), own=False) as worker:
        for target in (confined_worker.WARM_UP, "autograder.worker.prepare_stage:prepare", f"{GPU_STAGE}take"):
            worker.call(target, timeout=60)
    assert [target for target, shown in asked.items() if shown] == [f"{GPU_STAGE}take"]
    assert len(asked) == 4  # what is missing of the emulator is asked for first


def test_a_labs_kernels_are_compiled_once_and_ceilings_measured_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve graders begin a class at once."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path))
    gpu = SimpleNamespace(uuid="GPU-1", driver="580.0")
    monkeypatch.setattr(confined_worker, "present", lambda index: gpu)
    asked: list[tuple[str, bool]] = []

    def compiled_by_trusted(target: str, visible: str | None, **payload: object) -> None:
        _, room_file = Turns.on([gpu])._places[0]
        with room_file.open("ab") as room:
            try:
                fcntl.flock(room, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                asked.append((target, True))
            else:
                asked.append((target, False))
        time.sleep(0.05)

    monkeypatch.setattr(confined_worker, "_trusted", compiled_by_trusted)
    task = str(find_lab("03_transpose").folder)
    with ThreadPoolExecutor() as pool:
        told = list(pool.map(confined_worker._compile_for_gpu, [task] * 4))
    assert asked == [(confined_worker._CALIBRATE, True), (confined_worker.WARM_UP_GPU, False)]
    assert any(told) and not confined_worker._compile_for_gpu(task)


def test_of_several_gpus_a_worker_sees_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined_worker, "count", lambda: 2)
    monkeypatch.setattr(confined_worker, "present", lambda index: SimpleNamespace(uuid=f"GPU-{index}"))
    machine = replace(EMULATOR, device=Executor.GPU, index=1)
    worker = confined_worker.ConfinedWorker(machine, own=False)
    seen = [dict(worker.kept_in(gpu).environment)["CUDA_VISIBLE_DEVICES"] for gpu in (True, False)]
    assert seen == ["GPU-1", ""]
    with confined_worker.Worker(environment={"CUDA_VISIBLE_DEVICES": "GPU-1"}) as trusted:
        assert trusted.call("os:getenv", timeout=60, key="CUDA_VISIBLE_DEVICES") == "GPU-1"


def test_as_many_threads_multiply_matrices_as_the_grader_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    with confined_worker.ConfinedWorker(EMULATOR, own=False) as worker:
        assert worker.call("os:getenv", timeout=60, key="OPENBLAS_NUM_THREADS") == "3"
