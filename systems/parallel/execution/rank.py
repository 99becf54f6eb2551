"""The process of one rank of a pipeline: gets its job on standard input, does its passes, says how far it is.

It runs this project's code on orders, which are data that was checked; nothing here belongs to a stranger. It ends when
its standard input does, so that none outlives the program that started it.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

import msgspec
import numpy as np

from systems.network.execution.outcome import FaultKind, Message, PeerError, say
from systems.parallel.execution import layers
from systems.parallel.execution.mail import Mail, Tag
from systems.parallel.execution.work import TrainingJob
from systems.parallel.timeline import Kind, Pass

DIED = 3  # the exit status of a rank that was made to die


def main() -> None:
    """One job, from standard input to standard output."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    job = msgspec.json.decode(source.readline(), type=TrainingJob)
    mail = Mail(job.sockets, (layers.TOKENS, layers.WIDTH), job.patience)
    rank = _Rank(job, mail)
    say(target, Message("ready"))  # and whoever waits for this rank begins to lose patience
    if not source.readline():
        return
    try:
        for place, one in enumerate(job.work.orders[job.rank]):
            say(target, Message("step", step=place))
            if job.fault is not None and place >= job.fault_place:
                _misbehave(job, mail, source)
            rank.do(one)
        mail.flush()
    except PeerError as error:
        say(target, Message("blame", -1, error.peer, error.verdict, error.text))
        source.read()  # until told to end: a peer that waits for this rank should not take it for dead
        return
    output = layers.flat(rank.gradients).tobytes()
    say(target, Message("done", bytes=len(output)), output)
    source.read()
    mail.close()


class _Rank:
    """A rank's layers, what it holds of micro-batches, and its gradients so far."""

    def __init__(self, job: TrainingJob, mail: Mail) -> None:
        self.job, self.mail = job, mail
        self.ranks = len(job.work.orders)
        self.stages = self.ranks * job.work.chunks
        self.layers = {stage: layers.weights(job.seed, stage) for stage in range(job.rank, self.stages, self.ranks)}
        self.saved: dict[tuple[int, int], layers.Saved] = {}
        self.later: dict[tuple[int, int], layers.Later] = {}
        self.here: dict[Tag, layers.Array] = {}  # what stays on this rank: the loss's gradient, or all of one rank
        self.gradients: layers.Gradients = {
            stage: {name: np.zeros_like(value) for name, value in layer.items()} for stage, layer in self.layers.items()
        }

    def do(self, one: Pass) -> None:
        """One pass. Raises PeerError."""
        if one.kind is Kind.FORWARD:
            self._forward(one.stage, one.micro_batch)
        elif one.kind is Kind.WEIGHTS:
            self._weights(one.stage, one.micro_batch)
        else:
            self._input(one.stage, one.micro_batch)
            if one.kind is Kind.BACKWARD:
                self._weights(one.stage, one.micro_batch)

    def _forward(self, stage: int, micro_batch: int) -> None:
        x = self._receive(0, stage - 1, micro_batch) if stage else layers.sample(self.job.seed, micro_batch)[0]
        y, self.saved[stage, micro_batch] = layers.forward(self.layers[stage], x)
        if stage + 1 < self.stages:
            self._send(0, stage, micro_batch, y, stage + 1)
            return
        wanted = layers.sample(self.job.seed, micro_batch)[1]
        self.here[1, self.stages, micro_batch] = layers.loss_gradient(y, wanted, self.job.work.micro_batches)

    def _input(self, stage: int, micro_batch: int) -> None:
        dz = self._receive(1, stage + 1, micro_batch)
        saved = self.saved.pop((stage, micro_batch))
        dx, self.later[stage, micro_batch] = layers.input_gradient(self.layers[stage], saved, dz)
        if stage:
            self._send(1, stage, micro_batch, dx, stage - 1)

    def _weights(self, stage: int, micro_batch: int) -> None:
        for name, gradient in layers.weight_gradients(self.later.pop((stage, micro_batch))).items():
            self.gradients[stage][name] += gradient

    def _send(self, backward: int, stage: int, micro_batch: int, data: layers.Array, to: int) -> None:
        if to % self.ranks == self.job.rank:
            self.here[backward, stage, micro_batch] = data
        else:
            self.mail.send(to % self.ranks, (backward, stage, micro_batch), data)

    def _receive(self, backward: int, stage: int, micro_batch: int) -> layers.Array:
        """What the stage made of a micro-batch; the stage behind the last one is the loss."""
        tag = (backward, stage, micro_batch)
        return self.here.pop(tag) if tag in self.here else self.mail.receive(stage % self.ranks, tag)


def _misbehave(job: TrainingJob, mail: Mail, source: BinaryIO) -> None:
    if job.fault is FaultKind.DIE:
        os._exit(DIED)
    if job.fault is FaultKind.HANG:
        source.read()  # for ever, but not longer than the program that started this process
        os._exit(0)
    for peer in job.sockets:
        mail.send(peer, (0, 0, 0), np.zeros(1))


if __name__ == "__main__":
    main()
