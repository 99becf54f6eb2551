"""wmma: loads in both layouts, products of every shape and type, stores, against NumPy on whole numbers."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from autograder.spec.lab import CHECKOUT
from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role

SHAPES = {
    "m16n16k16": (16, 16, 16),
    "m8n32k16": (8, 32, 16),
    "m32n8k16": (32, 8, 16),
    "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4),
    "m8n8k32": (8, 8, 32),
}
DTYPES = {"f16": np.float16, "tf32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "f32": np.float32,
          "s32": np.int32}  # fmt: skip
FORMS = [
    *((shape, kind, sums) for shape in ("m16n16k16", "m8n32k16", "m32n8k16") for kind, sums in
      (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("s8", "s32"), ("u8", "s32"))),
    ("m16n16k8", "tf32", "f32"),
    ("m8n8k4", "f64", "f64"),
]  # fmt: skip


def encoded(values: np.ndarray, kind: str) -> np.ndarray:
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(DTYPES[kind])


def laid_out(matrix: np.ndarray, layout: str, gap: int) -> np.ndarray:
    """A matrix in memory, by rows or by columns, with `gap` elements between lines."""
    lines = matrix if layout == "row" else matrix.T
    return np.ascontiguousarray(np.pad(lines, ((0, 0), (0, gap))))


def registers(prefix: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"%{prefix}{first + i}" for i in range(count)) + "}"


def run(shape: str, kind: str, sums: str, layouts: str, gap: int, matrices, space: str = "global") -> Execution:
    """d = a b + c by one warp; layouts of a, b and of c and d as in "row.col.row"."""
    m, n, k = SHAPES[shape]
    a_layout, b_layout, d_layout = layouts.split(".")
    wide = kind == "f64"
    word, prefix = ("b64", "w") if wide else ("b32", "r")
    size = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "tf32": 4, "f64": 8}[kind]
    counts = [8, 8] if kind == "f16" else [max(rows * k * size // 128, 1) if not wide else 1 for rows in (m, n)]
    sum_count = 2 if wide else m * n // (64 if sums == "f16" else 32)
    images = [laid_out(x, layout, gap) for x, layout in zip(matrices, (a_layout, b_layout, d_layout), strict=True)]
    pitch = [x.shape[1] for x in images]
    names = [
        registers(prefix, first, count)
        for first, count in zip((10, 20, 30, 40), (*counts, sum_count, sum_count), strict=True)
    ]
    types = f"{sums}.{sums}" if kind == "f16" else f"{sums}.{kind}.{kind}.{sums}"
    stage = ""
    if space == "shared":
        words = images[0].nbytes // 4
        stage = " ".join(
            f"ld.global.b32 %r1, [%a0 + {4 * i}]; st.shared.b32 [tile + {4 * i}], %r1;" for i in range(words)
        )
        stage += " bar.warp.sync -1; mov.u64 %a0, tile;"
    ptx = f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{
    .reg .b32 %r<60>; .reg .b64 %w<60>; .reg .b64 %a<4>;
    .shared .align 128 .b8 tile[2048];
    ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1]; ld.param.u64 %a2, [p2]; ld.param.u64 %a3, [p3];
    {stage}
    wmma.load.a.sync.aligned.{a_layout}.{shape}.{space}.{kind} {names[0]}, [%a0], {pitch[0]};
    wmma.load.b.sync.aligned.{b_layout}.{shape}.{kind} {names[1]}, [%a1], {pitch[1]};
    wmma.load.c.sync.aligned.{d_layout}.{shape}.global.{sums} {names[2]}, [%a2], {pitch[2]};
    wmma.mma.sync.aligned.{a_layout}.{b_layout}.{shape}.{types} {names[3]}, {names[0]}, {names[1]}, {names[2]};
    wmma.store.d.sync.aligned.{d_layout}.{shape}.global.{sums} [%a3], {names[3]}, {pitch[2]};
    ret;
}}"""
    arrays = dict(zip("abc", images, strict=True)) | {"d": np.zeros_like(images[2])}
    buffers = {x: buffer(x, array, Role.OUTPUT if x == "d" else Role.INPUT) for x, array in arrays.items()}
    plan = plan_of(ptx, "k", buffers, tuple(Pointer(x) for x in buffers), (1,), (32,))
    return execute(plan, {x: arrays[x] for x in "abc"})


def matrices_of(shape: str, kind: str, sums: str) -> tuple[list[np.ndarray], np.ndarray]:
    m, n, k = SHAPES[shape]
    generator = np.random.default_rng(m * n)
    low = 0 if kind == "u8" else -4
    a, b = generator.integers(low, 5, (m, k)), generator.integers(low, 5, (k, n))
    c = generator.integers(-20, 21, (m, n))
    return [encoded(a, kind), encoded(b, kind), c.astype(DTYPES[sums])], (a @ b + c).astype(DTYPES[sums])


@pytest.mark.parametrize("form", FORMS, ids=".".join)
def test_products_in_every_layout(form) -> None:
    shape, kind, sums = form
    matrices, expected = matrices_of(*form)
    m, n, k = SHAPES[shape]
    for layouts in ("row.col.row", "col.row.col", "row.row.col", "col.col.row"):
        for gap in (0, 8):
            result = run(shape, kind, sums, layouts, gap, matrices)
            assert result.findings == ()
            wanted = laid_out(expected, layouts.split(".")[2], gap)
            got = result.outputs["d"]
            inside = wanted[:, : wanted.shape[1] - gap]
            assert np.array_equal(got[:, : inside.shape[1]], inside), (layouts, gap)
            # The hardware's products have 16 x 8 sums (of doubles 8 x 8), those of tf32 half the depth.
            parts = max(m * n // 128, 1) * (2 if kind == "tf32" else 1)
            assert (result.total.tensor_instructions, result.total.tensor_multiply_adds) == (parts, m * n * k)


def test_a_matrix_in_shared_memory() -> None:
    matrices, expected = matrices_of("m16n16k16", "f16", "f32")
    result = run("m16n16k16", "f16", "f32", "row.col.row", 8, matrices, space="shared")
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"][:, :16], expected)
    assert result.total.shared_load_requests == 4


def test_sums_of_integers_wrap_or_saturate() -> None:
    a, b = np.full((16, 16), 127, np.int8), np.full((16, 16), 127, np.int8)
    c = np.full((16, 16), 2**31 - 1, np.int32)
    result = run("m16n16k16", "s8", "s32", "row.col.row", 0, [a, b, c])
    assert np.array_equal(result.outputs["d"], (c.astype(np.int64) + 16 * 127 * 127).astype(np.int32))


def test_a_form_that_is_not_taken_is_named() -> None:
    matrices, _ = matrices_of("m16n16k16", "f16", "f32")
    result = run("m16n16k16", "f16", "f32", "row.col.row", 0, matrices, space="const")
    assert [f.kind for f in result.findings] == [FindingKind.UNSUPPORTED]


# What an H200 gives: matrices of random numbers, a by rows, b by columns, c and d by rows.

SAMPLES = dict(np.load(CHECKOUT / "corpus" / "tensor" / "wmma.npz"))


@pytest.mark.parametrize("sample", sorted({name.rpartition("/")[0] for name in SAMPLES}))
def test_bits_and_fragments_are_those_of_the_gpu(sample) -> None:
    """Every register of a, b, c and d holds what it holds there (compared by CRC-32), and so does d in memory."""
    shape, kind, d_kind, c_kind, *modifier = sample.split(".")
    arrays = {x.lower(): SAMPLES[f"{sample}/{x}"] for x in "ABCD"}
    wide = kind == "f64"
    word, prefix, size = ("b64", "w", 8) if wide else ("b32", "r", 4)
    parts, first, dumps = {}, 10, []
    for x, part_kind in zip("abcd", (kind, kind, c_kind, d_kind), strict=True):
        count = 8 if part_kind == "f16" and x in "ab" else max(arrays[x].nbytes // (32 * size), 1)
        parts[x] = registers(prefix, first, count)
        for i in range(count):
            dumps.append(f"st.global.{word} [%a4 + {len(dumps) * 32 * size}], %{prefix}{first + i};")
        first += count
    total = len(dumps)
    m, n, k = SHAPES[shape]
    types = f"{d_kind}.{c_kind}" if kind == "f16" else f"{d_kind}.{kind}.{kind}.{c_kind}"
    saturates = "".join(f".{m}" for m in modifier)
    ptx = f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4) {{
    .reg .b32 %r<60>; .reg .b64 %w<60>; .reg .b64 %a<6>;
    ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1]; ld.param.u64 %a2, [p2]; ld.param.u64 %a3, [p3];
    ld.param.u64 %a4, [p4]; mov.u32 %r1, %laneid; mul.wide.u32 %a5, %r1, {size}; add.s64 %a4, %a4, %a5;
    wmma.load.a.sync.aligned.row.{shape}.global.{kind} {parts["a"]}, [%a0], {k};
    wmma.load.b.sync.aligned.col.{shape}.global.{kind} {parts["b"]}, [%a1], {k};
    wmma.load.c.sync.aligned.row.{shape}.global.{c_kind} {parts["c"]}, [%a2], {n};
    wmma.mma.sync.aligned.row.col.{shape}.{types}{saturates} {parts["d"]}, {parts["a"]}, {parts["b"]}, {parts["c"]};
    wmma.store.d.sync.aligned.row.{shape}.global.{d_kind} [%a3], {parts["d"]}, {n};
    {" ".join(dumps)}
    ret;
}}"""
    expected = arrays["d"]
    arrays["d"] = np.zeros_like(expected)
    arrays["f"] = np.zeros((total, 32), np.uint64 if wide else np.uint32)
    buffers = {x: buffer(x, array, Role.OUTPUT if x in "df" else Role.INPUT) for x, array in arrays.items()}
    plan = plan_of(ptx, "k", buffers, tuple(Pointer(x) for x in buffers), (1,), (32,))
    result = execute(plan, {x: arrays[x] for x in "abc"})
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], expected)
    start = 0
    for x, crc in zip("abcd", SAMPLES[f"{sample}/fragments"], strict=True):
        count = parts[x].count("%")
        assert zlib.crc32(result.outputs["f"][start : start + count].tobytes()) == crc, x
        start += count


@pytest.mark.parametrize("kind", ["s4", "u4", "and.popc", "xor.popc"])
def test_products_of_four_bits_and_of_one(kind: str) -> None:
    """Several numbers a byte, the first one lowest; lines of 16 bytes with a gap."""
    generator = np.random.default_rng(4)
    single = kind.endswith("popc")
    low, high, k = (0, 2, 128) if single else (-8, 8, 32) if kind == "s4" else (0, 16, 32)
    a, b = (generator.integers(low, high, (8, k)) for _ in range(2))
    c = generator.integers(-50, 50, (8, 8)).astype(np.int32)
    product = (a[:, None] ^ b[None]).sum(axis=2) if kind == "xor.popc" else a @ b.T
    each, width = (8, 1) if single else (2, 4)
    bits = [np.arange(each) * width for _ in range(2)]
    images = [((x.reshape(8, -1, each) & (1 << width) - 1) << b).sum(axis=2) for x, b in zip((a, b), bits, strict=True)]
    images = [np.pad(image.astype(np.uint8), ((0, 0), (0, 16))) for image in images]
    action, shape, kind, pitch = (f"mma.{kind}", "m8n8k128", "b1", 256) if single else ("mma", "m8n8k32", kind, 64)
    ptx = f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{
    .reg .b32 %r<9>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1]; ld.param.u64 %a2, [p2]; ld.param.u64 %a3, [p3];
    wmma.load.a.sync.aligned.row.{shape}.{kind} {{%r1}}, [%a0], {pitch};
    wmma.load.b.sync.aligned.col.{shape}.{kind} {{%r2}}, [%a1], {pitch};
    wmma.load.c.sync.aligned.row.{shape}.s32 {{%r3, %r4}}, [%a2], 8;
    wmma.{action}.sync.aligned.row.col.{shape}.s32.{kind}.{kind}.s32 {{%r5, %r6}}, {{%r1}}, {{%r2}}, {{%r3, %r4}};
    wmma.store.d.sync.aligned.row.{shape}.s32 [%a3], {{%r5, %r6}}, 8;
    ret;
}}"""
    arrays = {"a": images[0], "b": images[1], "c": c, "d": np.zeros_like(c)}
    buffers = {x: buffer(x, array, Role.OUTPUT if x == "d" else Role.INPUT) for x, array in arrays.items()}
    plan = plan_of(ptx, "k", buffers, tuple(Pointer(x) for x in buffers), (1,), (32,))
    result = execute(plan, {x: arrays[x] for x in "abc"})
    assert result.findings == ()
    assert np.array_equal(result.outputs["d"], product + c)
