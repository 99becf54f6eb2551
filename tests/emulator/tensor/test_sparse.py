"""mma.sp: a sparse a written out in full and multiplied by NumPy; what is refused, and in which words.

The corpus has every shape, type and selector (corpus/emulator/catalogue/tensor_forms.py).
"""

from __future__ import annotations

import numpy as np
import pytest

from corpus.tensor import probe, sparse_probe
from tests.emulator.plans import buffer, compile_cuda, plan_of
from tests.emulator.products import product
from tests.emulator.tensor.fragments import fragment, halves_a16, halves_b16, run_mma, sums
from warplab.emulator import execute
from warplab.emulator.core.tensor.numerics import rule_number
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role

pytestmark = pytest.mark.stored


def run_sparse(opcode: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, e: np.ndarray, last: str) -> Execution:
    """One warp, one mma.sp on registers [register, lane]; `last` is the selector's operand."""
    lines, names = [], []
    for number, array in enumerate((a, b, c, e)):
        names.append([f"%r{10 * number + i}" for i in range(len(array))])
        lines += [f"ld.global.b32 {n}, [%a{number} + {i * 128}];" for i, n in enumerate(names[-1])]
    packs = ", ".join("{" + ", ".join(names[n]) + "}" for n in (2, 0, 1, 2))
    stores = [f"st.global.b32 [%a4 + {i * 128}], {n};" for i, n in enumerate(names[2])]
    places = [f"ld.param.u64 %a{n}, [p{n}]; add.s64 %a{n}, %a{n}, %a9;" for n in range(5)]
    ptx = f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4) {{
    .reg .b32 %r<50>; .reg .b64 %a<10>;
    mov.u32 %r49, %tid.x; mul.wide.u32 %a9, %r49, 4;
    {" ".join(places)} {" ".join(lines)}
    {opcode} {packs}, %r30, {last};
    {" ".join(stores)}
    ret;
}}"""
    arrays = {"a": a, "b": b, "c": c, "e": e, "d": np.zeros_like(c)}
    buffers = {n: buffer(n, x, Role.OUTPUT if n == "d" else Role.INPUT) for n, x in arrays.items()}
    plan = plan_of(ptx, "k", buffers, tuple(Pointer(n) for n in buffers), (1,), (32,))
    return execute(plan, {n: arrays[n] for n in "abce"})


def thinned(depth: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """For 16 rows which two of every four columns are stored, in order: columns [row, depth / 2] and words of metadata
    [row, half of the row]: 16 bits for every 16 columns, the first column's lowest."""
    generator = np.random.default_rng(seed)
    places = np.sort(np.argsort(generator.random((16, depth // 4, 4)), axis=2)[:, :, :2], axis=2)
    columns = (places + 4 * np.arange(depth // 4)[None, :, None]).reshape(16, depth // 2)
    fields = places.reshape(16, depth // 16, 8) << 2 * np.arange(8)
    return columns, fields.sum(axis=2).astype(np.uint32)


def metadata_of_halves(words: np.ndarray, selector: int) -> np.ndarray:
    """Registers of the lanes, for operands of 16 bits: row g in the low half, row g + 8 in the high one."""
    lanes = np.full(32, 0xFFFFFFFF, np.uint32)  # those of lanes that are not asked would name no two elements
    for piece in range(words.shape[1]):
        lanes[np.arange(8) * 4 + selector * words.shape[1] + piece] = words[:8, piece] | words[8:, piece] << 16
    return lanes[None]


@pytest.mark.parametrize("selector", [0, 3])
def test_a_sparse_product_is_that_of_the_matrix_in_full(selector: int) -> None:
    """Ordinary floats: with the same products in one step, zeros change nothing, so the dense mma gives the same."""
    generator = np.random.default_rng(selector)
    columns, words = thinned(16, selector)
    stored = generator.standard_normal((16, 8)).astype(np.float16)
    full = np.zeros((16, 16), np.float16)
    np.put_along_axis(full, columns, stored, axis=1)
    b = generator.standard_normal((16, 8)).astype(np.float16)
    c = fragment(generator.standard_normal((16, 8)).astype(np.float32), sums, 4)
    form = "m16n8k16.row.col.f32.f16.f16.f32"
    dense = run_mma(form, fragment(full, halves_a16, 8), fragment(b, halves_b16, 4), c)
    sparse = run_sparse(
        f"mma.sp.sync.aligned.{form}",
        fragment(stored, halves_a16, 4),
        fragment(b, halves_b16, 4),
        c,
        metadata_of_halves(words, selector),
        str(selector),
    )
    assert dense.findings == sparse.findings == ()
    assert np.array_equal(sparse.outputs["d"], dense.outputs["d"])
    assert (sparse.total.tensor_instructions, sparse.total.tensor_multiply_adds) == (1, 16 * 8 * 8)


@pytest.mark.parametrize(
    ("opcode", "counts", "last", "words"),
    [
        ("mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32", (4, 4, 4), "0", "sparse products of 8-bit floats"),
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", (4, 4, 4), "2", "or this selector"),
        ("mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32", (4, 4, 4), "1", "or this selector"),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (2, 2, 4), "%r30", "or this selector"),
        ("mma.sp.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", (2, 2, 4), "0", "this shape"),
        ("mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.f16.s32", (2, 2, 4), "0", "these types"),
    ],
)
def test_what_is_not_taken_is_named(opcode: str, counts: tuple[int, int, int], last: str, words: str) -> None:
    a, b, c, e = (np.zeros((n, 32), np.uint32) for n in (*counts, 1))
    (finding,) = run_sparse(opcode, a, b, c, e, last).findings
    assert finding.kind is FindingKind.UNSUPPORTED and words in finding.message


def modelled(instruction: sparse_probe.SparseInstruction, a, b, c, columns) -> np.ndarray:
    """What the emulator's rule makes of tiles: each row of a meets the rows of b that it has elements for."""
    rule = rule_number("sm_90a", "mma", instruction.operand, instruction.operand, instruction.accumulator)
    d = np.zeros_like(c)
    for tile in range(len(a)):
        for row in range(16):
            met, one = b[tile][:, columns[tile, row]], slice(row, row + 1)
            d[tile, one] = product(a[tile, one], met, c[tile, one], rule)
    return d


def drawn(instruction: sparse_probe.SparseInstruction, family: str, tiles: int) -> tuple[np.ndarray, ...]:
    """a, b, c and the columns of a, of a family of `corpus.tensor.probe.patterns`."""
    generator = np.random.default_rng(11)
    shapes = ((tiles, 16, instruction.stored), (tiles, 8, instruction.k), (tiles, 16, 8))
    kinds = (instruction.operand, instruction.operand, instruction.accumulator)
    a, b, c = (probe.patterns(k, s, family, generator) for k, s in zip(kinds, shapes, strict=True))
    if family in ("any", "tiny", "huge"):  # else every sum would have a NaN or be c alone
        c[::2] = probe.patterns(instruction.accumulator, c[::2].shape, "near", generator)
    return a, b, c, sparse_probe.places(instruction, tiles, generator)


@pytest.mark.parametrize("instruction", sparse_probe.instructions(), ids=str)
def test_the_probe_of_the_gpu_says_what_the_emulator_reads(instruction) -> None:
    """One of its tiles, by its own PTX and metadata, on the emulator."""
    a, b, c, columns = drawn(instruction, "near", 1)
    words = [np.ascontiguousarray(x).view(np.uint32).reshape(-1) for x in (a, b, c)]
    arrays = dict(zip("abc", words, strict=True)) | {"e": sparse_probe.metadata(instruction, columns)[0]}
    arrays |= {"d": np.zeros_like(words[2])}
    ptx = compile_cuda(sparse_probe.source(instruction))
    buffers = {n: buffer(n, x, Role.OUTPUT if n == "d" else Role.INPUT) for n, x in arrays.items()}
    plan = plan_of(ptx, "probe", buffers, tuple(Pointer(n) for n in buffers), (1,), (32,))
    result = execute(plan, {n: arrays[n] for n in "abce"})
    assert result.findings == ()
    expected = modelled(instruction, a, b, c, columns)
    assert np.array_equal(result.outputs["d"], np.ascontiguousarray(expected).view(np.uint32).reshape(-1))


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["any", "near", "edges", "zeros", "tiny", "huge"])
@pytest.mark.parametrize("instruction", sparse_probe.instructions(), ids=str)
def test_equals_the_gpu_at_hand(instruction, family) -> None:
    """Hopper only: sums of a sparse matrix follow the rule of a dense one with the products that are stored."""
    import cupy

    if cupy.cuda.Device().compute_capability != "90":
        pytest.skip("the rule is Hopper's")
    a, b, c, columns = drawn(instruction, family, 200)
    np.testing.assert_array_equal(
        modelled(instruction, a, b, c, columns), sparse_probe.run(instruction, a, b, c, columns)
    )
