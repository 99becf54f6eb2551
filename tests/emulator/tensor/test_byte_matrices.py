"""ldmatrix and stmatrix of bytes and of elements below a byte: against the figures of the PTX ISA in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role

RNG = np.random.default_rng(31)
# A warp: lane t writes 16 bytes of `a` to row t of a tile whose rows lie 32 bytes apart, `body` moves matrices between
# registers %r10 to %r13 and the rows whose addresses lanes have in %r4, and registers or the tile are the result.
KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1) {{
    .reg .b32 %r<20>; .reg .b64 %a<4>;
    .shared .align 16 .b8 tile[1024];
    ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1];
    mov.u32 %r0, %tid.x; mul.wide.u32 %a2, %r0, 16; add.s64 %a0, %a0, %a2; add.s64 %a1, %a1, %a2;
    mov.u32 %r1, tile; mad.lo.u32 %r4, %r0, 32, %r1;
    ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%a0];
    {body}
    ret;
}}"""
STORE_ROWS = "st.shared.v4.b32 [%r4], {%r10, %r11, %r12, %r13}; bar.sync 0;"
LOAD_ROWS = "bar.sync 0; ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r4];"
OUT = "st.global.v4.b32 [%a1], {%r10, %r11, %r12, %r13};"


def run(body: str, a: np.ndarray) -> Execution:
    buffers = {"a": buffer("a", a, Role.INPUT), "out": buffer("out", np.zeros_like(a), Role.OUTPUT)}
    text = KERNEL.format(body=body)
    plan = plan_of(text, "k", buffers, (Pointer("a"), Pointer("out")), (1,), (32,))
    return execute(plan, {"a": a}, architecture="sm_100a")


def names(count: int) -> str:
    return "{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}"


def moved(body: str, a: np.ndarray) -> np.ndarray:
    result = run(body, a)
    assert result.findings == (), result.findings
    return result.outputs["out"]


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Rows of 16 elements as 16 bytes: side by side from the first bit on, then noise."""
    singles = np.unpackbits(codes[..., None], axis=2, bitorder="little")[..., :bits].reshape(len(codes), -1)
    rows = RNG.integers(0, 256, (len(codes), 16), dtype=np.uint8)
    rows[:, : 2 * bits] = np.packbits(singles, axis=1, bitorder="little")
    return rows


SOURCES = [("b8", 8), ("b8x16.b6x16_p32", 6), ("b8x16.b4x16_p64", 4)]
t, byte = np.meshgrid(np.arange(32), np.arange(4), indexing="ij")


@pytest.mark.parametrize(("source", "bits"), SOURCES)
@pytest.mark.parametrize("count", [1, 2])
def test_transposed_matrices_of_16_rows(source: str, bits: int, count: int) -> None:
    """Lane t has rows 4 (t % 4) and on of column t / 4 in one register, of column t / 4 + 8 in the next."""
    codes = RNG.integers(0, 1 << bits, (32, 16), dtype=np.uint8)
    rows = codes if bits == 8 else packed(codes, bits)
    body = f"{STORE_ROWS} ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.{source} {names(2 * count)}, [%r4]; {OUT}"
    got = moved(body, rows).reshape(32, 4, 4)
    wide = codes << np.uint8(2) if bits == 4 else codes
    for register in range(2 * count):
        row = register // 2 * 16 + 4 * (t % 4) + byte
        assert np.array_equal(got[:, register], wide[row, t // 4 + register % 2 * 8])


@pytest.mark.parametrize(("source", "bits"), SOURCES[1:])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_8_rows(source: str, bits: int, count: int) -> None:
    codes = RNG.integers(0, 1 << bits, (32, 16), dtype=np.uint8)
    body = f"{STORE_ROWS} ldmatrix.sync.aligned.m8n16.x{count}.shared.{source} {names(count)}, [%r4]; {OUT}"
    got = moved(body, packed(codes, bits)).reshape(32, 4, 4)
    wide = codes << np.uint8(2) if bits == 4 else codes
    for register in range(count):
        assert np.array_equal(got[:, register], wide[8 * register + t // 4, 4 * (t % 4) + byte])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_transposed_matrices_are_stored(count: int) -> None:
    """By the strides of CUTLASS's SM100_U8x4_STSM_T: bytes 0 and 1 are two rows of one column, 2 and 3 of another."""
    a = RNG.integers(0, 256, (32, 16), dtype=np.uint8)
    clear = "mov.b32 %r5, 0; st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5}; bar.sync 0;"
    store = f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r4], {names(count)};"
    got = moved(f"{clear} {store} {LOAD_ROWS} {OUT}", a)
    wanted = np.zeros((32, 16), np.uint8)
    for register in range(count):
        row, column = 8 * register + 2 * (t % 4) + byte % 2, t // 4 + byte // 2 * 8
        wanted[row, column] = a.reshape(32, 4, 4)[:, register]
    assert np.array_equal(got, wanted)


def test_rows_that_are_not_there() -> None:
    a = np.zeros((32, 16), np.uint8)
    load = f"ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {names(2)}, [%r4];"
    (found,) = run(f"{load} {OUT}", a).findings
    assert found.kind is FindingKind.UNINITIALISED
    (found,) = run(f"{STORE_ROWS} add.u32 %r4, %r4, 1000; {load} {OUT}", a).findings
    assert found.kind is FindingKind.MISALIGNED
    (found,) = run(f"{STORE_ROWS} add.u32 %r4, %r4, 1024; {load} {OUT}", a).findings
    assert found.kind is FindingKind.OUT_OF_BOUNDS
    for refused in ("m16n16.x4.trans.shared.b8", "m16n16.x1.shared.b8", "m8n16.x1.trans.shared.b8x16.b6x16_p32"):
        (found,) = run(f"{STORE_ROWS} ldmatrix.sync.aligned.{refused} {names(4)}, [%r4]; {OUT}", a).findings
        assert found.kind is FindingKind.UNSUPPORTED


@pytest.mark.processes
def test_ptxas_takes_what_these_tests_run() -> None:
    bodies = [f"ldmatrix.sync.aligned.m16n16.x2.trans.shared.{source} {names(4)}, [%r4];" for source, _ in SOURCES]
    bodies += [f"ldmatrix.sync.aligned.m8n16.x4.shared.{source} {names(4)}, [%r4];" for source, _ in SOURCES[1:]]
    bodies += [f"stmatrix.sync.aligned.m16n8.x{n}.trans.shared.b8 [%r4], {names(n)};" for n in (1, 2, 4)]
    for body in bodies:
        done = assembler.run(KERNEL.format(body=body), "sm_100a", 60)
        assert done.image, done.log
