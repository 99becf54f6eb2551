"""One training step of a small stack of layers, cut into a pipeline of processes, against the same in one process."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from systems.network.execution import Fault, Outcome, Verdict
from systems.network.execution.group import Group
from systems.parallel.execution import layers
from systems.parallel.execution.work import TrainingJob, Work
from systems.parallel.order_check import check, describe
from systems.parallel.shapes import LayoutError

MOST_RANKS = 64  # processes on one machine
ROUNDING = 1e-10  # of a rank's largest gradient: sums in another order stay far below, a lost pass lies far above
_MODULE = "systems.parallel.execution.rank"


def train(work: Work, seed: int, patience: float = 5.0, faults: Sequence[Fault] = ()) -> Outcome:
    """Carry out the orders, a process a rank, and compare every gradient with `gradients`, to rounding.

    Weights and samples follow from `seed`. `patience` is how many seconds a rank waits for another. Wrong orders are
    refused, with what `order_check` says of them. A fault's step is the place of a pass in its rank's order. Raises
    LayoutError for more than MOST_RANKS ranks, or none.
    """
    ranks = len(work.orders)
    if not 1 <= ranks <= MOST_RANKS:
        raise LayoutError(f"A pipeline of {ranks} ranks cannot be run: 1 to {MOST_RANKS} run on one machine.")
    if fault := check(work.orders, work.micro_batches, work.chunks, work.split):
        return Outcome(Verdict.REFUSED, fault.sentence, fault.rank, fault.place)
    blame = {fault.rank: fault for fault in faults}

    def job(rank: int, sockets: Mapping[int, int]) -> bytes:
        fault = blame.get(rank)
        told = TrainingJob(
            work, rank, seed, patience, dict(sockets), fault.kind if fault else None, fault.step if fault else -1
        )
        return msgspec.json.encode(told) + b"\n"

    def words(rank: int, place: int) -> str:
        return f"its pass {place}, {describe(work.orders[rank][place], ranks, work.chunks)}"

    pairs = [(rank, (rank + 1) % ranks) for rank in range(ranks) if ranks > 1]
    with tempfile.TemporaryDirectory(prefix="warplab-ranks-") as folder:
        group = Group(_MODULE, ranks, pairs, job, patience, Path(folder), "sockets", words)
        outcome = group.run()
    return outcome if outcome else _compare(work, seed, group)


def gradients(stages: int, micro_batches: int, seed: int) -> layers.Gradients:
    """The gradients of every stage's weights, one micro-batch after the other in this process."""
    stack = [layers.weights(seed, stage) for stage in range(stages)]
    total = {stage: {name: np.zeros_like(value) for name, value in layer.items()} for stage, layer in enumerate(stack)}
    for micro_batch in range(micro_batches):
        x, wanted = layers.sample(seed, micro_batch)
        kept = []
        for layer in stack:
            x, saved = layers.forward(layer, x)
            kept.append(saved)
        gradient = layers.loss_gradient(x, wanted, micro_batches)
        for stage in reversed(range(stages)):
            gradient, later = layers.input_gradient(stack[stage], kept[stage], gradient)
            for name, one in layers.weight_gradients(later).items():
                total[stage][name] += one
    return total


def _compare(work: Work, seed: int, group: Group) -> Outcome:
    ranks = len(work.orders)
    everything = gradients(ranks * work.chunks, work.micro_batches, seed)
    outputs = tuple(np.frombuffer(group.outputs[rank]) for rank in range(ranks))
    for rank, found in enumerate(outputs):
        true = layers.flat({stage: one for stage, one in everything.items() if stage % ranks == rank})
        error = np.abs(found - true).max() / np.abs(true).max() if found.shape == true.shape else np.inf
        if not error <= ROUNDING:
            words = f"Rank {rank} ended with gradients that are off by {error:.1e} of the largest."
            return Outcome(Verdict.WRONG_RESULT, words, rank, None, outputs, group.seconds)
    words = f"All {ranks} ranks ended with the gradients of one process, to rounding."
    return Outcome(Verdict.RIGHT, words, None, None, outputs, group.seconds)
