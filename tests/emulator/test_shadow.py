"""The sanitizer of shared memory beside every pair of accesses, on random kernels of two warps.

Each kernel is a line of loads, stores and barriers, each thread's place drawn from patterns that threads make: side by
side, all alike, rows of a tile, columns, reversed, scattered. What may race is worked out here from the pairs.
"""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.plan.execution import FindingKind
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

THREADS = 64
FIRST_LINE = 5  # of the steps in the source
LOAD, STORE, BARRIER, WARP_BARRIER = range(4)
TYPES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def draw_places(rng: np.random.Generator, size: int) -> np.ndarray:
    """The byte that each thread accesses, -1 for none."""
    t = np.arange(THREADS)
    patterns = [
        t, t, t[::-1], np.full(THREADS, 7), t // 16, t % 16 + 16 * (t // 32), t % 16, (t % 32) * 3 % 64,
        t ^ 1, (t + 1) % 64, rng.integers(0, 64, THREADS), t // 2, t % 8 * 8 + t // 8,
    ]  # fmt: skip
    places = patterns[rng.integers(len(patterns))] * size + size * int(rng.integers(0, 3))
    if rng.random() < 0.3:
        places = np.where(rng.random(THREADS) < 0.7, places, -1)
    if rng.random() < 0.2:
        places = np.where(t // 32 == rng.integers(2), places, -1)
    return places


def draw(seed: int) -> list[tuple[int, int, np.ndarray]]:
    """A kernel: what each step does, to how many bytes, and where each thread does it."""
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(int(rng.integers(3, 9))):
        size = int(rng.choice([4, 4, 4, 8, 2, 1]))
        steps.append((int(rng.choice([LOAD, STORE])), size, draw_places(rng, size)))
        if rng.random() < 0.75:
            steps.append((int(rng.choice([BARRIER, BARRIER, BARRIER, WARP_BARRIER])), 0, np.zeros(THREADS, int)))
    return steps


def source_of(steps: list[tuple[int, int, np.ndarray]]) -> str:
    """CUDA C++ with one line a step; every byte is written first."""
    lines = [
        'extern "C" __global__ void k(const int* places, unsigned long long* out) {',
        "__shared__ __align__(16) unsigned char tile[1024]; unsigned long long sum = 0; const int t = threadIdx.x;",
        "for (int i = t; i < 256; i += 64) ((unsigned int*)tile)[i] = 0;",
        "__syncthreads();",
    ]
    for number, (kind, size, _) in enumerate(steps):
        place = f"places[{THREADS * number} + t]"
        if kind == LOAD:
            lines.append(f"if ({place} >= 0) sum += *({TYPES[size]}*)(tile + {place});")
        elif kind == STORE:
            lines.append(f"if ({place} >= 0) *({TYPES[size]}*)(tile + {place}) = ({TYPES[size]})(t + {number});")
        else:
            lines.append("__syncthreads();" if kind == BARRIER else "__syncwarp();")
    return "\n".join([*lines, "out[t] = sum; }"])


def racing_lines(steps: list[tuple[int, int, np.ndarray]]) -> set[tuple[int, int]]:
    """The pairs of lines with accesses of two threads to one byte, one of them a write, that nothing orders."""
    found = set()
    for (a, first), (b, second) in combinations(enumerate(steps), 2):
        if first[0] > STORE or second[0] > STORE or LOAD == first[0] == second[0]:
            continue
        between = {kind for kind, _, _ in steps[a + 1 : b]}
        if BARRIER in between:
            continue
        for x in range(THREADS):
            for y in range(THREADS):
                if x == y or first[2][x] < 0 or second[2][y] < 0 or (x // 32 == y // 32 and WARP_BARRIER in between):
                    continue
                if first[2][x] < second[2][y] + second[1] and second[2][y] < first[2][x] + first[1]:
                    found.add((FIRST_LINE + a, FIRST_LINE + b))
    return found


def racing_within(steps: list[tuple[int, int, np.ndarray]]) -> set[int]:
    """Lines on which threads of two warps write one byte."""
    found = set()
    for number, (kind, size, places) in enumerate(steps):
        if kind == STORE:
            ours = {int(p) + i for p in places[:32] if p >= 0 for i in range(size)}
            if any(int(p) + i in ours for p in places[32:] if p >= 0 for i in range(size)):
                found.add(FIRST_LINE + number)
    return found


def meeting_lines(steps: list[tuple[int, int, np.ndarray]]) -> set[int]:
    """Lines on which lanes of one warp store to one place, each a value of its own."""
    found = set()
    for number, (kind, _, places) in enumerate(steps):
        for warp in (places[:32], places[32:]):
            used = warp[warp >= 0]
            if kind == STORE and len(set(used.tolist())) < len(used):
                found.add(FIRST_LINE + number)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_races_are_those_of_some_pair_of_accesses(seed: int) -> None:
    steps = draw(seed)
    places = np.array([step[2] for step in steps], np.int32)
    out = np.zeros(THREADS, np.uint64)
    values = {"places": (places, Role.INPUT), "out": (out, Role.OUTPUT)}
    plan = cuda_plan(source_of(steps), "k", values, ("places", "out"), (1,), (THREADS,))
    found = execute(plan, {"places": places}).findings
    meeting = [finding for finding in found if "by the same store" in finding.message]
    assert {finding.line for finding in meeting} == meeting_lines(steps)
    findings = [finding for finding in found if finding not in meeting]
    pairs, alone = racing_lines(steps), racing_within(steps)
    for finding in findings:
        assert finding.kind is FindingKind.RACE
        others = {int(number) for number in re.findall(r"line (\d+)", finding.message)} or {finding.line}
        assert any(tuple(sorted((finding.line, other))) in pairs for other in others) or finding.line in alone, finding
    assert bool(findings) == bool(pairs or alone)
