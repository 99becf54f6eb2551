"""Pipelines on real processes: gradients against differences and one process, and a verdict whatever a rank does."""

import os
from pathlib import Path

import numpy as np
import pytest

from systems.network.execution import Fault, FaultKind, Verdict
from systems.parallel.execution import Work, layers, train
from systems.parallel.execution.train import MOST_RANKS, gradients
from systems.parallel.layout import Schedule
from systems.parallel.shapes import LayoutError
from systems.parallel.timeline import Kind, Pass, orders

pytestmark = pytest.mark.processes

SEED = 5
SPLIT = Work(orders(Schedule.ZERO_BUBBLE, 3, 5), 5, split=True)


def children() -> set[str]:
    """Command lines of this process's children that are ranks."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if int(parent) == os.getpid():
                found.add((folder / "cmdline").read_text())
        except (OSError, IndexError):
            continue
    return {line for line in found if "systems.parallel.execution.rank" in line}


@pytest.fixture(autouse=True)
def nobody_is_left():
    yield
    assert children() == set()


def loss(stack: list[dict[str, np.ndarray]], micro_batches: int) -> float:
    """Half the mean squared error, with nothing but forward passes."""
    total = 0.0
    for micro_batch in range(micro_batches):
        x, wanted = layers.sample(SEED, micro_batch)
        for layer in stack:
            x, _ = layers.forward(layer, x)
        total += ((x - wanted) ** 2).sum() / (2 * x.size * micro_batches)
    return total


def test_gradients_by_hand_are_those_of_differences() -> None:
    stack, found = [layers.weights(SEED, stage) for stage in range(2)], gradients(2, 3, SEED)
    random, step = np.random.default_rng(1), 1e-5
    for stage, layer in enumerate(stack):
        for name, weight in layer.items():
            direction = random.standard_normal(weight.shape)
            layer[name] = weight + step * direction
            above = loss(stack, 3)
            layer[name] = weight - step * direction
            below = loss(stack, 3)
            layer[name] = weight
            slope = float((found[stage][name] * direction).sum())
            assert slope == pytest.approx((above - below) / (2 * step), rel=1e-6)


def test_a_token_sees_none_after_it() -> None:
    layer, (x, _) = layers.weights(SEED, 0), layers.sample(SEED, 0)
    changed = x.copy()
    changed[3:] += 1
    before, after = layers.forward(layer, x)[0], layers.forward(layer, changed)[0]
    np.testing.assert_array_equal(before[:3], after[:3])
    assert (before[3:] != after[3:]).all()


@pytest.mark.parametrize(
    "work",
    [
        Work(orders(Schedule.ONE_F_ONE_B, 3, 5), 5),
        Work(orders(Schedule.ONE_F_ONE_B, 2, 4, 2), 4, chunks=2),
        SPLIT,
        Work(orders(Schedule.GPIPE, 1, 2), 2),
    ],
    ids=["1F1B", "interleaved", "zero bubble", "one rank"],
)
def test_processes_end_with_the_gradients_of_one(work: Work) -> None:
    ranks = len(work.orders)
    outcome = train(work, SEED, patience=60)
    assert outcome.verdict is Verdict.RIGHT, outcome.sentence
    true = gradients(ranks * work.chunks, work.micro_batches, SEED)
    for rank, found in enumerate(outcome.outputs):
        mine = [
            true[stage][name].ravel() for stage in sorted(true) if stage % ranks == rank for name in sorted(true[stage])
        ]
        np.testing.assert_allclose(found, np.concatenate(mine), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("kind", "verdict", "says"),
    [
        (FaultKind.DIE, Verdict.DIED, "ended with status 3 in its pass 4, B of micro-batch 1"),
        (FaultKind.HANG, Verdict.HUNG, "was silent for 5 s in its pass 4, B of micro-batch 1"),
        (FaultKind.SEND_LESS, Verdict.WRONG_SIZE, "sent 8 bytes where a tensor has 384"),
    ],
)
def test_a_rank_that_misbehaves_is_named(kind: FaultKind, verdict: Verdict, says: str) -> None:
    work = Work(orders(Schedule.ONE_F_ONE_B, 3, 5), 5)
    outcome = train(work, SEED, patience=5.0 if kind is FaultKind.HANG else 60.0, faults=[Fault(1, 4, kind)])
    assert (outcome.verdict, outcome.rank) == (verdict, 1), outcome.sentence
    assert says in outcome.sentence and not outcome.outputs


def test_wrong_orders_are_refused_before_anything_starts() -> None:
    outcome = train(Work([[Pass(Kind.BACKWARD, 0, 0)]], 1), SEED)
    assert (outcome.verdict, outcome.rank, outcome.step) == (Verdict.REFUSED, 0, 0)
    with pytest.raises(LayoutError, match="65 ranks"):
        train(Work([[] for _ in range(MOST_RANKS + 1)], 1), SEED)
