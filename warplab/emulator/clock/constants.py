"""Latencies and rates that the model of time needs beside a chip's datasheet, measured on an H200.

Every number is in benchmarks/results/microbench.json (`python -m benchmarks.microbench`) or published for the
architecture. None is fitted to a kernel whose time is modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

LANES = 32
SECTOR = 32  # bytes
SCHEDULERS = 4  # of an SM
# Modelled over measured times by what limits a kernel: a tenth of benchmarks/results/clock.json is below the range, a
# tenth above. The empty name stands for all kernels, and is used for parts that limit few of them.
SEEN: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "latency": (0.67, 1.21),
        "launch overhead": (0.87, 1.0),
        "L1 and shared memory": (0.59, 1.05),
        "DRAM": (0.79, 1.01),
        "issue slots": (0.69, 1.02),
        "": (0.65, 1.13),
    }
)


@dataclass(frozen=True)
class Constants:
    """Latencies in cycles of the SM, rates per SM and cycle; seconds and bytes per second where said."""

    clock: float = 1.98e9  # Hz
    start: float = 2.69e-6  # seconds from event to event around an empty kernel, L2 cold ("cold blocks")
    turnaround: float = 250  # cycles from a block's end to the start of the next in its place ("cold copy", 4 bytes)
    next_start: float = 1.467e-6  # seconds that each further launch of a plan adds ("launch between kernels")
    launched: float = 0.602e-9  # seconds from one block to the next that the chip begins ("cold blocks")
    launched_warp: float = 0.0214e-9  # the same from one warp to the next ("cold blocks" of 1,024 threads)
    spread: float = 0.42e-6  # seconds by which many SMs' first bytes are later than one's ("cold read", "cold word")
    argument: float = 94  # cycles until a line of 64 bytes of a launch's arguments is there ("cold arguments")
    argument_byte: float = 0.41e-9  # seconds that a byte of arguments adds to the start ("cold arguments", one line)
    code_line: float = 20  # cycles per line of 128 bytes of code, where it first runs ("cold code", independent)
    code_jump: float = 65  # until a line of code arrives after a jump to it ("cold skips")
    bulk: float = 82  # cycles by which a bulk copy of few bytes is slower than a load ("bulk copy")
    fp32: float = 128  # lanes
    integer: float = 64
    fp64: float = 64
    special: float = 16
    special_latency: float = 17
    product_latency: float = 25  # of a tensor core, "mma.m16n8k16"
    exchange_latency: float = 24
    shared_latency: float = 23
    shared_conflict: float = 2  # cycles per wavefront of one scheduler's warps ("shared memory" by lanes that meet)
    l1_latency: float = 32
    l2_latency: float = 281
    dram_latency: float = 690
    dram_tail: float = 81  # further cycles until the last of n lines arrives, times ln n ("cold read" and "cold word")
    constant_latency: float = 30
    barrier: float = 12.7  # cycles of __syncthreads
    barrier_warp: float = 2  # and for each warp of the block
    product_rate: float = 2728  # FLOP per cycle and SM, mma.sync of half precision
    group_rate: float = 4095  # of wgmma
    l2_read: float = 9.1e12  # B/s
    l2_port: float = 64  # bytes per cycle and SM
    dram_read: float = 4.68e12  # B/s
    l2_write: float = 4.73e12  # "cold fill"; reads from DRAM and writes take turns ("cold copy")
    atomic: float = 0.733e-9  # seconds for which a sector of an atomic keeps a slice of L2 busy
    atomic_sector: float = 0.52e-9  # the same for each of several of one request ("cold atomics" to 256 words)
    store_fill: float = 129  # bytes of DRAM per missing sector that is written in part ("cold stores", 32 apart)
    sharpness: float = 2.25  # of the bend between latency and memory, from "bytes in flight"
