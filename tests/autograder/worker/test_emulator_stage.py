"""What the emulator's stage does before a case's time limit begins to count."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from autograder.judge.capture_stage import capture_cases, read_submission
from autograder.own_work import capture_submission
from autograder.records.outcome import CaseOutcome
from autograder.spec.lab import find_lab, solutions_folder
from autograder.worker import emulator_stage, prepare_stage
from warplab.emulator import compiled
from warplab.plan import disassembler
from warplab.plan.archive import dumps
from warplab.plan.model import EMULATED_ARCHITECTURE

pytestmark = pytest.mark.stored


def test_nothing_is_compiled_while_a_case_has_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = find_lab("08_hopper_hgemm").drawn(seed=1)
    case = lab.case("descriptors")
    source = solutions_folder() / lab.name / "submission.py"
    captured = capture_submission(lab, source, [case, lab.task.profile], 1, EMULATED_ARCHITECTURE)
    plan = captured.plans[case.name]
    compiled._loaded.cache_clear()  # as in a process that has just started

    emulator_stage.warm_up(emulator_stage.parts_needed([plan]))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("compiled during the case")

    monkeypatch.setattr(compiled, "_function", never)
    outcome = emulator_stage.run(dumps(plan), str(lab.folder), case.name, seed=1)
    assert outcome["status"] == "passed"


def test_counters_that_do_not_follow_machine_code_say_so() -> None:
    lab = find_lab("03_transpose").drawn(seed=1)
    case = lab.task.profile
    source = solutions_folder() / lab.name / "submission.py"
    plan = capture_submission(lab, source, [case], 1, EMULATED_ARCHITECTURE).plans[case.name]
    plan = replace(plan, kernels={name: replace(kernel, cubins={}) for name, kernel in plan.kernels.items()})
    outcome = CaseOutcome.from_wire(emulator_stage.run(dumps(plan), str(lab.folder), case.name, seed=1))
    (name,) = plan.kernels
    assert outcome.counters_note.startswith(f"The counters of {name} are those of its PTX")


def test_machine_code_is_read_before_the_first_case() -> None:
    lab = find_lab("04_reduction").drawn(seed=1)
    cases = [lab.task.correctness[0], lab.task.profile]
    submission = read_submission(solutions_folder() / lab.name / "submission.py")
    answers = [asdict(answer) for answer in capture_cases(lab, submission, cases, 1, EMULATED_ARCHITECTURE)]
    told = str(lab.folder), submission.name, submission.text, 1, EMULATED_ARCHITECTURE
    disassembler.disassembled.cache_clear()
    plans = prepare_stage.prepare(*told, answers)["plans"]
    read = disassembler.disassembled.cache_info().misses
    assert read > 1
    for case in cases:
        emulator_stage.run(plans[case.name], str(lab.folder), case.name, seed=1)
    assert disassembler.disassembled.cache_info().misses == read
