"""mma fragments against NumPy by the layouts of the PTX ISA; matrix moves, their counters and their faults."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from tests.emulator.tensor.fragments import G, Place, Q, fragment, halves_a16, halves_b16, run_mma, sums
from warplab.emulator import execute
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role


@dataclass(frozen=True)
class Form:
    """An mma as the PTX ISA writes it: where element i of a, b (row along k) and c lies, and how many a lane has."""

    name: str
    operand: str  # NumPy's name of the bits' type
    sum: str
    shape: tuple[int, int]  # m, k
    a: Place
    a_count: int
    b: Place
    b_count: int


def bytes_a32(i: int) -> tuple[np.ndarray, np.ndarray]:
    return G + 8 * (4 <= i < 8 or i >= 12), 4 * Q + i % 4 + 16 * (i >= 8)


def bytes_b32(i: int) -> tuple[np.ndarray, np.ndarray]:
    return 4 * Q + i % 4 + 16 * (i >= 4), G


def words_a8(i: int) -> tuple[np.ndarray, np.ndarray]:
    return G + 8 * (i % 2), Q + 4 * (i >= 2)


def words_b8(i: int) -> tuple[np.ndarray, np.ndarray]:
    return Q + 4 * i, G


FORMS = (
    Form("m16n8k16.row.col.f32.f16.f16.f32", "float16", "float32", (16, 16), halves_a16, 8, halves_b16, 4),
    Form("m16n8k16.row.col.f16.f16.f16.f16", "float16", "float16", (16, 16), halves_a16, 8, halves_b16, 4),
    Form("m16n8k8.row.col.f32.f16.f16.f32", "float16", "float32", (16, 8), halves_a16, 4, halves_b16, 2),
    Form("m16n8k8.row.col.f16.f16.f16.f16", "float16", "float16", (16, 8), halves_a16, 4, halves_b16, 2),
    Form("m16n8k16.row.col.f32.bf16.bf16.f32", "bfloat16", "float32", (16, 16), halves_a16, 8, halves_b16, 4),
    Form("m16n8k8.row.col.f32.bf16.bf16.f32", "bfloat16", "float32", (16, 8), halves_a16, 4, halves_b16, 2),
    Form("m16n8k8.row.col.f32.tf32.tf32.f32", "float32", "float32", (16, 8), words_a8, 4, words_b8, 2),
    Form("m16n8k4.row.col.f32.tf32.tf32.f32", "float32", "float32", (16, 4), words_a8, 2, words_b8, 1),
    Form("m16n8k32.row.col.s32.s8.s8.s32", "int8", "int32", (16, 32), bytes_a32, 16, bytes_b32, 8),
    Form("m16n8k16.row.col.s32.s8.s8.s32", "int8", "int32", (16, 16), bytes_a32, 8, bytes_b32, 4),
    Form("m8n8k16.row.col.s32.s8.s8.s32", "int8", "int32", (8, 16), lambda i: (G, 4 * Q + i), 4, bytes_b32, 4),
    Form("m16n8k32.row.col.f32.e5m2.e5m2.f32", "e5m2", "float32", (16, 32), bytes_a32, 16, bytes_b32, 8),
    Form("m8n8k4.row.col.f64.f64.f64.f64", "float64", "float64", (8, 4), lambda i: (G, Q), 1, words_b8, 1),
    Form("m16n8k8.row.col.f64.f64.f64.f64", "float64", "float64", (16, 8), words_a8, 4, words_b8, 2),
)


def encoded(values: np.ndarray, kind: str) -> np.ndarray:
    """Small whole numbers in the bits of a type."""
    if kind == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind == "e5m2":
        return (values.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8)
    return values.astype(kind)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_fragments_lie_as_the_isa_says(form: Form) -> None:
    rng = np.random.default_rng(len(form.name))
    m, k = form.shape
    a, b, c = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, 8)), rng.integers(-9, 10, (m, 8))
    count = m // 4
    result = run_mma(
        form.name,
        fragment(encoded(a, form.operand), form.a, form.a_count),
        fragment(encoded(b, form.operand), form.b, form.b_count),
        fragment(c.astype(form.sum), sums, count),
    )
    assert result.findings == ()
    expected = fragment((a @ b + c).astype(form.sum), sums, count)
    assert np.array_equal(result.outputs["d"], expected)
    assert (result.total.tensor_instructions, result.total.tensor_multiply_adds) == (1, m * 8 * k)


@pytest.mark.parametrize("modifier", ["", ".satfinite"])
@pytest.mark.parametrize("kinds", ["s8.u8", "u8.s8", "u8.u8"])
def test_integer_sums_wrap_or_saturate(kinds: str, modifier: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 256, (16, 32), np.uint8), rng.integers(0, 256, (32, 8), np.uint8)
    c = rng.choice(np.array([2**31 - 5, -(2**31) + 5, 0], np.int32), (16, 8))
    first, second = (np.int8 if kind == "s8" else np.uint8 for kind in kinds.split("."))
    exact = a.view(first).astype(np.int64) @ b.view(second).astype(np.int64) + c
    expected = np.clip(exact, -(2**31), 2**31 - 1).astype(np.int32) if modifier else exact.astype(np.int32)
    name = f"m16n8k32.row.col{modifier}.s32.{kinds}.s32"
    result = run_mma(name, fragment(a, bytes_a32, 16), fragment(b, bytes_b32, 8), fragment(c, sums, 4))
    assert np.array_equal(result.outputs["d"], fragment(expected, sums, 4))


def test_doubles_are_fused_along_k() -> None:
    """1 + 2**-53 - 1 keeps its small product only in the order k = 0, 1, 2, 3 with one rounding a step."""
    a, b, c = np.zeros((8, 4)), np.ones((4, 8)), np.zeros((8, 8))
    a[:] = [1 + 2.0**-52, 2.0**-53, -1, 0]
    expected = ((a[0, 0] + a[0, 1]) + a[0, 2]) + a[0, 3]
    result = run_mma(
        "m8n8k4.row.col.f64.f64.f64.f64",
        fragment(a, lambda i: (G, Q), 1), fragment(b, words_b8, 1), fragment(c, sums, 2),
    )  # fmt: skip
    assert np.array_equal(result.outputs["d"].view(np.float64), np.full((2, 32), expected))


def test_mma_by_half_a_warp_is_a_finding() -> None:
    a, b, c = (np.zeros((n, 32), np.uint32) for n in (4, 2, 4))
    result = run_mma("m16n8k16.row.col.f32.f16.f16.f32", a, b, c, lanes="@%p1")
    assert {f.kind for f in result.findings} == {FindingKind.DIVERGENT_BARRIER}


def nibbles(matrix: np.ndarray) -> np.ndarray:
    """Rows [r, k] of 4-bit numbers as what each lane holds: eight neighbours of row g, then g + 8, then 32 further."""
    rows, depth = matrix.shape
    words = []
    for left in range(0, depth, 32):
        for top in range(0, rows, 8):
            parts = [(matrix[top + G, left + 8 * Q + i] & 15).astype(np.uint32) << np.uint32(4 * i) for i in range(8)]
            words.append(np.bitwise_or.reduce(parts))
    return np.stack(words)


@pytest.mark.parametrize("modifier", ["", ".satfinite"])
@pytest.mark.parametrize("kinds", ["s4.s4", "u4.s4", "s4.u4", "u4.u4"])
@pytest.mark.parametrize("shape", [(8, 32), (16, 32), (16, 64)])
def test_products_of_four_bits(shape, kinds: str, modifier: str) -> None:
    rng = np.random.default_rng(7)
    m, k = shape
    ranges = [(-8, 8) if kind == "s4" else (0, 16) for kind in kinds.split(".")]
    a, b = (rng.integers(*limits, (rows, k)) for limits, rows in zip(ranges, (m, 8), strict=True))
    c = rng.choice(np.array([2**31 - 5, -(2**31) + 5, 0], np.int32), (m, 8))
    exact = a @ b.T + c.astype(np.int64)
    expected = np.clip(exact, -(2**31), 2**31 - 1) if modifier else exact
    name = f"m{m}n8k{k}.row.col{modifier}.s32.{kinds}.s32"
    result = run_mma(name, nibbles(a), nibbles(b), fragment(c, sums, m // 4))
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], fragment(expected.astype(np.int32), sums, m // 4))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m16n8k16.row.col.f32.f16.bf16.f32", "this shape and these types of tensor-core products"),
        ("m16n8k512.row.col.s32.b1.b1.s32.xor.popc", "this shape of products of single bits"),
        ("m16n8k256.row.col.s32.b1.b1.s32", "this shape of products of single bits"),
        ("m16n8k32.row.col.s32.s8.s8.s32.and.popc", "this shape and these types"),
        ("m16n8k64.row.col.s32.s4.s8.s32", "this shape of 4-bit products"),
    ],
)
def test_a_product_that_is_not_modelled_is_named(name: str, words: str) -> None:
    a, b, c = (np.zeros((n, 32), np.uint32) for n in (4, 2, 4))
    (finding,) = run_mma(name, a, b, c).findings
    assert finding.kind is FindingKind.UNSUPPORTED and words in finding.message


MOVE = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1) {{
    .reg .b32 %r<16>; .reg .b64 %rd<9>;
    .shared .align 128 .b8 tile[512];
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd1];
    mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r1, 16, %r2;
    {body}
    st.global.v4.b32 [%rd2], {{%r4, %r5, %r6, %r7}};
    ret;
}}"""
PUT = "st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;"
GET = "bar.warp.sync -1; ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];"


def move(body: str, words: np.ndarray) -> Execution:
    """Each lane's four words to its four registers, `body`, and back."""
    buffers = {"a": buffer("a", words, Role.INPUT), "out": buffer("out", words, Role.OUTPUT)}
    plan = plan_of(MOVE.format(body=body), "k", buffers, (Pointer("a"), Pointer("out")), (1,), (32,))
    return execute(plan, {"a": words})


def words_of_lanes() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 2**32, (32, 4), np.uint32)


def registers(matrices: np.ndarray) -> np.ndarray:
    """Four 8 x 8 matrices of 16 bits as the lanes' registers: [lane, matrix]."""
    return np.ascontiguousarray(matrices).view(np.uint32).reshape(4, 32).T


def test_ldmatrix_fills_fragments() -> None:
    words = words_of_lanes()
    matrices = words.view(np.uint16).reshape(4, 8, 8)
    for form, expected in (
        ("m8n8.x4.shared.b16", matrices),
        ("m8n8.x4.trans.shared.b16", matrices.transpose(0, 2, 1)),
        ("x4.m8n8.shared.b16", matrices),
        ("x4.trans.m8n8.shared::cta.b16", matrices.transpose(0, 2, 1)),
    ):
        load = f"ldmatrix.sync.aligned.{form} {{%r4, %r5, %r6, %r7}}, [%r3];"
        result = move(PUT + load, words)
        assert result.findings == ()
        assert np.array_equal(result.outputs["out"], registers(expected))
        assert (result.total.matrix_load_wavefronts, result.total.matrix_load_bank_conflicts) == (4, 0)


@pytest.mark.parametrize("form", ["m8n8.x4", "x4.m8n8", "m8n8.x4.trans", "x4.trans.m8n8"])
def test_stmatrix_undoes_ldmatrix(form: str) -> None:
    words = words_of_lanes()
    transposed = "trans" in form
    store = f"stmatrix.sync.aligned.{form}.shared.b16 [%r3], {{%r4, %r5, %r6, %r7}};"
    result = move(store + GET, words)
    assert result.findings == ()
    matrices = np.ascontiguousarray(words.T).view(np.uint16).reshape(4, 8, 8)
    matrices = matrices.transpose(0, 2, 1) if transposed else matrices
    assert np.array_equal(result.outputs["out"].view(np.uint16).reshape(4, 8, 8), matrices)
    assert (result.total.matrix_store_wavefronts, result.total.matrix_store_bank_conflicts) == (4, 0)


LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];"
STORE = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r4, %r5, %r6, %r7};"


@pytest.mark.parametrize("body", [PUT + LOAD, STORE + GET])
def test_moving_matrices_does_not_order_memory(body: str) -> None:
    """PTX ISA: their .sync has the lanes of the warp wait for each other, and says nothing of memory."""
    (finding,) = move(body.replace("bar.warp.sync -1;", ""), words_of_lanes()).findings
    assert finding.kind is FindingKind.RACE and "__syncwarp()" in finding.message
    assert move(body, words_of_lanes()).findings == ()


def test_rows_of_one_stmatrix_at_one_address() -> None:
    words = words_of_lanes()
    body = f"{{ mov.u32 %r8, tile; and.b32 %r2, %r1, 28; mad.lo.u32 %r3, %r2, 16, %r8; {STORE} }}"
    (finding,) = move(body, words).findings
    assert finding.kind is FindingKind.RACE and "by the same store, with another value" in finding.message
    assert move(body, np.zeros_like(words)).findings == ()


def test_lanes_that_have_ended_take_no_part_in_moving_matrices() -> None:
    early = "setp.gt.u32 %p1, %r1, 27; @%p1 ret;"
    for threads_leave in (PUT + early + LOAD, PUT + early + STORE):
        body = "{ .reg .pred %p1; " + threads_leave + " }"
        found = {finding.message.split(":")[0] for finding in move(body, words_of_lanes()).findings}
        assert any("by all threads of a warp together, but 4 do not take part" in words for words in found)


def test_movmatrix_transposes_in_registers() -> None:
    words = words_of_lanes()
    result = move("movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r4;", words)
    matrix = np.ascontiguousarray(words[:, 0]).view(np.uint16).reshape(8, 8)
    assert np.array_equal(result.outputs["out"][:, 1], np.ascontiguousarray(matrix.T).view(np.uint32).ravel())


def test_ldmatrix_of_an_unaligned_row_and_of_unwritten_memory() -> None:
    load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3 + 8];"
    result = move(PUT + load, words_of_lanes())
    assert {f.kind for f in result.findings} == {FindingKind.MISALIGNED}
    result = move(load.replace(" + 8", ""), words_of_lanes())
    assert {f.kind for f in result.findings} == {FindingKind.UNINITIALISED}
    assert result.findings[0].array == "shared array tile"
