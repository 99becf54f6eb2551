"""All-reduces by hand on hardware: ranks as blocks of one GPU, and as two GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import collectives
from benchmarks.peer.kernels import Layout
from tests.peer.side_by_side import SMALL, planned
from warplab import results
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.model import Role
from warplab.worker.process import Worker


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["one_shots", "two_shots"])
def test_blocks_of_one_gpu_play_eight_ranks(kernel: str, tmp_path: Path) -> None:
    """200 calls after each other: what the emulator's orders leave out, hardware may do."""
    device = present()
    assert device is not None
    ranks, calls, count = 8, 200, 61
    x = np.random.default_rng(7).integers(-8, 9, (calls, ranks, 64)).astype(np.float32)
    arrays = {"x": (x, Role.INPUT), "out": (np.zeros_like(x), Role.OUTPUT)}
    architecture = architecture_of(device)
    plan, inputs = planned(
        kernel, "float32", Layout(ranks, **SMALL), arrays, (np.uint32(count), np.uint32(64)),
        calls=calls, patience=2 * 10**9, architecture=architecture,
    )  # fmt: skip
    save(assemble(replace(plan, source=""), architecture), tmp_path / "peer.plan")
    with Worker() as worker:
        target = "tests.gpu.gpu_targets:execute"
        answer = worker.call(target, timeout=60, plan=str(tmp_path / "peer.plan"), inputs=inputs)
    found = answer["outputs"]["out"].reshape(x.shape)[:, :, :count]
    np.testing.assert_array_equal(found, np.broadcast_to(x.sum(1, keepdims=True)[:, :, :count], found.shape))
    assert not answer["outputs"]["state"].reshape(-1, 2)[:, 1].any()


@pytest.mark.multigpu
def test_two_gpus_check_every_size_and_are_timed_beside_nccl(tmp_path: Path) -> None:
    """The measurement stops at the first wrong sum, so that records of all sizes say that all are right."""
    pytest.importorskip("torch")
    path = tmp_path / "collectives.json"
    asked = ["--part", "by-hand", "--ranks", "2", "--samples", "2", "--minutes", "4", "--out", str(path)]
    assert collectives.main(asked) == 0
    records = results.read(path).records
    ways = {"by hand: nccl", "by hand: one-shot", "by hand: two-shot"}
    for dtype in ("float32", "bfloat16"):
        for size in (1 << power for power in range(10, 21)):
            found = {r.variant for r in records if r.shape == (2, size) and r.dtype == dtype}
            assert found == ways, (dtype, size)
    assert {r.shape for r in records if r.variant == "by hand: fused"} == {(2, n, 8192) for n in (1, 4, 16, 64)}


@pytest.mark.multigpu
def test_calls_that_wait_for_a_silent_rank_end_within_seconds(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ranks = []
    for rank in range(2):
        job = {"backend": "nccl", "ranks": 2, "rank": rank, "meeting": str(tmp_path / "meeting")}
        command = [sys.executable, "-m", "tests.peer.silent_rank", json.dumps(job)]
        ranks.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=collectives.environment()))
    try:
        said = json.loads(ranks[0].communicate(timeout=120)[0])
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    assert said["seconds"] < 10 and "waited 2 s for rank 1" in said["fault"]
