"""The layouts of fragments, against the emulator: a warp that is given a matrix by them computes with that matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from course.kernel_cell import kernel_cell
from warplab.emulator.core.tensor.matrix_moves import _element
from warplab.hardware.fragments import BITS, DEPTHS, Fragment, ldmatrix, mma, wgmma_sums

pytestmark = pytest.mark.stored

FORMS = [("f16", 16), ("f16", 8), ("bf16", 16), ("tf32", 8), ("tf32", 4), ("e4m3", 32), ("s8", 32), ("s8", 16)]
CELL = """
from numba import cuda
from warplab import ptx

product = ptx.mma("{dtype}", k={k}, sums={sums!r})
ZEROS = ptx.zeros({count}, "{zero}")


@cuda.jit
def kernel(a, b, d):
    t = cuda.threadIdx.x
    sums = product({a}, {b}, ZEROS)
    for i in range({count}):
        d[t, i] = sums[i]


def probe(a, b, d):
    kernel[1, 32](a, b, d)
"""


def bits_of(values: np.ndarray, dtype: str) -> np.ndarray:
    """Small whole numbers as bit patterns of `dtype`, as uint32."""
    if dtype in ("s8", "u8"):
        return (values.astype(np.int64) & 0xFF).astype(np.uint32)
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    wide = values.astype(np.float32).view(np.uint32)
    if dtype == "e4m3":  # -2 to 2: exponents 7 and 8 above a bias of 7
        patterns = {0: 0x00, 1: 0x38, 2: 0x40, -1: 0xB8, -2: 0xC0}
        return np.vectorize(patterns.get)(values).astype(np.uint32)
    return wide >> 16 if dtype == "bf16" else wide


def words_of(layout: Fragment, bits: np.ndarray) -> np.ndarray:
    """uint32 [32, registers]: what the lanes hold."""
    held = layout.gather(bits).astype(np.uint32)
    shifts = (np.arange(held.shape[2]) * layout.bits).astype(np.uint32)
    return np.bitwise_or.reduce(held << shifts, axis=2)


@pytest.mark.parametrize(("dtype", "k"), FORMS)
def test_the_emulator_multiplies_what_the_layout_hands_to_the_lanes(dtype: str, k: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(-2, 3, (16, k)), rng.integers(-2, 3, (k, 8))
    words = [words_of(mma("a", dtype, k), bits_of(a, dtype)), words_of(mma("b", dtype, k), bits_of(b, dtype))]
    names = [
        [f"{name}[t, {i}]" for i in range(word.shape[1])] for name, word in zip("ab", words, strict=True)
    ]  # a fragment of one register is no tuple
    parts = [f"({', '.join(each)})" if len(each) > 1 else each[0] for each in names]
    whole = dtype == "s8"
    text = CELL.format(
        dtype=dtype, k=k, sums=None, count=4, zero="int32" if whole else "float32", a=parts[0], b=parts[1]
    )
    run = kernel_cell("probe", text, tmp_path).run(
        {"a": words[0], "b": words[1]}, d=("int32" if whole else "float32", (32, 4))
    )
    assert run.findings == ()
    layout = mma("d", dtype, k)
    np.testing.assert_array_equal(run.execution.outputs["d"][layout.lanes, layout.registers], a @ b)


def test_half_sums_lie_in_pairs(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-2, 3, (16, 16)), rng.integers(-2, 3, (16, 8))
    words = [words_of(mma(name), bits_of(values, "f16")) for name, values in (("a", a), ("b", b))]
    text = CELL.format(
        dtype="f16", k=16, sums="f16", count=2, zero="uint32",
        a="(a[t, 0], a[t, 1], a[t, 2], a[t, 3])", b="(b[t, 0], b[t, 1])",
    )  # fmt: skip
    run = kernel_cell("probe", text, tmp_path).run({"a": words[0], "b": words[1]}, d=("uint32", (32, 2)))
    layout = mma("d", sums="f16")
    halves = run.execution.outputs["d"].view(np.float16).reshape(32, 2, 2)
    np.testing.assert_array_equal(halves[layout.lanes, layout.registers, layout.parts], a @ b)


@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_takes_the_bytes_that_the_emulator_takes(transposed: bool) -> None:
    layout = ldmatrix(transposed=transposed)
    for lane in range(32):
        ((first, second),) = layout.of_lane(lane)
        for half, (row, column) in enumerate((first, second)):
            assert _element.py_func(lane, half, int(transposed)) == 16 * row + 2 * column


@pytest.mark.parametrize("dtype", BITS)
def test_every_register_is_full_and_every_element_is_held_once(dtype: str) -> None:
    for k in DEPTHS[dtype]:
        for operand in "abd":
            layout = mma(operand, dtype, k)
            rows, columns = layout.shape
            places = {
                (int(lane), int(register), int(part))
                for lane, register, part in zip(
                    layout.lanes.flat, layout.registers.flat, layout.parts.flat, strict=True
                )
            }
            assert len(places) == rows * columns
            assert len(places) == 32 * layout.registers_a_lane * (int(layout.parts.max()) + 1)


def test_the_places_that_the_documentation_of_ptx_names() -> None:
    # mma.m16n8k16 of f16: lane 5 is member 1 of group 1.
    assert mma("a").of_lane(5) == [[(1, 2), (1, 3)], [(9, 2), (9, 3)], [(1, 10), (1, 11)], [(9, 10), (9, 11)]]
    assert mma("b").of_lane(5) == [[(2, 1), (3, 1)], [(10, 1), (11, 1)]]
    assert mma("d").of_lane(5) == [[(1, 2)], [(1, 3)], [(9, 2)], [(9, 3)]]
    # wgmma: warp 2 holds rows 32 to 47; sums 4 j to 4 j + 3 belong to columns from 8 j on.
    sums = wgmma_sums(16)
    assert sums.threads == 128 and sums.of_lane(64 + 5)[4:] == [[(33, 10)], [(33, 11)], [(41, 10)], [(41, 11)]]


@pytest.mark.parametrize(("operand", "dtype", "k"), [("a", "f16", 32), ("e", "f16", 16), ("a", "f8", 16)])
def test_a_form_that_does_not_exist_is_one_sentence(operand: str, dtype: str, k: int) -> None:
    with pytest.raises(ValueError, match="there is no operand"):
        mma(operand, dtype, k)
    with pytest.raises(ValueError, match="multiple of 8"):
        wgmma_sums(12)
