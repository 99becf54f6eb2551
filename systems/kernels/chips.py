"""The rates and latencies of a GPU that the functions' choosers reckon with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from warplab.hardware.device import present

_H200_BANDWIDTH = 4.8e12  # bytes per second, of its datasheet


@dataclass(frozen=True)
class Chip:
    """Times in microseconds and rates per microsecond. Bytes per SM come from the L2 unless DRAM is named."""

    sms: int = 132
    clusters: tuple[int, ...] = (132, 66, 39, 30, 22, 17, 15, 15)  # of 1, 2, ... blocks that run at once
    shared: int = 228 * 1024  # bytes of an SM
    threads: int = 2048  # of an SM
    dram: float = 3.6e6  # bytes
    stream: float = 80e3  # bytes of an SM from DRAM
    port: float = 143e3  # bytes of an SM
    straddling: float = 2.06  # times the bytes, where lines of 128 bytes do not begin at multiples of 128
    torn: float = 1.39  # times the bytes from DRAM there
    products: float = 3.78e6  # multiply-adds of an SM by wgmma
    products_of_warps: float = 1.29e6  # by mma.sync, with all that its warps do besides
    latency: float = 1.87  # of a tensor copy, from request to the stage that comes free
    latency_of_warps: float = 0.35  # of cp.async
    chunk: float = 0.018  # a thread's 16 bytes by cp.async, for each 128 threads of the block
    walk: float = 0.154  # a thread's 16 bytes that begin anywhere, one after the other
    moved: float = 0.1  # the same, moved to where lines begin
    start: float = 3.25  # a launch, an empty SM, the last block's end
    round: float = 1.0  # the first copies of a block, and its results
    meeting: float = 0.79  # of blocks that add up parts of k
    pairing: float = 1.5  # of blocks that share a factor: the first stages wait for both
    addition: float = 2.2  # of parts of k, for 128 x 128 outputs
    staying: float = 0.06  # a tile's place, which blocks that stay compute
    copy: float = 4.0  # a launch before the product
    adding: float = 2.0  # a launch after it
    l2: float = 3.6e6  # bytes, of sums that are written and read again
    begin: float = 1.78  # a launch of `few.cu` or `thin.cu`, whose code is short
    trip: float = 1.0  # a block's first loads and its results, in these two
    tile: float = 2.5  # 32 of k of a tile of `thin.cu`, where other blocks of the SM work in the waits
    fused: float = 104e3  # multiply-adds of an SM in float32 by `thin.cu`, with its loads from shared memory
    gathering: float = 0.39  # added where `few.cu` reads vectors element by element
    shifting: float = 0.11  # added where its lines begin at any address
    gathered: float = 0.0015  # each load of vectors by a warp of it
    flight: float = 2.0  # from a load of `few.cu` to its data from DRAM


@cache
def chip_of(device: int) -> Chip:
    """The number of SMs and clusters of a GPU, its bandwidth if its datasheet is known, and the rest of an H200."""
    found, usual = present(device), Chip()
    if found is None:
        return usual
    clusters = tuple(max(count * found.sms // usual.sms, 1) for count in usual.clusters)
    dram = usual.dram * found.chip.bandwidth / _H200_BANDWIDTH if found.chip else usual.dram
    return replace(usual, sms=found.sms, clusters=clusters, dram=dram)
