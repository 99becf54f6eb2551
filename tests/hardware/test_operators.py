"""What operators compute and move, counted by doing them in NumPy on small sizes, and by the emulator for the labs'."""

from __future__ import annotations

import numpy as np
import pytest

from course import results
from warplab.hardware import operators as o
from warplab.hardware.operators import OPERATORS


class Counted(np.ndarray):
    """An array that counts the operations on its elements."""

    total = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **arguments):
        plain = [np.asarray(i) if isinstance(i, Counted) else i for i in inputs]
        result = getattr(ufunc, method)(*plain, **arguments)
        # A reduction of n elements is counted as n operations, as the definitions do.
        Counted.total += np.size(plain[0]) if method == "reduce" else np.size(result)
        return np.asarray(result).view(Counted)


@pytest.fixture(autouse=True)
def _from_zero() -> None:
    Counted.total = 0


def array(*shape: int) -> Counted:
    return np.random.default_rng(0).standard_normal(shape).view(Counted)


def test_elementwise_and_rows() -> None:
    x, y = array(64), array(64)
    2.0 * x + y
    assert o.axpy(64).flops == Counted.total and o.axpy(64).bytes == 3 * 64 * 4
    Counted.total = 0
    (x * y).sum()
    assert o.dot(64).flops == Counted.total
    Counted.total = 0
    rows = array(8, 16)
    shifted = np.exp(rows - rows.max(axis=1, keepdims=True))
    shifted * (1 / np.asarray(shifted.sum(axis=1, keepdims=True)))
    assert o.softmax(8, 16).flops == Counted.total and o.softmax(8, 16).bytes == 2 * 8 * 16 * 2
    Counted.total = 0
    centred = rows - np.asarray(rows.sum(axis=1, keepdims=True)) / 16
    variance = np.asarray((centred * centred).sum(axis=1, keepdims=True)) / 16
    centred * (1 / np.sqrt(variance)) * array(16) + array(16)
    assert o.layernorm(8, 16).flops == Counted.total


def test_stencil() -> None:
    x = array(10, 12)
    inner = x[1:-1, 1:-1]
    0.5 * inner + 0.1 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    assert o.stencil(8, 10).flops == Counted.total - 0 and o.stencil(8, 10).bytes == 2 * 80 * 4


def test_products_and_convolution() -> None:
    a, b = array(6, 1, 5), array(1, 5, 7).reshape(1, 5, 7)
    products = np.asarray(a).transpose(0, 2, 1) * np.asarray(b)  # 6 x 5 x 7
    assert o.gemm("g", 6, 7, 5).flops == 2 * products.size
    assert o.gemm("g", 6, 7, 5).bytes == 2 * (6 * 5 + 5 * 7 + 6 * 7)
    taps = np.empty((2, 4, 4, 3, 8, 3, 3))  # images, height, width, channels, filters, side, side
    conv = o.convolution(2, 4, 4, 3, 8, 3)
    assert conv.flops == 2 * taps.size
    assert conv.bytes == 2 * (2 * 16 * 3 + 2 * 16 * 8 + 8 * 3 * 9)


def test_attention() -> None:
    q, k = np.empty((2, 8, 5, 16), "f2"), np.empty((2, 4, 9, 16), "f2")
    made = o.attention("a", 2, 8, 4, 5, 9, 16)
    assert made.bytes == 2 * q.nbytes + 2 * k.nbytes
    scores = 2 * 8 * 5 * 9
    assert made.flops == 2 * scores * 16 + 5 * scores + 2 * scores * 16
    decode = next(op for op in OPERATORS if op.name == "attention, decode")
    assert decode.intensity == pytest.approx(decode.dimensions["heads"] / decode.dimensions["kv_heads"], rel=0.02)


def test_the_emulator_counted_the_same_bytes() -> None:
    """Kernels that move nothing in vain: the sectors of the labs' profile cases are the compulsory bytes."""
    shipped = results.read(results.DIRECTORY / "labs.json")

    def moved(lab: str, variant: str) -> tuple[tuple[int, ...], float]:
        found = [shipped.find(lab, f"global_{kind}_sectors", variant=variant) for kind in ("load", "store")]
        return found[0].shape, 32 * sum(record.value for record in found)

    (n,), bytes_moved = moved("01_axpy", "submission")
    assert o.axpy(n).bytes == bytes_moved
    (rows, columns), bytes_moved = moved("03_transpose", "submission")
    assert o.transpose(rows, columns).bytes == bytes_moved


def test_there_are_twelve_or_more_and_names_are_their_own() -> None:
    names = [operator.name for operator in OPERATORS]
    assert len(names) == len(set(names)) >= 12
    assert sum(operator.flops == 0 for operator in OPERATORS) == 2
