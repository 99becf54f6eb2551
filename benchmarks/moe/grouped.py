"""The products of lab 11 beside PyTorch's: which shapes, which plans, and records of what the worker measured."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from autograder.spec.lab import find_lab, solutions_folder
from benchmarks import fp8
from course import results
from course.loading import module_of
from warplab.errors import WarplabError
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Role, ScalarArgument
from warplab.worker.process import Worker

LAB = "11_grouped_gemm"
FOLDER = solutions_folder() / LAB
BEST, PLAIN = "rung_4_shared_strips", "submission"
RACE_SECONDS, SECONDS, PRECISION = 0.8, 0.8, 0.004
# Dense products of the first expert's shape: what won in the records of fp8.json, and what came next
DENSE: tuple[fp8.Choice, ...] = (
    (128, 192, 2, 1, "one"),
    (128, 256, 1, 1, "half"),
    (128, 256, 2, 1, "half"),
)
BASELINES = {
    "grouped fast": "torch's product of groups, one scale a row, fast accumulation, same turns",
    "grouped": "torch's product of groups, one scale a row, accurate accumulation, same turns",
    "dense": "lab 09's rung_5_any_shape for one expert's rows, same turns",
    "dense, all rows": "lab 09's rung_5_any_shape for as many rows, one expert's weights, same turns",
}

Choice = tuple[Any, ...]


@dataclass(frozen=True)
class Setting:
    """One product of groups. Rows of expert e are firsts[e] to firsts[e] + counts[e] of `slots`."""

    name: str
    counts: tuple[int, ...]
    most: int  # rows that there is room for, of one expert
    masked: bool
    n: int
    k: int

    @property
    def slots(self) -> int:
        """Rows of x8 and of y."""
        return len(self.counts) * self.most if self.masked else sum(self.counts)

    @property
    def firsts(self) -> list[int]:
        """The first row of each expert."""
        if self.masked:
            return [self.most * e for e in range(len(self.counts))]
        return [sum(self.counts[:e]) for e in range(len(self.counts))]

    @property
    def layout(self) -> dict[str, Any]:
        """What the worker makes inputs of."""
        return {"counts": list(self.counts), "firsts": self.firsts, "slots": self.slots, "n": self.n, "k": self.k}

    @property
    def work(self) -> float:
        """Floating-point operations."""
        return 2.0 * sum(self.counts) * self.n * self.k

    @property
    def weights(self) -> float:
        """Bytes of w8 that have to be read: those of experts that have rows."""
        return float(sum(count > 0 for count in self.counts) * self.n * self.k)

    def call(self, function: str) -> HostCall:
        """The product by one of a rung's functions."""
        experts, blocks, panels = len(self.counts), -(-self.k // 128), -(-self.n // 128)
        return HostCall(
            function,
            (
                ScalarArgument("most", self.most if self.masked else self.slots),
                ArrayArgument("x8", "uint8", (self.slots, self.k), Role.INPUT),
                ArrayArgument("x_scale", "float32", (blocks, self.slots), Role.INPUT),
                ArrayArgument("w8", "uint8", (experts, self.n, self.k), Role.INPUT),
                ArrayArgument("w_scale", "float32", (experts, panels, blocks), Role.INPUT),
                ArrayArgument("first", "int32", (experts,), Role.INPUT),
                ArrayArgument("count", "int32", (experts,), Role.INPUT),
                ArrayArgument("y", "float16", (self.slots, self.n), Role.OUTPUT),
            ),
        )


def about(rows: int, experts: int) -> tuple[int, ...]:
    """Between 0.7 and 1.3 times `rows` for each expert, always the same."""
    draw = Random(rows)
    return tuple(draw.randint(round(0.7 * rows), round(1.3 * rows)) for _ in range(experts))


# Shapes at which DeepGEMM publishes its products of groups (github.com/deepseek-ai/DeepGEMM, README of v1)
SETTINGS = (
    Setting("contiguous", (8192,) * 4, 8192, False, 4096, 7168),
    Setting("contiguous", (4096,) * 8, 4096, False, 7168, 2048),
    Setting("masked", about(20, 32), 128, True, 4096, 7168),
    Setting("masked", about(20, 32), 128, True, 7168, 2048),
)


def best_rung() -> ModuleType:
    """The last rung as a module, for what it can choose."""
    return module_of(FOLDER / f"{BEST}.py")


def name_of(choice: Choice) -> str:
    """A choice in one word: tile, cluster, accumulators."""
    tile_m, tile_n, cluster, style = choice
    return f"{tile_m}x{tile_n}{f'-by{cluster}' if cluster > 1 else ''}-{style.replace(' ', '-')}"


def captured(architecture: str, folder: Path) -> dict[tuple[str, Setting], str]:
    """Files of plans by name of the choice ("plain" for the lab's reference) and setting; each is compiled once."""
    rung, source = best_rung(), (FOLDER / f"{BEST}.py").read_text("utf-8")
    wanted: dict[Choice, list[Setting]] = {}
    for setting in SETTINGS:
        for choice in rung.choices(setting.most):
            wanted.setdefault(choice, []).append(setting)

    def files_of(name: str, path: Path, function: str, settings: Sequence[Setting]) -> dict[tuple[str, Setting], str]:
        made = {}
        plans = capture(path, [setting.call(function) for setting in settings], (architecture,), timeout=120)
        for number, (setting, plan) in enumerate(zip(settings, plans, strict=True)):
            made[name, setting] = str(folder / f"{name}_{number}.plan")
            save(assemble(plan, architecture), Path(made[name, setting]))
        return made

    def chosen(choice: Choice) -> Callable[[], dict[tuple[str, Setting], str]]:
        name = name_of(choice)
        path = folder / f"by_{name.replace('-', '_')}.py"
        parameters = ", ".join(argument.name for argument in find_lab(LAB).task.arguments)
        body = f"    multiply_by({choice!r}, {parameters})\n"
        path.write_text(f"{source}\n\ndef chosen({parameters}):\n{body}", "utf-8")
        return lambda: files_of(name, path, "chosen", wanted[choice])

    jobs = {name_of(choice): chosen(choice) for choice in wanted}
    jobs["plain"] = lambda: files_of("plain", FOLDER / f"{PLAIN}.py", "grouped_gemm", SETTINGS)
    files: dict[tuple[str, Setting], str] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {name: pool.submit(job) for name, job in jobs.items()}
        for name, future in futures.items():
            try:
                files |= future.result()
            except WarplabError as error:
                print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
    return files


def dense_shapes(setting: Setting) -> tuple[fp8.Shape, fp8.Shape]:
    """m, n and k of the first expert's product, and of one of all rows; masked rows do not lie together."""
    return (setting.counts[0], setting.n, setting.k), (sum(setting.counts), setting.n, setting.k)


def measured(worker: Worker, architecture: str) -> Iterator[list[results.Record]]:
    """The records of each setting, as soon as it is measured; what could not be measured is said and left out."""
    with tempfile.TemporaryDirectory() as folder:
        print("grouped: compiling", flush=True)
        files = captured(architecture, Path(folder))
        shapes = [shape for setting in SETTINGS if not setting.masked for shape in dense_shapes(setting)]
        dense = fp8.captured(dict.fromkeys(DENSE, shapes), architecture, Path(folder))
        for setting in SETTINGS:
            line = f"{setting.name} {len(setting.counts)} x {setting.n} x {setting.k}"
            print(f"grouped: {line}", flush=True)
            mine = {name: file for (name, where), file in files.items() if where == setting and name != "plain"}
            one, all_rows = (
                {fp8.name_of(c): file for (shape, c), file in dense.items() if shape == wanted}
                for wanted in dense_shapes(setting)
            )
            try:
                answer = worker.call(
                    "benchmarks.moe.grouped_contest:timed",
                    timeout=90,
                    plans=mine,
                    dense=one,
                    whole=all_rows,
                    plain=files.get(("plain", setting), ""),
                    layout=setting.layout,
                    seconds=[RACE_SECONDS, SECONDS],
                    precision=PRECISION,
                )
            except WarplabError as error:
                print(f"nothing measured for {line}: {error}", file=sys.stderr, flush=True)
                continue
            for sentence in answer["wrong"]:
                print(sentence, file=sys.stderr, flush=True)
            if answer["ms"]:
                print(said(setting, answer), flush=True)
                yield records(setting, answer)


def rate(setting: Setting, name: str, milliseconds: float) -> float:
    """FLOP/s, or for masked groups bytes of weights a second; a dense product has one expert's rows."""
    if setting.masked:
        return setting.weights / milliseconds * 1e3
    work = 2.0 * setting.counts[0] * setting.n * setting.k if name == "dense" else setting.work
    return work / milliseconds * 1e3


def said(setting: Setting, answer: Mapping[str, Any]) -> str:
    """One line of what was measured."""
    unit, scale = ("TB/s", 1e12) if setting.masked else ("TFLOP/s", 1e12)
    rates = "  ".join(f"{name} {rate(setting, name, time['value']) / scale:.4g}" for name, time in answer["ms"].items())
    raced = ", ".join(f"{name} {ms * 1e3:.1f}" for name, ms in sorted(answer["raced"].items(), key=lambda x: x[1]))
    return f"  {unit}: {rates}; choice {answer['choice']}; error {answer['error']}\n  raced, us: {raced}"


def records(setting: Setting, answer: Mapping[str, Any]) -> list[results.Record]:
    """One for each of our products beside each that ran in the same turns, and one for each choice that was raced."""
    found = []
    common: dict[str, Any] = {
        "shape": (len(setting.counts), setting.n, setting.k),
        "dtype": "float8_e4m3fn",
    }
    what = f"{sum(setting.counts)} rows, {min(setting.counts)} to {max(setting.counts)} an expert"
    for ours, file in (("best", BEST), ("plain", PLAIN)):
        for rival, words in BASELINES.items():
            if ours not in answer["ms"] or rival not in answer["ms"]:
                continue
            time, other = answer["ms"][ours], answer["ms"][rival]
            value, against = rate(setting, ours, time["value"]), rate(setting, rival, other["value"])
            found.append(
                results.Record(
                    f"{LAB}/{file}",
                    "weights read" if setting.masked else "rate",
                    value,
                    "B/s" if setting.masked else "FLOP/s",
                    variant=f"{setting.name}, beside {rival}",
                    interval=(rate(setting, ours, time["high"]), rate(setting, ours, time["low"])),
                    baseline=words,
                    baseline_value=against,
                    ratio=value / against,
                    conditions=f"N(0, 1) data, {what}, cold L2, CUDA events, {answer['turns']} turns",
                    extra={
                        "choice": answer["choice"].get(ours),
                        "error": answer["error"][ours],
                        "ms": time["value"],
                        "rows": sum(setting.counts),
                    },
                    **common,
                )
            )
        if ours in answer["ms"] and not any(rival in answer["ms"] for rival in BASELINES):
            time = answer["ms"][ours]
            found.append(
                results.Record(
                    f"{LAB}/{file}",
                    "weights read" if setting.masked else "rate",
                    rate(setting, ours, time["value"]),
                    "B/s" if setting.masked else "FLOP/s",
                    variant=f"{setting.name}, alone",
                    interval=(rate(setting, ours, time["high"]), rate(setting, ours, time["low"])),
                    conditions=f"N(0, 1) data, {what}, cold L2, CUDA events, {answer['turns']} turns",
                    extra={"choice": answer["choice"].get(ours), "error": answer["error"][ours]},
                    **common,
                )
            )
    for name, milliseconds in answer["raced"].items():
        if not name.startswith(("dense ", "all rows ")):
            found.append(
                results.Record(
                    f"{LAB}/{BEST}",
                    "time",
                    milliseconds,
                    "ms",
                    variant=f"{setting.name}, choice {name}",
                    conditions="raced among the choices, cold L2",
                    **common,
                )
            )
    return found
