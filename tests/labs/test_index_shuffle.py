"""Lab 10: what it asks for against plain Python, how its reference is launched, and its benchmark without a GPU."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab, solutions_folder
from autograder.spec.task import Case, Family, Values
from benchmarks.experts import ROUTERS, TOKENS
from benchmarks.moe import shuffle
from tests.sampling import WHOLE
from warplab.plan.capture.submission import capture

pytestmark = pytest.mark.stored

TASK = find_lab("10_index_shuffle").task
OUTPUTS = ("chosen", "count", "first", "order", "position")


def drawn(tokens: int, k: int, experts: int, family: Family, seed: int) -> Values:
    return generate(np, TASK, Case("small", {"tokens": tokens, "k": k, "experts": experts}, family), seed)


def by_python(values: Values) -> dict[str, np.ndarray]:
    """The same by Python's floats, lists and stable sort."""
    k, scores = values["k"], values["scores"]
    experts = range(scores.shape[1])
    chosen = []
    for row in scores.tolist():
        score = [-np.inf if x != x else x for x in row]
        chosen.append(sorted(experts, key=lambda e, score=score: -score[e])[:k])
    flat = list(itertools.chain.from_iterable(chosen))
    order = sorted(range(len(flat)), key=flat.__getitem__)
    count = [flat.count(e) for e in experts]
    first = [sum(count[:e]) for e in experts]
    position = np.empty(len(flat), int)
    position[order] = range(len(flat))
    parts = {"chosen": chosen, "count": count, "first": first, "order": order, "position": position.reshape(-1, k)}
    return {name: np.array(part) for name, part in parts.items()}


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize(("k", "experts"), [(1, 16), (2, 32), (4, 128), (8, 320), (8, 16)])
def test_what_is_expected_is_what_python_says(family: Family, k: int, experts: int) -> None:
    for seed in range(3):
        values = drawn(41, k, experts, family, seed)
        expected, right = TASK.expected(np, values), by_python(values)
        for name in OUTPUTS:
            np.testing.assert_array_equal(expected[name], right[name], err_msg=name)


def test_what_is_expected_does_not_change_the_scores() -> None:
    values = drawn(100, 4, 128, Family.NORMAL, 1)
    before = values["scores"].tobytes()
    TASK.expected(np, values)
    assert values["scores"].tobytes() == before


def test_every_seed_has_what_a_choice_must_bear() -> None:
    for seed in range(10):
        scores = drawn(77, 2, 32, Family.NORMAL, seed)["scores"]
        missing = np.isnan(scores).sum(axis=1)
        assert (missing == 32).any() and (missing == 1).any()
        assert (np.isneginf(scores).sum(axis=1) == 31).any() and np.isposinf(scores).any()
        assert ((scores == 0) & np.signbit(scores)).any() and ((scores != 0) & (np.abs(scores) < 2.0**-126)).any()


def test_a_favourite_empties_an_expert() -> None:
    values = drawn(301, 4, 128, Family.WIDE, 4)
    expected = TASK.expected(np, values)
    assert expected["count"].max() >= 301 - 12 and expected["count"].min() == 0


# For 128 experts and k = 4: tokens, and with them blocks, blocks of a cluster, and whether the launch is cooperative.
LAUNCHED = {
    "submission_cuda.py": {16: (1, 1, False), 17: (8, 8, False), 256: (8, 8, False), 257: (32, 1, True)},
    "submission.py": {128: (1, 1, False), 129: (8, 8, False), 1024: (8, 8, False), 1025: (9, 1, True)},
}


# That in Numba takes many times as long to compile: `make test-long` has it.
@pytest.mark.parametrize("file", ["submission_cuda.py", "submission.py"] if WHOLE else ["submission_cuda.py"])
def test_a_reference_is_one_launch_of_as_many_blocks_as_the_tokens_are_worth(file: str) -> None:
    calls = [TASK.host_call({"tokens": tokens, "k": 4, "experts": 128}, {"k": 4}) for tokens in LAUNCHED[file]]
    plans = capture(solutions_folder() / "10_index_shuffle" / file, calls)
    for tokens, plan in zip(LAUNCHED[file], plans, strict=True):
        (launch,) = plan.launches
        assert launch.grid[1:] == launch.cluster[1:] == (1, 1), tokens
        assert (launch.grid[0], launch.cluster[0], launch.cooperative) == LAUNCHED[file][tokens], tokens


def test_the_grid_is_no_larger_than_an_h200() -> None:
    call = TASK.host_call({"tokens": 1 << 20, "k": 4, "experts": 128}, {"k": 4})
    (plan,) = capture(solutions_folder() / "10_index_shuffle" / "submission_cuda.py", [call])
    (launch,) = plan.launches
    assert launch.grid == (132, 1, 1) and launch.block == (1024, 1, 1) and launch.cooperative


def routed(tokens: int, k: int, experts: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The benchmark's scores, and what the lab expects of them."""
    scores = shuffle.scores_of(tokens, experts)
    return scores, TASK.expected(np, {"k": k, "scores": scores})


def test_the_benchmark_has_no_ties_and_all_experts_are_in_use() -> None:
    scores, expected = routed(1024, 4, 128)
    assert scores.dtype == np.float32 and scores.flags.c_contiguous
    assert all(np.unique(row).size == 128 for row in scores)
    assert expected["count"].min() > 0


def test_the_benchmark_sees_any_other_result() -> None:
    _, expected = routed(100, 4, 32)
    rivals = {name: expected[name].astype(np.int64) for name in ("chosen", "order", "count")}
    assert not shuffle.differences(expected, rivals)
    draw = Random(1)
    for name in OUTPUTS:
        wrong = expected[name].copy()
        wrong.flat[draw.randrange(wrong.size)] += 1
        assert shuffle.differences({**expected, name: wrong}, rivals) == [name]


@pytest.mark.parametrize("narrow", [False, True])
def test_pytorchs_chain_gives_what_the_lab_asks_for(narrow: bool) -> None:
    torch = pytest.importorskip("torch")
    scores, expected = routed(300, 4, 128)
    rivals = shuffle.chain(torch.from_numpy(scores), torch.ones(1200, dtype=torch.int64), narrow)
    assert not shuffle.differences(expected, {name: tensor.numpy() for name, tensor in rivals.items()})


def test_the_benchmark_has_sizes_and_models_of_the_lab() -> None:
    assert min(TOKENS) == 16 and max(TOKENS) == 16_384
    assert {router.experts for router in ROUTERS} == {16, 32, 128, 320}
    assert {router.k for router in ROUTERS} <= {1, 2, 4, 8}
