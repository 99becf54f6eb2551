"""The kernel of docs/ptx.md does what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_complete_kernel_runs_as_it_stands_there(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "ptx.md").read_text().split("\n## A complete kernel\n")[1]
    kernel, program = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / "product.py").write_text(kernel)
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["() True", "0 bank conflicts"]
    assert "`() True` and `0 bank conflicts`" in section
