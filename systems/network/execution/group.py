"""Starts a process for each rank, watches them, and says how it went: in seconds, whatever they do; all are ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import msgspec

import systems
from systems.network.execution.outcome import Message, Outcome, Verdict

_STARTUP_SECONDS = 120.0
_GRACE_SECONDS = 1.0
_ROOT = Path(systems.__path__[0]).resolve().parent

JobOf = Callable[[int, Mapping[int, int]], bytes]  # of a rank and its sockets by peer
StepWords = Callable[[int, int], str]  # of a rank and a step


class Group:
    """The processes of a run, what they have said, and the bytes that each ended with.

    Each runs `module` and is told `job(rank, sockets)`; the sockets are numbers of inherited files by peer, one for
    each of `pairs`. `over` names what they talk over, and `words` a rank's step.
    """

    def __init__(
        self, module: str, ranks: int, pairs: Collection[tuple[int, int]], job: JobOf, patience: float, folder: Path,
        over: str, words: StepWords = lambda rank, step: f"step {step}",
    ) -> None:  # fmt: skip
        self.module, self.ranks, self.job, self.patience = module, ranks, job, patience
        self.folder, self.over, self.words = folder, over, words
        self.pairs = sorted({(min(pair), max(pair)) for pair in pairs})
        self.processes: list[subprocess.Popen[bytes]] = []
        self.heard = [bytearray() for _ in range(ranks)]
        self.closed: set[int] = set()
        self.ready: set[int] = set()
        self.step: dict[int, int] = {}
        self.blames: dict[int, Message] = {}
        self.unable: dict[int, str] = {}
        self.outputs: dict[int, bytes] = {}
        self.began = 0.0
        self.seconds: float | None = None

    def run(self) -> Outcome | None:
        """Start all, watch them, end all: None once `outputs` are complete, or why they are not."""
        try:
            self._start()
            return self._watch()
        finally:
            self._end()

    def _start(self) -> None:
        """All processes, each with its job; they wait for a word to begin."""
        ends: list[dict[int, socket.socket]] = [{} for _ in range(self.ranks)]
        files: list[dict[int, int]] = []
        try:
            for one, other in self.pairs:
                ends[one][other], ends[other][one] = socket.socketpair()
            for rank in range(self.ranks):
                files.append({peer: end.fileno() for peer, end in ends[rank].items()})
                self._start_one(rank, tuple(files[rank].values()))
        finally:
            for mine in ends:
                for end in mine.values():
                    end.close()  # only the two ranks hold them now, so that each sees when the other is gone
        for rank, process in enumerate(self.processes):
            self._tell(process, self.job(rank, files[rank]))

    def _start_one(self, rank: int, files: tuple[int, ...]) -> None:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        with open(self.folder / f"rank_{rank}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", self.module], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, pass_fds=files, env=environment,
            )  # fmt: skip
        self.processes.append(process)

    def _tell(self, process: subprocess.Popen[bytes], data: bytes) -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone, which its output says as well
            process.stdin.write(data)
            process.stdin.flush()

    def _watch(self) -> Outcome | None:
        """Until all are done, or why not."""
        everybody = set(range(self.ranks))
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
                self.outputs[rank] = data

    def _collect(self, selector: selectors.BaseSelector) -> Outcome:
        """Who is to blame: first a process that is gone, then a wrong message, then the one that all wait for."""
        # A slow rank may be blamed before it blames the one that it waits for itself: its own patience began later.
        limit = time.monotonic() + self.patience + _GRACE_SECONDS
        while not self._gone() and not self._wrong() and (self._missed() or self._few_have_spoken()):
            if not self._listen(selector, limit):
                break
        if gone := self._gone():
            rank = gone[0]
            status = self.processes[rank].wait()
            return self._verdict(Verdict.DIED, rank, f"ended with status {status}{self._last_words(rank)}")
        if wrong := self._wrong():
            first = min(wrong, key=lambda blame: blame.step)
            assert first.verdict is not None
            return self._verdict(first.verdict, first.peer, first.text, first.step if first.step >= 0 else None)
        rank, seen = next(iter(sorted(self.blames))), set()
        while rank in self.blames and rank not in seen:
            seen.add(rank)
            rank = self.blames[rank].peer
        text = next((b.text for b in self.blames.values() if b.peer == rank), "was silent")
        return self._verdict(Verdict.HUNG, rank, text)

    def _few_have_spoken(self) -> bool:
        return len(self.blames) + len(self.outputs) < len(self.processes) - 1

    def _missed(self) -> set[int]:
        """Who closed connections without a word, by what others say: their end may be heard of before it is seen."""
        gone = {blame.peer for blame in self.blames.values() if blame.verdict is Verdict.DIED}
        return gone - self.blames.keys() - self.outputs.keys()

    def _gone(self) -> list[int]:
        """Ranks whose process ended without a word."""
        return sorted(self.closed - self.outputs.keys() - self.blames.keys())

    def _wrong(self) -> list[Message]:
        """What was said of messages that are not those that were due."""
        return [b for b in self.blames.values() if b.verdict in (Verdict.WRONG_SIZE, Verdict.WRONG_MESSAGE)]

    def _silent(self) -> Outcome:
        waiting = set(range(self.ranks)) - self.outputs.keys()
        rank = min(waiting, key=lambda one: (self.step.get(one, -1), one))
        return self._verdict(Verdict.HUNG, rank, f"was silent for {2 * self.patience:g} s, and nobody else spoke")

    def _verdict(self, verdict: Verdict, rank: int, text: str, step: int | None = None) -> Outcome:
        step = self.step.get(rank) if step is None else step
        where = "before its first step" if step is None else f"in {self.words(rank, step)}"
        return Outcome(verdict, f"Rank {rank} {text} {where}.", rank, step)

    def _not_started(self) -> Outcome:
        if self.unable:
            rank, text = min(self.unable.items())
            words = f"Rank {rank} cannot use {self.over}: {text}."
        elif self.closed:
            rank = min(self.closed)
            words = f"Rank {rank} ended before the first step{self._last_words(rank)}."
        else:
            rank = min(set(range(self.ranks)) - self.ready)
            words = f"Rank {rank} was not ready within {_STARTUP_SECONDS:g} s: is the machine busy?"
        return Outcome(Verdict.NOT_STARTED, words, rank)

    def _last_words(self, rank: int) -> str:
        log = self.folder / f"rank_{rank}.log"
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        return f" ({lines[-1][:200]})" if lines else ""

    def _end(self) -> None:
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
