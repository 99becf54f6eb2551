"""The lab whose submissions attack a naive judge: each hole is one, and nothing that an attack says is believed."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autograder.handout import handout
from autograder.judge.capture_stage import Submission
from autograder.judge.kinds import attacks
from autograder.judge.kinds.lab_kind import Grading
from autograder.judge.runner import Runner
from autograder.records.prepared import Answer
from autograder.records.rejection import Rejected
from autograder.records.request import Request
from autograder.records.status import Part, Status
from autograder.spec.attacks import AttackTask, Call, Flag, naive_seed
from autograder.spec.lab import CHECKOUT, LabError, find_lab
from autograder.worker import attack_stage
from course import results
from tests.labs.judging import EMULATOR
from tests.labs.record_labs import FUNCTIONS, SEED, Saying, reference
from warplab.plan.capture.attacked import attack, encode_attack, load_judge
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.protocol import decode_records, encode_failure, encode_records

FLAGS = [(lab, asked) for lab, asked in FUNCTIONS if isinstance(asked, Flag)]
LAB = FLAGS[0][0]
TASK = LAB.task
assert isinstance(TASK, AttackTask)
NAMES = [flag.function for _, flag in FLAGS]
EACH = [pytest.param(flag, id=flag.function) for _, flag in FLAGS]
README = (LAB.folder / "README.md").read_text(encoding="utf-8")

# Which attacks of the solution get in by a hole that is not theirs, and why they must.
ALSO = {
    "constant_output": {"half_sums", "changed_inputs", "cached_by_address"},  # all of them are off by less than 0.01
    "stale_output": {"one_size", "patched_check", "side_stream", "lazy_output"},  # what they do not write is there
}


@pytest.fixture
def naive() -> Iterator[ModuleType]:
    """The judge, and what attacks patch put back."""
    kept = np.allclose, time.perf_counter
    spec = importlib.util.spec_from_file_location("naive_judge", LAB.folder / "naive_judge.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["naive_judge"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["naive_judge"]
    np.allclose, time.perf_counter = kept


def honest(gpu: Any, a: NDArray[np.float32], b: NDArray[np.float32], c: NDArray[np.float32]) -> None:
    c[:] = a @ b


def backwards(gpu: Any, a: NDArray[np.float32], b: NDArray[np.float32], c: NDArray[np.float32]) -> None:
    """One product after another, the last one first."""
    c[:] = 0
    for k in reversed(range(a.shape[1])):
        c += np.outer(a[:, k], b[k])


def test_all_name_the_same_flags(naive: ModuleType) -> None:
    assert list(naive.FLAGS) == NAMES and len(NAMES) == 12
    assert TASK.no_time == naive.NO_TIME
    assert all(README.count(f"| `{name}` |") == 2 for name in NAMES)  # what is asked for, and the real judge's answer


def test_the_handout_states_the_grading_as_it_is() -> None:
    assert sum(getattr(LAB.points, part.value) for part in Part) == 100
    assert handout(LAB).up_to_date
    for part in Part:
        section = LAB.feedback[part].split("section ")[1].strip("'")
        below = README[README.index(f"\n## {section}\n") + 4 :].split("\n## ")[0]
        assert re.findall(r"^\| `(\w+)` \|", below, re.MULTILINE) == [f.function for _, f in FLAGS if f.part == part]
    with pytest.raises(LabError, match="asks for no kernels"):
        find_lab(LAB.name)


@pytest.mark.parametrize("name", NAMES)
def test_an_attack_gets_in_by_its_hole_and_by_no_other_that_it_need_not(naive: ModuleType, name: str) -> None:
    kept, found = (np.allclose, time.perf_counter), set()
    for hole in (*NAMES, ""):
        kernel = getattr(reference(LAB), name)
        verdict = naive.judge(kernel, hole, SEED)
        np.allclose, time.perf_counter = kept
        if verdict.passed and (name != "patched_clock" or verdict.seconds < naive.NO_TIME):
            found.add(hole)
    assert found == {name, *(hole for hole, others in ALSO.items() if name in others)}


@pytest.mark.parametrize("kernel", [honest, backwards])
def test_an_honest_kernel_passes_whatever_is_open(naive: ModuleType, kernel: Any) -> None:
    for seed in range(5):
        for hole in (*NAMES, ""):
            verdict = naive.judge(kernel, hole, seed)
            assert verdict.passed and verdict.seconds >= naive.NO_TIME, (hole, verdict)


@pytest.mark.processes
def test_it_runs_as_a_program_and_says_both_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def stale_output(gpu, a, b, c):\n    pass\n")
    command = [sys.executable, str(LAB.folder / "naive_judge.py"), str(path), "stale_output"]
    name, opened, closed = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert name == "stale_output" and "open  passed: right" in opened and "closed      failed:" in closed


def calls_of(flag: Flag, kernel: Any, naive: ModuleType) -> list[Call]:
    """What the kernel's calls leave with all holes closed, as the worker reads it."""
    said = attack(naive, kernel, encode_attack(TASK.judge, "", naive_seed(SEED), flag.blank))
    return attack_stage._calls(flag.drawn_calls(SEED), attack_stage._said(encode_records([said])).alone)


@pytest.mark.parametrize("flag", EACH)
def test_only_the_attack_shows_what_its_flag_asks_for(naive: ModuleType, flag: Flag) -> None:
    """Left alone: the solution's kernel does; an honest one and one that does nothing or writes ones do not."""
    assert flag.missing(calls_of(flag, getattr(reference(LAB), flag.function), naive)) == ""
    if not flag.takes_no_time:  # that one shows nothing here, as the handout says
        assert flag.missing(calls_of(flag, honest, naive))

    def ones(gpu: Any, a: Any, b: Any, c: Any) -> None:
        c[:] = 1

    unproven = flag.function in ("callers_frame", "patched_check")  # the handout says so
    assert unproven or flag.function == "constant_output" or flag.missing(calls_of(flag, ones, naive))
    assert unproven or flag.function == "stale_output" or flag.missing(calls_of(flag, lambda *a: None, naive))


def test_inputs_are_those_that_the_naive_judge_draws(naive: ModuleType) -> None:
    for _, flag in FLAGS:
        given: list[Any] = []
        calls = calls_of(flag, lambda gpu, a, b, c, given=given: given.append((a.copy(), b.copy())), naive)
        assert len(calls) == len(naive.SIZES) * naive.CALLS
        for call, (a, b) in zip(calls, given[: len(calls)], strict=True):
            np.testing.assert_array_equal(call.given[0], a)
            np.testing.assert_array_equal(call.given[1], b)
        first, other = flag.drawn_calls(1), flag.drawn_calls(2)
        assert flag.blank or not np.array_equal(first[0][0], other[0][0])


def callers_of(kernel_frame: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    """Of every caller the file, the function and the names in its frame, from the kernel's own caller on."""
    found, frame = [], kernel_frame.f_back
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_code.co_name, tuple(frame.f_locals)))
        frame = frame.f_back
    return found


@pytest.mark.parametrize("flag", EACH)
def test_callers_of_a_call_do_not_tell_it_from_another(naive: ModuleType, flag: Flag) -> None:
    """Neither which are judged and which are only looked at, nor, by a name, which hole is open."""
    seen: dict[str, list[Any]] = {}
    for hole in ("", flag.function):

        def watch(gpu: Any, a: Any, b: Any, c: Any, hole: str = hole) -> None:
            c[:] = a @ b
            seen.setdefault(hole, []).append(callers_of(sys._getframe()))

        attack(naive, watch, encode_attack(TASK.judge, hole, naive_seed(SEED), flag.blank and not hole))
    ours = {hole: [call[: call.index(next(c for c in call if c[1] == "attack")) + 1] for call in calls]
            for hole, calls in seen.items()}  # fmt: skip
    for calls in ours.values():
        assert {tuple((file, name) for file, name, _ in call) for call in calls} == {
            tuple((file, name) for file, name, _ in calls[0])
        }
        assert [name for _, name, _ in calls[0]] == ["_one_call", "judge", "attack"]
        # a name appears in a frame once it has a value: the first call's frames have fewer
        assert len({call[0][2] for call in calls[len(calls) // 2 :]}) == 1
        assert not any("hole" in names for call in calls for _, _, names in call)
    assert set(ours[""][-1][1][2]) == set(ours[flag.function][-1][1][2])


class TestWorker:
    """Of answers made up."""

    def said(self, passed: bool, alone: Sequence[Any] = (), seconds: float = 1.0) -> bytes:
        verdict = {"passed": passed, "seconds": seconds, "words": "words"}
        return encode_records([json.dumps({"verdict": verdict, "alone": list(alone)}).encode()])

    def outcome(self, opened: bytes, closed: bytes, name: str = "constant_output") -> dict[str, Any]:
        run = {"flag": name, "opened": opened, "closed": closed}
        said = attack_stage.check(str(LAB.folder), SEED, [run])
        if "refused" in said:
            return dict(said["refused"])
        (found,) = (outcome for outcome in said["outcomes"] if outcome["case"] == name)
        return dict(found)

    def test_flags_that_are_not_tried_are_not_captured(self) -> None:
        said = attack_stage.check(str(LAB.folder), SEED, [])
        assert [outcome["case"] for outcome in said["outcomes"]] == NAMES
        assert all("defines no function" in outcome["message"] for outcome in said["outcomes"])

    def test_passed_everywhere_is_not_captured(self) -> None:
        for name in NAMES:
            found = self.outcome(self.said(True), self.said(True), name)
            assert found["status"] == Status.WRONG_ANSWER, name

    def test_what_is_said_is_not_enough(self) -> None:
        """The verdicts that are wanted, and nothing done: refused, or not captured."""
        for name in NAMES:
            assert self.outcome(self.said(True), self.said(False), name)["status"] != Status.PASSED, name

    def test_times_alone_capture_no_flag(self) -> None:
        fast, slow = self.said(True, seconds=0.0), self.said(True, seconds=1.0)
        assert self.outcome(fast, fast, "patched_clock")["status"] == Status.WRONG_ANSWER
        assert self.outcome(slow, slow, "patched_clock")["status"] == Status.WRONG_ANSWER

    @pytest.mark.parametrize(
        "matrix",
        [
            {"shape": [4, 4], "data": ""},
            {"shape": [1 << 40], "data": ""},
            {"shape": [-1], "data": ""},
            {"shape": [0] * 9, "data": ""},
            {"shape": [1], "data": "????"},
            {"shape": "x", "data": 3},
        ],
    )
    def test_what_is_no_matrix_is_refused(self, matrix: Any) -> None:
        left = {"at_return": matrix, "later": matrix, "a": matrix, "b": matrix, "raised": False}
        assert self.outcome(self.said(True), self.said(False, [left] * 3))["status"] == Status.HOST_CRASHED

    @pytest.mark.parametrize("blob", [b"", b"[]", b"\xff", b'{"verdict":{"passed":true}}', b"[" * 100_000])
    def test_what_is_no_answer_is_refused(self, blob: bytes) -> None:
        assert self.outcome(encode_records([blob]), self.said(False))["status"] == Status.HOST_CRASHED

    def test_matrices_of_another_shape_or_without_numbers_are_wrong_and_no_fault_of_ours(self) -> None:
        for value in ({"shape": [0], "data": ""}, {"shape": [1], "data": "AADAfw=="}):  # a NaN
            left = {"at_return": value, "later": value, "a": value, "b": value, "raised": False}
            for name in NAMES:
                if name not in ("callers_frame", "patched_check", "stale_output", "changed_inputs"):
                    alone = [left] * len(next(flag for _, flag in FLAGS if flag.function == name).drawn_calls(SEED))
                    found = self.outcome(self.said(True), self.said(False, alone), name)
                    assert found["status"] == Status.WRONG_ANSWER, name

    def test_a_fault_of_one_flag_leaves_the_others(self) -> None:
        failure = encode_failure(CaptureFailure(CaptureStatus.TIMEOUT, "It takes too long."))
        runs = [
            {"flag": "half_sums", "opened": failure, "closed": failure},
            {"flag": "one_size", "opened": self.said(False), "closed": self.said(False)},
        ]
        said = {o["case"]: o["message"] for o in attack_stage.check(str(LAB.folder), SEED, runs)["outcomes"]}
        assert said["half_sums"] == "It takes too long." and "is not fooled: words" in said["one_size"]
        refused = attack_stage.check(str(LAB.folder), SEED, runs[:1])["refused"]
        assert refused["status"] == Status.HOST_TIMEOUT


@pytest.mark.parametrize("said", [None, {"outcomes": 3}, {"outcomes": [{"case": 1}]}, {"refused": {"status": "fine"}}])
def test_nonsense_of_the_worker_is_no_verdict(said: Any) -> None:
    with pytest.raises(Rejected) as found:
        attacks.check(Runner(Saying(said), LAB, SEED), [])
    assert found.value.status is Status.WORKER_CRASHED


def test_the_judge_is_loaded_before_the_submission(naive: ModuleType) -> None:
    """What a submission patches while it is imported does not reach the judge's own clock."""
    judge = load_judge(encode_attack(TASK.judge, "", 1))
    time.perf_counter = lambda: 0.0
    assert judge.judge(honest, "", 1).seconds > TASK.no_time


def test_what_the_real_judge_said_is_what_was_recorded() -> None:
    recorded = {}
    for record in json.loads((results.DIRECTORY / "judge.json").read_text(encoding="utf-8"))["records"]:
        assert record["metric"] != "verdict" or record["value"] in (0, 1)
        recorded[f"{record['name']}/{record['variant']}"] = record["conditions"].split(";")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+/(?:exploit|wrong)/\w+)` \| ([a-z ]+) \|", README, re.MULTILINE)
    assert [name for name, _, _ in rows] == NAMES
    for _, attempt, said in rows:
        assert recorded[attempt] == said, attempt
        assert (CHECKOUT / "corpus" / "judge" / "submissions" / f"{attempt}.py").is_file()


def test_an_answer_of_megabytes_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge holds the answers of all processes at once."""
    flag = FLAGS[0][1]
    huge = Answer((flag.function,), b"x" * (attacks.MOST_ANSWER + 1), False)
    monkeypatch.setattr(attacks, "captured", lambda *asked, side_by_side: huge)
    request = Request(LAB, LAB.folder / "submission.py", EMULATOR)
    submission = Submission("submission.py", "")
    grading = Grading(request, LAB, submission, Runner(Saying(None), LAB, SEED), SEED, lambda *said: None, None)
    said = attacks._run(grading, flag, "")
    with pytest.raises(CaptureFailure, match="more than 4 MiB"):
        decode_records(said, 1)


def test_an_output_of_another_shape_is_none(naive: ModuleType) -> None:
    for output in (np.zeros(1 << 20, np.float32), np.zeros((2, 2), np.float32), [[1.0]]):
        (first, *_) = calls_of(FLAGS[0][1], lambda gpu, a, b, c, output=output: output, naive)
        assert np.isnan(first.at_return).all() and np.isnan(first.later).all()
        assert first.at_return.shape == (64, 64)
