"""About how long a form takes for a half-precision product, from what a chip can do; the chooser takes the least.

A block's loop over k is bound by what is largest: products (which copies into shared memory slow down), copies from the
L2, or waiting for memory with as many steps in flight as the ring has stages. An SM does that for all its blocks. To it
come a launch, the first copies of each round of blocks, meetings of a cluster, the addition of parts of k, and what
DRAM has to carry. The rates are those of an H200; the benchmark `products` has what they are worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from systems.kernels.half_recipes import Problem, takes
from systems.kernels.matrices import up
from systems.search.half_product import CHOICES, HalfChoice


@dataclass(frozen=True)
class Chip:
    """What a model knows of a GPU: microseconds, and per microsecond. Bytes of an SM come from the L2."""

    sms: int = 132
    clusters: tuple[int, ...] = (132, 66, 39, 30, 22, 17, 15, 15)  # of 1, 2, ... blocks that run at once
    shared: int = 228 * 1024  # bytes of an SM
    threads: int = 2048  # of an SM
    dram: float = 4.0e6  # bytes
    port: float = 116e3  # bytes of an SM
    products: float = 4.9e6  # multiply-adds of an SM by wgmma
    products_of_warps: float = 1.25e6  # by mma.sync, with all that its warps do besides
    latency: float = 1.16  # of a tensor copy, from request to the stage that comes free
    latency_of_warps: float = 0.68  # of cp.async
    chunk: float = 0.008  # a thread's 16 bytes by cp.async, for each 128 threads of the block
    chunk_of_registers: float = 0.05  # 16 bytes that begin anywhere
    start: float = 3.3  # a launch, an empty SM, the last block's end
    round: float = 1.26  # the first copies of a block, and its results
    meeting: float = 0.47  # of a cluster
    addition: float = 2.65  # of parts of k, for 128 x 128 outputs
    staying: float = 0.26  # a tile's place, which blocks that stay compute
    copy: float = 2.0  # a launch before the product


SHARED_SLOWS = 0.4  # of the time of copies, by which they slow products down
CLUSTER_WAITS = 2.2  # times a copy's latency, where blocks wait for each other's stages
LOOSE_STORES = 2.0  # times the bytes of c, where they are stored element by element


def seconds(form: HalfChoice, problem: Problem, chip: Chip) -> float:
    """An estimate of the product alone, cold L2, in seconds."""
    m, n, k = problem.m, problem.n, problem.k
    warps, shared = form.kind == "warps", form.splits * form.together
    units = up(m, form.rows * form.together) * up(n, form.columns)
    room = min(chip.shared // (form.shared_bytes + 1024 + 16 * form.stages), chip.threads // form.threads)
    blocks = up(units, chip.clusters[shared - 1])  # that the busiest SM has
    beside = 1 if form.stays else min(blocks, max(room, 1))
    steps = up(up(k, form.depth), form.splits) * form.depth / 64
    steps_of_slice = up(up(k, form.depth), form.splits * form.slices) * form.depth / 64
    area = form.rows * form.columns
    products = area * 64 / (chip.products_of_warps if warps else chip.products) * steps * blocks
    copies = (form.rows + form.columns / form.together) * 128 / chip.port * steps * blocks
    latency = chip.latency_of_warps if warps else chip.latency * (CLUSTER_WAITS if form.together > 1 else 1)
    waiting = up(blocks, beside) * steps_of_slice * latency * 64 / (form.stages * form.depth)
    loop = max(products + SHARED_SLOWS * copies, copies, waiting)
    if warps:
        loop += _chunks(form, problem, chip) * steps_of_slice * blocks * form.threads / 128
    reading = 2 * (m * k + k * n) / chip.dram
    writing = 2 * m * n / chip.dram * (LOOSE_STORES if problem.c_loose else 1)
    rounds = 1 if form.stays else up(blocks, beside)
    time = chip.start + max(loop, reading) + chip.round * rounds + chip.staying * form.stays + writing
    time += chip.meeting * (shared > 1) + chip.addition * (form.splits > 1) * area / 128**2
    return time * 1e-6


def _chunks(form: HalfChoice, problem: Problem, chip: Chip) -> float:
    """What a thread of `warps.cu` spends on copies of 64 of k."""
    members = 32 * form.warps[0] * form.warps[1]
    each = [chip.chunk_of_registers if loose else chip.chunk for loose in (problem.a_loose, problem.b_loose)]
    return (form.rows * each[0] + form.columns * each[1]) * 8 / members


def copying(problem: Problem, chip: Chip) -> float:
    """Seconds that copies of loose factors take."""
    loose = problem.m * problem.a_loose + problem.n * problem.b_loose
    launches = problem.a_loose + problem.b_loose
    return (launches * chip.copy + 4 * loose * problem.k / chip.dram) * 1e-6


# Rung 14's splits of its widest tile, which the search does not have
_SPLIT = tuple(HalfChoice("warpgroups", 128, 256, 64, 4, splits) for splits in (2, 3, 4, 5, 6, 8))
FORMS = CHOICES + _SPLIT


def ranked(problem: Problem, chip: Chip) -> list[tuple[float, HalfChoice, bool]]:
    """Every form that takes a problem, least seconds first: those, the form, whether loose factors are copied."""
    found = [(seconds(form, problem, chip), form, False) for form in FORMS if takes(form, problem)]
    if problem.loose:
        copies, tight = copying(problem, chip), problem.tight
        found += [(copies + seconds(form, tight, chip), form, True) for form in FORMS if takes(form, tight)]
    return sorted(found, key=lambda one: one[0])


@cache
def choose(problem: Problem, chip: Chip) -> tuple[HalfChoice, bool]:
    """The form that should be fastest for a problem, and whether loose factors are copied for it."""
    _, form, copies = ranked(problem, chip)[0]
    return form, copies
