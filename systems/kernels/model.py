"""Estimates how long each form takes for a half-precision product; `choose` takes the fastest.

A block's loop over k takes as long as the slowest of three: products (which copies into shared memory slow down),
copies from the L2, or waiting for memory with as many steps in flight as the ring has stages. An SM does that for all
its blocks. The launch, the first copies of each round of blocks, the waits of a cluster, the addition of parts of k and
the traffic of DRAM are added. The lean forms are limited by DRAM or its latency. The rates are those of an H200, and
`python -m benchmarks.products` compares the choices with others.
"""

from __future__ import annotations

from functools import cache

from systems.kernels.chips import Chip
from systems.kernels.half_recipes import Choice, Problem, takes
from systems.kernels.lean import FORMS, SIDE, Few, Thin, depth_per_step, lines_per_warp
from systems.kernels.matrices import up
from systems.search.half_product import CHOICES, HalfChoice

SHARED_SLOWS = 0.41  # of the time of copies, by which they slow products down
LOOSE_STORES = 3.5  # times the bytes of c, where warps store rows that begin anywhere


def seconds(form: HalfChoice, problem: Problem, chip: Chip, parts: int = 1) -> float:
    """An estimate of the product in so many parts of k, cold L2, in seconds; without copies of factors."""
    m, n, k = problem.m, problem.n, problem.k
    warps, shared = form.kind == "warps", form.splits * form.together
    units = up(m, form.rows * form.together) * up(n, form.columns) * parts
    room = min(chip.shared // (form.shared_bytes + 1024 + 16 * form.stages), chip.threads // form.threads)
    blocks = up(units, chip.clusters[shared - 1])  # that the busiest SM has
    beside = 1 if form.stays else min(blocks, max(room, 1))
    steps = up(up(k, form.depth), form.splits * parts) * form.depth / 64
    steps_of_slice = up(up(k, form.depth), form.splits * form.slices * parts) * form.depth / 64
    area = form.rows * form.columns
    products = area * 64 / (chip.products_of_warps if warps else chip.products) * steps * blocks
    straddle_a, straddle_b = (chip.straddling if it else 1 for it in (problem.a_straddles, problem.b_straddles))
    shared_a, shared_b = (1, form.together) if not form.turned else (form.together, 1)
    bytes_of_step = 128 * (form.rows / shared_a * straddle_a + form.columns / shared_b * straddle_b)
    copies = bytes_of_step / chip.port * steps * blocks
    latency = chip.latency_of_warps if warps else chip.latency
    waiting = up(blocks, beside) * steps_of_slice * latency * 64 / (form.stages * form.depth)
    loop = max(products + SHARED_SLOWS * copies, copies, waiting)
    if warps:
        loop += _chunks(form, problem, chip) * steps_of_slice * blocks * form.threads / 128
        loop += chip.walk * _loose_chunks(form, problem) * steps_of_slice * up(blocks, beside)
    busy = min(units * shared, chip.clusters[shared - 1] * shared)
    torn_a, torn_b = (chip.torn if it else 1 for it in (problem.a_straddles, problem.b_straddles))
    reading = 2 * (m * k * torn_a + k * n * torn_b) / min(chip.dram, chip.stream * busy)
    writing = 2 * m * n / chip.dram * (LOOSE_STORES if problem.c_loose else 1)
    rounds = 1 if form.stays else up(blocks, beside)
    time = chip.start + max(loop, reading) + chip.round * rounds + chip.staying * form.stays + writing
    if parts > 1:
        time += chip.adding + 8 * parts * m * n / chip.l2
    time += chip.pairing * (form.together > 1) + chip.meeting * (form.splits > 1)
    time += chip.addition * (form.splits > 1) * area / 128**2
    return time * 1e-6


def seconds_of_thin(problem: Problem, chip: Chip) -> float:
    """An estimate for `thin.cu`, in seconds: the longer of multiplying its tiles in float32 and writing c."""
    m, n, k = problem.m, problem.n, problem.k
    tiles = up(m, SIDE) * up(n, SIDE)
    blocks = up(tiles, chip.sms)
    beside = min(blocks, 4)
    work = blocks * SIDE * SIDE * k / chip.fused + up(blocks, beside) * up(k, 32) * chip.tile
    return (chip.begin + chip.trip + max(work, 2 * m * n / chip.dram)) * 1e-6


def seconds_of_few(form: Few, problem: Problem, chip: Chip) -> float:
    """An estimate for `few.cu`, in seconds: the longest of reading the lines, waiting for loads, and issuing them."""
    turned = problem.m < problem.n
    vectors, lines = sorted((problem.m, problem.n))
    down, loose = (problem.b_down, problem.b_loose) if turned else (problem.a_down, problem.a_loose)
    torn = chip.torn if (problem.b_straddles if turned else problem.a_straddles) else 1
    wide = not (problem.a_down or problem.a_loose if turned else problem.b_down or problem.b_loose)
    eighths, depth = up(vectors, 8), depth_per_step(down)
    steps = form.steps(8 * eighths, problem.k, down, loose)
    units = up(lines, lines_per_warp(down)) * form.splits
    blocks = up(units, chip.clusters[form.splits - 1] * form.splits)
    room = chip.threads // (32 * form.warps) // 4  # a thread has many registers
    beside = min(blocks, max(room, 1))
    turns = up(problem.k, depth * steps * form.warps * form.splits)
    loads = turns * steps * form.warps * eighths * (1 if wide else depth // 4)
    busy = min(units, chip.sms)
    reading = 2 * lines * problem.k * torn / min(chip.dram, chip.stream * busy)
    waiting = up(blocks, beside) * turns * chip.flight
    time = chip.begin + chip.trip + max(reading, waiting, blocks * loads * chip.gathered)
    time += chip.gathering * (not wide) + chip.shifting * loose
    return (time + chip.meeting * (form.splits > 1)) * 1e-6


def _chunks(form: HalfChoice, problem: Problem, chip: Chip) -> float:
    """What a thread of `warps.cu` spends on copies of 64 of k."""
    members = 32 * form.warps[0] * form.warps[1]
    each = [chip.moved if loose else chip.chunk for loose in (problem.a_loose, problem.b_loose)]
    return (form.rows * each[0] + form.columns * each[1]) * 8 / members


def _loose_chunks(form: HalfChoice, problem: Problem) -> float:
    """Chunks of 16 bytes of loose factors that a thread of `warps.cu` moves for 64 of k, one after the other."""
    members = 32 * form.warps[0] * form.warps[1]
    return (form.rows * problem.a_loose + form.columns * problem.b_loose) * 8 / members


def copying(problem: Problem, chip: Chip) -> float:
    """Seconds that copies of loose factors take."""
    loose = problem.m * problem.a_loose + problem.n * problem.b_loose
    return (chip.copy * problem.loose + 4 * loose * problem.k / chip.dram) * 1e-6


# Those that can leave sums of parts of k
APART = tuple(
    one for one in CHOICES
    if (one.rows, one.splits, one.stays, one.turned) == (128, 1, False, False) and one.columns in (128, 256)
    and one.kind == "warpgroups"
)  # fmt: skip
MOST_PARTS, LEAST_OF_A_PART = 16, 512  # of k


def ranked(problem: Problem, chip: Chip) -> list[tuple[float, Choice]]:
    """Every choice for a problem, least seconds first."""
    found = [(seconds(form, problem, chip), Choice(form)) for form in CHOICES if takes(form, problem)]
    copies, tight = copying(problem, chip), problem.tight
    for lean in (lean for lean in FORMS if takes(lean, problem)):
        took = seconds_of_thin(problem, chip) if isinstance(lean, Thin) else seconds_of_few(lean, problem, chip)
        found.append((took, Choice(lean)))
    if problem.loose:
        found += [(copies + seconds(form, tight, chip), Choice(form, True)) for form in CHOICES if takes(form, tight)]
    for form in (form for form in APART if takes(form, tight)):
        for parts in range(2, min(MOST_PARTS, problem.k // LEAST_OF_A_PART) + 1):
            found.append((copies + seconds(form, tight, chip, parts), Choice(form, problem.loose, parts)))
    return sorted(found, key=lambda one: one[0])


@cache
def choose(problem: Problem, chip: Chip) -> Choice:
    """What should be fastest for a problem."""
    return ranked(problem, chip)[0][1]
