"""Times decoding in one launch a step beside PyTorch, into results/megakernel.json.

A decoder of the sizes of Llama 3.2 1B with random weights, one sequence. First the tokens: 512 positions, of which the
last 32 are chosen, beside PyTorch in float32. Then the time of the step at the 512th position, in the same turns as
PyTorch's step as a CUDA graph, eager and compiled, and a copy of as many bytes as a step reads weights. Then the same
with smaller rings, and with more or fewer pages on their way, both where counters are released and where vectors have
flags; when each SM did what, by its own clock: with flags, and with releases and as few pages on their way as is best
then, and as many as the ring has room for; and what lies between kernels launched one after another.

Run as `python -m benchmarks.megakernel` on a Hopper GPU, with PyTorch (`make torch`): five minutes at most.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.decode.ring import Ring
from course import results
from course.results import Record
from course.torch_needed import need_torch
from systems.megakernel import launch
from systems.megakernel.schedule import Op, Schedule
from systems.megakernel.shapes import LLAMA_1B, Shape
from systems.megakernel.timeline import spans, written
from warplab.errors import DeviceError, WarplabError
from warplab.hardware import present

FILE = results.DIRECTORY / "megakernel.json"
SHAPE = LLAMA_1B
CONTEXT, GENERATED = 512, 32
IN_A_ROW = 200  # steps
RINGS = (2, 3, 4, 6, 8, 10, 13)  # pages
FLIGHTS = (1, 2, 3, 4, 6, 8, 13)  # pages on their way, of a ring of 13
RELEASED = Ring(in_flight=2, flags=False)  # the best ring where counters are released
GREEDY = Ring(in_flight=launch.SLOTS, flags=False)
COMPILE_SECONDS = 60  # for each way to compile
SECONDS = 8.0  # of turns
DRAWN_LAYERS = (7, 8)  # whose timeline is kept


def key_of(shape: Shape) -> tuple[int, ...]:
    """What a record's `shape` says of a step."""
    return (shape.layers, shape.width, shape.heads, shape.kv_heads, shape.vocabulary, CONTEXT)


def main() -> int:
    """Exit code 0, or 1 with a sentence where nothing can be measured or a token is wrong."""
    try:
        need_torch()
        device = present()
        if device is None or device.compute_capability[0] != 9:
            raise DeviceError("This benchmark needs a Hopper GPU: run it where `nvidia-smi` shows an H100 or H200.")
        header = results.make_header("python -m benchmarks.megakernel")
        records = list(measured())
        results.write(FILE, header, records)
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 1
    for record in records:
        beside = f"  {record.ratio:.3f} times {record.baseline}" if record.ratio is not None else ""
        print(f"{record.name:24} {record.variant:52} {record.value:12,.5g} {record.unit:6}{beside}")
    return 0


def measured() -> Iterator[Record]:
    """Everything, in order. Raises WrongTokens before anything is timed if a token is wrong."""
    import torch

    from benchmarks.decode import contest, gaps
    from benchmarks.decode.llama import Llama, drawn
    from warplab.gpu.executor import on_stream
    from warplab.gpu.stopwatch import time_in_turns

    with on_stream() as stream:
        torch_stream = torch.cuda.ExternalStream(int(stream.handle))
        yield from gaps.records(stream)
        weights, gains = drawn(SHAPE, "cuda")
        model = Llama(SHAPE, weights, gains, torch.from_numpy(launch.turns(SHAPE)).cuda())
        prompt = np.random.default_rng(0).integers(0, SHAPE.vocabulary, CONTEXT - GENERATED)
        given = np.full(SHAPE.room, -1, np.int32)
        given[: len(prompt)] = prompt
        torch.cuda.synchronize()
        ours = contest.Interpreter(SHAPE, weights, gains, given)
        agreement = contest.compared(model, ours, prompt, GENERATED)
        yield from agreement_records(agreement)

        position = CONTEXT - 1
        before = ours.tokens(CONTEXT)
        left_out: list[str] = []
        candidates: dict[str, Any] = {contest.OURS: ours, contest.COPY: contest.Copy(SHAPE.weight_bytes, torch_stream)}
        candidates |= contest.rivals(model, position, torch_stream, COMPILE_SECONDS, left_out)
        ours.at(position)
        result = time_in_turns(candidates, stream, budget_seconds=SECONDS, precision=0.004)
        yield from time_records({name: result.time(name) for name in candidates}, result.turns, left_out)
        yield from in_a_row(contest.rings(ours, released_rings(), IN_A_ROW))
        with_flags = contest.rings(ours, flagged_rings(), IN_A_ROW)
        best = min(with_flags, key=with_flags.__getitem__)
        yield from in_a_row(with_flags | contest.rings(ours, rings_like(best), IN_A_ROW))
        lists = ours.at(position)
        greedy = f", {GREEDY.in_flight} on their way"
        for ring, variant in ((RELEASED, ""), (GREEDY, greedy), (Ring(), ", flags"), (best, ", flags, the best ring")):
            ours.use(ring)
            yield from timeline_records(lists, ours.timeline(), variant)
        if not np.array_equal(before, ours.tokens(CONTEXT)):
            raise contest.WrongTokens("A step that was timed chose another token than before: nothing is recorded.")


def agreement_records(found: Any) -> Iterator[Record]:
    """How near the interpreter's tokens and logits are to those of float32."""
    common: dict[str, Any] = {"shape": key_of(SHAPE), "dtype": "bfloat16"}
    note = f"beside PyTorch in float32; {found.positions} positions, the others nearer to the best than the error"
    yield Record("tokens", "equal", found.equal, "1", conditions=note, extra={"positions": found.positions}, **common)
    for name, error in (("ours", found.error), ("PyTorch in bfloat16", found.torch_error)):
        yield Record(
            "last logits", "error", error, "sigma", variant=name, **common,
            conditions="root mean square, beside float32, in standard deviations of the logits",
        )  # fmt: skip


def time_records(times: dict[str, Any], turns: int, left_out: Sequence[str]) -> Iterator[Record]:
    """Milliseconds of each contender, with ours beside it, and the rate at which ours reads weights beside the copy."""
    ours, copy = times["ours"], times["copy"]
    common: dict[str, Any] = {"shape": key_of(SHAPE), "dtype": "bfloat16"}
    note = f"{turns} turns, all contenders in each, cold L2"
    for name, time in times.items():
        beside = {} if name == "ours" else {
            "baseline": "ours, same turns", "baseline_value": ours.value,
            "ratio": results.better(time.value, ours.value, "ms"),
        }  # fmt: skip
        yield Record(
            "decoding step", "time", time.value, "ms", variant=name, interval=(time.low, time.high), conditions=note,
            extra={"left_out": list(left_out)} if name == "ours" and left_out else {}, **beside, **common,
        )  # fmt: skip
    rate, copied = (1e3 * SHAPE.weight_bytes / time.value for time in (ours, copy))
    yield Record(
        "decoding step", "weights read", rate, "B/s", variant="ours", baseline="a copy of as many bytes, same turns",
        baseline_value=copied, ratio=rate / copied, conditions=note, extra={"bytes": SHAPE.weight_bytes}, **common,
    )  # fmt: skip


def released_rings() -> list[Ring]:
    """Where counters are released: rings of all sizes, with as many pages on their way as there is room for and with as
    many as is best; the largest with any number of them; and both ways filled only when inputs are there."""
    most = (GREEDY, RELEASED)
    kinds = [replace(ring, slots=slots, in_flight=min(slots, ring.in_flight)) for ring in most for slots in RINGS]
    kinds += [replace(RELEASED, in_flight=in_flight) for in_flight in FLIGHTS]
    return list(dict.fromkeys([*kinds, *(replace(ring, ahead=False) for ring in most)]))


def flagged_rings() -> list[Ring]:
    """With flags: the largest ring with any number of pages on their way."""
    return [Ring(in_flight=in_flight) for in_flight in FLIGHTS]


def rings_like(best: Ring) -> list[Ring]:
    """Smaller rings than the best one of `flagged_rings`, and that one filled only when inputs are there."""
    smaller = [replace(best, slots=slots, in_flight=min(slots, best.in_flight)) for slots in RINGS[1:-1]]
    return [*smaller, replace(best, ahead=False)]


def in_a_row(times: dict[Ring, float]) -> Iterator[Record]:
    """Milliseconds of the step as a program would meet it, many in a row, by the ring; a variant with "late" in it
    loads weights only when inputs are there, one with "flags" has vectors with flags, others release counters."""
    note = f"{IN_A_ROW} steps queued one after another, by events before the first and after the last, each"
    for ring, milliseconds in times.items():
        yield Record(
            "decoding step", "time in a row", milliseconds, "ms", variant=str(ring),
            shape=key_of(SHAPE), dtype="bfloat16", conditions=note,
        )  # fmt: skip


def timeline_records(lists: Schedule, times: np.ndarray, variant: str = "") -> Iterator[Record]:
    """How long instructions of each kind wait, work and tell others, and every SM's lines of two layers, for
    `timeline.read`. Variants end in `variant`."""
    common: dict[str, Any] = {"shape": key_of(SHAPE), "dtype": "bfloat16"}
    note = "one step, globaltimer, which moves in steps of 32 ns"
    found = spans(lists, times)
    for op in Op:
        of_op = [span for each in found for span in each if span.op is op]
        if not of_op:
            continue
        extra = {
            "waited_for_inputs": fmean(span.ready - span.begun for span in of_op) / 1e3,
            "waited_for_weights": fmean(max(0, span.loaded - span.ready) for span in of_op) / 1e3,
            "told_others": fmean(span.told - span.done for span in of_op) / 1e3,
            "instructions": len(of_op),
        }
        mean = fmean(span.told - span.begun for span in of_op) / 1e3
        name = op.name + variant
        yield Record("instruction", "mean time", mean, "us", variant=name, conditions=note, extra=extra, **common)
    lines = [written(span for span in each if span.layer in DRAWN_LAYERS) for each in found]
    took = float(times.max()) / 1e3
    yield Record(
        "timeline", "time", took, "us", variant=variant[2:], conditions=note, extra={"lines": lines}, **common
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
