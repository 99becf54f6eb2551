"""Labs whose submissions are programs of ranks: the tasks are sound, and nothing that a stranger sends is believed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autograder.judge.kinds.programs import advance
from autograder.judge.runner import Runner
from autograder.records.rejection import Rejected
from autograder.records.status import Status
from autograder.spec.programs import ITEM, SENT, Program, Wires
from autograder.worker import program_stage
from systems.network.collectives import Collective
from tests.labs.record_labs import FUNCTIONS, SEED, Saying, reference
from warplab.plan.capture.program_step import encode_arrays, step_of
from warplab.plan.capture.protocol import encode_records
from warplab.plan.model import HostCall

PROGRAMS = [(lab, asked) for lab, asked in FUNCTIONS if isinstance(asked, Program)]
LAB = PROGRAMS[0][0]
EACH = [pytest.param(asked, id=asked.function) for _, asked in PROGRAMS]
NAMES = [case.name for _, case in LAB.task.cases()]
FUNCTIONS_OF_LAB = [program.function for _, program in PROGRAMS]

Step = Callable[[Mapping[str, Any], str], bytes]  # of what a capture process is asked, and a case


def rounds_of(step: Step, most: int = 12, quick: bool = False) -> dict[str, Any]:
    """What the worker says in the end, if every capture process says what `step` does."""
    rounds: list[list[dict[str, Any]]] = []
    for _ in range(most):
        said = program_stage.advance(str(LAB.folder), SEED, rounds, FUNCTIONS_OF_LAB, quick)
        if "refused" in said or not said["next"]:
            return said
        rounds.append([answer(asked, [step(asked, name) for name in asked["cases"]]) for asked in said["next"]])
    raise AssertionError("no end")


def answer(asked: Mapping[str, Any], blobs: list[bytes]) -> dict[str, Any]:
    return {"rank": asked["rank"], "hidden": asked["hidden"], "cases": asked["cases"], "content": encode_records(blobs)}


def right(asked: Mapping[str, Any], name: str) -> bytes:
    """What the reference does next."""
    program, case = LAB.drawn(SEED).task.case(name)
    call = program.call(case, asked["rank"], program.drawn_arrays(case, SEED))
    content = asked["contents"][list(asked["cases"]).index(name)]
    return step_of(getattr(reference(LAB), program.function), call, content, program.function)


def step(operation: str | None, *arrays: NDArray[np.float64]) -> bytes:
    return json.dumps({"operation": operation, "arrays": encode_arrays(arrays)}).encode()


@pytest.mark.parametrize("program", EACH)
class TestTasks:
    def test_gradients_are_those_of_differences(self, program: Program) -> None:
        """The slope of sum(y dy) along a direction of each input, by forward passes alone."""
        case, random, tiny = program.modelled, np.random.default_rng(3), 1e-6
        whole = dict(program.drawn_arrays(case, SEED))
        true = program.true(whole)
        for name in [name for name in whole if name != "dy"]:
            direction = random.standard_normal(whole[name].shape)
            values = []
            for sign in (1, -1):
                moved = program.true(whole | {name: whole[name] + sign * tiny * direction})
                values.append((moved["y"] * whole["dy"]).sum())
            slope = (values[0] - values[1]) / (2 * tiny)
            assert (true[f"d{name}"] * direction).sum() == pytest.approx(slope, rel=1e-5), name

    def test_parts_make_up_the_whole(self, program: Program) -> None:
        ranks = program.modelled.dimensions["ranks"]
        for name, whole in program.drawn_arrays(program.modelled, SEED).items():
            parts = [program.part(name, whole, rank, ranks) for rank in range(ranks)]
            axis = program.axes[name]
            joined = parts[0] if axis is None else np.concatenate(parts, axis)
            np.testing.assert_array_equal(joined, whole)

    def test_sizes_can_be_cut_and_weights_are_more_than_what_is_summed(self, program: Program) -> None:
        for case in program.cases():
            for size in case.sizes or (case.dimensions,):
                arrays = program.arrays(size, np.random.default_rng(0))
                for name, whole in arrays.items():
                    axis = program.axes[name]
                    assert axis is None or whole.shape[axis] % size["ranks"] == 0, (case.name, size, name)
                if case is program.modelled:
                    weights = sum(one.size for name, one in arrays.items() if name not in ("x", "dy"))
                    assert weights > 2 * arrays["x"].size, size

    def test_numbers_differ_by_seed_and_case(self, program: Program) -> None:
        first, other = (program.drawn_arrays(program.modelled, seed)["x"] for seed in (1, 2))
        assert not np.array_equal(first, other)
        np.testing.assert_array_equal(first, program.drawn_arrays(program.modelled, 1)["x"])


def test_what_is_sent_is_that_of_a_ring_counted_by_hand() -> None:
    """Four ranks, 12 numbers of 8 bytes: a ring passes blocks of 3 on, 3 times; twice for an all-reduce."""
    wires = Wires(latency=2.0, bandwidth=10.0)
    for collective in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER):
        assert wires.sent((collective, 12), 4) == 3 * 3 * ITEM
        assert wires.seconds((collective, 12), 4) == 3 * 2.0 + 3 * 3 * ITEM / 10.0
    assert wires.sent((Collective.ALL_REDUCE, 12), 4) == 2 * 3 * 3 * ITEM


class TestRounds:
    def test_the_reference_is_right_at_no_more_than_the_least(self) -> None:
        said = rounds_of(right)
        assert {outcome["case"]: outcome["status"] for outcome in said["outcomes"]} == dict.fromkeys(NAMES, "passed")
        assert len(said["models"]) == len(LAB.task.functions)
        for model, program in zip(said["models"], LAB.drawn(SEED).task.functions, strict=True):
            assert model["cost"] == pytest.approx(model["bound"])
            (limit,) = program.limits(model["counters"])
            assert limit.counter == SENT and limit.most - 1 <= model["counters"][SENT] <= limit.most

    def test_a_capture_process_gets_one_ranks_arrays_and_nothing_else(self) -> None:
        """Of the first round: parts of weights, and never a number of another rank's."""
        said = program_stage.advance(str(LAB.folder), SEED, [], FUNCTIONS_OF_LAB, False)
        drawn = LAB.drawn(SEED).task
        for asked in said["next"]:
            for name, content in zip(asked["cases"], asked["contents"], strict=True):
                program, case = drawn.case(name)
                ranks = case.dimensions["ranks"]
                has = json.loads(content)
                assert has["received"] == [] and case.hidden is asked["hidden"]
                numbers = np.concatenate([np.frombuffer(base64.b64decode(one["data"])) for one in has["inputs"]])
                whole = program.drawn_arrays(case, SEED)
                assert not np.isin(whole["dy"], numbers).any()
                for other in set(range(ranks)) - {asked["rank"]}:
                    for key in [key for key in whole if program.axes[key] is not None]:
                        assert not np.isin(program.part(key, whole[key], other, ranks), numbers).any()

    @pytest.mark.parametrize(
        ("wrong", "status", "says"),
        [
            (lambda rank: step("all_reduce" if rank else "output", np.zeros((3, 4))), Status.DEADLOCK, "where rank 1"),
            (lambda rank: step("all_reduce", np.zeros((3, 4 + rank))), Status.OUT_OF_BOUNDS, "(3, 4)"),
            (lambda rank: step("reduce_scatter", np.zeros((3, 4))), Status.OUT_OF_BOUNDS, "cannot cut or join"),
            (lambda rank: step("all_reduce", np.zeros(())), Status.OUT_OF_BOUNDS, "cannot cut or join ()"),
            (lambda rank: step("all_reduce", np.ones((1, 1))), Status.ENDLESS, "More than 8 steps"),
            (lambda rank: step("output", np.zeros((4, 3))), Status.WRONG_ANSWER, "y of shape (4, 3), not (3, 4)"),
            (lambda rank: step("output", np.full((3, 4), np.nan)), Status.WRONG_ANSWER, "Rank 0 has nan for y[0, 0]"),
            (lambda rank: step(None), Status.WRONG_ANSWER, "end without yield"),
        ],
    )  # fmt: skip
    def test_what_ranks_do_wrong_gets_its_verdict(
        self, wrong: Callable[[int], bytes], status: Status, says: str
    ) -> None:
        def answered(asked: Mapping[str, Any], name: str) -> bytes:
            return wrong(asked["rank"]) if name == "MLP: two ranks" else right(asked, name)

        said = rounds_of(answered, quick=True)
        outcome = next(outcome for outcome in said["outcomes"] if outcome["case"] == "MLP: two ranks")
        assert outcome["status"] == status and says in outcome["message"]
        others = [other["status"] for other in said["outcomes"] if other["case"] != "MLP: two ranks"]
        assert set(others) == {"passed"}

    @pytest.mark.parametrize(
        "blob",
        [
            b"",
            b'{"operation":"all_to_all","arrays":[]}',
            b'{"operation":"output","arrays":[]}',
            b'{"operation":"output","arrays":[{"shape":[2],"data":"AAAA"}]}',
            b'{"operation":"output","arrays":[{"shape":[1],"data":"no base64"}]}',
            b'{"operation":"output","arrays":[{"shape":[-1],"data":""}]}',
            b'{"operation":"output","arrays":[{"shape":[999999999],"data":""}]}',
            b'{"operation":null,"arrays":' + b"[" * 100_000,
            b'{"passed":true}',
        ],
    )
    def test_what_is_no_step_is_refused(self, blob: bytes) -> None:
        said = rounds_of(lambda asked, name: blob, quick=True)
        assert said["refused"]["status"] == Status.HOST_CRASHED

    def test_what_grows_without_end_is_refused(self) -> None:
        def grows(asked: Mapping[str, Any], name: str) -> bytes:
            return step("all_gather", np.zeros(program_stage.MOST_ELEMENTS))

        assert rounds_of(grows, quick=True)["refused"]["status"] == Status.RESOURCES


@pytest.mark.parametrize("said", [None, {"next": 3}, {"next": [{"rank": "x"}]}, {"models": [{"case": "x"}]}])
def test_nonsense_of_the_worker_is_no_verdict(said: Any) -> None:
    with pytest.raises(Rejected) as found:
        advance(Runner(Saying(said), LAB, SEED), [], FUNCTIONS_OF_LAB, quick=False)
    assert found.value.status is Status.WORKER_CRASHED


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (lambda: 3, "is no generator"),
        (lambda: (yield 3), "something else than an operation and an array"),
        (lambda: (yield "sum", np.ones(2)), "asks for 'sum'"),
        (lambda: (yield "output", [1.0]), "is a list: give an array of float64"),
        (lambda: (yield "output", np.ones(2, np.float32)), "is an array of float32"),
    ],
)
def test_what_is_no_step_is_said_in_a_sentence(program: Callable[[], Any], says: str) -> None:
    content = json.dumps({"inputs": [], "received": []})
    with pytest.raises(Exception) as found:
        step_of(program, HostCall("f", ()), content, "f")
    assert says in str(found.value) and found.value.status == "no records"  # type: ignore[attr-defined]
