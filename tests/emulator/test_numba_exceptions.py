"""What a Numba kernel raises stops it with debug=True, at the line that raises; without, it ends the thread."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulator.captured import grab
from warplab.emulator import execute
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.stored

TEXT = """
@cuda.jit(OPTIONS)
def k(y):
    i = cuda.grid(1)
    if i == 40:
        raise ValueError("forty")  # here
    y[i] = i

def f(y):
    k[2, 32](y)
"""


@pytest.mark.parametrize("debug", [True, False])
def test_an_exception(debug: bool, tmp_path: Path) -> None:
    plan = grab(TEXT.replace("OPTIONS", "debug=True, opt=False" if debug else ""), tmp_path)
    execution = execute(plan, {})
    if not debug:
        assert execution.findings == () and np.array_equal(execution.outputs["y"][41:], np.arange(41, 64))
        return
    (finding,) = execution.findings
    assert finding.kind is FindingKind.TRAP and finding.thread == (8, 0, 0) and finding.block == (1, 0, 0)
    assert plan.source.splitlines()[finding.line - 1].endswith("# here")
