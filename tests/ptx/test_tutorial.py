"""The examples of docs/ptx-tutorial.md print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "ptx-tutorial.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MOST_WORDS = 900


@pytest.mark.processes
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_prints_what_stands_beside_it(number: int, tmp_path: Path) -> None:
    path = tmp_path / "step.py"
    path.write_text(EXAMPLES[number], encoding="utf-8")
    promised = re.search(r"# prints (.*)\n", EXAMPLES[number])
    assert promised, "an example that says nothing"
    run = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout.strip()) == (0, promised[1]), run.stderr


@pytest.mark.processes
def test_without_its_wait_step_4_has_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "step.py"
    text = next(example for example in EXAMPLES if "cp_async" in example)
    path.write_text(text.replace("    wait_for_all()\n", ""), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "race" in run.stdout, run.stderr


def test_the_page_is_short_and_has_all_steps() -> None:
    assert len(EXAMPLES) == PAGE.count("\n## Step ") == 4
    assert len(PAGE.split()) <= MOST_WORDS
