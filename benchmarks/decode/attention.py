"""Times the attention of decoding (systems/attention) beside a copy of as many bytes and PyTorch's attention.

Run as `python -m benchmarks.decode.attention` on a machine with a GPU and PyTorch. Writes into
benchmarks/results/attention.json, and the same file into the folder $OUT where that is set.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.attention import TURNS, Work, keep, seconds
from benchmarks.compaction import COPY_SOURCE
from systems.attention.decoding import PAGE, Decoding
from warplab.gpu.statistics import median_interval

COMMAND = "python -m benchmarks.decode.attention"
OURS, TORCH, COPY = "decode", "torch", "copy"
WIDTH, KEY_HEADS = 128, 8
SIZES = (  # sequences, keys each
    *((8, 4096), (8, 8192), (8, 16384), (8, 32768), (32, 4096), (32, 8192), (32, 16384), (32, 32768)),
    *((128, 4096), (128, 8192), (128, 16384), (128, 32768)),
)
GROUPS = (4, 8)
MOST_BYTES = 40 << 30  # of keys and values, which PyTorch gets a copy of; larger sizes are left out
SECONDS = 60.0  # of all; later sizes are left out


class Size:
    """Some sequences of one length or, `ragged`, of drawn lengths up to it, with pages in a drawn order."""

    def __init__(self, sequences: int, keys: int, group: int, ragged: bool, torch_type: Any) -> None:
        import torch

        self.sequences, self.keys, self.group, self.ragged = sequences, keys, group, ragged
        generator = torch.Generator("cuda").manual_seed(sequences + keys)
        draw = np.random.default_rng(sequences + keys)
        columns = keys // PAGE
        self.lengths = draw.integers(keys // 8, keys + 1, sequences) if ragged else np.full(sequences, keys)
        pages = sequences * columns
        shape = pages, KEY_HEADS, PAGE, WIDTH
        self.k, self.v = (
            torch.empty(shape, device="cuda", dtype=torch_type).normal_(generator=generator) for _ in range(2)
        )
        query = sequences, KEY_HEADS * group, WIDTH
        self.q = torch.empty(query, device="cuda", dtype=torch_type).normal_(generator=generator)
        self.out = torch.zeros_like(self.q)
        order = torch.randperm(pages, generator=generator, device="cuda").reshape(sequences, columns)
        self.order = order
        self.table = order.to(torch.int32)
        self.of_lengths = torch.as_tensor(self.lengths.astype(np.int32), device="cuda")
        self.bytes = 2 * 2 * int(self.lengths.sum()) * KEY_HEADS * WIDTH + 2 * 2 * self.q.numel()

    def contiguous(self, array: Any, row: int) -> Any:
        """A sequence's keys or values, (KEY_HEADS, keys, WIDTH), side by side."""
        return array[self.order[row]].transpose(0, 1).reshape(KEY_HEADS, self.keys, WIDTH)

    def ours(self) -> Work:
        """A function that queues one call of the kernel."""
        import cupy
        import torch

        bfloat16 = self.q.dtype == torch.bfloat16
        seen = (each.view(torch.int16) if bfloat16 else each for each in (self.q, self.k, self.v))
        q, k, v = (cupy.from_dlpack(each) for each in seen)
        out = cupy.from_dlpack(self.out.view(torch.int16) if bfloat16 else self.out)
        table, lengths = cupy.from_dlpack(self.table), cupy.from_dlpack(self.of_lengths)
        sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
        made = Decoding(k, v, q.shape[1], self.sequences, bfloat16, sms)

        def work() -> Any:
            made(q, table, lengths, out)
            return self.out

        return work

    def torch(self) -> Work:
        """A function that queues one call of scaled_dot_product_attention, for contiguous keys and values."""
        import torch
        from torch.nn.functional import scaled_dot_product_attention

        k, v = (torch.empty((self.sequences, KEY_HEADS, self.keys, WIDTH), device="cuda", dtype=self.q.dtype)
                for _ in range(2))  # fmt: skip
        for row in range(self.sequences):
            k[row], v[row] = self.contiguous(self.k, row), self.contiguous(self.v, row)
        q = self.q[:, :, None]
        return lambda: scaled_dot_product_attention(q, k, v, enable_gqa=True)[:, :, 0]

    def copy(self) -> Work:
        """A function that queues a kernel which moves as many bytes: in a graph the driver's copy is slower."""
        import cupy

        kernel, count = cupy.RawKernel(COPY_SOURCE, "copy"), self.bytes // 32
        source, target = cupy.zeros(4 * count, "float32"), cupy.empty(4 * count, "float32")
        return lambda: kernel((-(-count // 256),), (256,), (source, target, np.int32(count)))

    def error(self, work: Work) -> float:
        """The root mean square of the error in the first, the middle and the last sequence, against float64."""
        found, squares = work(), []
        for row in sorted({0, self.sequences // 2, self.sequences - 1}):
            length = int(self.lengths[row])
            k, v = (self.contiguous(array, row)[:, :length].double() for array in (self.k, self.v))
            q = self.q[row].double().reshape(KEY_HEADS, self.group, WIDTH)
            right = (q @ k.transpose(1, 2) / math.sqrt(WIDTH)).softmax(-1) @ v
            squares.append(float((found[row].double().reshape(right.shape) - right).square().mean()))
        return math.sqrt(statistics.mean(squares))


def records(size: Size, taken: Mapping[str, list[float]], errors: Mapping[str, float]) -> list[dict[str, Any]]:
    """Bytes of keys, values, queries and results per second, beside the copy's rate."""
    intervals = {name: median_interval(all_of_it) for name, all_of_it in taken.items()}
    found = []
    for name, interval in intervals.items():
        extra = {f"beside_{one}": intervals[one].value / interval.value for one in (COPY, TORCH) if one in intervals}
        if name in errors:
            extra["error"] = errors[name]
        found.append(
            {
                "name": name,
                "variant": "decode, ragged" if size.ragged else "decode",
                "metric": "rate",
                "value": size.bytes / interval.value,
                "unit": "B/s",
                "shape": (size.sequences, KEY_HEADS * size.group, KEY_HEADS, size.keys, WIDTH),
                "dtype": str(size.q.dtype).removeprefix("torch."),
                "interval": (size.bytes / interval.high, size.bytes / interval.low),
                "conditions": f"median of {TURNS} turns of CUDA graphs; sequences, heads of queries and of keys, keys, "
                "width; pages of 64 keys in a drawn order, for PyTorch side by side",
                "extra": extra,
            }
        )
    return found


def measured(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """The records of all sizes, as far as SECONDS last: both groups, then ragged lengths and bfloat16."""
    import torch

    began, found = time.monotonic(), []
    plans = [(*size, group, False, torch.float16) for size in SIZES for group in GROUPS]
    plans += [(*size, 8, True, torch.bfloat16) for size in SIZES if size[1] in (4096, 32768)]
    for sequences, keys, group, ragged, kind in plans:
        what = f"{sequences} sequences of {keys} keys, {group} queries per key" + (", ragged" if ragged else "")
        if time.monotonic() - began > SECONDS or 4 * sequences * keys * KEY_HEADS * WIDTH > MOST_BYTES:
            say(f"Left out: {what}.")
            continue
        size = Size(sequences, keys, group, ragged, kind)
        candidates = {OURS: size.ours()}
        if not ragged:
            candidates[TORCH] = size.torch()
        errors = {name: size.error(work) for name, work in candidates.items()}
        copy = size.copy()
        copy()
        taken = seconds(candidates | {COPY: copy})
        found += records(size, taken, errors)
        say(f"{time.monotonic() - began:.1f} s: {what}, {size.bytes / 2**20:.0f} MiB")
        for one in found[-len(taken) :]:
            rest = ", ".join(f"{name} {value:.3g}" for name, value in one["extra"].items())
            say(f"  {one['name']:8} {one['value'] / 1e12:6.3f} TB/s, {rest}")
        del size, candidates, copy
        torch.cuda.empty_cache()
    return found


def geometric_means(found: list[dict[str, Any]]) -> list[str]:
    """Sentences: the kernel beside the copy and PyTorch, ragged lengths apart."""
    said = []
    for variant in ("decode", "decode, ragged"):
        for other in (COPY, TORCH):
            ratios = [
                one["extra"][f"beside_{other}"]
                for one in found
                if one["name"] == OURS and one["variant"] == variant and f"beside_{other}" in one["extra"]
            ]
            if ratios:
                mean, least = statistics.geometric_mean(ratios), min(ratios)
                said.append(f"{variant}: {mean:.3f} times {other}, {least:.3f} at least, {len(ratios)} sizes")
    return said


def main() -> int:
    """Exit code 3 without a GPU or PyTorch."""
    try:
        import cupy
        import torch

        cupy.zeros(1)  # both in the default stream
        torch.zeros(1, device="cuda")
    except Exception:
        print("This needs a GPU, CuPy and PyTorch.", file=sys.stderr)
        return 3
    say = partial(print, flush=True)
    found = measured(say)
    for sentence in geometric_means(found):
        say(sentence)
    keep(found, COMMAND, "decode_records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
