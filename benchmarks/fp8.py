"""Times the block-scaled FP8 products of lab 09 beside PyTorch's at DeepGEMM's published shapes, into results/fp8.json.

For every shape the most promising choices of `rung_5_any_shape` are raced; the fastest then runs in the same turns as
torch's `_scaled_mm` with one scale a tensor (accurate and fast accumulation), torch's own product of 1 x 128 and
128 x 128 blocks, and a bfloat16 product. Run as `python -m benchmarks.fp8` on a Hopper GPU with PyTorch.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean
from types import ModuleType
from typing import Any

from autograder.spec.lab import solutions_folder
from course import results
from course.loading import module_of
from warplab.errors import WarplabError
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Role
from warplab.worker.process import Worker

FILE = results.DIRECTORY / "fp8.json"
FOLDER = solutions_folder() / "09_fp8_gemm"
BEST, PLAIN = "rung_5_any_shape", "submission"
ROWS = (64, 128, 4096)
# (n, k) at which DeepGEMM publishes its dense products (github.com/deepseek-ai/DeepGEMM, README)
WEIGHTS = ((2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048))
SHAPES = tuple((m, n, k) for m in ROWS for n, k in WEIGHTS)
RACED = 24  # choices for a shape
RACE_SECONDS, SECONDS, PRECISION = 0.5, 0.6, 0.004
BASELINES = {
    "tensor-wise": "torch._scaled_mm, one scale a tensor, accurate accumulation, same turns",
    "tensor-wise fast": "torch._scaled_mm, one scale a tensor, fast accumulation, same turns",
    "blocks": "torch scaled_mm, 1x128 and 128x128 blocks, same turns",
    "bfloat16": "torch.matmul in bfloat16, same turns",
}

Shape = tuple[int, int, int]
Choice = tuple[Any, ...]

# Wrong for scales that differ along k: what promotion costs
UNPROMOTED: tuple[Choice, ...] = ((128, 192, 1, 1, "none"), (128, 256, 2, 1, "none"))


def call(function: str, shape: Shape) -> HostCall:
    """A product of that shape by one of a rung's functions."""
    m, n, k = shape
    blocks, panels = -(-k // 128), -(-n // 128)
    return HostCall(
        function,
        (
            ArrayArgument("x8", "uint8", (m, k), Role.INPUT),
            ArrayArgument("x_scale", "float32", (blocks, m), Role.INPUT),
            ArrayArgument("w8", "uint8", (n, k), Role.INPUT),
            ArrayArgument("w_scale", "float32", (panels, blocks), Role.INPUT),
            ArrayArgument("y", "float16", (m, n), Role.OUTPUT),
        ),
    )


def best_rung() -> ModuleType:
    """The last rung as a module, for what it can choose."""
    return module_of(FOLDER / f"{BEST}.py")


def promising(rung: ModuleType, shape: Shape) -> list[Choice]:
    """The choices to race: those that its own estimate puts first."""
    ranked = sorted(rung.choices(*shape), key=lambda choice: rung.estimate(*shape, *choice))
    return [*ranked[:RACED], *(UNPROMOTED if shape[0] > 128 else ())]


def name_of(choice: Choice) -> str:
    """A choice in one word: tile, cluster, parts of k, accumulators."""
    tile_m, tile_n, cluster, splits, style = choice
    shared = f"-by{cluster}" if cluster > 1 else ""
    parts = f"-k{splits}" if splits > 1 else ""
    return f"{tile_m}x{tile_n}{shared}{parts}-{style}"


def captured(wanted: Mapping[Choice, Sequence[Shape]], architecture: str, folder: Path) -> dict[tuple, str]:
    """Files of plans by shape and choice; each choice is compiled once for all of its shapes."""
    source = (FOLDER / f"{BEST}.py").read_text("utf-8")

    def make(choice: Choice) -> dict[tuple, str]:
        stem = name_of(choice)
        path = folder / f"by_{stem.replace('-', '_')}.py"
        body = f"    multiply_by({choice!r}, x8, x_scale, w8, w_scale, y)\n"
        path.write_text(f"{source}\n\ndef chosen(x8, x_scale, w8, w_scale, y):\n{body}", "utf-8")
        made = {}
        try:
            plans = capture(path, [call("chosen", shape) for shape in wanted[choice]], (architecture,))
            for shape, plan in zip(wanted[choice], plans, strict=True):
                made[shape, choice] = str(folder / f"{stem}_{'_'.join(map(str, shape))}.plan")
                save(assemble(plan, architecture), Path(made[shape, choice]))
        except WarplabError as error:
            print(f"{choice} is left out: {error}", file=sys.stderr, flush=True)
        return made

    files: dict[tuple, str] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for made in pool.map(make, wanted):
            files |= made
    return files


def plain(architecture: str, folder: Path) -> dict[Shape, str]:
    """Files of plans of the lab's reference, by shape."""
    shapes = [shape for shape in SHAPES if shape[0] > 128]
    files = {}
    plans = capture(FOLDER / f"{PLAIN}.py", [call("multiply", shape) for shape in shapes], (architecture,))
    for shape, plan in zip(shapes, plans, strict=True):
        files[shape] = str(folder / f"plain_{'_'.join(map(str, shape))}.plan")
        save(assemble(plan, architecture), Path(files[shape]))
    return files


def records(shape: Shape, answer: Mapping[str, Any]) -> list[results.Record]:
    """One for each of our products and each of torch's that ran in the same turns."""
    work = 2.0 * shape[0] * shape[1] * shape[2]
    found = []
    for ours, name in (("best", BEST), ("plain", PLAIN)):
        for library, words in BASELINES.items():
            if ours not in answer["ms"] or library not in answer["ms"]:
                continue
            time, rival = answer["ms"][ours], answer["ms"][library]
            found.append(
                results.Record(
                    f"09_fp8_gemm/{name}",
                    "rate",
                    work / time["value"] * 1e3,
                    "FLOP/s",
                    variant=f"beside {library}",
                    shape=shape,
                    dtype="float8_e4m3fn",
                    interval=(work / time["high"] * 1e3, work / time["low"] * 1e3),
                    baseline=words,
                    baseline_value=work / rival["value"] * 1e3,
                    ratio=rival["value"] / time["value"],
                    conditions=f"N(0, 1) data, cold L2, CUDA events, {answer['turns']} turns",
                    extra={"choice": answer["choice"] if ours == "best" else None, "error": answer["error"][ours]},
                )
            )
    return found


def raced(shape: Shape, answer: Mapping[str, Any]) -> list[results.Record]:
    """One for each choice that was raced."""
    return [
        results.Record(
            f"09_fp8_gemm/{BEST}",
            "time",
            milliseconds,
            "ms",
            variant=f"choice {name}",
            shape=shape,
            dtype="float8_e4m3fn",
            conditions="raced among the choices, cold L2",
        )
        for name, milliseconds in answer["raced"].items()
    ]


def main() -> int:
    """Measure; exit code 3 if there is nothing to measure on."""
    device = present()
    if device is None:
        print("There is no GPU here to time products on.", file=sys.stderr)
        return 3
    rung = best_rung()
    header = results.make_header("python -m benchmarks.fp8")
    file = results.of_gpu(FILE, header.gpu)
    wanted: dict[Choice, list[Shape]] = {}
    for shape in SHAPES:
        for choice in promising(rung, shape):
            wanted.setdefault(choice, []).append(shape)
    architecture = architecture_of(device)
    made: list[results.Record] = []
    with tempfile.TemporaryDirectory() as folder, Worker() as worker:
        files = captured(wanted, architecture, Path(folder))
        references = plain(architecture, Path(folder))
        for shape in SHAPES:
            try:
                answer = worker.call(
                    "benchmarks.gemm.fp8_contest:timed",
                    timeout=120,
                    plans={name_of(c): f for (s, c), f in files.items() if s == shape},
                    plain=references.get(shape, ""),
                    shape=shape,
                    seconds=[RACE_SECONDS, SECONDS],
                    precision=PRECISION,
                )
            except WarplabError as error:
                print(f"nothing measured for {shape}: {error}", file=sys.stderr, flush=True)
                continue
            for sentence in answer["wrong"]:
                print(sentence, file=sys.stderr, flush=True)
            made += records(shape, answer) + raced(shape, answer)
            results.write(file, header, made)  # whoever ends it early keeps what there is
            print(_line(shape, answer), flush=True)
    for m in ROWS:
        for library in BASELINES:
            ratios = [r.ratio for r in made if r.ratio and r.shape[0] == m and r.variant == f"beside {library}"
                      and r.name.endswith(BEST)]  # fmt: skip
            if ratios:
                print(f"m = {m}: {geometric_mean(ratios):.3f} times {library}, least {min(ratios):.3f}")
    return 0


def _line(shape: Shape, answer: Mapping[str, Any]) -> str:
    work = 2.0 * shape[0] * shape[1] * shape[2]
    rates = "  ".join(f"{name} {work / time['value'] / 1e9:.0f}" for name, time in answer["ms"].items())
    return f"{'x'.join(map(str, shape)):18} {answer['choice']:22} TFLOP/s: {rates}; error {answer['error']}"


if __name__ == "__main__":
    sys.exit(main())
