"""How memory is laid out, which launches are chosen, what is refused; and the checks that GPUs' results get."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.collective_fits import refit
from benchmarks.peer import layer_records
from course import results
from systems.peer.kernels import (
    INCLUDE,
    LINE,
    MOST_RANKS,
    MOST_THREADS,
    ROW_TURNS,
    SETS,
    SOURCE,
    TEAM,
    UNIT,
    Layout,
    PeerError,
    fault_in,
    one_shot_shape,
    row_shape,
    two_shot_ll_shape,
    two_shot_shape,
)
from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.capture.nvrtc import compile_cpp
from warplab.plan.model import EMULATED_ARCHITECTURE, Pointer, Role, Structure

pytestmark = pytest.mark.stored

SIZES = [1, 8, 1000, 1 << 10, 5 << 10, 1 << 16, (1 << 18) + 4, 1 << 20]


@pytest.mark.processes  # its includes are of this clone
def test_the_source_reads_the_structure_as_this_side_writes_it() -> None:
    """Every field has a number of its own, which a kernel tells."""
    told = r"""
extern "C" __global__ void told(const __grid_constant__ Team team, u64* out) {
    out[0] = team.rank, out[1] = team.blocks, out[2] = team.lines, out[3] = team.units, out[4] = team.patience;
    out[5] = (u64)team.state;
    for (int p = 0; p < MOST_RANKS; ++p) out[6 + p] = (u64)team.memory[p];
}
"""
    told += f"static_assert(MOST_RANKS == {MOST_RANKS} && LINE == {LINE} && sizeof(uint4) == {UNIT});"
    told += f"static_assert(ROW_TURNS == {ROW_TURNS} && SETS == {SETS});"
    team = np.array((1, 2, 3, 4, 5 << 33, 6 << 33, [(7 + p) << 33 for p in range(MOST_RANKS)]), TEAM)
    out = np.zeros(6 + MOST_RANKS, np.uint64)
    ptx = compile_cpp(SOURCE.read_text("utf-8") + told, "x.cu", INCLUDE, (), EMULATED_ARCHITECTURE).ptx
    buffers = {"out": buffer("out", out, Role.OUTPUT)}
    plan = plan_of(ptx, "told", buffers, (Structure(team.tobytes()), Pointer("out")), (1,), (1,))
    execution = execute(plan, {})
    assert execution.findings == ()
    assert execution.outputs["out"].tolist() == [1, 2, 3, 4, *(n << 33 for n in range(5, 7 + MOST_RANKS))]


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("nbytes", SIZES)
def test_every_block_has_work_and_room(nbytes: int, ranks: int) -> None:
    layout = Layout(ranks)
    for threads in (64, 128, 512):
        shape = one_shot_shape(layout, nbytes, threads)
        lines = -(-nbytes // 8)
        assert 1 <= shape.blocks <= min(layout.blocks, lines)
        assert -(-lines // shape.blocks) <= layout.lines
        assert shape.threads % 32 == 0 and shape.threads <= MOST_THREADS
        shape = two_shot_shape(layout, nbytes, threads)
        share = np.ceil(np.ceil(nbytes / 16) / ranks)
        assert 1 <= shape.blocks <= layout.blocks and -(-share // shape.blocks) <= layout.units
        assert shape.threads % 32 == 0 and ranks <= shape.threads <= MOST_THREADS
        shape = two_shot_ll_shape(layout, nbytes, threads)
        share = np.ceil(np.ceil(nbytes / 8) / ranks)
        assert 1 <= shape.blocks <= layout.blocks and -(-share // shape.blocks) <= layout.lines
        assert shape.threads % 32 == 0 and shape.threads <= MOST_THREADS


def test_rows_fit_the_threads_registers() -> None:
    shape = row_shape(Layout(2), 64, 16384)
    assert shape.blocks == 64 and shape.threads * ROW_TURNS * 8 >= 16384
    assert row_shape(Layout(2), 1, 96).threads == 32


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: one_shot_shape(Layout(2), 0), "empty"),
        (lambda: one_shot_shape(Layout(2), (1 << 20) + 8), "room for 1048576"),
        (lambda: two_shot_shape(Layout(4), (1 << 22) + 16), "room for 4194304"),
        (lambda: two_shot_ll_shape(Layout(4), (1 << 22) + 8), "room for 4194304"),
        (lambda: row_shape(Layout(2), 0, 64), "no rows"),
        (lambda: row_shape(Layout(2), 1, 100), "multiple of 8 bytes"),
        (lambda: row_shape(Layout(2), 65, 16384), "do not fit"),
        (lambda: row_shape(Layout(2), 1, 16392), "do not fit"),
    ],
)
def test_what_does_not_fit_is_said(ask, words: str) -> None:
    with pytest.raises(PeerError, match=words):
        ask()


def test_results_that_are_off_by_a_rounding_pass_and_by_more_do_not() -> None:
    torch = pytest.importorskip("torch")
    from systems.peer import truth

    for dtype in (torch.float32, torch.bfloat16):
        parts = torch.stack([truth.drawn(1000, rank, 0, dtype, False) for rank in range(4)]).double()
        total, allowed = truth.sums(parts, dtype)
        right = parts.float().sum(0).to(dtype)
        assert truth.first_wrong(right, total, allowed) == ""
        spoilt = right.clone()
        spoilt[17] = spoilt[17] + 8 * torch.finfo(dtype).eps * parts[:, 17].abs().sum()
        assert truth.first_wrong(spoilt, total, allowed).endswith("at 17")
        spoilt[3] = float("nan")
        assert truth.first_wrong(spoilt, total, allowed).startswith("nan")
    whole = truth.drawn(1000, 0, 0, torch.bfloat16, True)
    assert whole.abs().max() <= 8 and (whole == whole.round()).all()
    assert not torch.equal(whole, truth.drawn(1000, 1, 0, torch.bfloat16, True))


def test_rows_that_are_right_pass_and_a_missing_residual_does_not() -> None:
    torch = pytest.importorskip("torch")
    from systems.peer import truth

    parts = torch.stack([truth.drawn(4 * 256, rank, 0, torch.bfloat16, False).view(4, 256) for rank in range(2)])
    residual, weight = (truth.drawn(size, 9, 0, torch.bfloat16, False) for size in (4 * 256, 256))
    residual = residual.view(4, 256)
    wanted = truth.normed(parts.double(), residual.double(), weight.double(), 1e-5, torch.bfloat16)
    summed = parts.float().sum(0) + residual.float()
    normed = torch.nn.functional.rms_norm(summed, (256,), weight.float(), 1e-5)
    for found, (right, allowed) in zip((summed, normed), wanted, strict=True):
        assert truth.first_wrong(found.to(torch.bfloat16), right, allowed) == ""
    assert truth.first_wrong(parts.float().sum(0), *wanted[0])
    assert truth.first_wrong((normed * 1.02).to(torch.bfloat16), *wanted[1])


def test_a_block_that_waited_in_vain_is_told_of() -> None:
    state = np.zeros((2, 4, 2), np.uint32)
    assert fault_in(state, 0, 4) == ""
    state[1, 3, 1] = 1 + 5
    assert fault_in(state.ravel(), 2, 4) == "Rank 2's block 3 waited 2 s for rank 5, which sent nothing."


def test_products_that_are_right_pass_and_a_missing_step_does_not() -> None:
    """Rounded as the layer rounds: one rank's part to bfloat16, then the sum."""
    torch = pytest.importorskip("torch")
    from systems.peer import truth

    draw = torch.Generator().manual_seed(1)
    parts = [(torch.randn(32, 256, generator=draw), torch.randn(256, 64, generator=draw)) for _ in range(2)]
    parts = [(a.bfloat16(), b.bfloat16()) for a, b in parts]
    total, allowed = truth.products(parts)
    each = [a.float() @ b.float() for a, b in parts]
    assert truth.first_wrong((each[0] + each[1].bfloat16().float()).bfloat16(), total, allowed) == ""
    without = each[0] + parts[1][0][:, 64:].float() @ parts[1][1][64:].float()
    assert truth.first_wrong(without.bfloat16(), total, allowed)
    whole = truth.sparse(64, 512, 1)
    assert sorted(whole.unique().tolist()) == [-1, 0, 1] and 0.2 < whole.abs().float().mean() < 0.3


@pytest.mark.processes
def test_records_of_a_layer_say_what_is_hidden_and_are_fitted_by_nobody(tmp_path: Path) -> None:
    ways = {"torch.matmul": 100.0, "torch.matmul, nccl": 150.0, "torch.matmul, one-shot": 120.0, "ours": 110.0}
    samples = {way: [1e-6 * us] * 9 for way, us in ways.items()}
    one = {"shape": [16, 8192, 4096], "memory": "CUDA IPC", "width": 64, "calls": 50, "ways": samples}
    found = list(layer_records.records(one, 2))
    times = {record.variant: record for record in found if record.metric == "time"}
    assert {record.shape for record in found} == {(2, 16, 8192, 4096)} and len(times) == 4
    ours = times["by hand: ours"]
    assert ours.ratio == pytest.approx(150 / 110)
    assert ours.extra["times ours"]["torch.matmul, one-shot"] == pytest.approx(120 / 110)
    (hidden,) = (record for record in found if record.metric == "hidden communication")
    assert hidden.value == pytest.approx(0.8)
    path = tmp_path / "collectives.json"
    results.write(path, results.make_header("test"), found)
    refit(path)
    assert len(results.read(path).records) == len(found)
