"""What is kept of a reference's grade with another toolkit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from autograder.submissions import references
from benchmarks import toolkit_grades
from warplab.hardware.toolkit import toolkit

pytestmark = pytest.mark.processes


def test_points_are_those_of_the_report(tmp_path: Path) -> None:
    lab, source = references()[0]
    target = tmp_path / "report.json"
    command = [sys.executable, "-m", "autograder", "check", str(source), "--device=emulator", f"--json={target}"]
    subprocess.run(command, check=True, capture_output=True)
    report = msgspec.json.decode(target.read_bytes())["reports"][0]
    record = toolkit_grades._record(lab.name, source, report)
    assert (record.name, record.variant) == ("01_axpy/submission", f"graded with CUDA {toolkit()}")
    assert record.value == record.extra["points_there_are"] == 70  # the other 30 need a GPU
    assert record.extra["lost"] == {"efficiency": "Needs a GPU; the points of this part are left out of the maximum."}


def test_nothing_is_graded_without_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(toolkit_grades, "present", lambda: None)
    assert toolkit_grades.main() == 3
    assert "There is no GPU here" in capsys.readouterr().err
