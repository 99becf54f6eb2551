"""`%%kernel`: a cell's own kernel on the emulator, and what it says of mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from course import kernel_cell as module
from course.kernel_cell import KernelCellError, kernel_cell, load_ipython_extension

pytestmark = pytest.mark.stored

SCALE = """from numba import cuda

@cuda.jit
def kernel(x, factor, out):
    i = cuda.grid(1)
    out[i] = x[i] * factor

def scale(x, factor, out):
    kernel[2, 32](x, factor, out)
"""


def test_a_cell_runs_with_arrays_and_numbers_by_name(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    run = kernel_cell("scale", SCALE, tmp_path).run({"factor": 3, "x": x}, block=(1, 0, 0), out=("float32", (64,)))
    np.testing.assert_array_equal(run.execution.outputs["out"], 3 * x)
    assert run.block == (1, 0, 0) and run.execution.total.global_load_requests == 2


def test_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    with pytest.raises(KernelCellError, match="scale takes x, factor, out, not x"):
        kernel_cell("scale", SCALE, tmp_path).run({"x": np.zeros(64, np.float32)})
    monkeypatch.setattr(module, "CHECKOUT", tmp_path)
    shell = InteractiveShell()
    load_ipython_extension(shell)
    shell.run_cell_magic("kernel", "scale", SCALE)
    assert shell.user_ns["scale"].parameters == ("x", "factor", "out") and capsys.readouterr().out == ""
    shell.run_cell_magic("kernel", "stretch", SCALE)
    assert "wants a host function 'stretch' in the cell; there: kernel, scale." in capsys.readouterr().out
    shell.run_cell_magic("kernel", "scale", "def scale(:\n")
    assert "Line 2 of the cell is not Python" in capsys.readouterr().out  # the magic has the first


def test_lines_are_those_of_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKOUT", tmp_path)
    shell = InteractiveShell.instance()
    load_ipython_extension(shell)
    for above in (0, 2):
        shell.run_cell("\n" * above + "%%kernel scale\n" + SCALE, store_history=True)
        run = shell.user_ns["scale"].run({"factor": 3, "x": np.zeros(64, np.float32)}, out=("float32", (63,)))
        (finding,) = run.execution.findings
        assert finding.line == above + 7  # the store is the sixth line below the magic's
    InteractiveShell.clear_instance()
