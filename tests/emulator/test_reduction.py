"""cupy.ReductionKernel, captured and run: axes, types, identities, lines; against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulator.captured import grab, run
from warplab.emulator import execute
from warplab.plan.capture.failure import CaptureFailure

pytestmark = pytest.mark.stored

TEXT = """
length = cp.ReductionKernel("T x", "T y", "x * x",  # squared
                            "a + b",  # added
                            "y = sqrt(a)", "0", "length")
dot = cp.ReductionKernel("T x, T w", "float64 y", "(double)x * w", "a + b", "y = a", "0", "dot", reduce_type="double")
largest = cp.ReductionKernel("T x", "T y, int64 n", "_at(x)", "a.v < b.v ? b : a", "y = a.v; n = a.n",
                             "_at(-1)", "largest", reduce_type="_at",
                             preamble="struct _at { float v; int n; __device__ _at() {}"
                                      "__device__ _at(float v) : v(v), n(1) {} };")
total = cp.ReductionKernel("int32 x, int32 least", "int32 y", "x < least ? 0 : x", "a + b", "y += a", None, "total")

def f(y):
    x = cp.arange(3 * 700, dtype=cp.float32).reshape(3, 700)
    CALL
"""
X = np.arange(2100, dtype=np.float32).reshape(3, 700)
CALLS = {
    "all": ("length(x[:1, :5], y[7:8].reshape(()))", {7: np.sqrt(30.0)}),
    "the last axis": ("length(x[:, :2], y[:3], axis=1)", dict(enumerate(np.linalg.norm(X[:, :2], axis=1)))),
    "the first axis, strided": (
        "length(x[:, ::100], out=y[:14:2], axis=-2)",
        {2 * n: v for n, v in enumerate(np.linalg.norm(X[:, ::100], axis=0))},
    ),
    "two of three axes": (
        "length(x.reshape(3, 7, 100)[..., :3], y[:7], axis=(0, 2))",
        dict(enumerate(np.linalg.norm(X.reshape(3, 7, 100)[..., :3], axis=(0, 2)))),
    ),
    "kept dimensions": (
        "length(x, y[:3].reshape(3, 1), axis=1, keepdims=True)",
        dict(enumerate(np.linalg.norm(X, axis=1))),
    ),
    "broadcast, more precise, an output of its own": (
        "cp.ElementwiseKernel('float64 s', 'float32 y', 'y = s', 'to')(dot(x, x[1], axis=1), y[:3])",
        dict(enumerate((X.astype(np.float64) @ X[1].astype(np.float64)).astype(np.float32))),
    ),
    "a type of one's own": (
        "v, n = largest(x); cp.ElementwiseKernel('float32 v', 'float32 y', 'y = v', 'to')(v.reshape(1), y[:1])",
        {0: np.float32(2099)},
    ),
    "nothing": ("length(x[:, :0], y[:3], axis=1)", {0: 0.0, 1: 0.0, 2: 0.0}),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_results_are_numpys(call: str, tmp_path: Path) -> None:
    text, expected = CALLS[call]
    y = run(TEXT.replace("CALL", text), tmp_path).outputs["y"]
    places = list(expected)
    assert np.allclose(y[places], [expected[n] for n in places], rtol=3e-7, atol=0)
    assert np.isnan(np.delete(y, places)).all(), "nothing else is written"


@pytest.mark.parametrize("each", [1, 2, 31, 255, 256, 257, 700])
def test_every_element_counts_once(each: int, tmp_path: Path) -> None:
    call = f"length(cp.ones((5, {each}), dtype=cp.float32), y[:5], axis=1)"
    assert np.allclose(run(TEXT.replace("CALL", call), tmp_path).outputs["y"][:5], np.sqrt(each), rtol=3e-7, atol=0)


def test_counters_are_of_the_expressions_lines(tmp_path: Path) -> None:
    plan = grab(TEXT.replace("CALL", "length(x, y[:3], axis=1)"), tmp_path)
    (launch,) = plan.launches
    assert launch.grid == (3, 1, 1) and launch.block == (256, 1, 1)
    lines = {line for line, c in execute(plan, {}).lines.items() if c.thread_fmul + c.thread_ffma + c.thread_fadd}
    text = plan.source.splitlines()
    assert {text[line - 1].strip().partition("# ")[2] for line in lines} >= {"squared", "added"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("length(x, x, x)", "takes 1 inputs and 1 outputs, not 3 arguments"),
        ("length(x, y)", "is given an output of shape (64,), where its results have the shape ()"),
        ("length(x, axis=2)", "reduce axis 2 of an array of 2 dimensions"),
        ("length(3.0)", "needs an input array"),
        ("total(cp.zeros((2, 0), dtype=cp.int32), 1, axis=1)", "has no identity"),
        ("cp.sum(x)", "write it as a ReductionKernel"),
        ("import cupyx.jit", "numba.cuda.jit takes too"),
    ],
)
def test_what_does_not_fit_is_said(call: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureFailure) as caught:
        grab(TEXT.replace("CALL", call), tmp_path)
    assert words in caught.value.message
