"""The parts of a grade, judged from executions made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.judge.correctness import correctness_part, located
from autograder.judge.kernel_parts import kernel_safety, kernel_traffic, missing_tensor_work
from autograder.judge.timed import mean_of, timed_part
from autograder.records.measurement import Library, Measurement, Unmeasured
from autograder.records.outcome import CaseOutcome, FirstWrong
from autograder.records.status import Part, Status
from autograder.spec.inputs import generate
from autograder.spec.lab import Lab
from autograder.worker.judge_case import Run, judge_case
from tests.autograder.handmade import TASK_PY, executor, make_lab, measurement
from warplab.plan.execution import TOTALS, Counters, Execution, Finding, FindingKind, Writer
from warplab.plan.model import Plan

SEED = 1234567
PLAN = Plan("twice", {}, {}, ())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


def factor(lab: Lab, case: str) -> np.float32:
    from autograder.spec.inputs import scalars

    return np.float32(scalars(lab.task, lab.case(case), SEED)["factor"])


def judge(lab: Lab, execute, case: str = "ragged") -> CaseOutcome:
    return judge_case(lab.task, lab.case(case), generate(np, lab.task, lab.case(case), SEED), PLAN, execute)


def right(lab: Lab, case: str = "ragged", **more: Any):
    return executor(lambda inputs: factor(lab, case) * inputs["x"], **more)


def test_right_answers_pass(lab: Lab) -> None:
    for case in ("tiny", "ragged", "secret size", "profile"):
        assert judge(lab, right(lab, case), case).status is Status.PASSED
        assert judge(lab, right(lab, case, runs=2), case).status is Status.PASSED


def test_a_wrong_answer_names_its_first_element_and_cause(lab: Lab) -> None:
    def compute(inputs):
        out = factor(lab, "ragged") * inputs["x"]
        out[128:] = 0
        return out

    outcome = judge(lab, executor(compute))
    assert outcome.status is Status.WRONG_ANSWER
    assert (outcome.wrong, outcome.total) == (5, 133)
    assert outcome.first_wrong is not None and outcome.first_wrong.index == (128,)
    assert outcome.message.startswith("5 of 133 elements of out are wrong; the first is out[128]: got 0, expected ")
    assert "last 5 elements" in outcome.cause


def test_integers_are_compared_exactly_and_floats_within_the_bound(lab: Lab) -> None:
    def off_by_one_bit(inputs):
        return np.nextafter(factor(lab, "ragged") * inputs["x"], np.float32(np.inf))

    def off_by_a_little(inputs):
        return factor(lab, "tiny") * inputs["x"] * (1 + np.float32(2**-23))

    assert judge(lab, executor(off_by_one_bit)).status is Status.WRONG_ANSWER
    assert judge(lab, executor(off_by_a_little), "tiny").status is Status.WRONG_ANSWER


def test_runs_that_disagree_fail_even_if_each_is_right(lab: Lab) -> None:
    def execute(plan: Plan, inputs: dict[str, np.ndarray]) -> list[Run]:
        out = factor(lab, "tiny") * inputs["x"]
        other = out.copy()
        other[1] = np.nextafter(out[1], np.float32(99))
        return [Run(Execution({"out": out}), "forwards"), Run(Execution({"out": other}), "backwards")]

    outcome = judge(lab, execute, "tiny")
    assert outcome.status is Status.RUNS_DISAGREE
    assert "one forwards, one backwards, differ in 1 element of out" in outcome.message


def test_runs_may_disagree_where_the_lab_says_so_if_each_is_right(lab: Lab) -> None:
    lab = replace(lab, task=replace(lab.task, reproducible=False))
    right = factor(lab, "ragged") * generate(np, lab.task, lab.case("ragged"), SEED)["x"]
    last_bit, wrong = (np.concatenate([right[:5], right[5:6] * (1 + e), right[6:]]) for e in (2**-25, 1e-3))
    for outputs, status in (
        ((right, last_bit.astype(np.float32)), Status.PASSED),
        ((right, wrong.astype(np.float32)), Status.WRONG_ANSWER),
        ((wrong.astype(np.float32), right), Status.WRONG_ANSWER),
    ):
        runs = [
            Run(Execution({"out": out}), order) for out, order in zip(outputs, ("forwards", "backwards"), strict=True)
        ]
        outcome = judge(lab, lambda plan, inputs, runs=runs: runs)
        assert outcome.status is status
        assert status is Status.PASSED or outcome.first_wrong is not None and outcome.first_wrong.index == (5,)
        depends = status is not Status.PASSED and outputs[0] is right
        assert ("That is backwards; forwards it is right" in outcome.message) is depends


def test_the_bound_may_hold_for_whole_numbers_too(lab: Lab) -> None:
    def off_by_one_bit(inputs):
        return factor(lab, "tiny") * inputs["x"] * (1 + np.float32(2**-23))

    loose = replace(lab.task, exact_on_integers=False, bound=lambda xp, values: {"out": xp.full(1, 1e-3)})
    assert judge(lab, executor(off_by_one_bit), "tiny").status is Status.WRONG_ANSWER
    assert judge(replace(lab, task=loose), executor(off_by_one_bit), "tiny").status is Status.PASSED


def test_a_kernel_that_changes_its_input_fails_though_the_answer_fits(lab: Lab) -> None:
    def compute(inputs):
        out = factor(lab, "ragged") * inputs["x"]
        inputs["x"][0] += 1
        return out

    assert judge(lab, executor(compute)).status is Status.INPUT_MODIFIED


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (FindingKind.DEADLOCK, Status.DEADLOCK),
        (FindingKind.ENDLESS, Status.ENDLESS),
        (FindingKind.NULL_POINTER, Status.NULL_POINTER),
        (FindingKind.UNSUPPORTED, Status.UNSUPPORTED),
        (FindingKind.OUT_OF_BOUNDS, Status.PASSED),  # a matter of safety, if the answer is right
        (FindingKind.RACE, Status.PASSED),
    ],
)
def test_findings_after_which_an_answer_does_not_count(lab: Lab, kind: FindingKind, status: Status) -> None:
    execute = executor(lambda inputs: factor(lab, "ragged") * inputs["x"], Finding(kind, "it happened"))
    assert judge(lab, execute).status is status


def test_every_finding_kind_is_a_status() -> None:
    for kind in FindingKind:
        assert Status(kind.value)


def test_an_outcome_survives_the_wire(lab: Lab) -> None:
    finding = Finding(FindingKind.RACE, "m", "k", 3, (0, 0, 0), (1, 0, 0), "x", (4, 2), 5)
    outcome = judge(lab, executor(lambda inputs: inputs["x"], finding))
    outcome.counters, outcome.lines = Counters(global_load_sectors=3), {7: Counters(barriers=2)}
    back = CaseOutcome.from_wire(outcome.to_wire())
    assert back.findings == [finding]
    assert back.lines == outcome.lines
    assert back.counters == outcome.counters
    assert back.status is Status.WRONG_ANSWER


def passed(case: str) -> CaseOutcome:
    return CaseOutcome(case, Status.PASSED)


def test_correctness_gives_all_or_nothing_and_reports_each_case(lab: Lab) -> None:
    huge = [lab.case("huge")]
    part = correctness_part(lab, [passed("tiny"), passed("ragged"), passed("secret size")], huge)
    assert (part.status, part.score) == (Status.PASSED, 30)
    assert [case.status for case in part.cases] == [Status.PASSED] * 3 + [Status.SKIPPED]
    part = correctness_part(lab, [passed("tiny"), CaseOutcome("ragged", Status.WRONG_ANSWER, "m", "c")], huge)
    assert (part.status, part.score) == (Status.WRONG_ANSWER, 0)
    assert part.message == "1 of 2 cases failed, among them ragged: m"


def test_a_hidden_case_keeps_its_secrets(lab: Lab) -> None:
    first = {"output": "out", "index": (76,), "got": 1.0, "expected": 2.0, "allowed": 0.0}
    failed = CaseOutcome("secret size", Status.WRONG_ANSWER, "77 wrong", "last 77", 77, 77, 9.0, first)
    part = correctness_part(lab, [failed], [])
    text = repr(part)
    assert part.status is Status.WRONG_ANSWER
    assert "hidden case 1" in text
    assert not any(secret in text for secret in ("secret size", "77", "76"))
    finding = Finding(FindingKind.OUT_OF_BOUNDS, "x[77] of 77", "k", 9, (0, 0, 0), (77, 0, 0), "x", (77,))
    safety = kernel_safety(lab, [CaseOutcome("secret size", Status.PASSED, findings=[finding])], True)
    assert (safety.status, safety.findings[0].line) == (Status.OUT_OF_BOUNDS, 9)
    assert "77" not in repr(safety)
    often = replace(finding, message="m", count=77, thread=(0, 0, 0), index=(0,))
    alone = kernel_safety(lab, [CaseOutcome("secret size", Status.PASSED, findings=[often])], True)
    seen = CaseOutcome("ragged", Status.PASSED, findings=[replace(often, count=3)])
    both = kernel_safety(lab, [seen, CaseOutcome("secret size", Status.PASSED, findings=[often])], True)
    assert [f.count for part in (alone, both) for f in part.findings] == [1, 3]


def test_the_students_faults_come_before_the_emulators_limits(lab: Lab) -> None:
    unsupported = CaseOutcome("tiny", Status.UNSUPPORTED, "no such instruction")
    part = correctness_part(lab, [unsupported, passed("ragged")], [])
    assert (part.judged, part.score, part.status) == (True, 0, Status.UNSUPPORTED)  # its points stay in the maximum
    wrong = CaseOutcome("ragged", Status.WRONG_ANSWER, "m")
    assert correctness_part(lab, [unsupported, wrong], []).status is Status.WRONG_ANSWER


def test_safety_merges_what_happened_on_one_line(lab: Lab) -> None:
    finding = Finding(FindingKind.RACE, "m", "k", 9, array="s", count=2)
    other = Finding(FindingKind.RACE, "m", "k", 10, array="s")
    outcomes = [CaseOutcome(c, Status.PASSED, findings=[finding, other]) for c in ("tiny", "ragged")]
    part = kernel_safety(lab, outcomes, True)
    assert (part.status, part.score) == (Status.RACE, 0)
    assert [(f.line, f.count) for f in part.findings] == [(9, 4), (10, 2)]
    assert part.message == "2 findings; the first: m"


def test_an_advisory_costs_nothing(lab: Lab) -> None:
    advice = Finding(FindingKind.ADVISORY, "put a fence here", "k", 9)
    part = kernel_safety(lab, [CaseOutcome("tiny", Status.PASSED, findings=[advice])], True)
    assert (part.status, part.score, part.findings) == (Status.PASSED, lab.points.safety, (advice,))
    fault = Finding(FindingKind.RACE, "m", "k", 10)
    part = kernel_safety(lab, [CaseOutcome("tiny", Status.PASSED, findings=[advice, fault])], True)
    assert (part.status, part.message, part.score) == (Status.RACE, "m", 0)


def test_a_kernel_that_does_nothing_gets_no_points_for_doing_it_safely(lab: Lab) -> None:
    idle = CaseOutcome("profile", Status.WRONG_ANSWER, counters=Counters())
    for part in (kernel_safety(lab, [idle], False), kernel_traffic(lab, idle, False), kernel_traffic(lab, idle, True)):
        assert (part.status, part.score, part.judged) == (Status.WITHHELD, 0, True)


def test_traffic_names_the_budget_that_is_exceeded(lab: Lab) -> None:
    counters = Counters(global_load_sectors=1024, global_store_sectors=128)
    part = kernel_traffic(lab, CaseOutcome("profile", Status.PASSED, counters=counters), True)
    assert (part.status, part.score) == (Status.OVER_BUDGET, 0)
    assert part.message.startswith(
        "1,024 global load sectors where 128 are allowed (8.0 times). Let neighbouring lanes"
    )
    assert [budget.passed for budget in part.budgets] == [False, True]
    counters = Counters(global_load_sectors=128, global_store_sectors=128)
    part = kernel_traffic(lab, CaseOutcome("profile", Status.PASSED, counters=counters), True)
    assert (part.status, part.score) == (Status.PASSED, 20)


def test_a_kernel_that_is_not_safe_earns_nothing_for_traffic_and_efficiency(lab: Lab) -> None:
    profile = CaseOutcome("profile", Status.PASSED, counters=Counters(global_load_sectors=128))
    part = kernel_traffic(lab, profile, True, safe=False)
    assert (part.status, part.score, part.judged) == (Status.WITHHELD, 0, True)
    assert "safe" in part.message
    over = CaseOutcome("profile", Status.PASSED, counters=Counters(global_load_sectors=129))
    assert kernel_traffic(lab, over, True).score > 0
    part = kernel_traffic(lab, over, True, safe=False)
    assert (part.status, part.score) == (Status.OVER_BUDGET, 0)
    part = timed_part(lab, lambda: pytest.fail("must not be timed"), True, safe=False)
    assert (part.status, part.score, part.judged) == (Status.WITHHELD, 0, True)


def test_a_budget_missed_by_little_costs_little(lab: Lab) -> None:
    def judged(loads: int, stores: int, status: Status = Status.PASSED, right: bool = True, others: str = ""):
        counters = Counters(global_load_sectors=loads, global_store_sectors=stores)
        return kernel_traffic(lab, CaseOutcome("profile", status, counters=counters), right, others)

    part = judged(129, 128)
    assert (part.status, part.score) == (Status.OVER_BUDGET, 19.6)  # 20 (1 - ln(129 / 128) / ln 1.5), rounded down
    assert "(0.8% more)" in part.message and part.lost
    half = judged(157, 128)  # close to 128 times the root of 1.5
    assert half.score == pytest.approx(10, abs=0.2)
    assert judged(128, 157).score == half.score
    both = judged(129, 157)  # the worst decides, and is named
    assert both.score == half.score and both.message.startswith("157 global store sectors")
    assert judged(192, 128).score == 0
    for unearned in (
        judged(129, 128, right=False),
        judged(129, 128, Status.WRONG_ANSWER),
        judged(129, 128, others="Two kernels."),
    ):
        assert (unearned.status, unearned.score) == (Status.OVER_BUDGET, 0)


ALL_WAYS = """
from autograder.spec.task import Budget
LIMITS = (
    Budget("global_read_sectors", lambda d: d["n"] / 8, "Read less."),
    Budget("global_written_sectors", lambda d: d["n"] / 8, "Write less."),
)
"""


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        (dict(global_atomic_sectors=300), "300 global atomic sectors where 128 are allowed (2.3 times). Read less."),
        (dict(bulk_load_sectors=193), "193 bulk load sectors where 128 are allowed (1.5 times). Read less."),
        (dict(local_load_sectors=193), "193 local load sectors where 128 are allowed (1.5 times). Read less."),
        (dict(bulk_store_sectors=200), "200 bulk store sectors where 128 are allowed (1.6 times). Write less."),
        (dict(local_store_sectors=200), "200 local store sectors where 128 are allowed (1.6 times). Write less."),
        (
            dict(global_load_sectors=100, bulk_load_sectors=60, global_reduction_sectors=40),
            "200 global read sectors (100 global load sectors, 40 global reduction sectors, 60 bulk load sectors) "
            "where 128 are allowed (1.6 times). Read less.",
        ),
    ],
)
def test_bytes_count_whichever_way_they_go(tmp_path: Path, ways: dict[str, int], words: str) -> None:
    text = ALL_WAYS + TASK_PY.replace("    budgets=(\n", "    budgets=LIMITS + (\n")
    lab = make_lab(tmp_path, task=text)
    profile = CaseOutcome("profile", Status.PASSED, counters=Counters(**ways))
    part = kernel_traffic(lab, profile, True)
    assert (part.status, part.score, part.message) == (Status.OVER_BUDGET, 0, words)
    within = Counters(global_load_sectors=64, bulk_load_sectors=64, global_store_sectors=128)
    assert kernel_traffic(lab, CaseOutcome("profile", Status.PASSED, counters=within), True).score == 20


def test_totals_consist_of_counters() -> None:
    everything = Counters(**{name: 1 for name in vars(Counters())})
    for total, parts in TOTALS.items():
        assert not hasattr(everything, total), f"{total} is a counter too"
        assert len(set(parts)) == len(parts) == everything.amount(total)
        assert Counters().amount(total) == 0 and Counters().parts(total) == {}
    assert everything.amount("barriers") == 1


def test_another_kernel_than_is_judged_earns_neither_traffic_nor_efficiency(lab: Lab) -> None:
    counters = Counters(global_load_sectors=128, global_store_sectors=128)
    traffic = kernel_traffic(lab, CaseOutcome("profile", Status.PASSED, counters=counters), True, "Two kernels.")
    efficiency = timed_part(lab, lambda: pytest.fail("must not be timed"), True, "Two kernels.")
    for part in (traffic, efficiency):
        assert (part.status, part.score, part.judged, part.message) == (Status.OTHER_KERNELS, 0, True, "Two kernels.")
    assert timed_part(lab, None, True, "Two kernels.").judged is False
    over = Counters(global_load_sectors=1280, global_store_sectors=128)
    part = kernel_traffic(lab, CaseOutcome("profile", Status.PASSED, counters=over), True, "Two kernels.")
    assert part.status is Status.OVER_BUDGET  # what can be mended first


def measured(efficiency: float, low: float, high: float, **more: Any) -> Measurement:
    return measurement(efficiency=efficiency, efficiency_low=low, efficiency_high=high, **more)


def test_efficiency_is_not_measured_without_a_gpu_and_withheld_for_wrong_answers(lab: Lab) -> None:
    assert timed_part(lab, None, True).judged is False
    part = timed_part(lab, lambda: pytest.fail("must not be timed"), False)
    assert (part.status, part.score, part.judged) == (Status.WITHHELD, 0, True)


@pytest.mark.parametrize(
    ("efficiency", "status", "score"),
    [(0.95, Status.PASSED, 30), (0.3, Status.PARTIAL, 15), (0.05, Status.SLOW, 0)],
)
def test_efficiency_is_scored(lab: Lab, efficiency: float, status: Status, score: float) -> None:
    part = timed_part(lab, lambda: measured(efficiency, efficiency - 0.001, efficiency + 0.001), True)
    assert (part.status, part.score) == (status, score)
    assert f"{efficiency:.1%}" in part.message


@pytest.mark.parametrize(
    ("timing", "expected"),
    [
        (Unmeasured("wrong", "why"), Status.WRONG_ANSWER),
        (Unmeasured("fault", "why"), Status.DEVICE_FAULT),
        (Unmeasured("nonsense", "why"), Status.WORKER_CRASHED),
        (measurement(message="why"), Status.IMPOSSIBLE),
    ],
)
def test_a_time_that_does_not_count_gives_nothing(lab: Lab, timing: Measurement | Unmeasured, expected: Status) -> None:
    part = timed_part(lab, lambda: timing, True)
    assert (part.part, part.status, part.score, part.message) == (Part.EFFICIENCY, expected, 0, "why")


def test_another_cards_target_is_said_to_be_one(lab: Lab) -> None:
    scale = replace(lab.efficiency, set_on="NVIDIA H200")

    def words(hardware: str) -> str:
        return timed_part(
            replace(lab, efficiency=scale), lambda: measured(0.5, 0.4, 0.6), True, hardware=hardware
        ).message

    assert "The target was set on an NVIDIA H200" in words("Tesla T4, driver 580.65.06")
    assert "was set on" not in words("NVIDIA H200, driver 580.159.04")
    assert "was set on" not in timed_part(lab, lambda: measured(0.5, 0.4, 0.6), True, hardware="Tesla T4").message


def test_an_open_or_throttled_measurement_is_repeated(lab: Lab) -> None:
    answers = iter([measured(0.9, 0.88, 0.92), measured(0.91, 0.905, 0.915)])
    part = timed_part(lab, lambda: next(answers), True)
    assert (part.status, part.measurement) == (Status.PASSED, measured(0.91, 0.905, 0.915))
    answers = iter([measured(0.5, 0.5, 0.5, throttled=True), measured(0.7, 0.6, 0.75, throttled=False)])
    assert timed_part(lab, lambda: next(answers), True).measurement == measured(0.7, 0.6, 0.75)
    answers = iter([measured(0.5, 0.49, 0.51, throttled=True), measured(0.5, 0.4, 0.6, throttled=True)])
    assert "throttled" in timed_part(lab, lambda: next(answers), True).message


def test_a_measurement_beside_another_process_is_flagged_and_never_gives_or_takes_points(lab: Lab) -> None:
    disturbed = measured(0.2, 0.19, 0.21, shared=True, shared_fraction=0.4)
    answers = iter([disturbed, measured(0.95, 0.94, 0.96, shared=False, shared_fraction=0.0)])
    assert timed_part(lab, lambda: next(answers), True).status is Status.PASSED
    part = timed_part(lab, lambda: disturbed, True)
    assert (part.status, part.score, part.judged) == (Status.NOT_MEASURED, 0, False)
    assert "while another process used the GPU" in part.message
    assert "40% of the time" in part.message


def test_the_librarys_time_is_shown_and_gives_nothing(lab: Lab) -> None:
    library = Library("torch.matmul, float16", 0.2, 0.2)
    part = timed_part(lab, lambda: measured(0.95, 0.94, 0.96, library=library), True)
    assert "torch.matmul, float16, in the same turns, takes 0.2 ms" in part.message
    assert part.score == 30


def test_several_timed_shapes_are_their_geometric_mean() -> None:
    """Half and twice as fast come to the same; what disturbed one of them disturbed all."""
    library = Library("theirs", 0.25, 1.25)
    first = replace(measurement(efficiency=0.4), library=library)
    times = {name: 4 * getattr(first, name) for name in ("median_ms", "low_ms", "high_ms")}
    second = replace(first, efficiency=0.1, throttled=True, library=replace(library, median_ms=1.0, ratio=5.0), **times)
    mean = mean_of([first, second])
    assert isinstance(mean, Measurement)
    assert mean.efficiency == pytest.approx(0.2) and mean.median_ms == pytest.approx(2 * first.median_ms)
    assert mean.throttled and mean.library == Library("theirs", pytest.approx(0.5), pytest.approx(2.5))
    assert mean.work == pytest.approx(first.work) and mean.ceilings == pytest.approx(first.ceilings)
    assert mean_of([first]) == first


def test_one_timed_shape_that_gives_no_time_decides() -> None:
    impossible, wrong = replace(measurement(), message="too fast"), Unmeasured("wrong", "a wrong result")
    assert mean_of([measurement(), wrong, impossible]) == wrong
    assert mean_of([measurement(), impossible, wrong]) == impossible
    assert mean_of([measurement(), replace(measurement(), library=None)]).library is None  # type: ignore[union-attr]


def test_the_gpus_wrong_answers_are_explained_by_the_emulator() -> None:
    here, there = FirstWrong("y", (3,), 0.0, 1.0, 0.0), FirstWrong("y", (5,), 0.0, 1.0, 0.0)
    first = replace(here, writer=Writer("k", 4, (0, 0, 0), (3, 0, 0)))
    emulated = CaseOutcome("ragged", Status.WRONG_ANSWER, "m, stored on line 4", "cause", 1, 9, 2.0, first)
    same = CaseOutcome("ragged", Status.WRONG_ANSWER, "m", "", 1, 9, 2.0, here)
    other = CaseOutcome("ragged", Status.WRONG_ANSWER, "m", "", 1, 9, 2.0, there)
    assert located([same], [emulated])[0].message == "m, stored on line 4"
    assert located([same], [emulated])[0].first_wrong == first
    assert located([other], [emulated]) == [other]
    assert located([passed("tiny")], [emulated]) == [passed("tiny")]
    assert located([], [emulated]) == []


def test_an_answer_that_is_right_on_the_gpu_only_is_wrong() -> None:
    for status in (Status.WRONG_ANSWER, Status.RUNS_DISAGREE):
        emulated = CaseOutcome("ragged", status, "2 of 9 elements are wrong.", total=9)
        (outcome,) = located([passed("ragged")], [emulated])
        assert outcome.status is status
        assert "Right on the GPU, but not on the emulator" in outcome.message
    unsupported = CaseOutcome("ragged", Status.UNSUPPORTED, "no such instruction")
    assert located([passed("ragged")], [unsupported]) == [passed("ragged")]


def test_what_keeps_its_budgets_on_cuda_cores_earns_correctness_alone(lab: Lab) -> None:
    """Where a share of the operations is to be that of tensor cores, on a GPU as on the emulator."""
    flops = lab.task.flops(lab.task.profile.dimensions)
    tensor = replace(lab, task=replace(lab.task, tensor_share=0.5))

    def missing(multiply_adds: float, of: Lab = tensor) -> str:
        counters = Counters(tensor_multiply_adds=int(multiply_adds))
        return missing_tensor_work(of, CaseOutcome("profile", Status.PASSED, counters=counters))

    assert not missing(flops / 4) and not missing(0, lab)
    assert "No tensor core ran" in missing(0) and "Make the products with mma" in missing(0)
    assert f"Tensor cores made {flops // 4 - 1:,.0f} multiply-adds" in missing(flops // 4 - 1)
    within = CaseOutcome("profile", Status.PASSED, counters=Counters(global_load_sectors=1))
    over = CaseOutcome("profile", Status.PASSED, counters=Counters(global_load_sectors=140))
    assert kernel_traffic(tensor, within, True).status is Status.PASSED
    for profile, status in ((within, Status.WITHHELD), (over, Status.OVER_BUDGET)):
        part = kernel_traffic(tensor, profile, True, missing=missing(0))
        assert (part.status, part.score) == (status, 0.0) and "No tensor core ran" in part.message
    part = timed_part(tensor, lambda: pytest.fail("must not be timed"), True, missing=missing(0))
    assert (part.status, part.score) == (Status.WITHHELD, 0.0) and "No tensor core ran" in part.message


@pytest.mark.parametrize(
    ("bound", "words"),
    [("memory", "a kernel that reads more than it writes can move more"), ("compute", "multiply-adds")],
)
def test_a_share_above_100_percent_is_explained(bound: str, words: str, tmp_path: Path) -> None:
    above = measurement(bound=bound, efficiency=1.02, efficiency_low=1.0, efficiency_high=1.03)
    said = timed_part(make_lab(tmp_path), lambda: above, True).message
    assert "102.0% of" in said and "More than 100% is no error" in said and words in said
    assert "no error" not in timed_part(make_lab(tmp_path / "other"), measurement, True).message
