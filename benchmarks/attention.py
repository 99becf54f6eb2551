"""Times lab 21's last three rungs and its reference in CUDA C++ beside PyTorch's scaled_dot_product_attention, and the
gradients of systems/attention beside those of PyTorch's FlashAttention.

Run as `python -m benchmarks.attention` on a machine with a GPU and PyTorch, whose backends are named one by one. Writes
benchmarks/results/attention.json, and the same file into the folder $OUT where that is set.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import statistics
import sys
import time
import types
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from warplab.gpu.statistics import median_interval

ROOT = Path(__file__).resolve().parent.parent
LAST = "last rung"
OURS = {
    LAST: "rung_6_without_gaps.py",
    "in turns": "rung_5_in_turns.py",
    "warp roles": "rung_4_roles.py",
    "reference": "submission_cuda.py",
}
BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
COMMAND = "python -m benchmarks.attention"
LENGTHS = (16384, 8192, 4096, 2048, 1024)
OF_GRADIENTS = (8192, 2048)
TOKENS, MODEL = 16384, 2048  # of all sequences together; heads times width
WIDTHS = (128, 64)
TURNS = 7
QUEUED = 4e-3  # seconds of work between two events, about
SECONDS = 45.0  # of all: sizes that are left then are left out
SAMPLED = 64  # queries of the first head whose result is compared with float64
Work = Callable[[], Any]


def of_source(name: str) -> Callable[..., None]:
    """The function `attention` that a solution's file defines."""
    path = ROOT / "solutions" / "21_attention" / OURS[name]
    module = types.ModuleType("submission")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    return module.attention


def operations(heads: int, n: int, width: int, causal: bool) -> float:
    """Operations of the two products: four per visible pair and element, as labs/21_attention counts them."""
    pairs = n * (n + 1) / 2 if causal else n * n
    return 4.0 * heads * pairs * width


class Size:
    """One size: inputs, and what each candidate makes of them."""

    def __init__(self, n: int, width: int, causal: bool) -> None:
        import torch

        self.n, self.width, self.causal = n, width, causal
        self.sequences, self.heads = TOKENS // n, MODEL // width
        generator = torch.Generator("cuda").manual_seed(n + width)
        shape = self.sequences, self.heads, n, width
        self.q, self.k, self.v = (
            torch.randn(shape, generator=generator, device="cuda", dtype=torch.float16) for _ in range(3)
        )
        self.out = torch.zeros_like(self.q)
        self.rows = torch.randperm(n, generator=generator, device="cuda")[:SAMPLED]
        q, k, v = (array[0, 0].double() for array in (self.q, self.k, self.v))
        scores = q[self.rows] @ k.T / math.sqrt(width)
        if causal:
            scores.masked_fill_(torch.arange(n, device="cuda")[None] > self.rows[:, None], -math.inf)
        self.right = torch.softmax(scores, dim=1) @ v

    def ours(self, attention: Callable[..., None]) -> Work:
        """A function that queues one call of a solution."""
        import cupy

        arrays = [cupy.from_dlpack(array.flatten(0, 1)) for array in (self.q, self.k, self.v, self.out)]
        return lambda: self._call(attention, arrays)

    def _call(self, attention: Callable[..., None], arrays: list[Any]) -> Any:
        attention(*arrays[:3], int(self.causal), arrays[3])
        return self.out

    def torch(self, backend: str) -> Work:
        """A function that queues one call of scaled_dot_product_attention with one of its backends."""
        return lambda: self.attention(self.q, self.k, self.v, self.causal, backend)

    @staticmethod
    def attention(q: Any, k: Any, v: Any, causal: bool, backend: str) -> Any:
        """PyTorch's attention by one of its backends."""
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        with sdpa_kernel(getattr(SDPBackend, BACKENDS[backend])):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

    def error(self, work: Work) -> float:
        """The root mean square of a result's error in the sampled rows."""
        found = work()[0, 0][self.rows].double()
        return float((found - self.right).square().mean().sqrt())


@cache
def stream() -> Any:
    """The stream on which graphs are captured."""
    import torch

    return torch.cuda.Stream()


def graph(work: Work, calls: int) -> Any:
    """A CUDA graph of so many calls: the host's time for a launch, which differs, is not timed."""
    import cupy
    import torch

    made = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(made, stream=stream()), cupy.cuda.ExternalStream(stream().cuda_stream):
        for _ in range(calls):
            work()
    return made


def seconds(candidates: Mapping[str, Work]) -> dict[str, list[float]]:
    """Seconds of one call in each of TURNS turns, by name; CUDA graphs of the candidates in alternation. Each has been
    called before."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed(made: Any) -> float:
        begin.record()
        made.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    calls, graphs = {}, {}
    for name, work in candidates.items():
        one = graph(work, 1)
        calls[name] = max(1, min(50, math.ceil(QUEUED / min(timed(one) for _ in range(3)))))
        graphs[name] = graph(work, calls[name])
        timed(graphs[name])
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    draw = random.Random(0)
    for _ in range(TURNS):  # in a drawn order: what runs before changes the clock
        for name in draw.sample(list(candidates), len(candidates)):
            taken[name].append(timed(graphs[name]) / calls[name])
    return taken


def records(size: Size, taken: Mapping[str, list[float]], errors: Mapping[str, float]) -> list[dict[str, Any]]:
    """Rates in operations per second, beside those of PyTorch's backends that ran."""
    work = operations(size.sequences * size.heads, size.n, size.width, size.causal)
    intervals = {name: median_interval(all_of_it) for name, all_of_it in taken.items()}
    found = []
    for name, interval in intervals.items():
        beside = {f"beside_{one}": intervals[one].value / interval.value for one in BACKENDS if one in intervals}
        found.append(
            {
                "name": name,
                "variant": "causal" if size.causal else "full",
                "metric": "rate",
                "value": work / interval.value,
                "unit": "FLOP/s",
                "shape": (size.sequences, size.heads, size.n, size.width),
                "dtype": "float16",
                "interval": (work / interval.high, work / interval.low),
                "conditions": f"median of {TURNS} turns of graphs, warm L2; visible pairs; sequences, heads, n, width",
                "extra": {"error": errors[name], **beside},
            }
        )
    return found


class Gradients:
    """One size of a backward pass: both ways to the gradients, and those of the first head in float64."""

    def __init__(self, size: Size) -> None:
        import torch

        self._size, self._dout = size, torch.randn_like(size.q)
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        self._forward = flash(size.q, size.k, size.v, 0.0, size.causal, False)[:2]
        exact = [array[0, 0].double().requires_grad_() for array in (size.q, size.k, size.v)]
        scores = exact[0] @ exact[1].T / math.sqrt(size.width)
        if size.causal:
            hidden = torch.ones(size.n, size.n, dtype=torch.bool, device="cuda").triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        self._right = torch.autograd.grad(torch.softmax(scores, dim=1) @ exact[2], exact, self._dout[0, 0].double())

    def torch(self) -> Work:
        """A function that queues PyTorch's gradients of its FlashAttention."""
        import torch

        size = self._size
        inputs = q, k, v = [array.detach().requires_grad_() for array in (size.q, size.k, size.v)]
        torch.cuda.synchronize()
        with torch.cuda.stream(stream()):  # a backward pass runs on its forward pass's stream
            out = Size.attention(q, k, v, size.causal, "flash")
        torch.cuda.synchronize()
        return lambda: torch.autograd.grad(out, inputs, self._dout, retain_graph=True)

    def ours(self) -> Work:
        """A function that queues both kernels."""
        import cupy
        import torch

        from systems.attention.backward import gradients

        size, (out, log_total) = self._size, self._forward
        found = [torch.empty_like(size.q) for _ in range(3)]
        given = size.q, size.k, size.v, out.contiguous(), self._dout, log_total.contiguous(), *found
        q, k, v, o, do, log, dq, dk, dv = (cupy.from_dlpack(array.flatten(0, 1)) for array in given)
        mean = cupy.empty(log.shape, "float32")

        def work() -> Any:
            gradients(q, k, v, o, do, log, size.causal, dq, dk, dv, mean)
            return found

        return work

    def error(self, work: Work) -> float:
        """The largest root mean square of a gradient's error in the first head, relative to that gradient's own."""
        found = zip(work()[:3], self._right, strict=True)
        return max(float(((a[0, 0].double() - b).square().mean() / b.square().mean()).sqrt()) for a, b in found)


def of_gradients(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Records of backward passes, with ten operations per visible pair and element: five products."""
    import torch

    found = []
    for width, n, causal in ((width, n, causal) for width in WIDTHS for n in OF_GRADIENTS for causal in (False, True)):
        size = Size(n, width, causal)
        both = Gradients(size)
        works = {"gradients": both.ours(), "flash": both.torch()}
        errors = {name: both.error(work) for name, work in works.items()}
        torch.cuda.synchronize()
        for one in records(size, seconds(works), errors):
            one |= {"variant": f"backward, {one['variant']}", "value": 2.5 * one["value"]}
            one["interval"] = tuple(2.5 * end for end in one["interval"])
            found.append(one)
            rate, error = one["value"] / 1e12, one["extra"]["error"]
            say(f"{n} keys, width {width}, {one['variant']}: {one['name']} {rate:.1f} TFLOP/s, error {error:.2e}")
        del size, both, works
        torch.cuda.empty_cache()
    return found


def geometric_means(found: list[dict[str, Any]]) -> list[str]:
    """Sentences: the last rung beside each backend, for each width."""
    said = []
    for width in WIDTHS:
        for other in BACKENDS:
            ratios = [
                one["extra"][f"beside_{other}"]
                for one in found
                if one["name"] == LAST and one["shape"][-1] == width and f"beside_{other}" in one["extra"]
            ]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                said.append(f"width {width}: {mean:.3f} times {other} in the geometric mean of {len(ratios)} sizes")
    return said


def measured(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """The records of all sizes, as far as SECONDS last: width 128 first, the longest first."""
    import torch

    began, found = time.monotonic(), []
    solutions = {name: of_source(name) for name in OURS}
    for width, n, causal in ((width, n, causal) for width in WIDTHS for n in LENGTHS for causal in (False, True)):
        if time.monotonic() - began > SECONDS:
            say(f"No time for {n} keys of width {width}, {'causal' if causal else 'full'}.")
            continue
        size, candidates, errors = Size(n, width, causal), {}, {}
        offered = {name: size.ours(attention) for name, attention in solutions.items()}
        offered |= {name: size.torch(name) for name in BACKENDS}
        for name, work in offered.items():
            try:
                errors[name] = size.error(work)
                candidates[name] = work
            except RuntimeError as error:
                if name not in BACKENDS:
                    raise
                say(f"{name}: {error}")  # a version of PyTorch may lack a backend
        taken = seconds(candidates)
        found += records(size, taken, errors)
        say(f"{time.monotonic() - began:.1f} s: n = {n}, width {width}, {'causal' if causal else 'full'}")
        for one in found[-len(taken) :]:
            say(f"  {one['name']:12} {one['value'] / 1e12:7.1f} TFLOP/s, error {one['extra']['error']:.2e}")
        del size, candidates, offered
        torch.cuda.empty_cache()
    return found


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
    keep(found, COMMAND, "attention_records")
    keep(of_gradients(say), COMMAND, "gradient_records")
    return 0


def keep(found: list[dict[str, Any]], command: str, name: str) -> None:
    """Write records into results/attention.json, and into the folder $OUT, there by `name` as they are too."""
    folder = os.environ.get("OUT")
    if folder:  # first as it is: the results' own form needs more packages
        (Path(folder) / f"{name}.json").write_text(json.dumps(found, indent=1))
    from course import results

    path = results.DIRECTORY / "attention.json"
    written = results.write(path, results.make_header(command), [results.Record(**one) for one in found], merge=True)
    if folder:
        shutil.copy(written, folder)
    print(f"Written: {written.name}")


if __name__ == "__main__":
    sys.exit(main())
