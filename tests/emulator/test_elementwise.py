"""cupy.ElementwiseKernel, captured and run: types, broadcasting, raw parameters, lines; against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulator.captured import grab, run
from warplab.emulator import execute
from warplab.plan.capture.failure import CaptureFailure

pytestmark = pytest.mark.stored

TEXT = """
axpy = cp.ElementwiseKernel("T a, T x, T y", "T z",
                            "z = a * x + y",  # axpy
                            "axpy")
swap = cp.ElementwiseKernel("raw float32 x, int32 n", "float32 z", "z = x[n - 1 - i] + _ind.size()", "swap")
both = cp.ElementwiseKernel("float32 x, float64 y", "bool more, float64 sum",
                            "more = x > y; sum = clip(x) + y", "both",
                            preamble="__device__ float clip(float v) { return v < 0 ? 0 : v; }")

def f(y):
    x = cp.arange(64, dtype=cp.float32)
    CALL
"""
X = np.arange(64, dtype=np.float32)
CALLS = {
    "an output of its own": ("z = axpy(2, x, x); axpy(1.0, z, x, y)", 4 * X),
    "into the output": ("axpy(np.float32(3), x, x, y)", 4 * X),
    "columns and rows": (
        "axpy(1, x.reshape(8, 8).T, x.reshape(8, 8)[2], y.reshape(8, 8))",
        X.reshape(8, 8).T + X.reshape(8, 8)[2],
    ),
    "a column": ("axpy(1, x[:8][:, None], x.reshape(8, 8), y.reshape(8, 8))", X[:8, None] + X.reshape(8, 8)),
    "raw": ("swap(x, 64, y)", X[::-1] + 64),
    "two outputs": (
        "more, s = both(x, cp.full(64, 30.5)); cp.ElementwiseKernel('bool m, float64 s', 'float32 y', 'y = m ? s : -s')"
        "(more, s, y)",
        np.where(X > 30.5, X + 30.5, -X - 30.5),
    ),
    "a size": ("cp.ElementwiseKernel('', 'raw float32 z', 'z[i] = i * i', 'squares')(y, size=64)", X * X),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_elements_are_numpys(call: str, tmp_path: Path) -> None:
    text, expected = CALLS[call]
    assert np.array_equal(run(TEXT.replace("CALL", text), tmp_path).outputs["y"], np.ravel(expected))


def test_counters_are_of_the_expressions_line(tmp_path: Path) -> None:
    plan = grab(TEXT.replace("CALL", "axpy(2, x, x, y)"), tmp_path)
    (launch,) = plan.launches
    assert launch.grid == (1, 1, 1) and launch.block == (128, 1, 1)
    lines = {line for line, c in execute(plan, {}).lines.items() if c.global_store_requests}
    assert [plan.source.splitlines()[line - 1].strip()[-6:] for line in lines] == ["# axpy"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("axpy(1, x)", "takes 3 inputs and 1 outputs, not 2 arguments"),
        ("axpy(1, x, x[:3])", "do not fit together"),
        ("swap(x, 64)", "pass the size"),
        ("both(x, x)", "is given float32 for 'y', which is float64"),
        ("axpy(1, np.ones(64, np.float32), x)", "cupy.asarray"),
        ("cp.ElementwiseKernel('float x', 'float32 y', 'y = x')", "'float x'"),
        ("axpy(1, x, x, y[:1])", "an output of shape (1,) for 'z', where its arrays together have the shape (64,)"),
        ("axpy(1, x, x.reshape(1, 64), y)", "an output of shape (64,) for 'z'"),
        ("axpy(1, x, x, y, size=64)", "only where every array is declared raw"),
    ],
)
def test_what_does_not_fit_is_said(call: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureFailure) as caught:
        grab(TEXT.replace("CALL", call), tmp_path)
    assert words in caught.value.message
