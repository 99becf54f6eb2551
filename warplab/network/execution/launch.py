"""Starts a process for each rank, watches them, and says how it went: in seconds, whatever they do, and all are ended.

Sockets are the default: a checkout without PyTorch runs every schedule with real processes that really send. With
PyTorch the same steps run over Gloo, and on a machine with GPUs over NCCL, point to point.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from warplab.network.execution.outcome import Backend, Fault, Job, Message, Outcome, Verdict
from warplab.network.schedules import Schedule, ScheduleError, check, reference
from warplab.network.schedules.model import expand
from warplab.network.schedules.reference import split_input

MOST_RANKS = 64  # processes on one machine
TYPES = ("float32", "float64", "int32", "int64")
_STARTUP_SECONDS = 120.0
_GRACE_SECONDS = 1.0
_ROOT = Path(__file__).resolve().parents[3]


def execute(
    schedule: Schedule,
    inputs: NDArray[Any],
    backend: Backend = Backend.SOCKETS,
    patience: float = 5.0,
    faults: Sequence[Fault] = (),
) -> Outcome:
    """Run a schedule on `inputs`, shape (ranks, elements), and compare each rank's end with `reference`, bit for bit.

    `patience` is how many seconds a rank waits for another. A wrong schedule is refused, with what `check` says of it.
    Raises ScheduleError for inputs that do not fit, a type other than TYPES, or more than MOST_RANKS ranks.
    """
    if schedule.ranks > MOST_RANKS:
        raise ScheduleError(f"{schedule.name} has {schedule.ranks} ranks: at most {MOST_RANKS} run on one machine.")
    if inputs.dtype.name not in TYPES or inputs.ndim != 2 or len(inputs) != schedule.ranks:
        raise ScheduleError(f"{schedule.name} needs a row of {', '.join(TYPES)} for each of its {schedule.ranks} "
                            f"ranks, not {inputs.dtype} of shape {inputs.shape}.")  # fmt: skip
    if finding := check(schedule):
        return Outcome(Verdict.REFUSED, finding.sentence, finding.rank, finding.step)
    split_input(schedule, inputs)
    with tempfile.TemporaryDirectory(prefix="warplab-ranks-") as folder:
        group = _Group(schedule, inputs, backend, patience, faults, Path(folder))
        try:
            group.start()
            outcome = group.watch()
        finally:
            group.end()
    return outcome if outcome else _compare(schedule, inputs, group)


class _Group:
    """The processes of a run, and what they have said."""

    def __init__(
        self, schedule: Schedule, inputs: NDArray[Any], backend: Backend, patience: float, faults: Sequence[Fault],
        folder: Path,
    ) -> None:  # fmt: skip
        self.schedule, self.inputs, self.backend, self.patience = (
            schedule,
            np.ascontiguousarray(inputs),
            backend,
            patience,
        )
        self.faults = {fault.rank: fault for fault in faults}
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.heard = [bytearray() for _ in range(schedule.ranks)]
        self.closed: set[int] = set()
        self.ready: set[int] = set()
        self.step: dict[int, int] = {}
        self.blames: dict[int, Message] = {}
        self.unable: dict[int, str] = {}
        self.outputs: dict[int, NDArray[Any]] = {}
        self.began = 0.0
        self.seconds: float | None = None

    def start(self) -> None:
        """All processes, each with its job; they wait for a word to begin."""
        moves = expand(self.schedule)
        pairs = {(min(p), max(p)) for p in zip(moves.source.tolist(), moves.destination.tolist(), strict=True)}
        ends: list[dict[int, socket.socket]] = [{} for _ in range(self.schedule.ranks)]
        try:
            if self.backend is Backend.SOCKETS:
                for one, other in sorted(pairs):
                    ends[one][other], ends[other][one] = socket.socketpair()
            for rank in range(self.schedule.ranks):
                self._start_one(rank, ends[rank])
        finally:
            for mine in ends:
                for end in mine.values():
                    end.close()  # only the two ranks hold them now, so that each sees when the other is gone
        for rank, process in enumerate(self.processes):
            assert process.stdin is not None
            files = {peer: number for peer, number in self._files[rank].items()}
            fault = self.faults.get(rank)
            job = Job(
                self.schedule, rank, self.backend, self.inputs.dtype.name, self.inputs.shape[1], self.patience, files,
                str(self.folder / "meeting"), fault.kind if fault else None, fault.step if fault else -1,
            )  # fmt: skip
            self._tell(process, msgspec.json.encode(job) + b"\n" + self.inputs[rank].tobytes())

    def _start_one(self, rank: int, ends: dict[int, socket.socket]) -> None:
        if not rank:
            self._files: list[dict[int, int]] = []
        self._files.append({peer: end.fileno() for peer, end in ends.items()})
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        with open(self.folder / f"rank_{rank}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "warplab.network.execution.rank"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, pass_fds=tuple(self._files[rank].values()), env=environment,
            )  # fmt: skip
        self.processes.append(process)

    def _tell(self, process: subprocess.Popen[bytes], data: bytes) -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone, which its output says as well
            process.stdin.write(data)
            process.stdin.flush()

    def watch(self) -> Outcome | None:
        """Until all are done, or why not."""
        everybody = set(range(self.schedule.ranks))
        with selectors.DefaultSelector() as selector:
            for rank, process in enumerate(self.processes):
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, rank)
            limit = time.monotonic() + _STARTUP_SECONDS
            while not self.ready >= everybody:
                if not self._listen(selector, limit) or self.closed or self.unable:
                    return self._not_started()
            self.began = time.monotonic()
            for process in self.processes:
                self._tell(process, b"go\n")
            # A rank blames a silent one after its patience; if none does, all are stuck where no time limit reaches
            # them.
            limit = time.monotonic() + 2 * self.patience
            while not self.outputs.keys() >= everybody:
                if self.blames or self.closed - self.outputs.keys():
                    return self._collect(selector)
                if not self._listen(selector, limit):
                    return self._silent()
                limit = time.monotonic() + 2 * self.patience
            self.seconds = time.monotonic() - self.began
        return None

    def _listen(self, selector: selectors.BaseSelector, limit: float) -> bool:
        """Take in what has been said; False if nobody says anything until the limit."""
        events = selector.select(max(0.0, limit - time.monotonic()))
        for key, _ in events:
            data = os.read(key.fd, 1 << 16)
            if data:
                self.heard[key.data] += data
                self._parse(key.data)
            else:
                self.closed.add(key.data)
                selector.unregister(key.fileobj)
        return bool(events)

    def _parse(self, rank: int) -> None:
        heard = self.heard[rank]
        while (end := heard.find(b"\n")) >= 0:
            message = msgspec.json.decode(bytes(heard[:end]), type=Message)
            if len(heard) - end - 1 < message.bytes:
                return
            data = bytes(heard[end + 1 : end + 1 + message.bytes])
            del heard[: end + 1 + message.bytes]
            if message.kind == "ready":
                self.ready.add(rank)
            elif message.kind == "step":
                self.step[rank] = message.step
            elif message.kind == "blame":
                self.blames[rank] = message
            elif message.kind == "unable":
                self.unable[rank] = message.text
            elif message.kind == "done":
                self.outputs[rank] = np.frombuffer(data, self.inputs.dtype)

    def _collect(self, selector: selectors.BaseSelector) -> Outcome:
        """Who is to blame: first a process that is gone, then a wrong message, then the one that all wait for."""
        # A slow rank may be blamed before it blames the one that it waits for itself: its own patience began later.
        limit = time.monotonic() + self.patience + _GRACE_SECONDS
        while not self._gone() and not self._wrong() and len(self.blames) + len(self.outputs) < len(self.processes) - 1:
            if not self._listen(selector, limit):
                break
        if gone := self._gone():
            rank = gone[0]
            status = self.processes[rank].wait()
            return self._verdict(Verdict.DIED, rank, f"ended with status {status}{self._last_words(rank)}")
        if wrong := self._wrong():
            first = min(wrong, key=lambda blame: blame.step)
            assert first.verdict is not None
            return self._verdict(first.verdict, first.peer, first.text, first.step)
        rank, seen = next(iter(sorted(self.blames))), set()
        while rank in self.blames and rank not in seen:
            seen.add(rank)
            rank = self.blames[rank].peer
        text = next((b.text for b in self.blames.values() if b.peer == rank), "was silent")
        return self._verdict(Verdict.HUNG, rank, text)

    def _gone(self) -> list[int]:
        """Ranks whose process ended without a word."""
        return sorted(self.closed - self.outputs.keys() - self.blames.keys())

    def _wrong(self) -> list[Message]:
        """What was said of messages that are not the schedule's."""
        return [b for b in self.blames.values() if b.verdict in (Verdict.WRONG_SIZE, Verdict.WRONG_MESSAGE)]

    def _silent(self) -> Outcome:
        waiting = set(range(self.schedule.ranks)) - self.outputs.keys()
        rank = min(waiting, key=lambda one: (self.step.get(one, -1), one))
        return self._verdict(Verdict.HUNG, rank, f"was silent for {2 * self.patience:g} s, and nobody else spoke")

    def _verdict(self, verdict: Verdict, rank: int, text: str, step: int | None = None) -> Outcome:
        step = self.step.get(rank) if step is None else step
        where = "before its first step" if step is None else f"in step {step}"
        return Outcome(verdict, f"Rank {rank} {text} {where}.", rank, step)

    def _not_started(self) -> Outcome:
        if self.unable:
            rank, text = min(self.unable.items())
            words = f"Rank {rank} cannot use {self.backend}: {text}."
        elif self.closed:
            rank = min(self.closed)
            words = f"Rank {rank} ended before the first step{self._last_words(rank)}."
        else:
            rank = min(set(range(self.schedule.ranks)) - self.ready)
            words = f"Rank {rank} was not ready within {_STARTUP_SECONDS:g} s: is the machine busy?"
        return Outcome(Verdict.NOT_STARTED, words, rank)

    def _last_words(self, rank: int) -> str:
        log = self.folder / f"rank_{rank}.log"
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        return f" ({lines[-1][:200]})" if lines else ""

    def end(self) -> None:
        """Nobody is left: those that are done end by themselves when nobody speaks to them, others are killed."""
        for process in self.processes:
            if process.stdin:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        calm = len(self.outputs) == len(self.processes)
        for process in self.processes:
            try:
                process.wait(5.0 if calm else 0.1)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()


def _compare(schedule: Schedule, inputs: NDArray[Any], group: _Group) -> Outcome:
    outputs = tuple(group.outputs[rank] for rank in range(schedule.ranks))
    for rank, (found, true) in enumerate(zip(outputs, reference(schedule, inputs), strict=True)):
        true = true.astype(inputs.dtype)
        if found.tobytes() != true.tobytes():
            at = int(np.flatnonzero(found != true)[0]) if len(found) == len(true) else 0
            words = f"Rank {rank} ended with {found[at]!r} where the schedule gives {true[at]!r}, at element {at}."
            return Outcome(Verdict.WRONG_RESULT, words, rank, None, outputs, group.seconds)
    words = f"All {schedule.ranks} ranks ended with what the schedule gives, to the last bit."
    return Outcome(Verdict.RIGHT, words, None, None, outputs, group.seconds)
