"""All-reduces and the layer by hand on hardware: ranks as blocks of one GPU, and as two GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import collectives
from course import results
from systems.peer.experts import Sizes
from systems.peer.experts_on_one import planned as planned_experts
from systems.peer.kernels import Layout
from systems.peer.row_parallel import RANKS, WIDTHS, Size
from tests.peer.expert_cases import drawn, truth
from tests.peer.in_memory import read
from tests.peer.layers_side_by_side import CALLS, Case
from tests.peer.layers_side_by_side import planned as planned_layers
from tests.peer.side_by_side import SMALL, planned
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.model import Plan, Role
from warplab.worker.process import Worker


def outputs_of(plan: Plan, inputs: dict[str, np.ndarray], architecture: str, folder: Path) -> dict[str, np.ndarray]:
    """What a plan leaves on this GPU."""
    save(assemble(replace(plan, source=""), architecture), folder / "peer.plan")
    with Worker() as worker:
        target = "tests.gpu.gpu_targets:execute"
        return worker.call(target, timeout=60, plan=str(folder / "peer.plan"), inputs=inputs)["outputs"]


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["one_shots", "two_shots", "two_shots_ll"])
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
    outputs = outputs_of(plan, inputs, architecture, tmp_path)
    found = outputs["out"].reshape(x.shape)[:, :, :count]
    np.testing.assert_array_equal(found, np.broadcast_to(x.sum(1, keepdims=True)[:, :, :count], found.shape))
    assert not outputs["state"].reshape(-1, 2)[:, 1].any()


@pytest.mark.multigpu
def test_two_gpus_check_every_size_and_are_timed_beside_nccl(tmp_path: Path) -> None:
    """The measurement stops at the first wrong sum, so that records of all sizes say that all are right."""
    pytest.importorskip("torch")
    path = tmp_path / "collectives.json"
    asked = ["--part", "by-hand", "--ranks", "2", "--samples", "2", "--minutes", "4", "--out", str(path)]
    assert collectives.main(asked) == 0
    records = results.read(path).records
    ways = {f"by hand: {way}" for way in ("nccl", "one-shot", "two-shot", "two-shot, LL")}
    for dtype in ("float32", "bfloat16"):
        for size in (1 << power for power in range(10, 21)):
            found = {r.variant for r in records if r.shape == (2, size) and r.dtype == dtype}
            assert found == ways, (dtype, size)
    assert {r.shape for r in records if r.variant == "by hand: fused"} == {(2, n, 8192) for n in (1, 4, 16, 64)}


@pytest.mark.gpu
@pytest.mark.parametrize("width", WIDTHS)
def test_blocks_of_one_gpu_play_both_ranks_of_a_layer(width: int, tmp_path: Path) -> None:
    """Several tiles a block, a ragged last row of them, more steps than stages; on a Hopper."""
    device = present()
    assert device is not None
    if device.compute_capability[0] != 9:
        pytest.skip("the layer needs Hopper's tensor cores")
    size, architecture = Size(1030, 4096, 1032), architecture_of(device)
    draw = np.random.default_rng(1)
    a, b = (
        draw.choice(np.array([0, 0x3F80, 0xBF80], np.uint16), shape, p=[0.75, 0.125, 0.125])
        for shape in ((CALLS, RANKS, size.m, size.k), (RANKS, size.k, size.n))
    )
    plan, inputs = planned_layers(
        Case(size, width, device.sms // RANKS), a, b, launches=CALLS, patience=2 * 10**9, architecture=architecture
    )
    outputs = outputs_of(plan, inputs, architecture, tmp_path)
    found = read(outputs["c"].reshape(CALLS, RANKS, size.m, size.n), "bfloat16")
    wide_a, wide_b = read(a, "bfloat16").astype(np.float32), read(b, "bfloat16").astype(np.float32)
    truth = sum(wide_a[:, rank] @ wide_b[rank] for rank in range(RANKS))  # whole numbers below 256: exact
    np.testing.assert_array_equal(found, np.broadcast_to(truth[:, None], found.shape))
    assert not outputs["state"].reshape(-1, 2)[:, 1].any()


@pytest.mark.multigpu
def test_two_gpus_check_the_layer_and_time_it_beside_nccl(tmp_path: Path) -> None:
    """The measurement stops at the first wrong sum; which sizes come first is what there is time for."""
    pytest.importorskip("torch")
    path = tmp_path / "collectives.json"
    asked = ["--part", "row-parallel", "--ranks", "2", "--samples", "2", "--minutes", "4", "--out", str(path)]
    assert collectives.main(asked) == 0
    found = {r.variant for r in results.read(path).records if r.shape == (2, 16, 8192, 4096) and r.metric == "time"}
    ways = ("torch.matmul", "torch.matmul, nccl", "torch.matmul, one-shot", "torch.matmul, two-shot", "ours")
    assert found == {f"by hand: {way}" for way in ways}


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
    assert said["seconds"] < 20 and all("waited 2 s for rank 1" in fault for fault in said["faults"])


@pytest.mark.gpu
def test_blocks_of_one_gpu_play_both_ranks_of_experts(tmp_path: Path) -> None:
    """Several tiles of most experts, a ragged last group of tokens, three calls."""
    device = present()
    assert device is not None
    sizes, architecture = Sizes(2, 301, 4, 16, 256, 192), architecture_of(device)
    arrays = drawn(sizes, 1)
    plan, inputs = planned_experts(sizes, arrays, architecture, blocks=device.sms // 2, calls=3, patience=2 * 10**9)
    outputs = outputs_of(plan, inputs, architecture, tmp_path)
    right, allowed = truth(sizes, arrays)
    assert (np.abs(read(outputs["out"], "bfloat16") - right) <= allowed).all()
    assert not outputs["state"].reshape(-1, 2)[:, 1].any()


@pytest.mark.multigpu
def test_two_gpus_share_a_layer_of_experts(tmp_path: Path) -> None:
    """A graph of three calls with other routes each, replayed 20 times; nothing is reset between."""
    pytest.importorskip("torch")
    started = []
    for rank in range(2):
        sizes = (2, 301, 4, 16, 256, 192)
        job = {"backend": "nccl", "ranks": 2, "rank": rank, "meeting": str(tmp_path / "meeting"), "sizes": sizes}
        command = [sys.executable, "-m", "tests.peer.experts_rank", json.dumps(job)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=collectives.environment()))
    said = [json.loads(one.communicate(timeout=180)[0].splitlines()[-1]) for one in started]
    assert all(not one["fault"] and max(one["worst"]) <= 1 for one in said), said
