"""What all captures of one submission may take together."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.judge.allowance import SECONDS, Allowance
from autograder.judge.capture_stage import Submission, captured
from autograder.records.rejection import Rejected
from autograder.records.status import Status
from warplab.plan.capture.child_process import PROCESSOR_SECONDS
from warplab.plan.capture.records import RecordForm
from warplab.plan.model import HostCall


def test_what_runs_side_by_side_shares_and_what_is_not_used_comes_back() -> None:
    allowance = Allowance()
    both = [allowance.take(2), allowance.take(2)]
    assert both == [SECONDS // 2] * 2
    with pytest.raises(Rejected, match="used up the 60 s") as refused:
        allowance.take(2)
    assert refused.value.status is Status.HOST_TIMEOUT
    allowance.give_back(both[0] - 10.0)
    assert allowance.take(2) == SECONDS // 2 - 10
    assert Allowance().take(1) == PROCESSOR_SECONDS


def test_many_short_steps_are_no_fault() -> None:
    allowance = Allowance()
    for _ in range(100):
        allowance.give_back(allowance.take(4) - 0.5)
    assert allowance.take(4) in (9, 10)


@pytest.mark.cold_captures
@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="only Linux says what a process took")
def test_a_submission_that_uses_time_or_dies_pays_for_each_process() -> None:
    """A process that kills itself is started again, but no longer than one that does not."""
    spins = "import os, signal, time\ndef f(a):\n    while time.process_time() < 1.5: pass\n    END\n"
    group = [("case", HostCall("f", ()))]
    for end, died in (("return []", False), ("os.kill(os.getpid(), signal.SIGKILL)", True)):
        submission = Submission("submission.py", spins.replace("def f(a)", "def f()").replace("END", end))
        try:
            captured(submission, group, False, "sm_90a", None, RecordForm.TRANSFERS, side_by_side=2)
        except Rejected:
            assert died
        spent = SECONDS - submission.allowance._left
        assert (4.0 if died else 1.3) < spent < (9.0 if died else 4.0)
