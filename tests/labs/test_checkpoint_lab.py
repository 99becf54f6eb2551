"""The lab whose submissions plan checkpoints: references, what PyTorch counts of them, and nothing that is believed."""

from __future__ import annotations

import importlib.util
import itertools
import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from autograder.judge.on_torch import trained
from autograder.judge.record_parts import modelled_part, record_traffic
from autograder.judge.ruling import Ruling
from autograder.judge.runner import JudgeError, Runner
from autograder.judge.safety import safety_part
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Part, Status
from autograder.spec.checkpoints import MOVED, Aim, Checkpoint, CheckpointTask, planned
from autograder.spec.records import RecordCase
from autograder.spec.task import Dimensions
from autograder.worker import checkpoint_run, checkpoint_stage, record_stage
from systems.training.planner import Operator, greedy, plan
from systems.training.table import recomputed
from tests.labs.record_labs import FUNCTIONS, SEED, Saying, answers, reference
from warplab.plan.capture import operator_table
from warplab.plan.capture.records import RecordForm, to_json
from warplab.worker.process import WorkerError, WorkerFault

CHECKPOINTS = [(lab, asked) for lab, asked in FUNCTIONS if isinstance(asked, Checkpoint)]
LAB = CHECKPOINTS[0][0]
TASK = LAB.task
assert isinstance(TASK, CheckpointTask)
POLICY, PLAN, PEAK = TASK.functions
FIRST = POLICY.correctness[0]  # one block
RIGHT = b'[[0,"qkv"],[0,"attention"],[0,"projection"],[0,"up"]]'
RUN = {case.name: asked for asked, case in TASK.cases() if case.run}
HAVE_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAVE_TORCH, reason="PyTorch is not installed")


def returned(asked: Checkpoint, size: Dimensions) -> list[tuple[int, str]]:
    """What the reference returns for a table as it reaches a capture process."""
    case = RecordCase("a case", size)
    table = operator_table.decode(asked.content(case))
    arguments = [argument.value for argument in asked.host_call(case).arguments][1:]  # type: ignore[union-attr]
    return list(getattr(reference(LAB), asked.function)(table, *arguments))


def blob_of(asked: Checkpoint, size: Dimensions) -> bytes:
    return to_json(returned(asked, size), RecordForm.KEPT, "f")


def some(asked: Checkpoint, every: int = 41) -> list[tuple[RecordCase, Dimensions]]:
    """Every so many of each class of sizes, and its ends."""
    found = []
    for case in asked.cases():
        sizes = case.sizes or (case.dimensions,)
        found += [(case, sizes[n]) for n in sorted({*range(0, len(sizes), every), len(sizes) - 1})]
    return found


def peak(table: list[Operator], kept: list[Operator]) -> int:
    """Bytes alive at most in a backward pass: block after block, from the last on, all results of the block that is on
    its way back, and of those before it what is kept."""
    blocks = range(1 + max(one.block for one in table))
    return max(
        sum(one.bytes for one in table if one.block == block) + sum(one.bytes for one in kept if one.block < block)
        for block in blocks
    )


@pytest.mark.parametrize("asked", [asked for _, asked in CHECKPOINTS], ids=lambda asked: asked.function)
class TestReferences:
    def test_right_and_the_best_for_a_part_of_every_class(self, asked: Checkpoint) -> None:
        for case, size in some(asked):
            blob, found = blob_of(asked, size), RecordCase(case.name, size)
            outcome, _ = checkpoint_stage.check(asked, found, blob)
            assert outcome.status is Status.PASSED, (size, outcome.message)
            kept = {tuple(record) for record in msgspec.json.decode(blob)}
            made = planned([one for one in asked.table(size) if (one.block, one.name) in kept], asked.table(size))
            best = asked.best(size)
            assert (asked.cost(made), made.moved) == (asked.cost(best), best.moved), size

    def test_full_marks_for_all_that_is_modelled(self, asked: Checkpoint) -> None:
        for size in asked.modelled.sizes[::3]:
            model = checkpoint_stage.model(asked, RecordCase("modelled", size), blob_of(asked, size))
            assert model.share == 1, size
            if asked.aim is not Aim.NOTHING_AGAIN:
                assert model.counters == {MOVED: asked.best(size).moved}, size

    def test_the_obvious_is_not_enough_wherever_a_seed_may_look(self, asked: Checkpoint) -> None:
        """The rule by FLOP a byte computes a seventh more again, keeping everything twice as much as is needed in the
        policy; and whoever keeps nothing without FLOP moves more."""
        for size in asked.modelled.sizes:
            table, best = asked.table(size), asked.best(size)
            if asked.aim is Aim.NOTHING_AGAIN:
                assert sum(one.bytes for one in table) > 1 / LAB.efficiency.floor * best.bytes
                continue
            free = [one for one in table if one.block == max(o.block for o in table)] if asked.aim is Aim.PEAK else []
            rest = [one for one in table if one not in free]
            assert greedy(rest, asked.budget(size)).flops > 8 / 7 * best.flops > 0, size
            flop_alone = plan(
                [Operator(o.block, o.name, o.bytes, o.flops, 0) for o in rest if o.flops], asked.budget(size)
            )
            names = {(one.block, one.name) for one in (*flop_alone.kept, *free)}
            moved = sum(one.moved for one in table if (one.block, one.name) not in names)
            assert moved > 1.02 * best.moved, size


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_within_the_peak_is_better(seed: int) -> None:
    """All choices of two blocks of four, by the peak of a backward pass that is gone through."""
    chance = random.Random(seed)
    block = [(f"op{n}", chance.randint(1, 9), chance.choice([0, chance.randint(1, 50)]), n) for n in range(4)]
    table = [Operator(number, *one) for number in range(2) for one in block]
    asked = Checkpoint(function="f", correctness=(), modelled=FIRST, table=lambda size: table, aim=Aim.PEAK)
    size = {"percent": chance.randint(0, 100)}
    best, limit = asked.best(size), peak(table, []) + asked.budget(size)
    costs = []
    for mask in itertools.product((False, True), repeat=len(table)):
        kept = [one for one, keep in zip(table, mask, strict=True) if keep]
        assert asked.taken(kept, size) == peak(table, kept) - peak(table, [])
        if peak(table, kept) <= limit:
            made = planned(kept, table)
            costs.append((made.flops, made.moved))
    assert (best.flops, best.moved) == min(costs) and peak(table, list(best.kept)) <= limit


def test_the_policy_keeps_what_no_other_can_do_without() -> None:
    size = {"layers": 2, "width": 32, "sequence": 16, "gated": 1}
    table, best = POLICY.table(size), POLICY.best(size)
    assert best.flops == 0 and {one.name for one in best.kept} == {"qkv", "attention", "projection", "gate", "up"}
    for one in best.kept:
        assert planned([other for other in best.kept if other is not one], table).flops == one.flops > 0


class TestTables:
    def test_stages_have_half_the_bytes_and_blocks_before_them_none_of_it(self) -> None:
        size = {"layers": 4, "width": 32, "sequence": 256, "stages": 2, "percent": 1}
        qkv = [one.bytes for one in PLAN.table(size) if one.name == "qkv"]
        assert qkv == [qkv[0], qkv[0], qkv[0] // 2, qkv[0] // 2]

    def test_a_gated_block_is_what_a_census_counts_of_one(self) -> None:
        torch = pytest.importorskip("torch")
        from systems.training.census import Census

        size = {"layers": 1, "width": 32, "sequence": 16, "gated": 1}
        x, gate, up = (torch.randn(shape) for shape in ((2, 16, 32), (128, 32), (128, 32)))
        with Census((x, gate, up)) as census:
            one = torch.nn.functional.linear(x, gate)
            two = torch.nn.functional.silu(one) * torch.nn.functional.linear(x, up)
        counted = sorted((call.made, call.flops, call.moved) for call in census.calls)
        named = [one for one in POLICY.table(size) if one.name in ("gate", "up", "silu", "times")]
        assert counted == sorted((one.bytes, one.flops, one.moved) for one in named) and two.shape == (2, 16, 128)

    def test_the_capture_process_gets_the_table_and_the_budget(self) -> None:
        case = PLAN.correctness[0]
        table = operator_table.decode(PLAN.content(case))
        assert [tuple(one) for one in table] == [
            (o.block, o.name, o.bytes, o.flops, o.moved) for o in PLAN.table(case.dimensions)
        ]
        rows, budget = PLAN.host_call(case).arguments
        assert (rows.value, budget.value) == (8, sum(one.bytes for one in table) * 40 // 100)  # type: ignore[union-attr]
        assert [argument.name for argument in POLICY.host_call(FIRST).arguments] == ["operators"]

    def test_what_is_trained_has_the_table_that_is_planned_with(self) -> None:
        assert len(RUN) == 3
        for name, asked in RUN.items():
            size = TASK.case(name)[1].dimensions
            sizes = TASK.model(size)
            assert asked.table(size) == recomputed([sizes] * sizes.layers)


class TestWhatTheWorkerIsSent:
    def test_a_right_answer_passes(self) -> None:
        said = record_stage.check_all(str(LAB.folder), SEED, answers(FIRST, RIGHT))
        assert [outcome["status"] for outcome in said["outcomes"]] == ["passed"]

    @pytest.mark.parametrize(
        "blob",
        [
            b"",
            b"[[0]]",
            b'[[0,"qkv",1]]',
            b'[[-1,"qkv"]]',
            b'[[NaN,"qkv"]]',
            b'[[1e3,"qkv"]]',
            b'[[2147483648,"qkv"]]',
            b"[[0,0]]",
            b'[[0,"' + b"q" * 41 + b'"]]',
            b'{"passed":true}',
            b"[" * 100_000,
            RIGHT + b" and more",
        ],
    )
    def test_what_is_no_list_of_operators_is_refused(self, blob: bytes) -> None:
        said = record_stage.check_all(str(LAB.folder), SEED, answers(FIRST, blob))
        assert said["refused"]["status"] == Status.HOST_CRASHED
        assert "no usable answer" in said["refused"]["message"]

    @pytest.mark.parametrize(
        ("case", "blob", "status", "words"),
        [
            (FIRST, b"[]", Status.WRONG_ANSWER, "those of qkv of block 0 first. It returns no records."),
            (FIRST, RIGHT.replace(b',[0,"up"]', b""), Status.WRONG_ANSWER, "those of up of block 0 first."),
            (FIRST, RIGHT.replace(b'0,"up"', b'1,"up"'), Status.OUT_OF_BOUNDS, "Record 3 keeps 'up' of block 1,"),
            (FIRST, RIGHT.replace(b"up", b"down"), Status.OUT_OF_BOUNDS, "'down' of block 0, which is not in"),
            (FIRST, RIGHT.replace(b"up", b"qkv"), Status.WRONG_ANSWER, "which an earlier one does too."),
            (PLAN.correctness[1], RIGHT[:10] + b"]", Status.WRONG_ANSWER, "keeps 12,288 bytes, where the budget is 0."),
            (PEAK.correctness[1], RIGHT[:10] + b"]", Status.WRONG_ANSWER, "12,288 bytes more at the peak, where"),
        ],
    )  # fmt: skip
    def test_a_wrong_plan_gets_its_verdict(self, case: RecordCase, blob: bytes, status: Status, words: str) -> None:
        said = record_stage.check_all(str(LAB.folder), SEED, answers(case, blob))
        assert said["outcomes"][0]["status"] == status and words in said["outcomes"][0]["message"]
        assert not said["run"]

    def test_the_last_block_is_free_at_the_peak_and_not_between_the_passes(self) -> None:
        last = b'[[2,"qkv"],[2,"up"]]'
        assert checkpoint_stage.check(PEAK, PEAK.correctness[1], last)[0].status is Status.PASSED
        size = {**PEAK.correctness[1].dimensions, "percent": 0}
        assert checkpoint_stage.check(PLAN, RecordCase("no room", size), last)[0].status is Status.WRONG_ANSWER


def ruling(worker: Any, run: dict[str, bytes]) -> Ruling:
    return trained(TASK, Runner(worker, LAB, SEED), run)


class InThisProcess:
    """A worker that is none."""

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        assert target == "autograder.worker.checkpoint_run:carry_out"
        return checkpoint_run.carry_out(**payload)


@pytest.fixture(scope="module")
def plans() -> dict[str, bytes]:
    """The reference's, of what is to be carried out."""
    found = {}
    for name, asked in RUN.items():
        case = TASK.case(name)[1]
        found[name] = checkpoint_stage.check(asked, case, blob_of(asked, case.dimensions))[1]
    return found


class TestTraining:
    @needs_torch
    def test_the_references_plans_are_counted_as_planned(self, plans: dict[str, bytes]) -> None:
        found = ruling(InThisProcess(), plans)
        assert found.status is Status.PASSED and "same bits" in found.message

    @needs_torch
    def test_so_are_plans_kept_by_chance(self, plans: dict[str, bytes]) -> None:
        chance = random.Random(SEED)
        names = [one.name for one in POLICY.table(FIRST.dimensions)]
        drawn = {name: [sorted(chance.sample(names, chance.randint(0, 8))) for _ in range(3)] for name in plans}
        found = ruling(InThisProcess(), {name: msgspec.json.encode(kept) for name, kept in drawn.items()})
        assert found.status is Status.PASSED

    @needs_torch
    def test_a_step_that_counts_other_bytes_is_a_fault_of_the_judge(self, plans: dict[str, bytes]) -> None:
        said = checkpoint_run.carry_out(str(LAB.folder), SEED, plans)
        assert ruling(Saying(said), plans).status is Status.PASSED
        for change in ({"kept": 0}, {"peak": 0}, {"again": 1}, {"same": False}, {"case": "another"}):
            wrong = {**said, "steps": [{**said["steps"][0], **change}, *said["steps"][1:]]}
            with pytest.raises(JudgeError):
                ruling(Saying(wrong), plans)

    def test_without_pytorch_it_is_not_judged_and_never_full_marks(
        self, plans: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        found = ruling(InThisProcess(), plans)
        assert found.status is Status.NEEDS_TORCH and "Not judged" in found.message and "make torch" in found.message
        part = safety_part(LAB, [], None, True, lambda: found)
        assert (part.status, part.score, part.max_score) == (Status.NEEDS_TORCH, 0, 20)
        assert part.judged and part.lost

    @pytest.mark.parametrize(
        "said",
        [
            None,
            {"torch": "2"},
            {"torch": "2", "steps": []},
            {"torch": "2", "steps": [{"case": "x", "kept": "0", "peak": 0, "again": 0, "same": True}]},
            WorkerError(WorkerFault.ERROR, "no such operator", "RuntimeError"),
            WorkerError(WorkerFault.TIMEOUT, "no answer"),
        ],
    )
    def test_nonsense_is_no_verdict_on_a_submission(self, said: Any, plans: dict[str, bytes]) -> None:
        with pytest.raises(JudgeError):
            ruling(Saying(said), plans)

    def test_what_is_no_plan_is_a_fault_of_the_judge(self, plans: dict[str, bytes]) -> None:
        steps = [{"case": name, "kept": 0, "peak": 0, "again": 0, "same": True} for name in plans]
        with pytest.raises(JudgeError, match="no plan"):
            ruling(Saying({"torch": "2", "steps": steps}), dict.fromkeys(plans, b"{}"))


class TestParts:
    def test_below_the_best_plan_is_impossible(self) -> None:
        models = {asked.function: ScheduleModel("x", 1.0, 1.1, {}) for asked in TASK.functions}
        found = modelled_part(LAB, models, LAB.points.efficiency)
        assert (found.status, found.score) == (Status.IMPOSSIBLE, 0)
        assert found.message == "A modelled plan is below what anything can reach."

    def test_words_are_those_of_plans(self) -> None:
        models = {asked.function: ScheduleModel("x", 2.0, 2.0, {}) for asked in TASK.functions}
        found = modelled_part(LAB, models, LAB.points.efficiency)
        assert found.score == found.max_score == LAB.points.efficiency
        assert "policy 2.000 MB kept, 100% of the bound; plan 2.000 MFLOP again" in found.message

    def test_only_plans_for_a_budget_have_one_of_traffic(self) -> None:
        models = {asked.function: ScheduleModel("x", 1.0, 1.0, {MOVED: 10**9}) for asked in TASK.functions}
        found = record_traffic(LAB, models)
        assert [budget.counter for budget in found.budgets] == [f"{MOVED} of plan", f"{MOVED} of plan_for_peak"]
        assert (found.part, found.status, found.score) == (Part.TRAFFIC, Status.OVER_BUDGET, 0)

    def test_without_budgets_there_is_nothing_to_lose(self) -> None:
        lab = replace(LAB, task=replace(TASK, functions=(POLICY,)))
        found = record_traffic(lab, {"policy": ScheduleModel("x", 1.0, 1.0, {MOVED: 10**9})})
        assert (found.status, found.score) == (Status.PASSED, LAB.points.traffic)


class Boastful(str):
    """A name that is another one for who asks it."""

    def __getitem__(self, key: Any) -> str:
        return "qkv"


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([(0,)], "a tuple of 1, not (block, name of an operator)"),
        ([operator_table.Operator(0, "qkv", 1, 2, 3)], "a tuple of 5, not (block, name of an operator)"),
        ([(0, "up"), (0, 1)], "Record 1 of f has a int for its name: give the operator's name."),
        ([(float("nan"), "up")], "a float for its block"),
        ([(-1, "up")], "-1 for its block"),
        ([(0, "u" * 41)], "a name of more than 40 characters"),
        ({}, "returns a dict"),
    ],
)
def test_what_is_no_record_is_said_in_a_sentence(records: Any, words: str) -> None:
    with pytest.raises(Exception) as found:
        to_json(records, RecordForm.KEPT, "f")
    assert words in str(found.value) and found.value.status == "no records"  # type: ignore[attr-defined]


def test_names_leave_the_capture_process_as_they_are() -> None:
    assert to_json([(0, Boastful("everything"))], RecordForm.KEPT, "f") == b'[[0,"everything"]]'
