"""Labs whose submissions are pipeline schedules: references, bounds, and nothing that a stranger sends is believed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from autograder.judge.on_processes import carry_out, passes
from autograder.judge.record_parts import modelled_part
from autograder.judge.runner import JudgeError
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.spec.pipelines import Pipeline, chunks_of, held_by, ranks_of
from autograder.spec.records import RecordCase
from autograder.worker import pipeline_stage, record_stage
from systems.parallel.execution import Work
from systems.parallel.layout import Schedule
from systems.parallel.timeline import Kind, Orders, Pass, orders
from tests.labs.record_labs import FUNCTIONS, SEED, RecordLab, answers, reference
from warplab.plan.capture.records import RecordForm, to_json

PIPELINES = [(lab, asked) for lab, asked in FUNCTIONS if isinstance(asked, Pipeline)]
EACH = [pytest.param(*found, id=f"{found[0].name}/{found[1].function}") for found in PIPELINES]
LAB = PIPELINES[0][0]
FIRST = LAB.task.functions[0].correctness[0]  # one rank, two micro-batches
PLAIN = b'[[0,"F",0,0],[0,"B",0,0],[0,"F",1,0],[0,"B",1,0]]'


def blob_of(lab: RecordLab, pipeline: Pipeline, size: Any) -> bytes:
    """What the capture process would say of the reference."""
    return to_json(getattr(reference(lab), pipeline.function)(**size), RecordForm.PASSES, "f")


@pytest.mark.parametrize(("lab", "pipeline"), EACH)
class TestReferences:
    def test_right_for_the_ends_and_a_part_of_every_class(self, lab: RecordLab, pipeline: Pipeline) -> None:
        for case in pipeline.cases():
            sizes = case.sizes or (case.dimensions,)
            for number in {*range(0, len(sizes), 7), len(sizes) - 1}:
                found = RecordCase(case.name, sizes[number])
                outcome, _ = pipeline_stage.check(pipeline, found, blob_of(lab, pipeline, sizes[number]))
                assert outcome.status is Status.PASSED, (sizes[number], outcome.message)

    def test_small_bubbles_within_the_budgets_for_all_that_is_modelled(
        self, lab: RecordLab, pipeline: Pipeline
    ) -> None:
        for size in pipeline.modelled.sizes:
            case = RecordCase("modelled", size)
            model = pipeline_stage.model(pipeline, case, blob_of(lab, pipeline, size))
            assert lab.efficiency.target < model.share <= 1, size
            assert model.counters == {held_by(rank): pipeline.held(size, rank) for rank in range(ranks_of(size))}, (
                size
            )  # budgets without slack: who holds one more is over

    def test_arguments_have_the_names_that_sizes_are_read_by(self, lab: RecordLab, pipeline: Pipeline) -> None:
        for case in pipeline.cases():
            assert {"ranks", "micro_batches"} <= case.dimensions.keys() <= {"ranks", "micro_batches", "chunks"}
            assert chunks_of(case.dimensions) == case.dimensions.get("chunks", 1)


def test_the_model_is_that_of_a_count_by_hand() -> None:
    """Two ranks, F = 1 ms and B = 2 ms: the last rank waits a pass and a transfer, and after it the first as much."""
    pipeline = LAB.task.functions[0]
    assert isinstance(pipeline, Pipeline)
    rows = b'[[1,"F",0,0],[0,"F",0,0],[0,"B",0,0],[1,"B",0,0]]'
    model = pipeline_stage.model(pipeline, RecordCase("by hand", {"ranks": 2, "micro_batches": 1}), rows)
    assert model.cost == pytest.approx(1e-3 + 2e-3 + 2 * 4e-5)
    assert model.share == pytest.approx(1.0)
    assert model.counters == {"held_by_rank_0": 1, "held_by_rank_1": 1}


def test_the_budget_shown_is_that_of_the_rank_with_the_least_room() -> None:
    pipeline = LAB.task.functions[0]
    size = pipeline.modelled.dimensions
    ranks = ranks_of(size)
    counters = {held_by(rank): ranks - rank for rank in range(ranks)}
    (limit,) = pipeline.limits(counters | {held_by(1): ranks + 3})
    assert (limit.counter, limit.most) == ("held_by_rank_1", ranks - 1)


class TestWhatTheWorkerIsSent:
    def test_a_right_answer_passes(self) -> None:
        said = record_stage.check_all(str(LAB.folder), SEED, answers(FIRST, PLAIN))
        assert [outcome["status"] for outcome in said["outcomes"]] == ["passed"]

    @pytest.mark.parametrize(
        "blob",
        [
            b"",
            b'[[0,"F",0]]',
            b'[[0,"F",0,0,0]]',
            b'[[0,"I",0,0]]',
            b'[[-1,"F",0,0]]',
            b'[[0,"F",1e3,0]]',
            b'[[0,"F",0,2147483648]]',
            b'{"passed":true}',
            b"[" * 100_000,
            PLAIN + b" and more",
        ],
    )
    def test_what_is_no_list_of_passes_is_refused(self, blob: bytes) -> None:
        said = record_stage.check_all(str(LAB.folder), SEED, answers(FIRST, blob))
        assert said["refused"]["status"] == Status.HOST_CRASHED
        assert "no usable answer" in said["refused"]["message"]

    @pytest.mark.parametrize(
        ("blob", "status", "words"),
        [
            (PLAIN.replace(b'[0,"B",1', b'[1,"B",1'), Status.OUT_OF_BOUNDS, "Record 3 is of rank 1: ranks are 0 to 0."),
            (PLAIN.replace(b'"B",1,0', b'"B",1,1'), Status.OUT_OF_BOUNDS, "chunks are 0 to 0"),
            (PLAIN.replace(b'"B",1', b'"W",1'), Status.OUT_OF_BOUNDS, "the passes here are F, B."),
            (PLAIN.replace(b'"B",1', b'"B",0'), Status.WRONG_ANSWER, "which it has done before"),
            (PLAIN.replace(b'[0,"F",0,0],', b""), Status.UNINITIALISED, "before F of micro-batch 0"),
            (b"[]", Status.WRONG_ANSWER, "never does F of micro-batch 0. It returns no records."),
        ],
    )
    def test_a_wrong_order_gets_its_verdict(self, blob: bytes, status: Status, words: str) -> None:
        said = record_stage.check_all(str(LAB.folder), SEED, answers(FIRST, blob))
        assert said["outcomes"][0]["status"] == status and words in said["outcomes"][0]["message"]
        assert not said["run"]


class TestWhatTheWorkerSays:
    def test_a_bubble_below_the_least_is_impossible(self) -> None:
        models = {asked.function: ScheduleModel("x", 1.0, 1.1, {}) for asked in LAB.task.functions}
        part = modelled_part(LAB, models, LAB.points.efficiency)
        assert (part.status, part.score) == (Status.IMPOSSIBLE, 0)
        assert part.message == "A modelled bubble is below what anything can reach."

    @pytest.mark.parametrize(
        "content",
        [
            b"{}",
            b'{"orders":[],"micro_batches":1}',
            msgspec.json.encode(Work([[Pass(Kind.BACKWARD, 0, 0)]], 1)),
            msgspec.json.encode(Work([[Pass(Kind.FORWARD, 0, 0, Pass(Kind.BACKWARD, 0, 0))]], 1)),
        ],
    )
    def test_wrong_work_is_not_run_but_a_fault_of_the_judge(self, content: bytes) -> None:
        with pytest.raises(JudgeError):
            carry_out(passes, "a case", content, SEED)

    @pytest.mark.processes
    def test_right_work_is_run(self) -> None:
        made: Orders = orders(Schedule.ONE_F_ONE_B, 2, 2)
        carry_out(passes, "a case", msgspec.json.encode(Work(made, 2)), SEED)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([(0, "F", 0)], "a tuple of 3, not (rank, 'F', 'B' or 'W', micro-batch, chunk)"),
        ([(0, "F", 0, 0), (0, "f", 0, 0)], "Record 1 of f has the pass 'f': it is 'F', 'B' or 'W'."),
        ([(0, "F", 0.0, 0)], "a float for its micro-batch"),
        ([(0, "F", 0, None)], "None for its chunk"),
        ([(-1, "F", 0, 0)], "-1 for its rank"),
        ({}, "returns a dict"),
    ],
)
def test_what_is_no_record_is_said_in_a_sentence(returned: Any, words: str) -> None:
    with pytest.raises(Exception) as found:
        to_json(returned, RecordForm.PASSES, "f")
    assert words in str(found.value) and found.value.status == "no records"  # type: ignore[attr-defined]
