"""What a learner reads after a try: the verdict, the emulator's words with the lines that they name, or why not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from course.captures import PROCESSES
from course.kernel_cell import kernel_cell
from course.trial import attempt
from warplab.plan.capture import child_process
from warplab.plan.capture.escape_probe import strongest
from warplab.sandbox.isolation import Isolation

pytestmark = pytest.mark.stored

SHIFT = """from numba import cuda

@cuda.jit
def shift_kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i] + 1 if i < 40 else 0

def shift(x, out):
    shift_kernel[2, 32](x, out)
"""


def shown(text: str, size: int, folder: Path, expected: np.ndarray | None = None) -> tuple[str, bool]:
    x = np.arange(size, dtype=np.int32)
    trial = attempt(kernel_cell("shift", text, folder), {"x": x, "out": np.zeros_like(x)}, expected)
    return re.sub(r"<[^>]+>", " ", trial._repr_html_()), trial.clean


def test_a_right_try_says_so(tmp_path: Path) -> None:
    expected = np.where(np.arange(64) < 40, np.arange(64) + 1, 0)
    said, clean = shown(SHIFT, 64, tmp_path, expected)
    assert clean and "all 64 elements" in said and "no fault" in said


def test_a_wrong_element_is_named(tmp_path: Path) -> None:
    said, clean = shown(SHIFT, 64, tmp_path, np.arange(64) + 1)
    assert not clean and "Wrong: 24 of 64 elements; out[40] is 0, not 41." in said


def test_findings_are_quoted_with_their_lines(tmp_path: Path) -> None:
    said, clean = shown(SHIFT, 60, tmp_path, np.where(np.arange(60) < 40, np.arange(60) + 1, 0))
    assert not clean and "all 60 elements" in said, "right, and faulty all the same"
    assert "one fault" in said and "out of bounds" in said and "4 times" in said
    assert "Line 6 writes out[60]" in said and "out[i] = x[i] + 1 if i &lt; 40 else 0" in said


def test_what_does_not_run_is_a_sentence(tmp_path: Path) -> None:
    said, clean = shown(SHIFT.replace("x[i] + 1", "x[j] + 1"), 64, tmp_path)
    assert not clean and "It did not run." in said and "'j'" in said.replace("&#x27;", "'") and "Traceback" not in said


def test_an_edited_cell_is_captured_anew(tmp_path: Path) -> None:
    ones = np.where(np.arange(64) < 40, np.arange(64) + 1, 0)
    assert shown(SHIFT, 64, tmp_path, ones)[1]
    assert not shown(SHIFT.replace("+ 1", "+ 2"), 64, tmp_path, ones)[1]


@pytest.mark.processes
@pytest.mark.cold_captures
@pytest.mark.skipif(strongest() is Isolation.REDUCED, reason="nothing keeps captures from each other here")
def test_a_notebook_keeps_the_process_of_its_captures(tmp_path: Path) -> None:
    expected, kept = np.where(np.arange(64) < 40, np.arange(64), 0), []
    try:
        for more in (1, 2):
            assert shown(SHIFT.replace("+ 1", f"+ {more}"), 64, tmp_path, expected + more * (np.arange(64) < 40))[1]
            kept.append(child_process.survivors())
    finally:
        PROCESSES.close()
    assert kept[0] == kept[1] != []
    assert not child_process.survivors()
