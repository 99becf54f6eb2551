"""Times PyTorch's version of every operator of warplab.hardware.operators, beside a copy, into results/operators.json;
and one matrix product on numbers that cost little power and much.

Run as `python -m benchmarks.operators` on a GPU with PyTorch. The notebook on the roofline shows what it finds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from course import results
from warplab.errors import WarplabError
from warplab.hardware.device import present
from warplab.hardware.operators import OPERATORS, Operator
from warplab.worker.process import Worker

FILE = results.DIRECTORY / "operators.json"
SECONDS = 1.0  # of turns for one operator
COPIED = 1 << 28  # bytes
SIDE = 8192  # of the product whose power is measured
SETTLING, SUSTAINED = 1.0, 1.5  # seconds; the power limit takes hold within the first


class _Call:
    """A PyTorch function as a candidate."""

    launches = 1

    def __init__(self, stream: Any, work: Callable[[], Any]) -> None:
        import torch

        self._torch, self._work = torch, work
        self._stream = torch.cuda.ExternalStream(int(stream.handle))
        self.launch()  # loads and chooses its kernels
        self._stream.synchronize()

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the work."""
        with self._torch.cuda.stream(self._stream), self._torch.inference_mode():
            self._work()

    def check(self, turn: int) -> None:
        """Nothing to check: the results are the library's own."""


def work_of(operator: Operator) -> tuple[Callable[[], Any], str]:
    """A function that makes PyTorch do the operator on random data, and how PyTorch calls it."""
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    d, dtype = operator.dimensions, getattr(torch, operator.dtype)

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)

    if operator.name == "axpy":
        x, y = random(d["n"]), random(d["n"])
        return lambda: y.add_(x, alpha=0.5), "y.add_(x, alpha=a)"
    if operator.name == "dot":
        x, y = random(d["n"]), random(d["n"])
        return lambda: torch.dot(x, y), "torch.dot"
    if operator.name == "transpose":
        x, out = random(d["rows"], d["columns"]), random(d["columns"], d["rows"])
        return lambda: out.copy_(x.T), "out.copy_(x.T)"
    if operator.name == "stencil":
        x = random(1, 1, d["rows"], d["columns"])
        taps = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]], device="cuda").reshape(1, 1, 3, 3)
        return lambda: functional.conv2d(x, taps, padding=1), "conv2d with a 3 x 3 filter"
    if operator.name == "softmax":
        x = random(d["rows"], d["columns"])
        return lambda: torch.softmax(x, -1), "torch.softmax"
    if operator.name == "layernorm":
        x, w, b = random(d["rows"], d["columns"]), random(d["columns"]), random(d["columns"])
        return lambda: functional.layer_norm(x, (d["columns"],), w, b), "layer_norm"
    if operator.name == "embedding":
        table = random(128256, d["width"])
        index = torch.randperm(128256, device="cuda")[: d["tokens"]]
        return lambda: functional.embedding(index, table), "embedding, distinct random rows of 128,256"
    if operator.name.startswith("attention"):
        shape = d["batch"], d["heads"], d["queries"], d["width"]
        q = random(*shape)
        k, v = (random(d["batch"], d["kv_heads"], d["keys"], d["width"]) for _ in range(2))

        def attend() -> Any:
            with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
                return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

        return attend, "scaled_dot_product_attention"
    if operator.name == "convolution":
        x = random(d["images"], d["channels"], d["height"], d["width"]).to(memory_format=torch.channels_last)
        w = random(d["filters"], d["channels"], d["side"], d["side"]).to(memory_format=torch.channels_last)
        return lambda: functional.conv2d(x, w, padding=d["side"] // 2), "conv2d, channels last (cuDNN)"
    a, b = random(d["m"], d["k"]), random(d["k"], d["n"])
    return lambda: torch.matmul(a, b), "torch.matmul (cuBLAS)"


def timed(number: int) -> dict[str, Any]:
    """In the worker: one operator raced against a copy of 256 MiB."""
    import torch

    from warplab.gpu.executor import on_stream
    from warplab.gpu.stopwatch import time_in_turns

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    work, how = work_of(OPERATORS[number])
    source, target = (torch.empty(COPIED, dtype=torch.uint8, device="cuda") for _ in range(2))
    with on_stream() as stream:
        pair = {"it": _Call(stream, work), "copy": _Call(stream, lambda: target.copy_(source))}
        result = time_in_turns(pair, stream, budget_seconds=SECONDS, precision=0.004)
        it, copy = result.time("it"), result.time("copy")
    return {"ms": it.value, "low": it.low, "high": it.high, "copy_ms": copy.value, "how": how, "turns": result.turns}


def sustained(data: str) -> dict[str, float]:
    """In the worker: the product of square matrices of zeros, ones or N(0, 1), over and over: seconds, watts, Hz."""
    import time

    import pynvml
    import torch

    torch.manual_seed(0)
    make = {"zeros": torch.zeros, "ones": torch.ones, "N(0, 1)": torch.randn}[data]
    a, b = (make(SIDE, SIDE, device="cuda").half() for _ in range(2))
    out = torch.empty_like(a)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def repeat(count: int) -> None:
        begin.record()
        for _ in range(count):
            torch.matmul(a, b, out=out)
        end.record()

    repeat(3)  # loads and chooses its kernel
    torch.cuda.synchronize()
    repeat(10)
    end.synchronize()
    one = begin.elapsed_time(end) / 10 / 1e3
    repeat(int(SETTLING / one))
    torch.cuda.synchronize()
    count = int(SUSTAINED / one)
    repeat(count)
    time.sleep(0.6 * SUSTAINED)
    pynvml.nvmlInit()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    watts = pynvml.nvmlDeviceGetPowerUsage(card) / 1e3
    clock = pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM) * 1e6
    end.synchronize()
    return {"seconds": begin.elapsed_time(end) / 1e3 / count, "watts": watts, "sm_clock": clock, "count": count}


def power(worker: Worker) -> list[results.Record]:
    """The same product on three kinds of numbers, each beside that of N(0, 1)."""
    seen = {
        data: worker.call("benchmarks.operators:sustained", timeout=60, data=data)
        for data in ("N(0, 1)", "ones", "zeros")
    }
    records = []
    for data, found in seen.items():
        rate, usual = (2.0 * SIDE**3 / s["seconds"] for s in (found, seen["N(0, 1)"]))
        records.append(
            results.Record(
                "matrix product",
                "sustained rate",
                rate,
                "FLOP/s",
                variant=data,
                shape=(SIDE, SIDE, SIDE),
                dtype="float16",
                baseline="the product of N(0, 1)",
                baseline_value=usual,
                ratio=rate / usual,
                conditions=f"torch.matmul (cuBLAS), {found['count']} in a row after {SETTLING} s of the same",
                extra={"watts": found["watts"], "sm_clock": found["sm_clock"]},
            )
        )
        clock = found["sm_clock"] / 1e6
        print(f"product of {data:8} {rate / 1e12:7.1f} TFLOP/s  {found['watts']:5.0f} W  {clock:5.0f} MHz", flush=True)
    return records


def record(operator: Operator, seen: dict[str, Any]) -> results.Record:
    """The bytes a second that the operator's compulsory traffic comes to, beside those of the copy."""
    moved = operator.bytes * 1e3
    copy = 2 * COPIED / seen["copy_ms"] * 1e3
    return results.Record(
        operator.name,
        "rate",
        moved / seen["ms"],
        "B/s",
        shape=tuple(operator.dimensions.values()),
        dtype=operator.dtype,
        interval=(moved / seen["high"], moved / seen["low"]),
        baseline="copy of 256 MiB, same turns",
        baseline_value=copy,
        ratio=moved / seen["ms"] / copy,
        conditions=f"{seen['how']}; compulsory bytes over the time; random data, cold L2, {seen['turns']} turns",
        extra={
            "ms": seen["ms"],
            "flops": operator.flops,
            "bytes": operator.bytes,
            "flop_rate": operator.flops / seen["ms"] * 1e3,
        },
    )


def line(operator: Operator, seen: dict[str, Any], made: results.Record) -> str:
    """One row of the table."""
    assert made.baseline_value is not None
    rate = operator.flops / seen["ms"] / 1e9
    return (
        f"{operator.name:20} {operator.intensity:9.3f} FLOP/B  {seen['ms']:8.4f} ms  {rate:8.2f} TFLOP/s  "
        f"{made.value / 1e12:6.3f} TB/s  copy {made.baseline_value / 1e12:.3f}  {seen['how']}"
    )


def main() -> int:
    """Measure all. Exit code 0, or 3 if there is no GPU or an operator cannot be timed; the others are kept."""
    if present() is None:
        print("There is no GPU here to time operators on.", file=sys.stderr)
        return 3
    header, records, whole = results.make_header("python -m benchmarks.operators"), [], True
    with Worker() as worker:  # one for all: PyTorch takes long to load
        for number, operator in enumerate(OPERATORS):
            try:
                seen = worker.call("benchmarks.operators:timed", timeout=120, number=number)
            except WarplabError as error:
                print(f"{operator.name}: {error}", file=sys.stderr)
                whole = False
                continue
            records.append(record(operator, seen))
            print(line(operator, seen, records[-1]), flush=True)
        try:
            records += power(worker)
        except WarplabError as error:
            print(f"power: {error}", file=sys.stderr)
            whole = False
    if records:
        results.write(FILE, header, records)
    return 0 if whole else 3


if __name__ == "__main__":
    sys.exit(main())
