"""Likeness by tokens and by compiled form: what renaming changes, what another language changes, what chance gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from autograder.overview.alike import ComparedWork, given_runs, likeness, pairs, runs
from autograder.overview.common_parts import common_parts
from autograder.overview.tokens import tokens
from autograder.own_work import capture_submission
from autograder.records.shape import Shape
from autograder.spec.lab import CHECKOUT, find_lab
from autograder.worker.shape_stage import shape_of
from corpus.judge.submission_files import submission

pytestmark = pytest.mark.stored

LAB = find_lab("04_reduction").drawn(1)
RUNGS = CHECKOUT / "solutions" / LAB.name

ORIGINAL = '''\
"""Sums."""
from numba import cuda, float32

WIDTH = 256


@cuda.jit
def partial_sums(values, sums):
    """A sum a block."""
    lane = cuda.threadIdx.x
    start = cuda.grid(1)
    step = cuda.gridsize(1)
    mine = float32(0)
    for i in range(start, values.size, step):
        mine += values[i]
    tile = cuda.shared.array(WIDTH, float32)
    tile[lane] = mine
    cuda.syncthreads()
    half = WIDTH // 2
    while half:
        if lane < half:
            tile[lane] += tile[lane + half]
        cuda.syncthreads()
        half //= 2
    if lane == 0:
        cuda.atomic.add(sums, 0, tile[0])


@cuda.jit
def clear(sums):
    sums[0] = 0


def total(x, out):
    clear[1, 1](out)
    partial_sums[120, WIDTH](x, out)
'''
NAMES = {
    "partial_sums": "reduce_it", "values": "a", "sums": "r", "lane": "t", "start": "first", "step": "hop",
    "mine": "acc", "tile": "buffer", "half": "distance", "WIDTH": "N_THREADS", "clear": "nothing",
}  # fmt: skip
# The same kernels by somebody who has ported them line by line.
PORTED = '''\
import cupy
import numpy as np

kernels = cupy.RawModule(code=r"""
extern "C" __global__ void clear(float* sums) { sums[0] = 0.0f; }

extern "C" __global__ void partial_sums(const float* values, long long n, float* sums)
{
    __shared__ float tile[256];
    int lane = threadIdx.x;
    long long step = (long long)gridDim.x * blockDim.x;
    float mine = 0.0f;
    for (long long i = (long long)blockIdx.x * blockDim.x + lane; i < n; i += step) {
        mine += values[i];
    }
    tile[lane] = mine;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (lane < half) tile[lane] += tile[lane + half];
        __syncthreads();
    }
    if (lane == 0) atomicAdd(sums, tile[0]);
}
""")

def total(x, out):
    kernels.get_function("clear")((1,), (1,), (out,))
    kernels.get_function("partial_sums")((120,), (256,), (x, np.int64(x.size), out))
'''


def renamed(text: str) -> str:
    for name, other in NAMES.items():
        text = text.replace(name, other)
    return "# my own work\n\n" + text.replace('"""A sum a block."""', '"""Adds."""')


def shape(path) -> Shape:
    captured = capture_submission(LAB, path, (LAB.task.profile,), 1, "sm_90a")
    return Shape.from_wire(shape_of(captured.plans[LAB.task.profile.name], "sm_90a"))


@pytest.fixture(scope="module")
def works(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ComparedWork]:
    folder = tmp_path_factory.mktemp("works")
    texts = {"original": ORIGINAL, "renamed": renamed(ORIGINAL), "ported": PORTED}
    texts["other"] = submission(f"{LAB.name}/correct/last_block_adds_up.py").read_text()
    texts["another"] = (RUNGS / "rung_3_shuffles.py").read_text()
    found = {}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
        found[name] = ComparedWork(name, text, tuple(tokens(text)), shape(folder / f"{name}.py"))
    return found


def test_renaming_changes_neither_tokens_nor_what_is_compiled(works: dict[str, ComparedWork]) -> None:
    (pair,) = pairs([works["original"], works["renamed"]])
    assert works["original"].text != works["renamed"].text
    assert pair.by_tokens == pair.compiled == pair.work == 1.0


def test_a_port_is_closer_than_anybody_elses_work(works: dict[str, ComparedWork]) -> None:
    found = {frozenset((p.first.name, p.second.name)): p for p in pairs(list(works.values()))}
    port = found[frozenset(("original", "ported"))]
    others = [found[frozenset((a, b))] for a in ("original", "ported") for b in ("other", "another")]
    assert port.work is not None and port.work > 0.6
    assert all(pair.work is not None and pair.work < port.work - 0.2 for pair in others)
    assert (port.by_tokens or 0) < 0.3  # its text says nothing of it
    best = max(found.values(), key=lambda pair: pair.strongest)
    assert {best.first.name, best.second.name} == {"original", "renamed"}


def test_the_common_part_is_shown_where_it_is(works: dict[str, ComparedWork]) -> None:
    (pair,) = pairs([works["original"], works["ported"]])
    common = common_parts(pair, Counter())[0]
    shown = "\n".join(works["original"].text.split("\n")[common.first[0] - 1 : common.first[1]])
    ported = "\n".join(works["ported"].text.split("\n")[common.second[0] - 1 : common.second[1]])
    assert "tile[lane + half]" in shown and "tile[lane + half]" in ported


def test_what_everybody_was_given_is_nobodys(works: dict[str, ComparedWork]) -> None:
    alike = [works["original"], replace(works["original"], name="twin")]
    assert pairs(alike)[0].by_tokens == 1.0
    assert pairs(alike, given_runs([works["original"].tokens]))[0].by_tokens is None


def test_short_ones_are_not_compared() -> None:
    short = ComparedWork("a", "x = 1", tuple(tokens("x = 1\n")), Shape("numba", ("ret",), (1,), (), ()))
    (pair,) = pairs([short, replace(short, name="b")])
    assert (pair.by_tokens, pair.compiled, pair.work) == (None, None, None) and pair.strongest == 0


def test_likeness_by_hand() -> None:
    first, second = runs("abcd", 2), runs("bcde", 2)  # ab bc cd, bc cd de
    assert likeness(first, second) == pytest.approx(2 * 2 / 6)
    assert likeness(first, runs("a", 2)) is None


def test_comments_layout_and_documentation_are_no_tokens() -> None:
    plain = tokens("def f(a):\n    return a + 1\n")
    dressed = tokens('"""Text."""\n\ndef  g( b ):  # why\n    """More."""\n    return b+2\n')
    assert [token.kind for token in plain] == [token.kind for token in dressed]
    assert [token.kind for token in tokens("def f(:\n  '''")][:3] == ["def", "name", "("]


def test_device_code_in_a_text_is_read_as_such() -> None:
    text = 'k = cupy.RawKernel(r"""\n// why\n__global__ void k(float* x) {\n  x[0] = 1.5f; }\n""", "k")\n'
    found = tokens(text)
    assert "{" in [token.kind for token in found] and "void" in [token.kind for token in found]
    assert next(token.line for token in found if token.kind == "{") == 3
