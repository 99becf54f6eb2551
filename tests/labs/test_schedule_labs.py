"""Labs whose submissions are schedules: what they ask for is sound, and nothing that a stranger sends is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.handout import handout
from autograder.judge import on_gpus
from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.kinds import records
from autograder.judge.kinds.schedules import Schedules, schedule_efficiency
from autograder.judge.on_processes import carry_out, transfers
from autograder.judge.pipeline import grade
from autograder.judge.record_parts import CheckedRecords
from autograder.judge.runner import JudgeError, Runner
from autograder.records.machine import Machine, choose_machine
from autograder.records.prepared import Answer
from autograder.records.rejection import Rejected
from autograder.records.report import PartResult
from autograder.records.request import Request
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Executor, Part, Status
from autograder.report.build import judged
from autograder.spec.attacks import AttackTask
from autograder.spec.checkpoints import Checkpoint
from autograder.spec.lab import LabError, find_lab, labs_folder, load, solutions_folder
from autograder.spec.programs import Program
from autograder.spec.schedules import Exchange, ScheduleTask
from autograder.worker import record_rows, record_stage, schedule_stage
from corpus.judge.submission_files import submission
from systems.network import schedules
from systems.network.bounds import bound
from systems.network.execution import Backend, Verdict, execute
from systems.network.execution.timing import Timing
from systems.network.schedules import Op, Phase, Schedule, Transfer
from systems.network.simulation import simulate
from tests.labs.judging import EMULATOR
from tests.labs.record_labs import FUNCTIONS, LABS, SEED, RecordLab, Saying, answers, reference
from tests.sampling import WHOLE
from warplab.plan.capture.protocol import encode_records
from warplab.plan.capture.records import RecordForm, to_json
from warplab.worker.process import WorkerError, WorkerFault

pytestmark = pytest.mark.stored

EXCHANGES = [pytest.param(*f, id=f"{f[0].name}/{f[1].function}") for f in FUNCTIONS if isinstance(f[1], Exchange)]
LAB = load(labs_folder() / "12_collectives", ScheduleTask)
SCHEDULES = [lab for lab in LABS if not isinstance(lab.task, AttackTask)]  # test_attack_lab.py has those
FIRST = LAB.task.functions[0].correctness[0]


def built(lab: RecordLab, exchange: Exchange, size: Any) -> Schedule:
    """The reference's schedule for one size, without a judge."""
    records = getattr(reference(lab), exchange.function)(**size)
    phases = (Phase(tuple(Transfer(*record[:4], Op(record[4]), *record[5:]) for record in records)),)
    return Schedule(exchange.function, exchange.collective, exchange.ranks(size), exchange.chunks(size), phases)


@pytest.mark.parametrize("lab", SCHEDULES, ids=lambda lab: lab.name)
class TestEveryScheduleLab:
    def test_handout_states_the_grading_as_it_is(self, lab: RecordLab) -> None:
        assert sum(getattr(lab.points, part) for part in Part) == 100
        found = handout(lab)
        assert found.up_to_date
        for asked in lab.task.functions:
            names = list(asked.modelled.dimensions)
            if isinstance(asked, Checkpoint):
                names = [argument.name for argument in asked.host_call(asked.modelled).arguments]
            if isinstance(asked, Program):
                call = asked.call(asked.modelled, 0, asked.drawn_arrays(asked.modelled, SEED))
                names = [argument.name for argument in call.arguments]
            assert f"def {asked.function}({', '.join(names)})" in found.text

    def test_feedback_points_to_sections_that_exist(self, lab: RecordLab) -> None:
        handout = (lab.folder / "README.md").read_text(encoding="utf-8")
        assert set(lab.feedback) == {"correctness", "safety", "traffic", "efficiency"}
        for words in lab.feedback.values():
            assert f"\n## {words.split('section ')[1].strip(chr(39))}\n" in handout

    def test_what_a_secret_seed_must_decide_is_drawn(self, lab: RecordLab) -> None:
        for asked, case in lab.task.cases():
            if case.hidden or case is asked.modelled:
                assert len({tuple(size.items()) for size in case.sizes}) >= 3, case.name
            assert not case.sizes or dict(case.dimensions) in case.sizes
            assert not (case.run and (case.hidden or case.sizes)), case.name
        for exchange in lab.task.functions:
            drawn = [
                tuple(lab.drawn(seed).task.case(exchange.modelled.name)[1].dimensions.items()) for seed in range(99)
            ]
            assert max(drawn.count(size) for size in set(drawn)) < 50
            assert any(case.hidden for case in exchange.correctness)
            assert isinstance(exchange, Program) or any(case.run for case in exchange.correctness)

    def test_it_is_no_lab_of_kernels(self, lab: RecordLab) -> None:
        with pytest.raises(LabError, match="asks for no kernels"):
            find_lab(lab.name)


@pytest.mark.parametrize(("lab", "exchange"), EXCHANGES)
class TestReferences:
    def test_right_for_every_size_that_a_seed_can_draw(self, lab: RecordLab, exchange: Exchange) -> None:
        for case in exchange.correctness:
            for size in case.sizes or (case.dimensions,):
                assert schedules.check(built(lab, exchange, size)) is None, (case.name, size)

    def test_fast_enough_for_the_ends_of_the_class(self, lab: RecordLab, exchange: Exchange) -> None:
        sizes = exchange.modelled.sizes
        for size in (sizes[0], sizes[len(sizes) // 2 - 1], sizes[len(sizes) // 2], sizes[-1]):
            schedule, network = built(lab, exchange, size), exchange.network(size)
            assert schedules.check(schedule) is None
            simulated = simulate(schedule, network, exchange.size)
            share = bound(exchange.collective, network, exchange.size).seconds / simulated.seconds
            assert lab.efficiency.target < share <= 1, size
            found = schedule_stage.counters(simulated)
            assert all(found[b.counter] <= b.limit(size, exchange.size) + 1 for b in exchange.budgets), size

    @pytest.mark.processes
    def test_processes_end_with_the_sums(self, lab: RecordLab, exchange: Exchange) -> None:
        """Over Gloo; over sockets in `make test`, for each process of Gloo's imports PyTorch."""
        backend = Backend.GLOO if WHOLE else Backend.SOCKETS
        if backend is Backend.GLOO:
            pytest.importorskip("torch")
        case = next(case for case in exchange.correctness if case.run)
        schedule = built(lab, exchange, case.dimensions)
        inputs = np.random.default_rng(1).integers(-9, 9, (schedule.ranks, schedule.chunks * 2)).astype(np.float32)
        outcome = execute(schedule, inputs, backend, patience=30.0)
        assert outcome.verdict is Verdict.RIGHT
        for output, true in zip(outcome.outputs, schedules.expected(schedule, inputs), strict=True):
            np.testing.assert_array_equal(output, true)


class TestCounters:
    def test_are_those_of_a_count_by_hand(self) -> None:
        """An all-to-all of two nodes of two: each rank has four chunks of 256 bytes."""
        exchange = next(e for e in LAB.task.functions if e.function == "all_to_all")
        size = {"nodes": 2, "per_node": 2}
        direct = tuple(Transfer(0, s, d, 4 * s + d) for s in range(4) for d in range(4) if s != d)
        schedule = Schedule("direct", exchange.collective, 4, 16, (Phase(direct),))
        found = schedule_stage.counters(simulate(schedule, exchange.network(size), 1024))
        # Out of a node: two ranks times two chunks; over a spine: the half of them that change the rail, both nodes'.
        expected = {"sent_bytes": 768, "peers": 3, "node_bytes": 1024, "spine_bytes": 1024, "steps": 1}
        assert found == expected
        relayed = built(LAB, exchange, size)
        found = schedule_stage.counters(simulate(relayed, exchange.network(size), 1024))
        assert (found["spine_bytes"], found["node_bytes"], found["steps"]) == (0, 1024, 2)


class TestWhatTheWorkerIsSent:
    @pytest.mark.parametrize(
        "blob",
        [
            b"",
            b"[[0,0,1,0]]",
            b'[[0,0,1,0,"add",null]]',
            b'[[-1,0,1,0,"copy",null]]',
            b'[[0,0,1,0,"copy",null,1]]',
            b'[[0,0,1,1e3,"copy",null]]',
            b'[[4294967296,0,1,0,"copy",null]]',
            b'{"passed":true}',
            b"[" * 100_000,
            b'[[0,0,1,0,"copy",null]] and more',
            b"\xff\xfe",
        ],
    )
    def test_what_is_no_list_of_records_is_refused(self, blob: bytes) -> None:
        said = record_stage.check_all(str(LAB.folder), SEED, answers(FIRST, blob))
        assert said["refused"]["status"] == Status.HOST_CRASHED
        assert "no usable answer" in said["refused"]["message"]

    def test_too_many_records_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(record_rows, "MOST_BYTES", 8)
        said = record_stage.check_all(str(LAB.folder), SEED, answers(FIRST, b'[[0,0,1,0,"copy",null]]'))
        assert said["refused"]["status"] == Status.RESOURCES

    def test_an_answer_with_fewer_cases_is_refused(self) -> None:
        given = [{"cases": [FIRST.name, "another"], "content": encode_records([b"[]"]), "hidden": True}]
        said = record_stage.check_all(str(LAB.folder), SEED, given)
        assert said["refused"]["message"] == "On a size that is not shown: host code crashed."


def runner(answer: Any) -> Runner:
    return Runner(Saying(answer), LAB, SEED)


class TestWhatTheWorkerSays:
    @pytest.mark.parametrize("said", [None, {"outcomes": 3}, {"outcomes": [{"case": "x"}]}, {"run": {"x": "text"}}])
    def test_nonsense_is_no_verdict(self, said: Any) -> None:
        with pytest.raises(Rejected) as found:
            records.check(runner(said), [])
        assert found.value.status is Status.WORKER_CRASHED

    @pytest.mark.parametrize(("cost", "least"), [(0.0, 1.0), (1.0, float("nan")), (1e300, 1.0), (-1.0, -1.0)])
    def test_times_that_cannot_be_are_nonsense(self, cost: float, least: float) -> None:
        with pytest.raises(Rejected) as found:
            records.model(runner({"case": "x", "cost": cost, "bound": least, "counters": {}}), [], "x")
        assert found.value.status is Status.WORKER_CRASHED

    def test_time_without_end_is_the_submissions_fault(self) -> None:
        with pytest.raises(Rejected, match="took more than") as found:
            records.model(runner(WorkerError(WorkerFault.TIMEOUT, "no answer")), [Answer((), b"", False)], "x")
        assert found.value.status is Status.RESOURCES

    def test_below_the_bound_is_impossible(self) -> None:
        models = {e.function: ScheduleModel("x", 1.0, 1.1, {}) for e in LAB.task.functions}
        part = schedule_efficiency(LAB, models, on_gpus.TimedSchedules())
        assert (part.status, part.score) == (Status.IMPOSSIBLE, 0)

    def test_a_third_of_the_points_for_each_function(self) -> None:
        target, floor = LAB.efficiency.target, LAB.efficiency.floor
        shares = (target, floor, (target * floor) ** 0.5)  # all, none and, halfway by the logarithm, half
        models = {
            e.function: ScheduleModel("x", 1.0, share, {}) for e, share in zip(LAB.task.functions, shares, strict=True)
        }
        part = schedule_efficiency(LAB, models, on_gpus.TimedSchedules())
        modelled = LAB.points.efficiency - LAB.task.measured_points
        assert part.score == pytest.approx(modelled / 3 * 1.5, abs=0.1)
        assert (part.status, part.max_score) == (Status.PARTIAL, modelled)

    def test_not_all_that_is_to_be_carried_out_is_a_fault_of_the_judge(self) -> None:
        class Grading:
            lab = LAB

        evidence = CheckedRecords([], {e.function: ScheduleModel("x", 1.0, 1.0, {}) for e in LAB.task.functions})
        with pytest.raises(JudgeError, match="other records"):
            Schedules()._carried_out(Grading(), evidence, {})  # type: ignore[arg-type]

    @pytest.mark.parametrize("content", [b"{}", schedules.dumps(Schedule("x", "all_reduce", 2, 1, ()))])  # type: ignore
    def test_a_wrong_schedule_is_not_run_but_a_fault_of_the_judge(self, content: bytes) -> None:
        with pytest.raises(JudgeError):
            carry_out(transfers, FIRST.name, content, SEED)


BEST = {e.function: ScheduleModel("x", 1.0, 1.0, {}) for e in LAB.task.functions}
REQUEST = Request(LAB, Path("submission.py"), Machine(Executor.GPU, "sm_90a", "two GPUs", EMULATOR.isolation))


def timings(*shares: float) -> list[Timing]:
    """NCCL takes 1 ms, but in one turn, when everything takes ten times as long."""
    turns = (1e-3, 1e-2, *[1e-3] * 8)
    return [Timing(tuple(one / share for one in turns), turns) for share in shares]


class TestMeasuredTime:
    """What processes on two GPUs say is made up: what they are asked, and what becomes of their answer, is not."""

    @pytest.mark.parametrize(
        ("machine", "gpus", "why"),
        [(EMULATOR, 2, "needs two GPUs"), (REQUEST.machine, 1, "there is one"), (REQUEST.machine, 2, "gave no time")],
    )
    def test_where_nothing_is_measured_the_points_are_left_out(
        self, machine: Machine, gpus: int, why: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(on_gpus.hardware, "count", lambda: gpus)
        monkeypatch.setattr(on_gpus, "find_spec", lambda name: True)
        request = replace(REQUEST, machine=machine)
        part = schedule_efficiency(LAB, BEST, on_gpus.time_on_gpus(LAB.task, request, {}))
        assert (part.status, part.score, part.max_score, part.left_out) == (Status.PASSED, 21, 21, 9)
        assert why in part.message.partition("Not measured: ")[2]
        passed = [PartResult(name, Status.PASSED, 10, 10) for name in (Part.CORRECTNESS, Part.SAFETY, Part.TRAFFIC)]
        report = judged(request, "", (*passed, part))
        assert "not judged here: 9 points of efficiency" in report.message and "Full marks" not in report.message
        assert (report.score, report.max_score, report.full_score) == (51, 51, 60)

    def test_without_pytorch_the_points_count_and_are_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(on_gpus.hardware, "count", lambda: 2)
        monkeypatch.setattr(on_gpus, "find_spec", lambda name: None)
        part = schedule_efficiency(LAB, BEST, on_gpus.time_on_gpus(LAB.task, REQUEST, {}))
        assert (part.status, part.score, part.max_score, part.left_out) == (Status.PARTIAL, 21, 30, 0)
        assert "make torch" in part.message

    @pytest.mark.parametrize(("gpus", "ranks"), [(2, 2), (3, 2), (5, 4), (16, 8)])
    def test_the_cases_of_as_many_gpus_as_there_are_are_timed(
        self, gpus: int, ranks: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        timed: list[tuple[Schedule, int]] = []

        def time(them: list[Schedule], sizes: list[int]) -> list[Timing]:
            timed.extend(zip(them, sizes, strict=True))
            return timings(0.8, 0.8, 0.8)

        monkeypatch.setattr(on_gpus.hardware, "count", lambda: gpus)
        monkeypatch.setattr(on_gpus, "find_spec", lambda name: True)
        monkeypatch.setattr(on_gpus, "time_schedules", time)
        checked = {
            case.name: schedules.dumps(built(LAB, asked, case.dimensions))
            for asked, case in LAB.task.cases()
            if case.timed
        }
        found = on_gpus.time_on_gpus(LAB.task, REQUEST, checked).found
        assert [one.function for one in found] == [e.function for e in LAB.task.functions]
        assert [schedule.ranks for schedule, _ in timed] == [ranks] * 3
        assert [size for _, size in timed] == [e.size for e in LAB.task.functions]

    def test_points_are_for_nccls_time_over_the_schedules_in_the_same_turn(self) -> None:
        target, floor = LAB.efficiency.target, LAB.efficiency.floor
        shares = (target * 1.01, floor * 0.9, (target * floor) ** 0.5)
        functions = [e.function for e in LAB.task.functions]
        found = tuple(on_gpus.beside_nccl(f, 2, t) for f, t in zip(functions, timings(*shares), strict=True))
        assert [one.share.value for one in found] == pytest.approx(shares)
        part = schedule_efficiency(LAB, BEST, on_gpus.TimedSchedules(found))
        assert (part.score, part.max_score, part.left_out) == (21 + 3 + 0 + 1.5, 30, 0)
        assert [case.status for case in part.cases[3:]] == [Status.PASSED, Status.SLOW, Status.SLOW]
        assert "2 GPUs" in part.message and part.status is Status.PARTIAL
        full = on_gpus.TimedSchedules(
            tuple(on_gpus.beside_nccl(f, 2, t) for f, t in zip(functions, timings(1, 1, 1), strict=True))
        )
        assert schedule_efficiency(LAB, BEST, full).status is Status.PASSED

    def test_wrong_schedules_earn_nothing_measured_either(self) -> None:
        part = schedule_efficiency(LAB, {}, on_gpus.TimedSchedules())
        assert (part.status, part.score, part.max_score + part.left_out) == (Status.WITHHELD, 0, 30)


class TestRecords:
    def test_numbers_and_words_of_any_make(self) -> None:
        rows = (np.array([1, 0, 1, 2]).tolist() + ["copy"], (np.int8(1), True, 0, np.uint64(3), "reduce", 4))
        assert json.loads(to_json(iter(rows), RecordForm.TRANSFERS, "f")) == [
            [1, 0, 1, 2, "copy", None],
            [1, 1, 0, 3, "reduce", 4],
        ]

    @pytest.mark.parametrize(
        ("returned", "words"),
        [
            (None, "returns None"),
            ("text", "returns a str"),
            (3, "returns a int"),
            ([3], "Record 0 of f is a int"),
            ([(1, 2, 3, "copy")], "a tuple of 4"),
            ([(0, 0, 1, 0, "copy"), (0, 0, 1.0, 0, "copy")], "Record 1 of f has a float for its destination"),
            ([(0, 0, -1, 0, "copy")], "-1 for its destination"),
            ([(0, 0, 1, 0, "sum")], "the operation 'sum'"),
            ([(0, 0, 1, 0, "copy", "now")], "for its step of the destination"),
        ],
    )
    def test_what_is_none_is_said_in_a_sentence(self, returned: Any, words: str) -> None:
        with pytest.raises(Exception, match=words.replace("(", r"\(")) as found:
            to_json(returned, RecordForm.TRANSFERS, "f")
        assert found.value.status == "no records"  # type: ignore[attr-defined]


@pytest.mark.processes
def test_reports_tell_no_hidden_size(tmp_path: Path) -> None:
    """A submission that is wrong on hidden sizes only, and says what it is asked for."""
    names = "ranks", "pieces"
    text = submission(f"{LAB.name}/wrong/direct.py").read_text("utf-8")
    hidden = LAB.drawn(SEED).task.case("ring: hidden")[1].dimensions
    shown = [tuple(c.dimensions.values()) for c in LAB.drawn(SEED).task.functions[0].cases() if not c.hidden]
    assert tuple(hidden.values()) not in shown
    text += f"""

right = ring_all_reduce


def ring_all_reduce(ranks, pieces):
    if (ranks, pieces) not in {shown}:
        return [(0, ranks * 1000 + pieces, 0, 0, "copy")]
    return right(ranks, pieces)
"""
    path = tmp_path / LAB.name / "submission.py"
    path.parent.mkdir()
    path.write_text(text)
    with ConfinedWorker(EMULATOR, own=False) as worker:
        report = grade(Request(LAB, path, EMULATOR, SEED), worker)
    assert report.part(Part.CORRECTNESS).status is Status.OUT_OF_BOUNDS
    assert report.part(Part.SAFETY).findings
    told = json.dumps(report.to_json())
    assert f"{hidden['ranks'] * 1000 + hidden['pieces']}" not in told and "ring: hidden" not in told
    assert not any(f"{names[0]}={hidden['ranks']}, {names[1]}={hidden['pieces']})" in told for _ in names)


@pytest.mark.multigpu
def test_the_reference_is_timed_on_two_gpus() -> None:
    """How fast it is decides nothing here; that each function was timed and is near NCCL, its report says."""
    pytest.importorskip("torch")
    machine = choose_machine("gpu")
    with ConfinedWorker(machine, own=False) as worker:
        report = grade(Request(LAB, solutions_folder() / LAB.name / "submission.py", machine, SEED), worker)
    part = report.part(Part.EFFICIENCY)
    assert (part.left_out, part.max_score, report.max_score) == (0, 30, 100), part.message
    assert [case.name for case in part.cases[3:]] == [f"{e.function}, measured" for e in LAB.task.functions]
    print(part.message)
