"""Gradients of weights in FP8 beside those in bf16 and PyTorch's: which are timed, and records of what was measured."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.moe.backward import plans as backward
from benchmarks.moe.gradients_fp8 import plans, rivals
from benchmarks.moe.gradients_fp8.contest import BF16, FP8
from benchmarks.moe.layer.plans import LAYERS, Layer
from course import results
from systems.moe.gradients_fp8.quantise import slots
from warplab.errors import WarplabError
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.model import ArrayArgument, Role
from warplab.worker.process import Worker

TOKENS = 4096
SECONDS, PRECISION = 1.0, 0.005
NAME = "gradients_fp8/product"
RIVALS = {
    BF16: "the backward chain's product over tokens, bf16 in and out, same turns",
    rivals.BF16: "PyTorch, torch._grouped_mm, bf16 in and out, same turns",
    rivals.GROUPED: "PyTorch, its FP8 product of groups, a scale a line and expert, bf16 out, same turns",
    rivals.ROWS: "PyTorch, torch._scaled_mm for each expert, a scale a line, bf16 out, as a CUDA graph, same turns",
    rivals.BLOCKS: "PyTorch, scaled_mm for each expert, 1x128 and 1x128 blocks, bf16 out, as a CUDA graph, same turns",
}


def products(layer: Layer) -> dict[str, tuple[int, int]]:
    """Rows and columns of an expert's gradients, by the name of the weights."""
    return {"down": (layer.hidden, layer.inside), "gate and up": (2 * layer.inside, layer.hidden)}


def files(layer: Layer, tokens: int, m: int, n: int, architecture: str, folder: Path) -> dict[str, str]:
    """Files of our two plans. Raises CaptureFailure."""
    rows, experts = tokens * layer.k, layer.experts
    bf16 = (
        ArrayArgument("dy", "uint16", (rows, m), Role.INPUT),
        ArrayArgument("x", "uint16", (rows, n), Role.INPUT),
        ArrayArgument("first", "int32", (experts,), Role.INPUT),
        ArrayArgument("count", "int32", (experts,), Role.INPUT),
        ArrayArgument("dw", "uint16", (experts, m, n), Role.OUTPUT),
    )
    made = {
        FP8: plans.captured(plans.arguments(slots(rows, experts), experts, m, n), architecture),
        BF16: backward.captured("k_grouped", bf16, architecture),
    }
    for name, plan in made.items():
        save(assemble(plan, architecture), folder / f"{name}.plan")
    return {name: str(folder / f"{name}.plan") for name in made}


def measured(worker: Worker, architecture: str) -> Iterator[list[results.Record]]:
    """The records of each layer's products, as soon as they are measured; what could not be is said and left out."""
    for layer in LAYERS:
        for which, (m, n) in products(layer).items():
            print(f"gradients_fp8: {layer.name}, {which}, {TOKENS} tokens", flush=True)
            try:
                with tempfile.TemporaryDirectory() as folder:
                    answer = worker.call(
                        "benchmarks.moe.gradients_fp8.contest:timed",
                        timeout=100,
                        plans=files(layer, TOKENS, m, n, architecture, Path(folder)),
                        layer=asdict(layer),
                        tokens=TOKENS,
                        m=m,
                        n=n,
                        seconds=SECONDS,
                        precision=PRECISION,
                    )
            except WarplabError as error:
                print(f"nothing measured for {layer.name}, {which}: {error}", file=sys.stderr, flush=True)
                continue
            for sentence in answer["wrong"]:
                print(sentence, file=sys.stderr, flush=True)
            if FP8 in answer["us"]:
                made = records(layer, which, TOKENS, answer)
                print("\n".join(said(record) for record in made), flush=True)
                yield made


def said(record: results.Record) -> str:
    """A record in one line."""
    beside = f"  {record.ratio:.3f} of {record.baseline}" if record.ratio else ""
    return f"  {record.variant:44} {record.value:10.1f} {record.unit}{beside}"


def records(layer: Layer, which: str, tokens: int, answer: Mapping[str, Any]) -> list[results.Record]:
    """The FP8 product's time beside each rival that ran, or alone. `extra` has operations, and the bytes that it has
    to move if codes and scales are read once and gradients of all experts written."""
    m, n = products(layer)[which]
    rows, time = tokens * layer.k, answer["us"][FP8]
    found = []
    beside: list[str | None] = [name for name in RIVALS if name in answer["us"]]
    for rival in beside or [None]:
        against = answer["us"][rival]["value"] if rival else None
        found.append(
            results.Record(
                NAME,
                "time",
                time["value"],
                "us",
                variant=f"{which}, beside {rival}" if rival else f"{which}, alone",
                shape=(tokens, layer.experts, layer.k, m, n),
                dtype="float8_e4m3fn",
                interval=(time["low"], time["high"]),
                baseline=RIVALS[rival] if rival else None,
                baseline_value=against,
                ratio=against / time["value"] if against else None,
                conditions=(
                    f"N(0, 1) data, {answer['active']} experts have rows, the fullest {answer['fullest']}, "
                    f"float32 out, cold L2, CUDA events around a graph, {answer['turns']} turns"
                ),
                extra={
                    "error": answer["error"][FP8],
                    "baseline_error": answer["error"][rival] if rival else None,
                    "flop": 2.0 * rows * m * n,
                    "bytes": (1 + 4 / 128) * rows * (m + n) + 4.0 * layer.experts * m * n,
                },
            )
        )
    return found
