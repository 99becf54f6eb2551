"""Which thread touches which element: against NumPy's own indices, over whole launches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from course.experiment import reach
from course.kernel_cell import kernel_cell
from warplab.emulator.profiling.profile import ProfileError
from warplab.emulator.profiling.reach import SHARED, Reach

pytestmark = pytest.mark.stored

TEXT = """from numba import cuda, int32

@cuda.jit
def line_kernel(x, out):
    tile = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < LIMIT:
        tile[t] = x[i]
        out[i] = tile[t]

@cuda.jit
def plane_kernel(x, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = x[row, column]

def line(x, out):
    line_kernel[(x.size + 7) // 8, 8](x, out)

def plane(x, out):
    plane_kernel[(2, 2), (8, 4)](x, out)

def many(x, out):
    line_kernel[65, 8](x, out)
"""


def follow(name: str, shape: tuple[int, ...], folder: Path, array: str = "out", limit: str = "out.size") -> Reach:
    x = np.zeros(shape, np.int32)
    return reach(kernel_cell(name, TEXT.replace("LIMIT", limit), folder), {"x": x, "out": x}, array)


def test_every_thread_has_its_element_or_none(tmp_path: Path) -> None:
    found = follow("line", (30,), tmp_path)
    assert (found.grid, found.block, found.shape) == ((4, 1, 1), (8, 1, 1), (30,))
    for (block, *_), (thread, *_) in found.places:
        touched = found.of((block, 0, 0), (thread, 0, 0))
        assert [touch.index for touch in touched] == ([(8 * block + thread,)] if 8 * block + thread < 30 else [])
    assert (found.idle, found.outside) == (2, 0) and not found.execution.findings


def test_what_is_outside_is_told_apart(tmp_path: Path) -> None:
    found = follow("line", (30,), tmp_path, limit="32")
    assert (found.idle, found.outside) == (0, 2)
    assert [t.index for t in found.touches if not t.inside] == [(30,), (31,)] and found.execution.findings


def test_a_block_has_a_shared_array_of_its_own(tmp_path: Path) -> None:
    found = follow("line", (16,), tmp_path, SHARED)
    assert found.shape == (8,) and len(found.touches) == 16
    assert {touch.index for touch in found.touches if touch.block == (1, 0, 0)} == {(n,) for n in range(8)}


def test_x_is_counted_first_in_blocks_of_two_dimensions(tmp_path: Path) -> None:
    found = follow("plane", (7, 15), tmp_path)
    for touch in found.touches:
        row, column = touch.index
        assert (touch.block[0] * 8 + touch.thread[0], touch.block[1] * 4 + touch.thread[1]) == (column, row)
    assert len(found.touches) == 7 * 15 and found.idle == 4 * 32 - 7 * 15


def test_warp_instructions_are_counted_for_each_block(tmp_path: Path) -> None:
    found = follow("line", (24,), tmp_path)
    assert sum(found.issued) == found.execution.total.warp_instructions and len(found.issued) == 3


def test_what_cannot_be_followed_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="no array 'y': it has x, out and 'a shared array'"):
        follow("line", (8,), tmp_path, "y")
    with pytest.raises(ProfileError, match="65 blocks is too large to follow: take at most 64"):
        follow("many", (520,), tmp_path)
