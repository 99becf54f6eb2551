"""The host code is called with the hidden sizes. Whatever it does with them, no report shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder.judge.kernel_parts import kernel_safety
from autograder.judge.pipeline import grade
from autograder.records.outcome import CaseOutcome
from autograder.records.status import Status
from autograder.spec.lab import Lab
from tests.autograder.handmade import make_lab, request
from tests.autograder.numpy_worker import GOOD, SEED, NumPyWorker
from warplab.plan.execution import Finding, FindingKind

pytestmark = pytest.mark.processes

HIDDEN = 77  # the size of the hidden case of the hand-made lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


SAID = "hidden size seventy-seven"
TRICKS = {
    "an exception": f"    if x.size == {HIDDEN}:\n        raise ValueError('{SAID}')\n",
    "an exception that was prepared": (
        f"    if x.size == {HIDDEN}:\n        seen.append('{SAID}')\n"
        "    elif seen:\n        raise ValueError(seen[0])\n"
    ),
    "its last words": f"    if x.size == {HIDDEN}:\n        import os\n        os.write(2, b'{SAID}'); os._exit(1)\n",
    "no launch": f"    if x.size == {HIDDEN}:\n        return\n",
    "a forged failure": (
        f"    if x.size == {HIDDEN}:\n        from warplab.plan.capture.failure import CaptureFailure, CaptureStatus\n"
        f"        raise CaptureFailure(CaptureStatus.HOST_ERROR, '{SAID}', {HIDDEN})\n"
    ),
    "a kernel's name": f"    if x.size == {HIDDEN}:\n        kernel.py_func.__name__ = '{SAID}'\n",
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
def test_what_the_host_code_says_of_a_hidden_case_is_not_repeated(lab: Lab, trick: str) -> None:
    host = "def twice(factor, x, out):\n"
    (lab.folder / "submission.py").write_text(GOOD.replace(host, "seen = []\n" + host + trick))
    report = grade(request(lab, seed=SEED), NumPyWorker(lab))
    assert SAID not in json.dumps(report.to_json())  # all of the report, but the source
    assert report.line != HIDDEN
    if report.status is not Status.PASSED:
        assert "not shown" in report.message


def test_findings_of_hidden_cases_name_nothing_that_a_submission_chose(lab: Lab) -> None:
    finding = Finding(FindingKind.OUT_OF_BOUNDS, SAID, SAID, 3, (0, 0, 0), (1, 0, 0), SAID, (76,))
    outcome = CaseOutcome("secret size", Status.PASSED, findings=[finding])
    part = kernel_safety(lab, [outcome], True)
    assert SAID not in str(part) and "76" not in str(part)
    assert part.status is Status.OUT_OF_BOUNDS
