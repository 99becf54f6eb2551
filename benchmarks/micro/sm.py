"""What one SM is: how many there are, their clock, latencies and rates of instructions, registers, shared memory."""

from __future__ import annotations

from collections.abc import Iterator

import cupy
import numpy as np

from benchmarks.micro import card
from course.results import Record

STEPS = 64  # of 256 instructions
INSTRUCTION = {
    "FmaF32": "fma.f32",
    "FmaF64": "fma.f64",
    "FmaF16x2": "fma.f16x2",
    "MadS32": "mad.s32",
    "Exp2F32": "ex2.f32",
    "PopcB32": "popc.b32",
    "ShuffleB32": "shfl.b32",
}  # FmaThree is measured apart


def records() -> Iterator[Record]:
    """Every measurement of this file, in turn."""
    yield from census()
    yield from clock()
    yield from instructions()
    yield from operands()
    yield from staircase()
    yield from divergence()
    yield from registers()
    yield from shared_memory()


def census() -> Iterator[Record]:
    """SMs that blocks report to have run on, by %smid."""
    blocks = 8 * card.sms()
    where = cupy.full(blocks, 0xFFFFFFFF, dtype=cupy.uint32)
    card.kernel("sm", "where")((blocks,), (1024,), (np.uint64(200_000), where))
    seen = np.unique(where.get())
    yield Record("sm count", "count", len(seen), "SMs", conditions=f"{blocks} blocks of 1,024 threads, %smid of each")


def clock() -> Iterator[Record]:
    """The SM's clock against the global timer, with nothing else running."""
    elapsed = cupy.zeros(2, dtype=cupy.uint64)
    for _ in range(2):
        card.kernel("sm", "two_clocks")((1,), (1,), (np.uint64(50_000_000), elapsed))
    ticks, nanoseconds = (int(v) for v in elapsed.get())
    yield Record("sm clock", "rate", ticks / nanoseconds * 1e9, "Hz", conditions="one thread, 50 ms, clock64")


def _chains(operation: str, chains: int, warps: int) -> int:
    arguments = (np.int32(1), np.int32(0), np.int32(STEPS))
    return card.cycles("sm", f"chains<{operation}, {chains}>", 1, 32 * warps, arguments, readers=warps)[0]


def instructions() -> Iterator[Record]:
    """Latency (one warp, one chain) and rate (32 warps, four chains) of each instruction on one SM."""
    for operation, name in INSTRUCTION.items():
        instructions = STEPS * 256
        yield Record(
            name, "latency", _chains(operation, 1, 1) / instructions, "cycles", conditions="one warp, one chain"
        )
        best = max(32 * 32 * instructions / _chains(operation, chains, 32) for chains in card.CHAINS)
        width = 2 if name.endswith("x2") else 1
        yield Record(
            name,
            "rate",
            best * width,
            "1/cycle/SM",
            conditions="results of one SM: 32 warps, the best of 1, 2, 4 and 8 chains each"
            + (", two results a lane" * (width - 1)),
        )


def operands() -> Iterator[Record]:
    """The rate of fma.f32 if the operands of an instruction are three registers."""
    for chains in (1, 4):
        rate = 32 * 32 * STEPS * 256 / _chains("FmaThree", chains, 32)
        yield Record(
            "fma.f32 of three registers", "rate", rate, "1/cycle/SM", variant=f"{chains} chains",
            conditions="32 warps; with one chain, ptxas 13.0 puts two operands into registers of odd numbers",
        )  # fmt: skip


def staircase() -> Iterator[Record]:
    """Rate of fma.f32 for 1 to 16 warps with 1, 2, 4 and 8 chains each, and for more warps with one chain."""
    for chains in card.CHAINS:
        for warps in (*range(1, 17), 20, 24, 28, 32):
            rate = 32 * warps * STEPS * 256 / _chains("FmaF32", chains, warps)
            yield Record(
                "fma.f32 by warps", "rate", rate, "1/cycle/SM", variant=f"{chains} chains", shape=(warps,),
                conditions="one block on one SM; shape is the number of warps",
            )  # fmt: skip


def divergence() -> Iterator[Record]:
    """Cycles of a switch whose `paths` paths of 512 dependent multiply-adds each are taken by lanes of one warp."""
    steps = 16
    for paths in (1, 2, 4, 8, 16, 32):
        took = card.cycles("sm", "diverge", 1, 32, (np.int32(paths), np.int32(steps)), readers=1)[0]
        yield Record(
            "divergence", "latency", took / steps, "cycles", shape=(paths,),
            conditions="one warp; a switch with paths of 512 dependent fma.f32; shape is the number of paths taken",
        )  # fmt: skip


def registers() -> Iterator[Record]:
    """Warps that an SM holds at once, by the registers of a thread; what they hold together is the register file."""
    largest, sms = 0, card.sms()
    source = cupy.zeros(256, dtype=cupy.float32)
    for values in card.HELD:
        function = card.kernel("sm", f"hold<{values}>")
        here, most = cupy.zeros(1024, dtype=cupy.uint32), cupy.zeros(1024, dtype=cupy.uint32)
        function((sms * 40,), (32,), (np.uint64(300_000), source, here, most, card.sink()))
        warps, used = int(most.get().max()), int(function.num_regs)
        largest = max(largest, warps * 32 * used * 4)
        yield Record(
            "resident warps", "count", warps, "warps/SM", variant=f"{values} values", shape=(used,),
            conditions="blocks of one warp; shape is the registers of a thread",
            extra={"bytes_held": warps * 32 * used * 4, "spilled_bytes": int(function.local_size_bytes)},
        )  # fmt: skip
    yield Record("register file", "size", largest, "B", conditions="the most that resident warps held together")


def shared_memory() -> Iterator[Record]:
    """Latency by lanes that meet in a bank, bytes a cycle, cycles of a request by conflicts, atomics, clusters."""
    hops, steps = 2048, 512
    for lanes in (1, 2, 4, 8, 16, 32):
        took = card.cycles("sm", "shared_chase", 1, 32, (np.int32(lanes), np.int32(hops)), readers=1)[0]
        yield Record(
            "shared memory", "latency", took / hops, "cycles", shape=(lanes,),
            conditions="ld.shared.u32, each address is the last value loaded; shape is the lanes that meet in a bank",
        )  # fmt: skip
    took = card.cycles("sm", "shared_read", 1, 1024, (np.int32(1024), np.int32(steps)), readers=32)[0]
    yield Record(
        "shared memory", "bandwidth", 1024 * 16 * 8 * steps / took, "B/cycle/SM", conditions="32 warps, 16 bytes a lane"
    )
    for lanes in (1, 2, 4, 8, 16, 32):
        arguments = (np.int32(lanes), np.int32(1), np.int32(steps // 4))
        took = card.cycles("sm", "shared_strided", 1, 1024, arguments, readers=32)[0]
        yield Record(
            "shared request", "time", took / (32 * 8 * steps // 4), "cycles", shape=(lanes,),
            conditions="32 warps, 4 bytes a lane; shape is the lanes that meet in a bank",
        )  # fmt: skip
    for variant, mask in (("one word", 0), ("a word each", 1023)):
        counters = (np.int32(mask), np.uint32(1), np.int32(steps // 8))
        took = card.cycles("sm", "shared_atomics", 1, 1024, counters, readers=32)[0]
        yield Record(
            "shared atomics", "rate", 1024 * 8 * (steps // 8) / took, "1/cycle/SM", variant=variant,
            conditions="red.shared.add.u32 of 1,024 threads of one SM",
        )  # fmt: skip
    seen = card.cycles("sm", "cluster_chase", card.sms(), 1, (np.int32(hops),), readers=0, cluster=2)
    latencies = np.array(seen) / hops
    yield Record(
        "distributed shared memory", "latency", float(np.median(latencies)), "cycles",
        conditions="the other block of a cluster of two; median of all clusters that fit at once",
        extra={"least": float(latencies.min()), "most": float(latencies.max())},
    )  # fmt: skip
