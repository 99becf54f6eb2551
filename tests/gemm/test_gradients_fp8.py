"""The FP8 product over tokens on the emulator, against float64 of the same codes and scales; its quantiser."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import experts
from benchmarks.moe.gradients_fp8 import contest, measured, plans, rivals
from benchmarks.moe.gradients_fp8.data import Tokens
from benchmarks.moe.layer.plans import Layer
from course import results
from systems.moe.gradients_fp8.quantise import BLOCK, encoded, firsts, quantised, slots
from warplab.emulator import execute
from warplab.hardware.device import architecture_of, present
from warplab.hardware.small_floats import E4M3
from warplab.plan import assembler
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.execution import Execution
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan
from warplab.worker.process import Worker

pytestmark = pytest.mark.processes

SLOTS, EXPERTS, M, N = 1152, 4, 136, 268  # two tiles by three of every expert's gradient, the last ones short
COUNTS = (
    (150, 0, 17, 129),  # ragged, and one without tokens
    (0, 0, 1, 0),
    (0, 700, 0, 0),  # all are one expert's
    (128, 256, 32, 96),
    (0, 0, 0, 0),
)
NAN = 0x7F  # of e4m3
UNIT = 2.0**-24  # roundoff of float32
HANDED_BACK = "    if (threadIdx.x % 32 == 0) arrive(ring.empty_barrier());\n"
BROKEN = {
    "without the scales of rows": ("float upper = read(ring.scales() + 4 * of.row)", "float upper = 1"),
    "without the scales of columns": (
        "columns[j] = read_pair(ring.scales() + 4 * (TILE_M",
        "columns[j] = ones((TILE_M",
    ),
    "one scale for a thread's two rows": ("lower = read(ring.scales() + 4 * (of.row + 8))", "lower = upper"),
    "the scales of the first block": ("tile.row, block, full", "tile.row, tile.from / TILE_K, full"),
    "half of the last block": ("STEP * step < tokens", "2 * STEP * step < tokens"),
}
ONES = "__device__ float2 ones(int) { return make_float2(1, 1); }\n"


@cache
def product(text: str | None = None) -> Plan:
    return plans.captured(plans.arguments(SLOTS, EXPERTS, M, N), EMULATED_ARCHITECTURE, sms=3, text=text)


def changed(old: str, new: str) -> str:
    text = plans.PRODUCT.read_text("utf-8")
    assert text.count(old) == 1, old
    return text.replace(old, new)


class Operands:
    """Both matrices as quantised, in SLOTS slots: what lies behind those that the tokens need is NaN."""

    def __init__(self, dy: np.ndarray, x: np.ndarray, counts: tuple[int, ...]) -> None:
        self.count = np.int32(counts)
        self.first = firsts(np, self.count)
        self.dy8, self.dy_scale = self._whole(*quantised(np, dy, self.count))
        self.x8, self.x_scale = self._whole(*quantised(np, x, self.count))

    @staticmethod
    def _whole(codes: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        more = SLOTS - codes.shape[1]
        return (
            np.pad(codes, ((0, 0), (0, more)), constant_values=NAN),
            np.pad(scale, ((0, more // BLOCK), (0, 0)), constant_values=np.nan),
        )

    def moved(self, first: tuple[int, ...]) -> None:
        """Put the experts' tokens elsewhere; all other slots become NaN but for those that have to be zeros."""
        before = {name: getattr(self, name) for name in ("dy8", "dy_scale", "x8", "x_scale")}
        for name, array in before.items():
            here = np.full_like(array, NAN if array.dtype == np.uint8 else np.nan)
            for old, new, count in zip(self.first, first, self.count, strict=True):
                if array.dtype == np.uint8:
                    end = -(-count // 32) * 32
                    here[:, new : new + end] = array[:, old : old + end]
                else:
                    end = -(-count // BLOCK)
                    here[new // BLOCK : new // BLOCK + end] = array[old // BLOCK : old // BLOCK + end]
            setattr(self, name, here)
        self.first = np.int32(first)

    def inputs(self) -> dict[str, np.ndarray]:
        names = ("dy8", "dy_scale", "x8", "x_scale", "first", "count")
        return {name: getattr(self, name) for name in names}

    def expert(self, e: int) -> tuple[np.ndarray, np.ndarray]:
        """What the codes of an expert's tokens stand for, in float64: m x count and n x count."""
        mine = slice(self.first[e], self.first[e] + self.count[e])
        return tuple(  # type: ignore[return-value]
            E4M3.decode(codes[:, mine]) * np.repeat(scale.T.astype(np.float64), BLOCK, axis=1)[:, mine]
            for codes, scale in ((self.dy8, self.dy_scale), (self.x8, self.x_scale))
        )


def run(plan: Plan, operands: Operands) -> Execution:
    return execute(plan, operands.inputs(), architecture=EMULATED_ARCHITECTURE, seed=1)


def excess(dw: np.ndarray, operands: Operands) -> float:
    """The largest error over what is allowed; infinite for NaN, and for anything but zero where zero is due.

    Allowed is what lab 09 allows its sums, of all magnitudes: each of a block's four steps loses less than 34 times
    2^-13, and float32 rounds once for every product of scales, scaled sum and addition of blocks.
    """
    found = [0.0]
    for e, sums in enumerate(dw.astype(np.float64)):
        dy, x = operands.expert(e)
        blocks = -(-dy.shape[1] // BLOCK)
        allowed = (4 * 34 * 2.0**-13 + (blocks + 3) * UNIT) * (np.abs(dy) @ np.abs(x).T)
        error = np.abs(sums - dy @ x.T)
        found.append(np.where(error == 0, 0, error / np.where(allowed > 0, allowed, UNIT**9)).max())
    return float(np.nan_to_num(np.max(found), nan=np.inf))


def hopper_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a (m x k) b (n x k).T of e4m3 numbers as wgmma adds them on Hopper, 32 of k at a time (docs/tensor-numerics.md):
    terms are cut at 2^-13 of the largest one's power of two, toward zero, and the sum keeps 13 fraction bits."""
    sums = np.zeros((len(a), len(b)))
    for k in range(0, a.shape[1], 32):
        x, y = a[:, None, k : k + 32], b[None, :, k : k + 32]
        exponents = sum(np.maximum(np.frexp(factor)[1] - 1, E4M3.lowest_exponent) for factor in (x, y))
        of_products = np.where(x * y != 0, exponents, -99).max(axis=2)
        unit = 2.0 ** (np.maximum(of_products, np.where(sums != 0, np.frexp(sums)[1] - 1, -99)) - 13)
        total = np.trunc(x * y / unit[:, :, None]).sum(axis=2) + np.trunc(sums / unit)
        kept = 2.0 ** np.maximum(np.frexp(total)[1] - 1 - 13, 0)
        sums = np.trunc(total / kept) * kept * unit
    return sums


def promoted(operands: Operands, e: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of 128 tokens of an expert as Hopper adds them, scaled and added in float64, and in float32."""
    exact, single = np.zeros((M, N)), np.zeros((M, N), np.float32)
    first, count = int(operands.first[e]), int(operands.count[e])
    for token in range(first, first + count, BLOCK):
        mine = slice(token, min(token + BLOCK, first + count))
        sums = hopper_sums(E4M3.decode(operands.dy8[:, mine]), E4M3.decode(operands.x8[:, mine]))
        row, column = operands.dy_scale[token // BLOCK][:, None], operands.x_scale[token // BLOCK][None, :]
        exact += sums * row.astype(np.float64) * column.astype(np.float64)
        single += sums.astype(np.float32) * (row * column)
    return exact, single


def normal(counts: tuple[int, ...]) -> Operands:
    """N(0, 1), lines of all sizes, blocks of zeros, and two lines without a negative number: nothing cancels there."""
    draw = np.random.default_rng(sum(counts) + 1)
    dy, x = (draw.standard_normal((sum(counts), n)).astype(np.float32) for n in (M, N))
    for matrix in (dy, x):
        matrix *= np.exp2(draw.integers(-20, 20, matrix.shape[1])).astype(np.float32)
        matrix[:, 3] = np.abs(matrix[:, 3])
        matrix[:BLOCK, 5:7] = 0
    return Operands(dy, x, counts)


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_one_launch_sums_over_the_tokens_of_each_expert(counts: tuple[int, ...]) -> None:
    """One plan for all counts; blocks stay for several tiles, deep and empty, so that the ring goes on between them."""
    operands = normal(counts)
    done = run(product(), operands)
    assert [finding.message for finding in done.findings] == []
    dw = done.outputs["dw"]
    assert excess(dw, operands) <= 1
    assert not dw[np.int32(counts) == 0].any()
    assert np.abs(dw).max() > 0 or not sum(counts)


def test_blocks_of_128_tokens_are_promoted_as_well_as_float32_can() -> None:
    """Errors beside the same blocks' sums are no more than 1.2 times those of adding these in float32.

    Each element's is taken relative to the sum of magnitudes, as lines are of all sizes; in the root mean square.
    """
    operands = normal(COUNTS[0])
    dw = run(product(), operands).outputs["dw"].astype(np.float64)
    for e, count in enumerate(COUNTS[0]):
        if count:
            exact, single = promoted(operands, e)
            dy, x = operands.expert(e)
            size = np.abs(dy) @ np.abs(x).T
            size[size == 0] = 1  # lines of zeros
            ours, theirs = (np.sqrt(np.square((found - exact) / size).mean()) for found in (dw[e], single))
            assert 0 < ours <= 1.2 * theirs < UNIT, e


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_product_is_told_from_a_right_one(name: str) -> None:
    """Else the test above could not fail."""
    text = changed(*BROKEN[name]).replace("\n// sums += d,", f"\n{ONES}// sums += d,")
    operands = normal((128, 256, 32, 96))  # of each kind of block's end
    assert excess(run(product(text), operands).outputs["dw"], operands) > 1


def test_whole_numbers_are_exact() -> None:
    """Scales are powers of two, another for each line and block: with four fraction bits nothing is cut or rounded."""
    counts = (200, 0, 33, 130)
    draw = np.random.default_rng(5)
    dy, x = (draw.integers(-3, 4, (sum(counts), n)).astype(np.float32) for n in (M, N))
    begin = np.cumsum(counts) - counts
    for start, count in zip(begin, counts, strict=True):
        for block in range(0, count, BLOCK):
            for matrix in (dy, x):  # 7 times 64 is e4m3's largest number: one of them in each block
                matrix[start + block] = np.where(draw.integers(0, 2, matrix.shape[1]), 7, -7)
                matrix[start + block : min(start + block + BLOCK, start + count)] *= np.exp2(
                    draw.integers(-2, 3, matrix.shape[1])
                ).astype(np.float32)
    operands = Operands(dy, x, counts)
    assert set(np.log2(operands.dy_scale[operands.first[0] // BLOCK])) == {-8, -7, -6, -5, -4}
    dw = run(product(), operands).outputs["dw"]
    for e, (start, count) in enumerate(zip(begin, counts, strict=True)):
        mine = slice(start, start + count)
        right = dy[mine].T.astype(np.float64) @ x[mine].astype(np.float64)
        np.testing.assert_array_equal(dw[e], right, str(e))


def test_slots_between_groups_do_not_matter() -> None:
    """Groups in another order with gaps of NaN, in codes and in scales; zeros end at a multiple of 32."""
    operands = normal((100, 129, 33, 0))
    operands.moved((640, 128, 512, 0))
    done = run(product(), operands)
    assert [finding.message for finding in done.findings] == []
    assert excess(done.outputs["dw"], operands) <= 1


def test_a_stage_handed_back_before_its_scales_are_read_is_found() -> None:
    """Handed back when its products are done, as the codes may be, and read only then."""
    text = plans.PRODUCT.read_text("utf-8")
    reads = text[text.index("    float upper = read") : text.index("    u64 a = descriptor(ring.codes() + of.lines)")]
    assert reads.count("= read") == 3 and text.count(HANDED_BACK) == 1
    text = text.replace(reads, "").replace(HANDED_BACK, HANDED_BACK + reads)
    findings = run(product(text), normal((0, 700, 0, 0))).findings
    assert any("nothing orders the two" in finding.message for finding in findings)


def test_nothing_spills_and_no_product_waits_for_the_one_before() -> None:
    for kernel in assemble(product(), EMULATED_ARCHITECTURE).kernels.values():
        code = kernel.cubins[EMULATED_ARCHITECTURE]
        assert code.spill_stores == code.spill_loads == code.stack == 0
        log = assembler.run(kernel.ptx[EMULATED_ARCHITECTURE], EMULATED_ARCHITECTURE, 60.0).log
        assert "registers" in log and "serialized" not in log, log


@pytest.mark.gpu
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_on_a_gpu(counts: tuple[int, ...], tmp_path: Path) -> None:
    """On all its SMs, three times in a row."""
    architecture = architecture_of(present())
    plan = plans.captured(plans.arguments(SLOTS, EXPERTS, M, N), architecture)
    save(assemble(plan, architecture), tmp_path / "product.plan")
    operands = normal(counts)
    with Worker() as worker:
        task = {"plan": str(tmp_path / "product.plan"), "inputs": operands.inputs(), "runs": 3}
        answer = worker.call("tests.gpu.gpu_targets:execute", timeout=60, **task)
    assert answer["findings"] == []
    assert excess(answer["outputs"]["dw"], operands) <= 1


def test_codes_are_the_nearest_of_e4m3() -> None:
    """Every number of e4m3, every middle of two, which is a tie, and the float32 beside either; both signs."""
    numbers = E4M3.magnitudes
    points = np.concatenate((numbers, (numbers[1:] + numbers[:-1]) / 2)).astype(np.float32)
    below, above = (np.nextafter(points, np.float32(side)) for side in (-np.inf, np.inf))
    x = np.concatenate((points, below, above, np.float32([1e-30, 460, 1e30])))
    x = np.concatenate((x, -x))
    np.testing.assert_array_equal(encoded(np, x), E4M3.encode(x))


def test_tokens_lie_along_lines_in_blocks_of_one_expert() -> None:
    counts = np.int32([130, 0, 1, 128])
    x = np.random.default_rng(2).standard_normal((259, 24)).astype(np.float32)
    x[130, 3] = 0  # the only token of its expert
    x[131:, 4] = np.float32(1e-44)  # a scale of it by division would be zero
    codes, scale = quantised(np, x, counts)
    assert codes.shape == (24, slots(259, 4)) and scale.shape == (codes.shape[1] // BLOCK, 24)
    first = firsts(np, counts)
    np.testing.assert_array_equal(first, [0, 256, 256, 384])
    meant = E4M3.decode(codes) * np.repeat(scale.T.astype(np.float64), BLOCK, axis=1)
    used = np.zeros(codes.shape[1], bool)
    for start, at, count in zip(np.cumsum(counts) - counts, first, counts, strict=True):
        used[at : at + count] = True
        right = x[start : start + count].T.astype(np.float64)
        for block in range(0, count, BLOCK):
            part = right[:, block : block + BLOCK]
            most = np.abs(part).max(axis=1, keepdims=True)  # half of a step of 32 for what is scaled to 448
            error = np.abs(meant[:, at + block : at + block + part.shape[1]] - part)
            assert (error <= np.maximum(most * 16.01 / 448, 2.0**-126 * 2.0**-10)).all()
    assert not codes[:, ~used].any()
    assert scale[256 // BLOCK, 3] == 1 and np.isfinite(scale).all() and (scale >= 2.0**-126).all()


def test_room_is_enough_whatever_the_counts_are() -> None:
    draw: Any = np.random.default_rng(3)
    for counts in ([1] * 5, [129, 1, 1], [0, 0], [127, 127], *draw.integers(0, 300, (50, 6)).tolist()):
        count = np.int32(counts)
        end = firsts(np, count)[-1] + -(-count[-1] // BLOCK) * BLOCK
        assert end <= slots(int(count.sum()), len(counts))


def test_what_it_is_timed_beside_computes_the_same() -> None:
    """On a layer's routing, ours from what the worker gives it; torch has no FP8 product of groups or blocks here."""
    torch = pytest.importorskip("torch")
    layer, tokens, m, n = Layer("toy", 6, 2, 32, 16), 150, 48, 32
    given = Tokens(asdict(layer), tokens, m, n, "cpu")
    given_arrays = {name: x.numpy() for name, x in contest.inputs(given, contest.FP8).items()}
    arrays = plans.arguments(slots(tokens * layer.k, layer.experts), layer.experts, m, n)
    done = execute(plans.captured(arrays, EMULATED_ARCHITECTURE, sms=3), given_arrays, seed=1)
    assert [finding.message for finding in done.findings] == []
    assert given.error(torch.from_numpy(done.outputs["dw"])) < contest.ALLOWED[contest.FP8]
    assert given.error(rivals.bf16(given)()) < contest.ALLOWED[rivals.BF16]
    assert given.error(rivals.loop(given)()) < contest.ALLOWED[contest.FP8]
    wrong = done.outputs["dw"].copy()
    wrong[1], wrong[2] = done.outputs["dw"][2], done.outputs["dw"][1]
    assert given.error(torch.from_numpy(wrong)) > 10 * contest.ALLOWED[contest.FP8]


def test_records(tmp_path: Path) -> None:
    layer = Layer("toy", 6, 2, 72, 40)
    time = {"value": 10.0, "low": 9.0, "high": 11.0}
    us = {contest.FP8: time, contest.BF16: {**time, "value": 15.0}, rivals.ROWS: {**time, "value": 40.0}}
    answer = {"us": us, "error": dict.fromkeys(us, 1e-2), "active": 5, "fullest": 9, "turns": 3}
    made = [record for which in measured.products(layer) for record in measured.records(layer, which, 23, answer)]
    results.write(tmp_path / "experts.json", results.make_header("nothing"), made)  # refuses two of one key
    assert {r.variant: r.ratio for r in made if r.shape[-2:] == (80, 72)} == {
        "gate and up, beside bf16": pytest.approx(1.5),
        "gate and up, beside torch loop fp8": pytest.approx(4),
    }
    assert made[0].extra["flop"] == 2 * 46 * 72 * 40
    assert made[0].extra["bytes"] == 46 * 112 * (1 + 4 / 128) + 4 * 6 * 72 * 40


def test_without_a_gpu_the_part_says_so_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(experts, "present", lambda: None)
    assert experts.main(["gradients_fp8"]) == 3
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "no GPU" in said.err
