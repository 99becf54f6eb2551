"""Times `systems.kernels.matmul` beside torch.matmul in alternation, cold L2, and prints the choices.

squares   2048, 4096, 8192 and 16384 cubed
shapes    the shapes of benchmarks.bench_gemm, and of benchmarks.fp8 for 64 and 4096 rows
drawn     200 shapes: sizes evenly by their logarithm, half no multiples of 8, transposed operands
held      200 others drawn with another seed, to which nothing is fitted
fp8       `fp8_matmul` beside torch's product with one scale, for drawn shapes
shuffle   `shuffle` beside torch.topk, a stable sort and a count, in one CUDA graph
groups    FP8 products of groups by each choice of tiles
calls     the time of a first call, and the host's time for a later one

Run as `python -m benchmarks.products` on a Hopper GPU with PyTorch, or name the parts. All kernels are compiled first,
side by side. Each measured shape is appended to products.jsonl in the folder $OUT, or in build, and is not measured
again. At the end all shapes go into results/products.json; `groups` and `calls` only print. Other forms run beside the
chosen one, to check the model. No shape begins after LONGEST seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from pathlib import Path
from random import Random
from statistics import geometric_mean, median
from typing import Any

from benchmarks.bench_gemm import ODD
from benchmarks.bench_gemm import drawn as drawn_of_ladder
from benchmarks.fp8 import WEIGHTS
from benchmarks.functions import OTHERS
from benchmarks.gemm.contest import Library, check
from benchmarks.timed_recipes import PRECISION, SECONDS, Ours, compile_all
from course import results
from systems.kernels.arrays import Described
from systems.kernels.chips import Chip, chip_of
from systems.kernels.half_matmul import chosen, product
from systems.kernels.half_recipes import Choice, Problem
from systems.kernels.model import choose, ranked
from systems.kernels.recipes import Recipe
from systems.search.half_product import HalfChoice, named
from warplab.errors import WarplabError

FILE = results.DIRECTORY / "products.json"
SEED, HELD_SEED, DRAWN, MOST = 56, 5602, 200, 16384
ALTERNATIVES = 0  # forms beside the chosen one, and beside the best with copies and the best of each lean form
LONGEST = 150.0  # seconds after which no other shape begins
WORTH = 1.5  # times the estimate of the chosen form, up to which lean forms run beside it
LARGE = 4096  # rows, columns and k from which the ladder's last forms run too
OF_THE_LADDER = ("warpgroups_128_256_64_4_1_2_stays", "warpgroups_128_128_64_6_1_2_stays")
CALLS, QUEUED = 2000, 200  # calls whose host time is taken; how many fit into the queue at a time


@dataclass(frozen=True)
class Case:
    """A product, and whether a and b are transposes in memory."""

    m: int
    n: int
    k: int
    a_turned: bool = False
    b_turned: bool = False

    @property
    def name(self) -> str:
        """Sizes, and how the operands lie: n as they are, t transposed."""
        return f"{self.m}x{self.n}x{self.k}{'nt'[self.a_turned]}{'nt'[self.b_turned]}"

    @property
    def described(self) -> tuple[Described, Described]:
        """The operands, as new arrays."""
        sides = ((self.m, self.k, self.a_turned), (self.k, self.n, self.b_turned))
        return tuple(  # type: ignore[return-value]
            Described((rows, columns), (1, rows) if turned else (columns, 1), "float16", 0, True)
            for rows, columns, turned in sides
        )


def squares() -> list[Case]:
    """Cubes."""
    return [Case(size, size, size) for size in (2048, 4096, 8192, 16384)]


def shapes() -> list[Case]:
    """Shapes of other benchmarks; the FP8 products have their weights transposed in memory."""
    found = [Case(*shape) for shape in (*drawn_of_ladder(), *ODD)]
    return found + [Case(m, n, k, False, True) for m in (64, 4096) for n, k in WEIGHTS]


def drawn(seed: int = SEED) -> list[Case]:
    """Shapes drawn with a seed, every other one in multiples of 8."""
    random, found = Random(seed), []
    for number in range(DRAWN):
        m, n, k = (round(exp(random.uniform(0, log(MOST)))) for _ in range(3))
        if number % 2:
            m, n, k = (max(8, size // 8 * 8) for size in (m, n, k))
        found.append(Case(m, n, k, random.random() < 0.3, random.random() < 0.5))
    return found


def held() -> list[Case]:
    """As `drawn`, with another seed."""
    return drawn(HELD_SEED)


PARTS: dict[str, Callable[[], list[Case]]] = {"squares": squares, "held": held, "drawn": drawn, "shapes": shapes}


def offers(case: Case) -> list[Recipe]:
    """The recipe that is chosen, then those of the next forms, alike in all but stages only once, and the ladder's."""
    chip, (a, b) = chip_of(0), case.described
    problems: list[Problem] = []

    def noted(problem: Problem, chip: Chip) -> Choice:
        problems.append(problem)
        return choose(problem, chip)

    found = [product(a, b, None, chip, noted)]
    seen: set[tuple[Any, ...]] = set()
    ways: set[Any] = set()  # the best with copies and without, and of each lean form
    estimates = ranked(problems[0], chip)
    for seconds, choice in estimates:
        form = choice.form
        lean = not isinstance(form, HalfChoice)
        way: Any = type(form) if lean else choice.copies
        kind = (replace(form, stages=0) if isinstance(form, HalfChoice) else form, choice.copies, choice.parts)
        new = (kind not in seen and len(seen) <= ALTERNATIVES) or way not in ways
        if new and (not lean or seconds < WORTH * estimates[0][0]):
            found.append(product(a, b, None, chip, partial(_given, choice)))
        seen.add(kind)
        ways.add(way)
    if min(case.m, case.n) >= LARGE <= case.k:
        loose = problems[0].loose
        found += [product(a, b, None, chip, partial(_given, Choice(named(name), loose))) for name in OF_THE_LADDER]
    return list({recipe.chosen: recipe for recipe in found if recipe is not None}.values())


def _given(choice: Choice, problem: Problem, chip: Chip) -> Choice:
    return choice


def measured(case: Case, recipes: Sequence[Recipe], stream: Any) -> dict[str, Any]:
    """Microseconds of torch and of each recipe, the chosen one first."""
    import torch

    from warplab.gpu.stopwatch import time_in_turns

    torch.manual_seed(0)
    sides = ((case.m, case.k, case.a_turned), (case.k, case.n, case.b_turned))
    a, b = (
        torch.randn((columns, rows) if turned else (rows, columns), device="cuda", dtype=torch.float16)
        for rows, columns, turned in sides
    )
    a, b = a.t() if case.a_turned else a, b.t() if case.b_turned else b
    expected = torch.matmul(a.float(), b.float())
    torch.cuda.synchronize()
    candidates: dict[str, Any] = {"torch": Library(stream, a, b)}
    wrong = []
    for recipe in recipes:
        c = torch.full((case.m, case.n), float("nan"), device="cuda", dtype=torch.float16)
        torch.cuda.synchronize()
        ours = Ours(recipe, stream, {"a": a, "b": b, "c": c})
        ours.launch()
        torch.cuda.synchronize()
        try:
            check(recipe.chosen, c, expected, case.k, "float16")
        except WarplabError as error:
            wrong.append(f"{case.name}: {error}")
            continue
        candidates[recipe.chosen] = ours
    result = time_in_turns(candidates, stream, budget_seconds=SECONDS, precision=PRECISION)
    took = {name: result.time(name).value * 1e3 for name in candidates}
    return {"case": case.name, "chosen": recipes[0].chosen, "us": took, "wrong": wrong}


def records(case: Case, part: str, line: Mapping[str, Any]) -> list[results.Record]:
    """One of the chosen form beside torch; none of a wrong product."""
    took, name = line["us"], line["chosen"]
    if name not in took:
        return []
    others = {other: us for other, us in took.items() if other not in ("torch", name)}
    variant = f"{part}, {case.name[-2:]}"
    return [
        results.Record(
            "matmul", "time", took[name], "us", variant, (case.m, case.n, case.k), "float16", None,
            "torch.matmul (cuBLAS), same turns", took["torch"], took["torch"] / took[name],
            "N(0, 1) data, cold L2, CUDA events; n or t: a and b as they are or transposes in memory",
            {"choice": name, "others": others},
        )
    ]  # fmt: skip


def records_of(lines: Iterable[Mapping[str, Any]]) -> list[results.Record]:
    """Records of measured shapes, each once, in the first part that has it and from its last line."""
    of = {case.name: (case, part) for part, every in reversed(PARTS.items()) for case in every()}
    last = {line["case"]: line for line in lines}
    return [record for name, line in last.items() for record in records(*of[name], line)]


def calls(say: Callable[[str], None]) -> None:
    """How long the first call takes, and the host for a later one, beside torch's."""
    import torch

    from systems.kernels import matmul

    a, b = (torch.randn(256, 256, device="cuda", dtype=torch.float16) for _ in range(2))
    torch.cuda.synchronize()
    began = time.perf_counter()
    matmul(a, b)
    torch.cuda.synchronize()
    say(f"first call {time.perf_counter() - began:.2f} s ({chosen(a, b)}), compiled or from the cache")
    out = torch.empty_like(a)
    for name, given in (("a new result", {}), ("out given", {"out": out})):
        took = {}
        for kind, function in (("torch", torch.matmul), ("ours", matmul)):
            each = []
            for _ in range(CALLS // QUEUED):
                torch.cuda.synchronize()
                began = time.perf_counter()
                for _ in range(QUEUED):
                    function(a, b, **given)
                each.append((time.perf_counter() - began) / QUEUED * 1e6)
            took[kind] = median(each)
        say(f"host time of a call, {name}: ours {took['ours']:.2f} us, torch {took['torch']:.2f} us")


def main(arguments: list[str]) -> int:
    """Measure the parts named, or all. Exit code 2 for an unknown part, 3 without a GPU."""
    all_parts = ["calls", *PARTS, *OTHERS]
    if unknown := set(arguments) - {*all_parts}:
        print(f"There is no part named {unknown.pop()}: parts are {', '.join(all_parts)}.", file=sys.stderr)
        return 2
    try:
        import torch

        torch.zeros(1, device="cuda")
        from warplab.gpu import executor
    except Exception:
        print("This needs a GPU, CuPy and PyTorch.", file=sys.stderr)
        return 3
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    parts = arguments or all_parts
    if "calls" in parts:
        calls(say)
    made = []
    with executor.on_stream() as stream:
        for part in (name for name in OTHERS if name in parts):
            made += OTHERS[part](stream, say)
    folder = Path(os.environ.get("OUT") or "build")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "products.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    known = {line["case"]: line for line in lines}
    for part in (name for name in PARTS if name in parts):
        if time.monotonic() - began > LONGEST:
            say(f"no time for {part}: run it again")
            break
        cases = [case for case in dict.fromkeys(PARTS[part]()) if case.name not in known]
        recipes = {case: offers(case) for case in cases}
        count = compile_all(recipe for each in recipes.values() for recipe in each)
        say(f"{part}: {count} kernels are compiled")
        ratios = []
        with executor.on_stream() as stream:
            for case in cases:
                if time.monotonic() - began > LONGEST:
                    say(f"no time for {case.name} and later shapes: run it again")
                    break
                line = known[case.name] = measured(case, recipes[case], stream)
                with file.open("a", encoding="utf-8") as to:
                    to.write(json.dumps(line) + "\n")
                for sentence in line["wrong"]:
                    say(f"WRONG {sentence}")
                took = line["us"]
                if line["chosen"] in took:
                    ratios.append(took["torch"] / took[line["chosen"]])
                    others = "  ".join(f"{name} {us:.1f}" for name, us in took.items() if name != line["chosen"])
                    say(f"{case.name:22} {ratios[-1]:.3f}  {line['chosen']} {took[line['chosen']]:.1f}  {others}")
                torch.cuda.empty_cache()
        if ratios:
            say(f"{part}: {len(ratios)} shapes, geometric mean {geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    found = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    made += records_of(found)
    if made:
        results.write(FILE, results.make_header("python -m benchmarks.products"), made, merge=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
