"""No report of a failing submission tells the seed, or the size of a hidden case.

The labs are copied and their hidden cases given sizes that occur nowhere else, so that a leak cannot hide among the
numbers of a report.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from autograder.judge.pipeline import grade
from autograder.records.machine import Machine
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.records.status import Executor, Status
from autograder.report import html_page, terminal
from autograder.spec.lab import CHECKOUT, find_lab, kernel_labs, labs_folder
from autograder.spec.task import Case
from corpus.judge.submission_files import submissions
from tests.labs.judging import name
from tests.sampling import part_of
from warplab.plan.model import EMULATED_ARCHITECTURE
from warplab.worker.process import Worker

pytestmark = pytest.mark.processes

SEED = 803_942_117
# Behind a task: each hidden case has a name and a size of its own, which the seed does not change.
DISGUISE = """
from dataclasses import replace
NUMBERS = iter({numbers})


def disguised(case):
    name = f"secret-{{next(NUMBERS)}}"
    if case.needs_gpu:
        return replace(case, name=name)
    return replace(case, name=name, dimensions={{size: next(NUMBERS) for size in case.dimensions}}, sizes=())


TASK = replace(TASK, correctness=tuple(disguised(case) if case.hidden else case for case in TASK.correctness))
"""
EMULATOR = Machine(Executor.EMULATOR, EMULATED_ARCHITECTURE, "emulator")
LABS = kernel_labs()
WRONG = part_of((path for path in submissions("wrong") if path.parts[-3] in LABS), 80, lambda path: "all")


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two copies of the labs, whose hidden cases have other sizes and names than the labs and than each other's."""
    return disguised(tmp_path_factory.mktemp("course"), 211, 500), disguised(tmp_path_factory.mktemp("again"), 501, 800)


def disguised(course: Path, low: int, high: int) -> Path:
    """A copy of the labs in the folder `course` whose hidden cases have primes from `low` to `high` for sizes."""
    shutil.copytree(labs_folder(), course / "labs")
    primes = [n for n in range(low, high) if all(n % d for d in range(2, 29))]
    for task in (course / "labs" / lab / "task.py" for lab in kernel_labs()):
        task.write_text(task.read_text() + DISGUISE.format(numbers=primes))
    return course / "labs"


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as shared:
        yield shared


def secrets(cases: list[Case]) -> set[str]:
    """The sizes of the hidden cases, their products, and the seed."""
    numbers = {SEED}
    for case in cases:
        sizes = list(case.dimensions.values())
        numbers |= set(sizes) | {a * b for a in sizes for b in sizes if a is not b}
    return {f"{number:d}" for number in numbers} | {f"{number:,d}" for number in numbers}


def told(report: Report) -> str:
    """All that a student can see, but for the text of their own file and how long things took."""
    console = Console(file=io.StringIO(), width=400)
    terminal.show(report, console)
    terminal.show_briefly(report, console)
    data = report.to_json()
    del data["seconds"], data["versions"]
    for part in data["parts"]:
        for case in part["cases"]:
            del case["seconds"]
    page = re.sub(r'<style>.*?</style>|<div class="source">.*?</div>', "", html_page.page([report]), flags=re.S)
    text = "\n".join((json.dumps(data), console.file.getvalue(), page))  # type: ignore[attr-defined]
    # Of visible cases; a sum of whole numbers may be any number. tests/autograder/test_parts.py has the hidden ones.
    return re.sub(r"got [^ ]+, expected [^ ]+", "got and expected", text)


def judged(path: Path, labs: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> tuple[str, set[str]]:
    """What a student sees of a submission's report, and which of its secrets are in it."""
    monkeypatch.setenv("WARPLAB_LABS", str(labs))
    lab = find_lab(path.parts[-3])
    hidden = [case for case in lab.task.correctness if case.hidden and not case.needs_gpu]
    assert hidden and all(case.name.startswith("secret-") for case in hidden)
    report = grade(Request(lab, path, replace(EMULATOR, architecture=lab.emulated), seed=SEED), worker)
    assert report.status is not Status.JUDGE_ERROR, report.message
    text = told(report)
    return text, {number for number in secrets(hidden) if stands_in(number, text)}


def stands_in(number: str, text: str) -> bool:
    """Whether a text has the number, and not only as a part of another one."""
    return re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d.])", text) is not None


@pytest.mark.parametrize("path", WRONG, ids=name)
def test_nothing_secret_is_told(
    path: Path, labs: tuple[Path, Path], worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CHECKOUT / "corpus" in path.parents
    text, found = judged(path, labs[0], worker, monkeypatch)
    assert "secret-" not in text
    if found:  # a count or an expert may be such a number by chance: then it is there whatever the hidden sizes are
        again, _ = judged(path, labs[1], worker, monkeypatch)
        assert not {number for number in found if not stands_in(number, again)}
