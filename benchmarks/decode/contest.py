"""The interpreter on this GPU: checked against PyTorch position by position, then timed beside it in the same turns."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy
import numpy as np
import torch

from benchmarks.decode.llama import Llama
from benchmarks.decode.ring import Ring
from benchmarks.moe.shuffle import Captured
from systems.megakernel import launch
from systems.megakernel.reference import allowed
from systems.megakernel.schedule import Schedule, encoded, schedule
from systems.megakernel.shapes import Shape
from warplab.errors import WarplabError

OURS, EAGER, COPY = "ours", "torch, eager in a CUDA graph", "copy"
COMPILED = {  # what torch.compile is told, by the name of the contender
    "torch.compile in a CUDA graph": {},
    "torch.compile, coordinate descent, in a CUDA graph": {"coordinate_descent_tuning": True},
}


class WrongTokens(WarplabError):
    """The interpreter's tokens are not PyTorch's."""


class Interpreter:
    """Decoding on this GPU, a launch a step, on CuPy's current stream."""

    launches = 1

    def __init__(self, shape: Shape, weights: Any, gains: Any, given: np.ndarray) -> None:
        self.shape, self.sms = shape, cupy.cuda.Device().attributes["MultiProcessorCount"]
        self.arrays = {name: cupy.zeros(size, dtype) for name, (size, dtype) in launch.scratch(shape).items()}
        self.arrays |= {name: cupy.asarray(each.view(torch.int16)) for name, each in
                        (("weights", weights), ("gains", gains))}  # fmt: skip
        self.arrays["turns"] = cupy.asarray(launch.turns(shape))
        self.arrays["given"] = cupy.asarray(given)
        self.position = 0
        self._steps = 0
        self.use(Ring())
        self._lists: dict[int, tuple[Schedule, Any]] = {}

    def use(self, ring: Ring) -> None:
        """Take this ring from now on."""
        self._kernel = launch.kernel(self.shape, ring.slots, ring.ahead, ring.in_flight, ring.flags)
        self._slots = ring.slots

    def at(self, position: int) -> Schedule:
        """Go to a position; what each SM will do there. Lists change only with the number of pages of keys."""
        pages = position // self.shape.positions
        if pages not in self._lists:
            lists = schedule(self.shape, self.sms, position)
            self._lists[pages] = lists, cupy.asarray(encoded(lists))
        self.position = position
        return self._lists[pages][0]

    def launch(self, records: Any = None) -> None:
        """Queue the step."""
        listed = self._lists[self.position // self.shape.positions][1]
        launch.step(self._kernel, self.shape, listed, self.position, self._steps, self.arrays, records, self._slots)
        self._steps += 1

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the step at this position gives the same token again."""

    def check(self, turn: int) -> None:
        """Checked before and after all turns."""

    def tokens(self, count: int) -> np.ndarray:
        """The tokens chosen at the first positions."""
        return launch.tokens(cupy.asnumpy(self.arrays["chosen"]), count)

    def timeline(self) -> np.ndarray:
        """One more step here: nanoseconds of [SM][line][launch.TIMES], from 0 on."""
        listed = self._lists[self.position // self.shape.positions][1]
        records = cupy.zeros((*listed.shape[:2], launch.TIMES), np.uint32)
        self.launch(records)
        return since_the_first(cupy.asnumpy(records))


def since_the_first(records: np.ndarray) -> np.ndarray:
    """int64 nanoseconds since the first of all, of low halves of a clock, which may have begun again from 0 meanwhile.
    Lines that are zero, of lists that are shorter than the longest, stay so."""
    written = records.any(-1)
    since = (records - records[0, 0, 0]).view(np.int32).astype(np.int64)  # 2.1 s before or after it
    since -= since[written].min()
    since[~written] = 0
    return since


@dataclass(frozen=True)
class Agreement:
    """Of `positions` tokens, `equal` are float32's; the others are ties. `error`: of the last logits, relative to
    their standard deviation, root mean square; `torch_error` the same of PyTorch in bfloat16."""

    positions: int
    equal: int
    error: float
    torch_error: float


def compared(model: Llama, ours: Interpreter, prompt: np.ndarray, generated: int) -> Agreement:
    """Decodes `generated` tokens after the prompt, one position a launch, and compares the token of every position with
    that of PyTorch in float32, which sees the same sequence at once. Raises WrongTokens."""
    positions = len(prompt) + generated
    for position in range(positions):
        ours.at(position)
        ours.launch()
    tokens = ours.tokens(positions).astype(np.int64)
    sequence = torch.from_numpy(np.concatenate([prompt, tokens[len(prompt) - 1 : -1]])).cuda()
    exact = model.whole(sequence, torch.float32)
    spread = exact.std(-1)
    chosen = torch.from_numpy(tokens).cuda()
    short = (exact.max(-1).values - exact.gather(1, chosen[:, None])[:, 0]) / spread
    last = torch.as_tensor(ours.arrays["logits"])
    error = float((last - exact[-1]).square().mean().sqrt() / spread[-1])
    rough = model.whole(sequence, torch.bfloat16)[-1].float()
    equal = int((exact.argmax(-1) == chosen).sum())
    if not error < allowed(model.shape) or not float(short.max()) < 10 * error:  # two logits, each off by five errors
        raise WrongTokens(
            f"{positions - equal} of {positions} tokens are not those of PyTorch in float32, the worst by "
            f"{float(short.max()):.3g} standard deviations of its logits; the last logits are off by {error:.3g}."
        )
    return Agreement(positions, equal, error, float((rough - exact[-1]).square().mean().sqrt() / spread[-1]))


class Copy:
    """A copy that moves so many bytes, read and written together."""

    launches = 1

    def __init__(self, size: int, stream: Any) -> None:
        self._from = torch.zeros(size // 2, dtype=torch.uint8, device="cuda")
        self._to, self._stream = torch.empty_like(self._from), stream

    def prepare(self, turn: int) -> None:
        """Nothing to prepare."""

    def launch(self) -> None:
        """Queue the copy."""
        with torch.cuda.stream(self._stream):
            self._to.copy_(self._from)

    def check(self, turn: int) -> None:
        """Nothing to check."""


@contextmanager
def seconds_at_most(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in what takes longer, as soon as Python has the turn."""

    def late(*_: object) -> None:
        raise TimeoutError(f"it took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def rivals(model: Llama, position: int, stream: Any, seconds: int, left_out: list[str]) -> dict[str, Any]:
    """PyTorch's step at a position as CUDA graphs, eager and compiled. What cannot be made, or takes more than so many
    seconds, is named in `left_out`."""
    token = torch.tensor([1], device="cuda")
    steps: dict[str, Callable[..., Any]] = {EAGER: partial(model.step, complex_numbers=True)}
    for name, options in COMPILED.items():
        steps[name] = partial(torch.compile(model.step, options=options), complex_numbers=False)
    made: dict[str, Any] = {}
    for name, step in steps.items():
        try:
            torch.compiler.reset()
            with seconds_at_most(seconds), torch.no_grad():
                made[name] = Captured(partial(step, token, position), stream)
        except Exception as error:  # one contender less; a broken device fails the next ones too
            left_out.append(f"{name} was left out: {' '.join(str(error).split())[:300]}")
    return made


def steps_in_a_row(ours: Interpreter, count: int) -> float:
    """Milliseconds a step, of so many steps at one position that are queued one after another."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for _ in range(20):
        ours.launch()
    begin.record()
    for _ in range(count):
        ours.launch()
    end.record()
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end) / count


def rings(ours: Interpreter, kinds: Sequence[Ring], count: int) -> dict[Ring, float]:
    """The same by the ring; the one that is the rule is left in use."""
    found = {}
    for kind in kinds:
        ours.use(kind)
        found[kind] = steps_in_a_row(ours, count)
    ours.use(Ring())
    return found
