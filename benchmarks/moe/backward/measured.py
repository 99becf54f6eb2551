"""The backward pass of a layer beside PyTorch's: what is timed, and records of what the worker measured."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.moe.backward import plans, rivals
from benchmarks.moe.backward.contest import CHAIN, TORCH
from benchmarks.moe.ceilings import ceilings
from benchmarks.moe.layer.plans import LAYERS, Layer
from course import results
from warplab.errors import WarplabError
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.worker.process import Worker

TOKENS = 4096
SECONDS, PRECISION = (1.0, 1.0), 0.005
NAME = "backward/chain"
RIVALS = {
    rivals.GROUPED: "PyTorch, torch._grouped_mm in bf16 and what was kept, as a CUDA graph, same turns",
    rivals.LOOP: "PyTorch, autograd through a loop over experts in bf16, same turns",
}
PRODUCT = "PyTorch, torch._grouped_mm in bf16 alone as a CUDA graph, same turns"


def measured(worker: Worker, architecture: str) -> Iterator[list[results.Record]]:
    """The records of each layer, as soon as they are measured; what could not be measured is said and left out."""
    for layer in LAYERS:
        print(f"backward: {layer.name}, {TOKENS} tokens", flush=True)
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "backward.plan"
                plan = plans.captured("backward", plans.arguments(layer, TOKENS), architecture)
                save(assemble(plan, architecture), path)
                answer = worker.call(
                    "benchmarks.moe.backward.contest:timed",
                    timeout=100,
                    plan=str(path),
                    layer=asdict(layer),
                    tokens=TOKENS,
                    seconds=list(SECONDS),
                    precision=PRECISION,
                )
        except WarplabError as error:
            print(f"nothing measured for {layer.name}: {error}", file=sys.stderr, flush=True)
            continue
        for sentence in answer["wrong"]:
            print(sentence, file=sys.stderr, flush=True)
        if CHAIN in answer["us"]:
            made = records(layer, TOKENS, answer, ceilings())
            print("\n".join(said(record) for record in made), flush=True)
            yield made


def said(record: results.Record) -> str:
    """A record in one line."""
    beside = f"  {record.ratio:.3f} of {record.baseline}" if record.ratio and record.baseline else ""
    return f"  {record.metric:16} {record.variant:40} {record.value:12.4g} {record.unit}{beside}"


def records(
    layer: Layer, tokens: int, answer: Mapping[str, Any], ceiling: tuple[float, float] | None
) -> list[results.Record]:
    """The chain's time beside each rival; each kernel's time alone, beside torch's product, with its share of the
    roofline in `extra` where the GPU's ceilings are on record."""
    what = f"{answer['active']} experts have rows, the fullest {answer['fullest']}"
    common: dict[str, Any] = {
        "shape": (tokens, layer.experts, layer.k, layer.hidden, layer.inside),
        "dtype": "bfloat16",
    }
    found = []
    time = answer["us"][CHAIN]
    beside: list[str | None] = [name for name in RIVALS if name in answer["us"]]
    for rival in beside or [None]:
        against = answer["us"][rival]["value"] if rival else None
        found.append(
            results.Record(
                NAME,
                "time",
                time["value"],
                "us",
                variant=f"beside {rival}" if rival else "alone",
                interval=(time["low"], time["high"]),
                baseline=RIVALS[rival] if rival else None,
                baseline_value=against,
                ratio=against / time["value"] if against else None,
                conditions=f"N(0, 1) data, {what}, cold L2, CUDA events around a graph, {answer['turns']} turns",
                extra={"error": answer["error"][CHAIN], "active": answer["active"]},
                **common,
            )
        )
    work = plans.work(layer, tokens, answer["active"])
    for part in plans.LAUNCHES:
        time, (operations, moved) = answer["parts"][part], work[part]
        rival = answer["parts"].get(TORCH + part)
        extra: dict[str, Any] = {"flop": operations, "bytes": moved}
        if ceiling:
            least = max(operations / ceiling[0], moved / ceiling[1]) * 1e6
            extra |= {
                "roofline": least / time["value"],
                "bound": "products" if operations / ceiling[0] >= moved / ceiling[1] else "bytes",
            }
        found.append(
            results.Record(
                NAME,
                "time of a kernel",
                time["value"],
                "us",
                variant=part,
                interval=(time["low"], time["high"]),
                baseline=PRODUCT if rival else None,
                baseline_value=rival["value"] if rival else None,
                ratio=rival["value"] / time["value"] if rival else None,
                conditions=f"alone in a graph, {what}, cold L2, CUDA events",
                extra=extra,
                **common,
            )
        )
    return found
