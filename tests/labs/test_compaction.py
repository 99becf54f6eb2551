"""Lab 20: a look-back over many tiles. On the emulator a prefix is never far, so no case of the lab goes that way."""

from __future__ import annotations

import re

import cupy
import numpy as np
import pytest

import warplab
from autograder.spec.lab import solutions_folder

pytestmark = pytest.mark.processes

SOURCE = (solutions_folder() / "20_compaction" / "submission_cuda.py").read_text(encoding="utf-8")
APART = 4  # words from tile to tile
SUM, PREFIX = np.uint64(1 << 32), np.uint64(2 << 32)
CALL = """
extern "C" __global__ void ask(const Word* words, const int* tiles, unsigned* answers) {
    unsigned answer = before(words, tiles[blockIdx.x]);
    answers[32 * blockIdx.x + threadIdx.x] = answer;
}
"""


@pytest.mark.parametrize("every", [1, 3, 40, 150, 600])
def test_the_sum_of_all_before_wherever_prefixes_are(every: int) -> None:
    count = 600
    kept = np.random.default_rng(every).integers(0, 8193, count).astype(np.uint64)
    prefixes = np.cumsum(kept)
    words = np.where(np.arange(count) % every == 0, PREFIX | prefixes, SUM | kept)
    spread = np.zeros(count * APART, np.uint64)
    spread[::APART] = words
    tiles = np.array([1, 2, 31, 32, 33, 127, 128, 129, 130, 257, 400, 599], np.int32)
    found = re.search(r"constexpr int BLOCK.*?(?=extern \"C\")", SOURCE, re.DOTALL)
    assert found
    kernel = cupy.RawKernel(found[0] + CALL, "ask")
    inputs = spread, tiles, np.zeros((tiles.size, 32), np.uint32)
    result = warplab.run(kernel, *inputs, grid=tiles.size, block=32)
    answers = list(result.outputs.values())[-1]
    assert not result.findings and (answers == prefixes[tiles - 1][:, None]).all()
