"""Captured arrays outside a capture: what is refused, and that nothing silently gives a number."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from warplab.plan.capture.arrays import CapturedArray, allocate, argument_array, contiguous_strides, is_contiguous
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.model import Role


@pytest.fixture
def array() -> CapturedArray:
    return argument_array("x", "float32", (4, 6), Role.INPUT)


USES: dict[str, Callable[[Any], Any]] = {
    "add": lambda a: a + 1,
    "radd": lambda a: 1 + a,
    "numpy scalar": lambda a: np.float32(2) * a,
    "numpy array": lambda a: np.ones((4, 6)) * a,
    "matmul": lambda a: a @ a.T,
    "power": lambda a: 2**a,
    "compare": lambda a: a == 0,
    "iadd": lambda a: operator.iadd(a, 1),
    "sum": lambda a: np.sum(a),
    "asarray": lambda a: np.asarray(a),
    "max": lambda a: max(a),
    "list": lambda a: list(a),
    "float": lambda a: float(a[0]),
    "truth": lambda a: bool(a),
    "element": lambda a: a[1, 2],
    "mask": lambda a: a[a.view(np.int32)],
    "list index": lambda a: a[[0, 1]],
    "write": lambda a: operator.setitem(a, 0, 1),
    "write slice": lambda a: operator.setitem(a, slice(None), 1),
    "method": lambda a: a.sum(),
    "copy": lambda a: a.copy_to_host(),
    "reshape a view": lambda a: a.T.reshape(24),
    "object view": lambda a: a.view(object),
}


@pytest.mark.parametrize("use", list(USES))
def test_what_needs_contents_is_unsupported(use: str, array: CapturedArray) -> None:
    with pytest.raises(CaptureFailure) as caught:
        USES[use](array)
    assert caught.value.status is CaptureStatus.UNSUPPORTED
    assert "is not possible while kernels are recorded: " in caught.value.message


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda a: a[0, 0, 0], IndexError),
        (lambda a: a[4], IndexError),
        (lambda a: a.reshape(5, 5), ValueError),
        (lambda a: a.transpose(0, 0), ValueError),
        (lambda a: a.T.view(np.float64), ValueError),
        (lambda a: a[:, :5].view(np.float64), ValueError),
        (lambda a: len(a.reshape(-1)[:1].reshape(())), TypeError),
    ],
)
def test_mistakes_are_numpys(use: Callable[[Any], Any], error: type[Exception], array: CapturedArray) -> None:
    with pytest.raises(error):
        use(np.zeros((4, 6), np.float32))
    with pytest.raises(error):
        use(array)


def test_attributes_are_numpys(array: CapturedArray) -> None:
    truth = np.zeros((4, 6), np.float32)
    for name in ("shape", "strides", "dtype", "size", "ndim", "nbytes", "itemsize"):
        assert getattr(array, name) == getattr(truth, name)
        assert getattr(array.T, name) == getattr(truth.T, name)
    assert len(array) == 4 and not hasattr(array, "__cuda_array_interface__")
    assert array in {array: 1}


@pytest.mark.parametrize("shape", [(), (3,), (3, 4), (1, 5), (5, 1), (2, 0, 3), (1, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_contiguity_is_numpys(shape: tuple[int, ...], order: str) -> None:
    truth = np.zeros(shape, np.float64, order=order)  # type: ignore[call-overload]
    if truth.size:
        assert contiguous_strides(shape, 8, order) == truth.strides
    for view in (truth, truth.T, truth[::2] if shape else truth, truth[..., :1] if shape else truth):
        for o in "CF":
            assert is_contiguous(view.shape, view.strides, 8, o) == view.flags[f"{o}_CONTIGUOUS"]


@pytest.mark.parametrize(
    ("shape", "dtype", "status"),
    [
        ((-1,), "float32", CaptureStatus.HOST_ERROR),
        ((1 << 40, 8), "float32", CaptureStatus.RESOURCES),
        ((4,), "object", CaptureStatus.UNSUPPORTED),
        ((4,), "U8", CaptureStatus.UNSUPPORTED),
    ],
)
def test_scratch_that_no_gpu_can_have(shape: tuple[int, ...], dtype: str, status: CaptureStatus) -> None:
    with pytest.raises(CaptureFailure) as caught:
        allocate(shape, dtype)
    assert caught.value.status is status
