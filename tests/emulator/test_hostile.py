"""Kernels that try to get at the emulator's own memory: every byte is checked where it moves, whatever was said before.

What the fuzzer does not aim at by itself, one attempt each; each of them once read or wrote outside, or nearly.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.emulator.core.state.bulk_layout import BOX_BITS, META_SWIZZLE_SHIFT, STEP_BITS, T_BOX, T_META, T_STEPS
from warplab.emulator.lowering.lowering import LoweringError
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role, TensorMap

ENTRY = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k (.param .align 64 .b8 map[128], .param .u64 a, .param .u64 out, .param .u64 room)
{
    .reg .b64 %a, %out, %room, %v<20>;
    .reg .b32 %r<8>;
    .reg .b128 %q;
    .reg .pred %p<3>;
    .shared .align 1024 .b8 tile[1024];
    .shared .align 8 .b64 bar;
    .local .align 16 .b8 stack[16];
    ld.param.u64 %a, [a];
    ld.param.u64 %out, [out];
    ld.param.u64 %room, [room];
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
"""
A = np.arange(256, dtype=np.int32).reshape(8, 32)
# The map, copied to where the kernel can write.
COPIED = "\n".join(f"ld.param.u64 %v1, [map+{8 * i}]; st.global.u64 [%room+{8 * i}], %v1;" for i in range(16))
LOAD = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%room, {0, 0}], [bar];"
)
SAVE = "\n".join(f"ld.shared.u32 %r2, [tile+{4 * i}]; st.global.u32 [%out+{4 * i}], %r2;" for i in range(256))
WAIT = "WAITING: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAITING;"


def run(body: str, threads: int = 1, **options) -> Execution:
    """`a` is A, `out` 256 int32, `room` scratch for a map; the map is of all of `a`, with rows of 128 bytes."""
    out = np.full(256, -1, np.int32)
    room = np.zeros(16, np.int64)
    buffers = {
        "a": buffer("a", A, Role.INPUT),
        "out": buffer("out", out, Role.INOUT),
        "room": buffer("room", room, Role.SCRATCH),
    }
    described = TensorMap("a", 0, "int32", (32, 8), (128,), (32, 8), (1, 1))
    arguments = (described, Pointer("a", 0, "a"), Pointer("out", 0, "out"), Pointer("room", 0, "room"))
    plan = plan_of(ENTRY + body + "\nret;\n}\n", "k", buffers, arguments, (1,), (threads,))
    return execute(plan, {"a": A, "out": out}, instruction_budget=100_000, **options)


@pytest.mark.parametrize("word", [T_META, T_BOX, T_STEPS])
@pytest.mark.parametrize("value", [0, -1, 0x7FFFFFFFFFFFFFFF, 0x0101010101010101])
def test_a_map_that_changes_while_a_copy_is_in_flight_changes_nothing(word: int, value: int) -> None:
    spoil = f"st.global.u64 [%room+{8 * word}], {value & (1 << 64) - 1};"
    result = run(f"{COPIED}\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\n{LOAD}\n{spoil}\n{WAIT}\n{SAVE}")
    assert not result.findings
    assert np.array_equal(result.outputs["out"], A.reshape(-1))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (T_META, 2 | 4 << 8 | 1 << META_SWIZZLE_SHIFT),  # rows of 128 bytes, but a swizzle that spans 32
        (T_META, 2 | 4 << 8 | 5 << META_SWIZZLE_SHIFT),  # no swizzle at all
        (T_STEPS, 8 | 1 << STEP_BITS | 1 << 2 * STEP_BITS | 1 << 3 * STEP_BITS | 1 << 4 * STEP_BITS),  # 16 bytes of 128
        (T_BOX, 33 | 8 << BOX_BITS | 1 << 2 * BOX_BITS | 1 << 3 * BOX_BITS | 1 << 4 * BOX_BITS),  # 132 bytes
    ],
)
def test_rows_that_do_not_lie_where_they_should(word: int, value: int) -> None:
    spoil = f"st.global.u64 [%room+{8 * word}], {value};"
    result = run(f"{COPIED}\n{spoil}\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\n{LOAD}\n{WAIT}")
    steps = word == T_STEPS  # a whole row's worth is left: it lies inside, and the bytes are fewer than announced
    assert {f.kind for f in result.findings} == {FindingKind.DEADLOCK if steps else FindingKind.TRAP}


@pytest.mark.parametrize(
    "access",
    [
        "mov.b64 %v1, 0x7ffffffffffffffc; ld.local.u32 %r1, [%v1];",
        "mov.b64 %v1, 0x7ffffffffffffffc; st.local.u32 [%v1], %r1;",
        "mov.b64 %v1, 0x7ffffffffffffff0; cp.async.ca.shared.global [%v1], [%a], 16; cp.async.wait_all;",
        "mov.b64 %v1, 0x7ffffffffffffff0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%v1];",
        "mov.b64 %v1, 0x7ffffffffffffff0; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%v1], {%r1};",
        "mov.b64 %v1, 0x7ffffffffffffff8; st.shared.u64 [%v1], %v1;",
        "mov.b64 %v1, 0xffffffe000000000; ld.global.u32 %r1, [%v1];",
        "mov.b64 %v1, 0xfffffffffffffff8; ld.global.v2.u32 {%r1, %r2}, [%v1];",
        "mov.b64 %v1, 0x6ffffffffffc; ld.global.u32 %r1, [%v1];",
        "mov.b64 %v1, 0x800000000000; st.global.u32 [%v1], %r1;",
        "add.u64 %v1, %out, 0xfffffffc00000000; ld.global.u32 %r1, [%v1];",
        "cvta.local.u64 %v1, 0x7ffffffffffffff8; atom.add.u64 %v2, [%v1], %v1;",
        "mov.u32 %r2, %laneid; mad.wide.u32 %v1, %r2, 0xfffffff0, %a; ld.global.u32 %r1, [%v1];",
    ],
)
def test_addresses_that_wrap_are_outside_of_everything(access: str) -> None:
    result = run(access, threads=32)
    assert FindingKind.OUT_OF_BOUNDS in {f.kind for f in result.findings}, result.findings
    assert FindingKind.UNSUPPORTED not in {f.kind for f in result.findings}, result.findings


@pytest.mark.parametrize(
    "copy",
    [
        "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 1024;",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [tile], [%r3], 16, [bar];",
    ],
)
def test_a_source_is_in_the_blocks_own_shared_memory(copy: str) -> None:
    """The address says a peer's: added to the place of the block's own memory, it would be 16 MiB behind it."""
    result = run(f"mov.u32 %r3, tile; add.u32 %r3, %r3, 0x1000000;\n{copy}\ncp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group 0;")  # fmt: skip
    assert [f.kind for f in result.findings] == [FindingKind.OUT_OF_BOUNDS]
    assert (result.outputs["out"] == -1).all()


@pytest.mark.parametrize(
    "line",
    [
        "ld.global.pred %p1, [%a];", "st.global.u8 [%a], %p1;", "ld.global.b128 %v1, [%a];", "ld.global.u64 %q, [%a];",
        "mov.b16 %r1, %p1;", "bfind.u32 %p1, %r1;", "ld.global.u32 %r1, [%a+99999999999];", "add.s32 %r1;", "add.s32;",
        "redux.sync.s32 %r1, %r1, -1;", "mov.u32 %r1, nowhere;", "call nobody;",
        "wgmma.mma_async.sync.aligned.m64n9999999k16;",
    ],
)  # fmt: skip
def test_instructions_with_wrong_operands_are_not_taken(line: str) -> None:
    """A register that is read or written as a wider one would reach into its neighbours."""
    assert [f.kind for f in run(line).findings] == [FindingKind.UNSUPPORTED]


def test_what_no_assembler_takes_comes_to_no_run() -> None:
    """Nor to a verdict on the kernel: an emitter that cannot read the operands of its own form says that it failed."""
    with pytest.raises(LoweringError, match="wgmma.wait_group.sync.aligned;' by a fault of its own"):
        run("wgmma.wait_group.sync.aligned;")


def test_what_is_printed_is_bounded() -> None:
    """One thread prints 10,000 lines of 1,000 characters."""
    text = [*b"%1000000000d\n\0"]
    head = (
        ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);\n"
        f".global .align 1 .b8 format[{len(text)}] = {{{', '.join(map(str, text))}}};\n.visible .entry"
    )
    body = """
    mov.u32 %r3, 0;
AGAIN:
    { .param .b64 f; .param .b64 v; .param .b32 r;
      cvta.local.u64 %v1, stack; st.param.b64 [v], %v1; mov.b64 %v2, format; st.param.b64 [f], %v2;
      call (r), vprintf, (f, v); }
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, 10000;
    @%p2 bra AGAIN;
    """
    out = np.zeros(256, np.int32)
    buffers = {"a": buffer("a", A, Role.INPUT), "out": buffer("out", out, Role.INOUT)}
    described = TensorMap("a", 0, "int32", (32, 8), (128,), (32, 8), (1, 1))
    arguments = (described, Pointer("a"), Pointer("out"), Pointer("out"))
    ptx = (ENTRY + body + "\nret;\n}\n").replace(".visible .entry", head)
    result = execute(plan_of(ptx, "k", buffers, arguments, (1,), (1,)), {"a": A, "out": out})
    assert 900_000 < len(result.stdout) < 1_100_000
    assert result.stdout.endswith("\n(More was printed than is kept.)\n")


def test_local_memory_of_all_threads_is_bounded() -> None:
    big = ".local .align 16 .b8 big[524288];\nmov.b64 %v1, big; st.local.u32 [%v1], %r1;"
    (finding,) = run(big, threads=1024, workers=1).findings
    assert finding.kind is FindingKind.LAUNCH_FAILURE and "MiB" in finding.message
    assert not run(big, threads=32).findings


def test_addresses_look_like_a_devices_and_differ() -> None:
    body = "st.global.v2.u64 [%out], {%a, %out}; cvta.shared.u64 %v1, tile; st.global.u64 [%out+16], %v1;"

    def addresses(seed: int | None) -> tuple[int, ...]:
        return tuple(int(n) for n in run(body, seed=seed).outputs["out"].view(np.uint64)[:3])

    drawn = {addresses(None) for _ in range(4)}
    assert len(drawn) == 4
    assert addresses(7) == addresses(7) != addresses(8)
    for a, out, tile in drawn:
        assert all(0x7000_0000_0000 <= n < 0x8000_0000_0000 for n in (a, out, tile))
        assert a % 512 == 0 and out % 512 == 0 and tile & 0xFFFFFF == 2048
