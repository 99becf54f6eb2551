"""The packages that learners may have: what is compared of them, and with WARPLAB_ENVIRONMENTS=1 Colab's for real."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import toolkits
from benchmarks.toolkits import BASELINE, COLAB, ENVIRONMENTS, ROOT, compared
from course import results
from warplab.errors import WarplabError

WANTED = os.environ.get("WARPLAB_ENVIRONMENTS", "") not in ("", "0")


def kernels(**changed: dict) -> dict:
    same = {"outputs": {"y": "ab"}, "counters": {"global_load_sectors": 8, "warp_instructions": 40}, "findings": 0}
    return {"versions": {}, "kernels": {name: {**same, **changed.get(name, {})} for name in ("a", "b", "c")}}


def test_what_differs_is_counted_and_named() -> None:
    found = kernels(
        a={"outputs": {"y": "cd"}},
        b={"counters": {"global_load_sectors": 16, "warp_instructions": 40}},
        c={"counters": {"global_load_sectors": 8, "warp_instructions": 41}, "findings": 1},
    )
    records = {record.metric: record for record in compared("CUDA 12", found, kernels())}
    assert {metric: record.value for metric, record in records.items()} == {
        "kernels compared": 3,
        "outputs differ": 1,
        "findings differ": 1,
        "memory counters differ": 1,
        "instruction counts differ": 1,
    }
    assert records["outputs differ"].extra["kernels"] == ["a"]
    assert records["memory counters differ"].extra["kernels"] == {"b": {"global_load_sectors": [16, 8]}}
    assert [record.value for record in compared(BASELINE, kernels(), kernels())] == [3, 0, 0, 0, 0]


def test_the_environments_are_those_that_the_project_promises() -> None:
    names = [environment.name for environment in ENVIRONMENTS]
    assert names[0] == BASELINE and COLAB in names and len(set(names)) == len(names)
    assert all((ROOT / file).exists() for environment in ENVIRONMENTS for file in environment.constraints)
    pinned = [line for e in ENVIRONMENTS for f in e.constraints for line in (ROOT / f).read_text().splitlines()]
    tried = {
        line.split("==")[1]
        for line in [*pinned, *(p for e in ENVIRONMENTS for p in e.pinned)]
        if "numba-cuda==" in line
    }
    minors = sorted(int(version.split(".")[1]) for version in tried)
    assert minors == [22, 23, 24, 26, 27, 28, 29, 30]  # there is no 0.25
    assert "numba-cuda>=0.22;" in (ROOT / "pyproject.toml").read_text()


def test_an_unknown_environment_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert toolkits.main(["CUDA 11"]) == 2
    assert "'CUDA 11'" in capsys.readouterr().err


def test_the_record_says_that_outputs_are_the_same() -> None:
    record = results.read(results.DIRECTORY / "toolkits.json")
    differ = [(r.name, r.metric, r.value) for r in record.records if r.metric in ("outputs differ", "findings differ")]
    assert differ and all(value == 0 for *_, value in differ)
    assert {name for name, *_ in differ} >= {BASELINE, "CUDA 12", COLAB}


@pytest.mark.skipif(not WANTED, reason="WARPLAB_ENVIRONMENTS=1 builds environments, a gigabyte each")
@pytest.mark.parametrize("environment", [e for e in ENVIRONMENTS if e.name != BASELINE], ids=lambda e: e.name)
def test_an_environment_grades_and_colabs_runs_chapter_00(environment: toolkits.Environment, tmp_path: Path) -> None:
    python = toolkits.build(environment, tmp_path / "venv")
    for name in ("01_axpy/submission.py", "05_softmax/submission_cuda.py", "07_tensor_core_hgemm/submission.py"):
        command = [str(python), "-m", "autograder", "check", "--device", "emulator", f"solutions/{name}"]
        command += ["--lab", name.split("/")[0]]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=1200
        )
        assert done.returncode == 0, done.stdout + done.stderr
    if environment.name == COLAB:
        try:
            toolkits.chapter(python)
        except WarplabError as error:
            pytest.fail(str(error))
