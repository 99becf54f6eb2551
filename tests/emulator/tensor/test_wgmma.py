"""wgmma: fragments, descriptors and numerics against NumPy, and what a kernel may do with registers in flight."""

from __future__ import annotations

import zlib

import numba
import numpy as np
import pytest
from numba import cuda, types

from autograder.spec.lab import CHECKOUT
from tests.emulator.plans import numba_plan
from tests.emulator.tensor.warpgroup import BASE, FENCE, WAIT, Layout, accumulators, fragments, product, run
from warplab import ptx
from warplab.emulator import execute
from warplab.emulator.core.tensor.wgmma import nth_piece
from warplab.errors import PlanError
from warplab.plan.execution import FindingKind
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

KINDS = {"f16": (np.float16, 2), "s8": (np.int8, 1), "u8": (np.uint8, 1)}
SHAPES = [  # n, swizzle of a, of b, transposed a, b
    (8, 0, 0, False, False),
    (24, 1, 2, False, False),
    (256, 3, 1, False, False),
    (64, 2, 3, False, True),
    (136, 1, 1, True, True),
    (80, 0, 0, True, True),
    (72, 3, 2, True, True),
    (40, 2, 0, True, False),
]


def encoded(values: np.ndarray, kind: str) -> np.ndarray:
    """Small whole numbers in the bits of a type."""
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind == "tf32":
        return values.astype(np.float32).view(np.uint32)
    if kind == "e5m2":
        return (values.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8)
    if kind == "e4m3":
        bits = values.astype(np.float16).view(np.uint16).astype(np.int64)
        return np.where(values == 0, 0, (bits >> 8 & 0x80) | (bits >> 7 & 0xFF) - 64).astype(np.uint8)
    return values.astype(KINDS[kind][0])


def matrices(n: int, kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole numbers for A [64, k], B [n, k] and C [64, n]; sums of theirs are exact in every type."""
    generator = np.random.default_rng(seed)
    low = 0 if kind == "u8" else -3
    k = 32 // encoded(np.zeros(1), kind).itemsize
    a, b = (generator.integers(low, 4, (rows, k)) for rows in (64, n))
    return a, b, generator.integers(-20, 21, (64, n))


def multiply(
    kinds: tuple[str, str, str], n: int, swizzles=(0, 0), transposed=(False, False), registers: bool = False,
    scales: str = ", 1, 1", keep: str = "%p1", seed: int | None = None,
):  # fmt: skip
    """One product; returns the execution and the expected accumulators."""
    kind, b_kind, sum_kind = kinds
    a, b, c = matrices(n, kind)
    a_bits, b_bits = encoded(a, kind), encoded(b, b_kind)
    size = a_bits.itemsize
    left = Layout(64, size, swizzles[0], transposed[0])
    right = Layout(n, size, swizzles[1], transposed[1], start=8192)
    tile = np.zeros(40960, np.uint8)
    left.put(tile, a_bits)
    right.put(tile, b_bits)
    k = 32 // size
    sums = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[sum_kind]
    count = n * np.dtype(sums).itemsize // 8
    form = f"k{k}.{sum_kind}.{kind}.{b_kind}"
    rest = scales if sum_kind != "s32" else ""
    if kind in ("f16", "bf16"):
        rest += ("" if registers else f", {int(transposed[0])}") + f", {int(transposed[1])}"
    text = product(form, n, None if registers else left.descriptor(), right.descriptor(), rest, count, keep)
    result = run(f"{FENCE} {text} {WAIT}", tile, accumulators(c.astype(sums)), fragments(a_bits), seed=seed)
    signs = [int(s) for s in scales.split(",")[1:]]
    exact = a @ b.T * signs[0] * signs[1] + (c if keep == "%p1" else 0)
    return result, accumulators(exact.astype(sums)), k


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_layout_of_both_operands(shape) -> None:
    n, a_swizzle, b_swizzle, a_transposed, b_transposed = shape
    result, expected, k = multiply(("f16", "f16", "f32"), n, (a_swizzle, b_swizzle), (a_transposed, b_transposed))
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], expected)
    assert (result.total.tensor_instructions, result.total.tensor_multiply_adds) == (4, 64 * n * k)
    # As Nsight Compute counts them on an H200: every 128 bytes of A and B once.
    assert (result.total.warpgroup_read_requests, result.total.warpgroup_read_wavefronts) == (4, 16 + n // 4)


@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize(
    "kinds",
    [
        ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"), ("e4m3", "e4m3", "f32"),
        ("e4m3", "e5m2", "f16"), ("e5m2", "e4m3", "f32"), ("s8", "s8", "s32"), ("u8", "s8", "s32"),
    ],
    ids="-".join,
)  # fmt: skip
def test_every_type_from_both_sources(kinds, registers) -> None:
    result, expected, _ = multiply(kinds, 16, (1, 3), registers=registers)
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], expected)
    assert result.total.warpgroup_read_wavefronts == (4 if registers else 20)


@pytest.mark.parametrize("registers", [False, True])
def test_products_of_single_bits(registers) -> None:
    """popc of the AND of rows of 256 bits, the first one lowest in its byte."""
    generator = np.random.default_rng(1)
    a, b = generator.integers(0, 2, (64, 256)), generator.integers(0, 2, (16, 256))
    c = generator.integers(-20, 21, (64, 16)).astype(np.int32)
    a_bits, b_bits = (np.packbits(x.astype(np.uint8), axis=1, bitorder="little") for x in (a, b))
    left, right = Layout(64, 1, 1), Layout(16, 1, 3, start=8192)
    tile = np.zeros(16384, np.uint8)
    left.put(tile, a_bits)
    right.put(tile, b_bits)
    form, descriptors = "k256.s32.b1.b1.and.popc", (None if registers else left.descriptor(), right.descriptor())
    text = product(form, 16, *descriptors, "", 8)
    result = run(f"{FENCE} {text} {WAIT}", tile, accumulators(c), fragments(a_bits))
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], accumulators((a @ b.T + c).astype(np.int32)))
    assert (result.total.tensor_instructions, result.total.tensor_multiply_adds) == (4, 64 * 16 * 256)


@pytest.mark.parametrize("scales", [", -1, 1", ", 1, -1", ", -1, -1"])
def test_negated_operands_and_a_fresh_sum(scales) -> None:
    result, expected, _ = multiply(("f16", "f16", "f32"), 8, scales=scales, keep="%p2")
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], expected)
    result, expected, _ = multiply(("f16", "f16", "f32"), 8, scales=scales, registers=True)
    assert np.array_equal(result.outputs["d"], expected)


# Registers in flight


def small(body: str, **options):
    """A body with %d1, %d2 and products of f16 with n = 8; returns the execution, A B of the tile's matrices and C."""
    a, b, c = matrices(8, "f16", 4)
    left, right = Layout(64, 2, 1), Layout(8, 2, 0, start=8192)
    tile = np.zeros(10240, np.uint8)
    left.put(tile, a.astype(np.float16))
    right.put(tile, b.astype(np.float16))
    one = product("k16.f32.f16.f16", 8, left.descriptor(), right.descriptor(), ", 1, 1, 0, 0", 4)
    other = one.replace("%r10", "%r20")
    from_registers = product("k16.f32.f16.f16", 8, None, right.descriptor(), ", 1, 1, 0", 4)
    values = {"one": one, "other": other, "registers": from_registers, "fence": FENCE, "wait": WAIT}
    values["commit"] = "wgmma.commit_group.sync.aligned;"
    body = "\n".join(line.strip().format(**values) for line in body.strip().splitlines())
    result = run(body, tile, accumulators(c.astype(np.float32)), fragments(a.astype(np.float16)), **options)
    return result, a @ b.T, c


def sums(matrix: np.ndarray) -> np.ndarray:
    return accumulators(matrix.astype(np.float32))


def line_of(result, text: str) -> int:
    """Lines cannot be told apart by .loc here, so findings carry line 0 and name their PTX instead."""
    return sum(text in f.message for f in result.findings)


def test_a_chain_of_products_and_groups() -> None:
    result, ab, c = small("{fence}\n{one}\n{one}\n{commit}\n{one}\n{wait}")
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], sums(3 * ab + c))


@pytest.mark.parametrize(("waits", "drains"), [((0,), 1), ((1, 0), 1), ((0, 0), 2), ((1, 1), 0)], ids=str)
def test_waits_that_leave_nothing_on_its_way_are_counted_for_each_warp(waits: tuple[int, ...], drains: int) -> None:
    steps = "".join(f"\n{{one}}\n{{commit}}\nwgmma.wait_group.sync.aligned {pending};" for pending in waits)
    result, _, _ = small("{fence}" + steps)
    assert result.total.warpgroup_drains == 4 * drains


def test_without_a_wait_sums_are_old_and_it_is_found() -> None:
    result, _, c = small("{fence}\n{one}\n{commit}")
    assert np.array_equal(result.outputs["d"], sums(c))
    assert {f.kind for f in result.findings} == {FindingKind.RACE}
    assert "still uses" in result.findings[0].message and "put wgmma.wait_group before" in result.findings[0].message


def test_products_that_are_not_committed_are_not_waited_for() -> None:
    result, _, _ = small("{fence}\n{one}\nwgmma.wait_group.sync.aligned 0;")
    assert "put wgmma.commit_group after the products" in result.findings[0].message


def test_waiting_for_all_but_the_youngest_group() -> None:
    second = "mov.b32 %r200, 0; mov.b32 %r201, 0; mov.b32 %r202, 0; mov.b32 %r203, 0;"
    result, ab, c = small(
        f"{second}\n{{fence}}\n{{one}}\n{{commit}}\n{{other}}\n{{commit}}\nwgmma.wait_group.sync.aligned 1;"
    )
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], sums(ab + c))
    late = "wgmma.wait_group.sync.aligned 1;\n" + "".join(f"mov.b32 %r10{i}, %r20{i};\n" for i in range(4))
    result, ab, c = small(f"{second}\n{{fence}}\n{{one}}\n{{commit}}\n{{other}}\n{{commit}}\n{late}")
    assert result.findings and "still uses" in result.findings[0].message
    assert "with fewer groups left in flight" in result.findings[0].message
    result, ab, c = small(
        f"{second}\n{{fence}}\n{{one}}\n{{commit}}\n{{other}}\n{{commit}}\n{late}wgmma.wait_group.sync.aligned 0;"
    )
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], sums(ab))


def test_moves_between_products_follow_the_queue() -> None:
    there = "".join(f"mov.b32 %r20{i}, %r10{i}; " for i in range(4))
    back = "".join(f"mov.b32 %r10{i}, %r20{i}; " for i in range(4))
    for seed in (None, 1, 2, 3):
        result, ab, c = small(f"{{fence}}\n{{one}}\n{there}\n{{other}}\n{back}\n{{one}}\n{{wait}}", seed=seed)
        assert result.findings == ()
        assert np.array_equal(result.outputs["d"], sums(3 * ab + c))


def test_a_register_of_a_changed_before_the_wait() -> None:
    result, ab, c = small("{fence}\n{registers}\n{commit}\nadd.s32 %r10, %r10, 1;\nwgmma.wait_group.sync.aligned 0;")
    assert np.array_equal(result.outputs["d"], sums(ab + c))  # read when it was issued
    (finding,) = result.findings
    assert finding.kind is FindingKind.RACE and "writes a register" in finding.message


def test_a_missing_fence() -> None:
    result, _, _ = small("{one}\n{wait}")
    assert "first wgmma without wgmma.fence" in result.findings[0].message
    result, _, _ = small("{fence}\n{one}\n{wait}\nadd.f32 %r100, %r100, %r101;\n{one}\n{wait}")
    (finding,) = result.findings
    assert finding.kind is FindingKind.RACE and "no wgmma.fence between" in finding.message
    result, _, _ = small("{fence}\n{one}\n{wait}\nadd.f32 %r100, %r100, %r101;\n{fence}\n{one}\n{wait}")
    assert result.findings == ()
    result, _, _ = small("{fence}\n{one}\n{wait}\nmov.f32 %r100, 0f00000000;\n{one}\n{wait}")
    assert result.findings == ()


def test_an_operand_overwritten_before_the_wait() -> None:
    change = "bar.sync 0;\nst.shared.b32 [%r7], %r1;\nbar.sync 0;"
    result, _, _ = small(f"{{fence}}\n{{one}}\n{{commit}}\n{change}\nwgmma.wait_group.sync.aligned 0;")
    assert {f.kind for f in result.findings} == {FindingKind.RACE}
    assert "overwrote before wgmma.wait_group" in result.findings[0].message
    assert result.findings[0].array == "shared array tile"
    result, _, _ = small(f"{{fence}}\n{{one}}\n{{wait}}\n{change}")
    assert result.findings == ()


# The four warps of a warpgroup

SEEDS = (None, *range(1, 9))
LATE_WARP = """setp.ne.u32 %p3, %r2, 3;
@%p3 bra READY;
mov.u32 %r9, 0;
LATE:
add.u32 %r9, %r9, 1;
setp.lt.u32 %p3, %r9, 6000;
@%p3 bra LATE;
READY:"""
OVERWRITE = "st.shared.v4.b32 [%r7], {{%r1, %r1, %r1, %r1}};\nst.shared.v4.b32 [%r7 + 8192], {{%r1, %r1, %r1, %r1}};"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wait_of_one_warp_is_for_all_four(seed) -> None:
    """As on an H200: what three warps overwrite after their wait the product of the late fourth sees as it was."""
    result, ab, c = small(f"{LATE_WARP}\n{{fence}}\n{{one}}\n{{wait}}\n{OVERWRITE}", seed=seed)
    assert np.array_equal(result.outputs["d"], sums(ab + c))
    assert result.findings == ()


MBARRIER = """.shared .align 8 .b64 done;
mov.u32 %r8, done;
setp.eq.u32 %p3, %r1, 0;
@%p3 mbarrier.init.shared.b64 [%r8], 1;
bar.sync 0;"""
ONE_WAITS = f"""{MBARRIER}
{{fence}}
{{one}}
{{commit}}
setp.ne.u32 %p3, %r2, 0;
@%p3 bra OTHERS;
{{first}}
setp.eq.u32 %p3, %r1, 0;
@%p3 mbarrier.arrive.shared.b64 _, [%r8];
bra JOIN;
OTHERS:
AGAIN:
mbarrier.try_wait.parity.shared.b64 %p3, [%r8], 0;
@!%p3 bra AGAIN;
{OVERWRITE}
JOIN:
wgmma.wait_group.sync.aligned 0;"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_release_after_one_warps_wait_covers_what_all_four_read(seed) -> None:
    """As pipelines do: one warp waits and hands the tile back, others learn of it by an mbarrier and overwrite it."""
    result, ab, c = small(ONE_WAITS.replace("{first}", "wgmma.wait_group.sync.aligned 0;"), seed=seed)
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], sums(ab + c))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_release_before_the_wait_covers_nothing(seed) -> None:
    result, _, _ = small(ONE_WAITS.replace("{first}", ""), seed=seed)
    assert {f.kind for f in result.findings} == {FindingKind.RACE}
    assert any("overwrote before wgmma.wait_group" in f.message for f in result.findings)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wait_of_another_warp_does_not_free_ones_own_sums(seed) -> None:
    early = "setp.ne.u32 %p3, %r2, 0;\n@%p3 bra OTHERS;\nwgmma.wait_group.sync.aligned 0;\nOTHERS:\nbar.sync 0;"
    result, _, _ = small(f"{{fence}}\n{{one}}\n{{commit}}\n{early}", seed=seed)
    assert result.findings and all("reads a register that a wgmma still uses" in f.message for f in result.findings)
    assert all(f.thread[0] // 32 != 0 for f in result.findings)


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_for_the_older_group_leaves_the_younger_ones_operands(seed) -> None:
    older = "{fence}\n{one}\n{commit}\n{other}\n{commit}\nwgmma.wait_group.sync.aligned 1;\n"
    start = "mov.b32 %r200, 0; mov.b32 %r201, 0; mov.b32 %r202, 0; mov.b32 %r203, 0;\n"
    last = "\nwgmma.wait_group.sync.aligned 0;"
    result, ab, c = small(start + older + "bar.sync 0;" + last, seed=seed)
    assert result.findings == () and np.array_equal(result.outputs["d"], sums(ab + c))
    result, _, _ = small(start + older + "bar.sync 0;\n" + OVERWRITE + last, seed=seed)
    assert any("overwrote before wgmma.wait_group" in f.message for f in result.findings)


def test_a_product_by_part_of_a_warpgroup() -> None:
    skip = "setp.lt.u32 %p3, %r2, 3;\n@!%p3 bra SKIP;\n{fence}\n{one}\n{wait}\nSKIP:"
    for seed in SEEDS:
        result, _, _ = small(skip, seed=seed)
        (finding,) = result.findings
        assert finding.kind is FindingKind.DIVERGENT_BARRIER and "not all four warps" in finding.message
        assert "warps 0, 1 and 2 would wait there for warp 3" in finding.message
        assert finding.thread == (96, 0, 0)
    result, _, _ = small("add.s64 %d3, %d3, 1;\n{fence}\n{one}\n{wait}", threads=96)
    assert "whole warps" in result.findings[0].message


def test_a_warp_that_waits_for_the_three_others_of_its_warpgroup() -> None:
    barrier = "setp.lt.u32 %p3, %r2, 3;\n@%p3 bra SKIP;\nbar.sync 0;\nSKIP:\n{fence}\n{one}\n{wait}\n"
    result, _, _ = small(barrier + "@!%p3 bra END;\nbar.sync 0;\nEND:")
    assert [f.kind for f in result.findings] == [FindingKind.DIVERGENT_BARRIER]
    assert "warps 0, 1 and 2 would wait there for warp 3" in result.findings[0].message


def test_warps_that_multiply_different_matrices() -> None:
    mixed = "{fence}\n" + "{one}".replace("{one}", "{one}") + "\n{wait}"
    result, _, _ = small(
        mixed.replace("{one}", "setp.eq.u32 %p3, %r2, 3;\n@%p3 bra OTHER;\n{one}\nbra JOIN;\nOTHER:\n{one}\nJOIN:")
    )
    assert {f.kind for f in result.findings} == {FindingKind.DIVERGENT_BARRIER}


def test_an_operand_outside_shared_memory() -> None:
    a, b, c = matrices(8, "f16")
    tile = np.zeros(4096, np.uint8)
    far = Layout(64, 2, 1, start=65536).descriptor()
    text = product("k16.f32.f16.f16", 8, far, Layout(8, 2).descriptor(), ", 1, 1, 0, 0", 4)
    result = run(f"{FENCE} {text} {WAIT}", tile, sums(c))
    assert {f.kind for f in result.findings} == {FindingKind.OUT_OF_BOUNDS}
    assert np.array_equal(result.outputs["d"], sums(c))


# What an H200 gives

DATA = CHECKOUT / "corpus" / "tensor"
DESCRIPTORS = dict(np.load(DATA / "wgmma_descriptors.npz"))
FORMS = dict(np.load(DATA / "wgmma_forms.npz"))


@numba.njit
def pieces_of(descriptor, transposed, rows):
    """The addresses of all pieces of a matrix."""
    return np.array([nth_piece(descriptor, transposed, 0, rows, i) for i in range(2 * rows)])


@pytest.mark.parametrize("sample", sorted({name.rpartition("_")[0] for name in DESCRIPTORS}))
def test_random_descriptors_name_the_bytes_that_the_gpu_reads(sample) -> None:
    """Descriptors of every swizzle with any start, offsets and base offset; products of small numbers are exact."""
    kind, transposed = sample.split("_")
    element, n = {"f16": (2, 136), "s8": (1, 144), "tf32": (4, 136)}[kind]
    image, a, b, crc = (DESCRIPTORS[f"{sample}_{part}"] for part in ("image", "a", "b", "crc"))
    t = 16 // element

    def matrix(descriptor: int, rows: int, across: bool) -> np.ndarray:
        # The tile started at 1024 on the GPU, and so does the image's first byte here.
        starts = pieces_of(np.int64(descriptor + np.uint64(BASE >> 4)), across, rows) - BASE
        pieces = image[starts[:, None] // element + np.arange(t)].astype(np.int64)
        return pieces.reshape(16, rows).T if across else pieces.reshape(rows, 2 * t)

    for i in range(len(crc)):
        left, right = matrix(a[i], 64, transposed[0] == "1"), matrix(b[i], n, transposed[1] == "1")
        assert zlib.crc32((left @ right.T).astype(np.int16).tobytes()) == crc[i], (sample, i)


@pytest.mark.parametrize("sample", sorted({name.rpartition("_")[0] for name in FORMS}))
def test_negation_and_integers_as_the_gpu_computes_them(sample) -> None:
    kinds, result_kind, *scales = sample.split("_")
    a, b, c, d = (FORMS[f"{sample}_{part}"] for part in "abcd")
    sum_kind, _, modifier = result_kind.partition(".")
    k = {"f16": 16, "bf16": 16, "tf32": 8}.get(kinds.split(".")[0], 32)
    rest = "" if sum_kind == "s32" else f", {scales[0]}, {scales[1]}"
    rest += ", 0" if k == 16 else ""
    descriptor = BASE >> 4 | 8 << 16 | 8 << 32
    form = f"k{k}{'.' if modifier else ''}{modifier}.{sum_kind}.{kinds}"
    text = product(form, 8, None, descriptor, rest, len(c))
    result = run(f"{FENCE} {text} {WAIT}", b.view(np.uint8), c, a)
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], d)


def test_a_target_without_wgmma_is_refused() -> None:
    with pytest.raises(PlanError, match="not part of the target sm_90: compile for sm_90a"):
        small("{fence}\n{one}\n{wait}", target="sm_90")


def test_forms_that_the_hardware_lacks_are_named() -> None:
    for form, n, rest in (
        ("k16.f32.f16.f16", 12, ", 1, 1, 0, 0"),
        ("k32.s32.s8.s8", 40, ""),
        ("k16.f32.f16.f16", 8, ", 2, 1, 0, 0"),
        ("k256.s32.b1.b1", 8, ""),
        ("k256.s32.b1.b1.xor.popc", 8, ""),
    ):
        count = n // 2
        result = run(product(form, n, 0, 0, rest, count), np.zeros(2048, np.uint8), np.zeros((count, 128), np.uint32))
        assert [f.kind for f in result.findings] == [FindingKind.UNSUPPORTED]


# A Numba kernel: two stages, one group in flight while the next slice is stored.

PRODUCT = ptx.wgmma("f16", n=64, b_transposed=True)
WAIT_FOR_OLDER, WAIT_FOR_ALL = ptx.wgmma_wait(1), ptx.wgmma_wait(0)
ZEROS = ptx.zeros(32)


def pipelined(a, b, c):
    left_tile = cuda.shared.array((2, 512, 4), dtype=types.uint32, alignment=1024)
    right_tile = cuda.shared.array((2, 512, 4), dtype=types.uint32, alignment=1024)
    t = cuda.threadIdx.x
    d = ZEROS
    for slice_ in range(a.shape[1] // 32):
        stage = slice_ % 2
        for i in range(t, 512, 128):
            line, piece = i // 8, i % 8
            place = line * 8 + (piece ^ (line % 8))
            for word in range(4):
                left_tile[stage, place, word] = a[line, slice_ * 32 + piece * 4 + word]
                right_tile[stage, place, word] = b[slice_ * 64 + line, piece * 4 + word]
        ptx.fence_proxy_async()
        cuda.syncthreads()
        left = ptx.shared_descriptor(ptx.shared_address(left_tile, stage * 2048), 16, 1024, 1)
        right = ptx.shared_descriptor(ptx.shared_address(right_tile, stage * 2048), 1024, 1024, 1)
        ptx.wgmma_fence()
        for step in range(4):
            d = PRODUCT(d, left + types.uint64(2 * step), right + types.uint64(128 * step), types.uint32(1))
        ptx.wgmma_commit()
        WAIT_FOR_OLDER()
        cuda.syncthreads()
    WAIT_FOR_ALL()
    row = t // 32 * 16 + t % 32 // 4
    for i in range(32):
        c[row + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2] = d[i]


@pytest.mark.parametrize("seed", [None, 5])
def test_a_pipelined_numba_kernel(seed) -> None:
    generator = np.random.default_rng(2)
    a, b = (generator.integers(-4, 5, shape).astype(np.float16) for shape in ((64, 192), (192, 64)))
    values = {"a": a.view(np.uint32), "b": b.view(np.uint32), "c": np.zeros((64, 64), np.float32)}
    plan = numba_plan(pipelined, values, {"c": Role.OUTPUT}, (1,), (128,))
    result = execute(plan, {name: values[name] for name in "ab"}, seed=seed)
    assert result.findings == ()
    assert np.array_equal(result.outputs["c"], a.astype(np.float32) @ b.astype(np.float32))
