"""Peak memory and time of a training step of 1.3 billion parameters, for each way to keep less, into
results/checkpointing.json.

plain, full and selective checkpoints, plans for a quarter and a half of what lies between them, offloading to the host,
FP8, and torch.compile with its memory budget. One forward and one backward pass in bfloat16, no optimizer. The plain
step is measured first and last: what the two differ by is what a difference between others must exceed.

Run as `python -m benchmarks.checkpointing` on a GPU with 80 GB or more, with PyTorch (`make torch`).
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

from course import results
from course.torch_needed import need_torch
from systems.training.planner import plan
from systems.training.sizes import Sizes
from warplab.errors import DeviceError, WarplabError
from warplab.hardware import present

FILE = results.DIRECTORY / "checkpointing.json"
SIZES = Sizes(layers=24, width=2048, heads=16, vocabulary=32000, sequence=2048, batch=8, value_bytes=2)
STEPS = 7
WARM_UPS = 2
COMPILED = (1.0, 0.5, 0.25)

Once = Callable[[], None]


def backward(model: Any, batch: Any) -> None:
    """One step."""
    model(*batch).backward()


def ways(model: Any, batch: Any) -> Iterator[tuple[str, Once]]:
    """Every way that needs no compiler, by name, with what does one step that way."""
    from systems.training import kept_as, recompute
    from systems.training.names import Names
    from systems.training.operators import operators
    from systems.training.step import Way

    def once(way: Way) -> Once:
        def step() -> None:
            names = Names(model)
            model.run = way(names)
            with names:
                backward(model, batch)
            model.run = None

        return step

    row = SIZES.tokens * SIZES.width
    measured = operators(model, *batch)
    everything = sum(one.bytes for one in measured)
    yield "plain", once(lambda names: None)
    yield "full checkpoint", once(lambda names: recompute.whole)
    products = [recompute.PRODUCTS] * SIZES.layers
    yield "products kept", once(lambda names: recompute.selective(products, names))
    for share in (0.25, 0.5):
        kept = plan(measured, share * everything).names(SIZES.layers)
        yield f"plan for {share:.0%}", once(partial(recompute.selective, kept))
    yield "offloaded", once(lambda names: kept_as.kept_as(kept_as.Host().form, names, row))
    yield "FP8, blocks of 128", once(lambda names: kept_as.kept_as(kept_as.eight_bits(128), names, row))


def compiled_ways(model: Any, batch: Any) -> Iterator[tuple[str, Once]]:
    """The same for torch.compile. Go through them one by one: making the next forgets the last."""
    import torch
    from torch._functorch import config

    for budget in COMPILED:
        torch.compiler.reset()  # what was compiled for the last budget would do for this one
        compiled = torch.compile(model)
        with config.patch(activation_memory_budget=budget):
            backward(compiled, batch)
        yield f"torch.compile, budget {budget:g}", partial(backward, compiled, batch)


def measure(model: Any, batch: Any) -> list[results.Record]:
    """Peak memory of one step and the median time of STEPS, one way after another, "plain" first and last."""
    import torch

    peaks: dict[str, int] = {}
    times: dict[str, list[float]] = {}
    again: tuple[str, Once] = ("plain, again", partial(backward, model, batch))
    for name, step in chain(ways(model, batch), compiled_ways(model, batch), [again]):
        for _ in range(WARM_UPS):
            step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        times[name] = []
        for _ in range(STEPS):
            begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begun.record()
            step()
            ended.record()
            torch.cuda.synchronize()
            times[name].append(begun.elapsed_time(ended))
        peaks[name] = torch.cuda.max_memory_allocated()
    return records_of(peaks, times)


def records_of(peaks: dict[str, int], times: dict[str, list[float]]) -> list[results.Record]:
    """The records of peaks in bytes and times in milliseconds, by way."""
    shape = (SIZES.layers, SIZES.width, SIZES.sequence, SIZES.batch)
    plain = statistics.median(times["plain"])
    records = []
    for name, peak in peaks.items():
        common: dict[str, Any] = {"variant": name, "shape": shape, "dtype": "bfloat16"}
        records.append(results.Record("training step", "peak memory", peak, "B", **common))
        time = statistics.median(times[name])
        records.append(
            results.Record(
                "training step", "time", time, "ms", baseline="plain, same run", baseline_value=plain,
                ratio=results.better(time, plain, "ms"), conditions=f"median of {len(times[name])} steps", **common,
            )
        )  # fmt: skip
    return records


def by_line(model: Any, batch: Any) -> list[results.Record]:
    """Bytes that the allocator holds between forward and backward pass, by the line of the model that asked."""
    import torch

    from systems.training.allocator import active_bytes

    with recorded():
        loss = model(*batch)
        held = active_bytes(torch.cuda.memory._snapshot())
    loss.backward()
    return [
        results.Record("held between the passes", "memory", size, "B", variant=place, dtype="bfloat16")
        for place, size in sorted(held.items())
    ]


@contextmanager
def recorded() -> Iterator[None]:
    """While entered, the allocator remembers who asked for what."""
    import torch

    torch.cuda.memory._record_memory_history(context="alloc", stacks="python")
    try:
        yield
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def main() -> int:
    """Exit code 0, or 1 with a sentence where nothing can be measured."""
    try:
        need_torch()
        if present() is None:
            raise DeviceError("This benchmark needs a GPU with 80 GB or more: run it where `nvidia-smi` shows one.")
        from systems.training import gpt

        header = results.make_header("python -m benchmarks.checkpointing")
        model, batch = gpt.make(SIZES, device="cuda"), gpt.draw(SIZES, device="cuda")
        records = [*by_line(model, batch), *measure(model, batch)]
        results.write(FILE, header, records)
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 1
    for record in records:
        print(f"{record.variant:28} {record.metric:12} {record.value:,.0f} {record.unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
