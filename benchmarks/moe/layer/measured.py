"""A whole layer beside PyTorch's: what is raced, and records of what the worker measured."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import fp8
from benchmarks.moe.ceilings import ceilings
from benchmarks.moe.grouped import DENSE as DENSE_CHOICES
from benchmarks.moe.grouped import name_of
from benchmarks.moe.layer import plans
from benchmarks.moe.layer.contest import DENSE
from benchmarks.moe.layer.plans import Layer
from benchmarks.moe.layer.rivals import GROUPED, LOOP, SCALED
from course import results
from warplab.errors import WarplabError
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.model import Plan
from warplab.worker.process import Worker

SECONDS, PRECISION = (0.6, 0.8, 0.4), 0.005
RIVALS = {
    "chain": "the labs' kernels as a CUDA graph, same turns",
    "three kernels": "the one kernel's source in three launches as a CUDA graph, same turns",
    LOOP: "PyTorch, a loop over experts, weights in bf16, same turns",
    GROUPED: "PyTorch, torch._grouped_mm in bf16 as a CUDA graph, same turns",
    SCALED: "PyTorch, its FP8 product of groups, a scale a row, as a CUDA graph, same turns",
}

Key = tuple[Layer, int, str, str]  # layer, tokens, kind and name of a plan


def jobs() -> dict[tuple[Layer, str, str], tuple[Any, list[int]]]:
    """What is compiled: by layer, kind and name its option and the numbers of tokens that it is for."""
    found: dict[tuple[Layer, str, str], tuple[Any, list[int]]] = {}
    for layer in plans.LAYERS:
        for tokens in (*plans.DECODE, *plans.PREFILL):
            if tokens <= plans.MOST_TOKENS:
                for launches, kind in ((1, "one kernel"), (3, "three kernels")):
                    found.setdefault((layer, kind, "only"), (launches, []))[1].append(tokens)
            for products in plans.chain_choices(tokens):
                name = products if products == plans.WIDE else ", ".join(map(name_of, products))
                found.setdefault((layer, "chain", name), (products, []))[1].append(tokens)
    return found


def captured(architecture: str, folder: Path) -> dict[Key, str]:
    """Files of plans; what cannot be made is said and left out."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:

        def saved(plan: Plan, path: Path) -> str:
            save(assemble(plan, architecture), path)
            return str(path)

        def make(number: int, layer: Layer, kind: str, option: Any, sizes: list[int]) -> list[Plan]:
            mine = folder / str(number)
            mine.mkdir()
            if kind == "chain":
                return plans.chain(layer, sizes, architecture, mine, option)
            return plans.one_kernel(layer, sizes, architecture, mine, option)

        wanted = jobs()
        made = {key: pool.submit(make, number, key[0], key[1], *wanted[key]) for number, key in enumerate(wanted)}
        files: dict[Key, Future[str]] = {}
        for number, (key, future) in enumerate(made.items()):
            layer, kind, name = key
            try:
                for tokens, plan in zip(wanted[key][1], future.result(), strict=True):
                    path = folder / str(number) / f"{tokens}.plan"
                    files[layer, tokens, kind, name] = pool.submit(saved, plan, path)
            except WarplabError as error:
                print(f"{key} is left out: {error}", file=sys.stderr, flush=True)
        found: dict[Key, str] = {}
        for whose, file in files.items():
            try:
                found[whose] = file.result()
            except WarplabError as error:
                print(f"{whose} is left out: {error}", file=sys.stderr, flush=True)
        return found


def dense_shapes(layer: Layer, tokens: int) -> dict[str, fp8.Shape]:
    """m, n and k of dense products of as many rows, by the names that the worker gives them."""
    rows = tokens * layer.k
    return dict(zip(DENSE, ((rows, 2 * layer.inside, layer.hidden), (rows, layer.hidden, layer.inside)), strict=True))


def measured(worker: Worker, architecture: str) -> Iterator[list[results.Record]]:
    """The records of each layer and number of tokens, as soon as they are measured."""
    recorded = ceilings()
    copy = recorded[1] if recorded else None
    with tempfile.TemporaryDirectory() as folder:
        print("layer: compiling", flush=True)
        files = captured(architecture, Path(folder))
        shapes = [s for layer in plans.LAYERS for t in plans.PREFILL for s in dense_shapes(layer, t).values()]
        dense = fp8.captured(dict.fromkeys(DENSE_CHOICES, shapes), architecture, Path(folder))
        for layer in plans.LAYERS:
            for tokens in (*plans.DECODE, *plans.PREFILL):
                prefill = tokens in plans.PREFILL
                print(f"layer: {layer.name}, {tokens} tokens", flush=True)
                mine = [
                    (kind, name, path)
                    for (whose, t, kind, name), path in files.items()
                    if (whose, t) == (layer, tokens)
                ]
                try:
                    answer = worker.call(
                        "benchmarks.moe.layer.contest:timed",
                        timeout=60,
                        plans={k: {n: p for kind, n, p in mine if kind == k} for k in {kind for kind, *_ in mine}},
                        dense={
                            name: {fp8.name_of(c): file for (s, c), file in dense.items() if s == shape}
                            for name, shape in dense_shapes(layer, tokens).items()
                            if prefill
                        },
                        layer=asdict(layer),
                        tokens=tokens,
                        seconds=list(SECONDS),
                        precision=PRECISION,
                        torch_too=True,
                    )
                except WarplabError as error:
                    print(f"nothing measured for {layer.name}, {tokens} tokens: {error}", file=sys.stderr, flush=True)
                    continue
                for sentence in answer["wrong"]:
                    print(sentence, file=sys.stderr, flush=True)
                if answer["us"]:
                    made = records(layer, tokens, answer, copy)
                    print(said(layer, answer, copy), flush=True)
                    yield made


def weights_read(layer: Layer, active: int) -> float:
    """Bytes of the codes of `active` experts' three matrices, the least that a layer reads."""
    return 3.0 * active * layer.hidden * layer.inside


def said(layer: Layer, answer: Mapping[str, Any], copy: float | None) -> str:
    """What was measured, in a few lines."""
    read = weights_read(layer, answer["active"])
    lines = [f"  {answer['active']} experts have rows, the fullest {answer['fullest']}; {answer['turns']} turns"]
    for name, time in answer["us"].items():
        choice, us = answer["choice"].get(name), time["value"]
        error = answer["error"].get(f"{name} {choice}" if choice else name, float("nan"))
        rate = " " * 27
        if copy and "bf16" not in name:
            rate = f"{read / us * 1e6 / copy:7.1%} of copy, FP8 weights"
        lines.append(f"  {name:20} {us:9.1f} us  {rate}  error {error:.2e}  {choice or ''}")
    us = {name: time["value"] for name, time in answer["us"].items()}
    if {"one kernel", "chain"} <= us.keys():
        times = [f"{us[rival] / us['one kernel']:.2f} times as fast as {rival}" for rival in RIVALS if rival in us]
        lines.append(f"  one kernel: {', '.join(times)}")
    parts = {name: time["value"] for name, time in answer["parts"].items()}
    if parts:
        lines.append("  alone, us: " + ", ".join(f"{part_name(n, answer)} {t:.1f}" for n, t in parts.items()))
    if pair := {name: time["value"] for name, time in answer["pair"].items()}:
        rate = f"{pair['dense'] / pair['chain']:.1%} of the dense rate"
        lines.append(f"  chain {pair['chain']:.1f} us, both dense products {pair['dense']:.1f} us: {rate}")
    lines.append("  raced, us: " + ", ".join(f"{n} {t:.1f}" for n, t in sorted(answer["raced"].items())))
    return "\n".join(lines)


def part_name(number: str, answer: Mapping[str, Any]) -> str:
    """What a kernel of the chain does, by its number; a dense product by its name."""
    return number if number in DENSE else plans.launches(answer["choice"]["chain"] == plans.WIDE)[int(number)]


def records(layer: Layer, tokens: int, answer: Mapping[str, Any], copy: float | None) -> list[results.Record]:
    """Time beside each rival, and weights read beside the copy if that is known, of both ways; and of each part of the
    chain its time."""
    found = []
    read = weights_read(layer, answer["active"])
    common: dict[str, Any] = {
        "shape": (tokens, layer.experts, layer.k, layer.hidden, layer.inside),
        "dtype": "float8_e4m3fn",
    }
    what = f"{answer['active']} experts have rows, the fullest {answer['fullest']}"
    conditions = f"N(0, 1) data, {what}, cold L2, CUDA events around a graph, {answer['turns']} turns"
    for kind, choice in answer["choice"].items():
        if kind in DENSE:
            continue  # not a way to compute a layer
        name, time = f"layer/{kind.replace(' ', '_')}", answer["us"][kind]
        extra = {"choice": choice, "error": answer["error"][f"{kind} {choice}"], "active": answer["active"]}
        for rival, words in RIVALS.items():
            if rival == kind or rival not in answer["us"]:
                continue
            against = answer["us"][rival]["value"]
            found.append(
                results.Record(
                    name,
                    "time",
                    time["value"],
                    "us",
                    variant=f"beside {rival}",
                    interval=(time["low"], time["high"]),
                    baseline=words,
                    baseline_value=against,
                    ratio=against / time["value"],
                    conditions=conditions,
                    extra=extra,
                    **common,
                )
            )
        if copy is None:
            continue
        rate = read / time["value"] * 1e6
        found.append(
            results.Record(
                name,
                "weights read",
                rate,
                "B/s",
                interval=(read / time["high"] * 1e6, read / time["low"] * 1e6),
                baseline="copy of ceilings.json",
                baseline_value=copy,
                ratio=rate / copy,
                conditions=conditions,
                extra=extra,
                **common,
            )
        )
    if pair := {name: time["value"] for name, time in answer["pair"].items()}:
        work = 6.0 * tokens * layer.k * layer.hidden * layer.inside
        against = work / pair["dense"] * 1e6
        found.append(
            results.Record(
                "layer/chain",
                "rate",
                work / pair["chain"] * 1e6,
                "FLOP/s",
                baseline="lab 09's rung_5_any_shape, a graph of two products of as many rows by one expert's weights",
                baseline_value=against,
                ratio=pair["dense"] / pair["chain"],
                conditions=f"N(0, 1) data, {what}, cold L2, CUDA events around a graph, in turns with nothing else",
                extra={"choice": answer["choice"]["chain"], "dense": [answer["choice"][name] for name in DENSE]},
                **common,
            )
        )
    for part, time in answer["parts"].items():
        found.append(
            results.Record(
                "layer/chain",
                "time of a kernel",
                time["value"],
                "us",
                variant=part_name(part, answer),
                interval=(time["low"], time["high"]),
                conditions=f"alone, {what}, cold L2, CUDA events, in turns with the others",
                extra={"choice": answer["choice"][part if part in DENSE else "chain"]},
                **common,
            )
        )
    for name, us in answer["raced"].items():
        found.append(
            results.Record(
                "layer/choices", "time", us, "us", variant=name, conditions="raced among the choices, cold L2", **common
            )
        )
    return found
