"""The functions of `systems.kernels` other than matmul beside PyTorch, for `benchmarks.products`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import exp, log
from random import Random
from statistics import geometric_mean
from typing import Any

from benchmarks.gemm.contest import check
from benchmarks.moe.shuffle import Captured, chain
from benchmarks.timed_recipes import PRECISION, SECONDS, Ours, compile_all
from course import results
from systems.kernels import fp8, fp8_matmul, grouped, routing, shuffle
from systems.kernels.arrays import Described, described, library_of
from systems.kernels.fp8 import Choice
from systems.kernels.recipes import Recipe

SEED, DRAWN, MOST = 56, 24, 16384
TOKENS = (256, 4096, 16384)
EXPERTS = 32
OF_GROUPS = tuple(
    Choice(rows, columns, 1, 1, style)
    for rows, columns, style in (
        (128, 256, "half"),
        (128, 192, "one"),
        (128, 128, "two"),
        (64, 128, "two"),
        (64, 192, "one"),
    )
)


def beside(
    stream: Any, name: str, recipe: Recipe, arrays: Mapping[str, Any], call: Callable[[], Any]
) -> tuple[float, float]:
    """Microseconds of a recipe and of a call of torch in a CUDA graph, timed in alternation."""
    import torch

    from warplab.gpu.stopwatch import time_in_turns

    candidates: dict[str, Any] = {
        name: Ours(recipe, stream, arrays),
        "torch": Captured(call, torch.cuda.ExternalStream(int(stream.handle))),
    }
    result = time_in_turns(candidates, stream, budget_seconds=SECONDS, precision=PRECISION)
    return result.time(name).value * 1e3, result.time("torch").value * 1e3


def fp8_products(stream: Any, say: Callable[[str], None]) -> list[results.Record]:
    """`fp8_matmul` beside torch._scaled_mm with one scale, which does less work, for drawn shapes."""
    import torch

    random, sizes = Random(SEED), []
    for _ in range(DRAWN):
        m, n, k = (round(exp(random.uniform(log(least), log(MOST)))) for least in (1, 128, 128))
        sizes.append((m, n // 16 * 16, k // 16 * 16))
    cases = []
    for m, n, k in sizes:
        of = {name: (shape, "float8_e4m3fn") for name, shape in (("x", (m, k)), ("w", (n, k)))}
        of |= {"x_scale": ((-(-k // 128), m), "float32"), "w_scale": ((-(-n // 128), -(-k // 128)), "float32")}
        of["out"] = ((m, n), "float16")
        cases.append(
            fp8.recipe(**{name: Described(shape, (shape[1], 1), kind, 0, True) for name, (shape, kind) in of.items()})
        )
    made = [recipe for recipe in cases if recipe is not None]
    say(f"fp8: {compile_all(made)} kernels are compiled")
    found = []
    for (m, n, k), recipe in zip(sizes, made, strict=True):
        torch.manual_seed(0)
        x, w = (torch.randn(size, device="cuda").to(torch.float8_e4m3fn) for size in ((m, k), (n, k)))
        one, out = torch.ones((), device="cuda"), torch.empty((m, n), device="cuda", dtype=torch.float16)
        arrays = {"x": x, "w": w, "x_scale": torch.ones((-(-k // 128), m), device="cuda")}
        arrays |= {"w_scale": torch.ones((-(-n // 128), -(-k // 128)), device="cuda"), "out": out}
        expected = torch._scaled_mm(x, w.t(), one, one, out_dtype=torch.bfloat16)
        fp8_matmul(*arrays.values())
        torch.cuda.synchronize()
        check(recipe.chosen, out, expected.float(), 16 * k, "bfloat16")
        call = partial(torch._scaled_mm, x, w.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=False)
        ours, theirs = beside(stream, recipe.chosen, recipe, arrays, call)
        say(f"fp8 {m}x{n}x{k}: {theirs / ours:.3f}  {recipe.chosen} {ours:.1f}  torch {theirs:.1f}")
        found.append(
            results.Record(
                "fp8_matmul", "time", ours, "us", "drawn", (m, n, k), "float8_e4m3fn", None,
                "torch._scaled_mm, one scale, accurate sums, same turns", theirs, theirs / ours,
                "N(0, 1) data, cold L2, CUDA events", {"choice": recipe.chosen},
            )
        )  # fmt: skip
    ratios = [record.ratio for record in found if record.ratio]
    say(f"fp8: geometric mean {geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    return found


def shuffles(stream: Any, say: Callable[[str], None]) -> list[results.Record]:
    """`shuffle` beside the faster of two CUDA graphs of torch, for 8 of 128 experts per token."""
    import torch

    found = []
    for tokens in TOKENS:
        torch.manual_seed(0)
        scores, ones = (
            torch.randn((tokens, 128), device="cuda"),
            torch.ones(tokens * 8, device="cuda", dtype=torch.int64),
        )
        made = shuffle(scores, 8)
        arrays = {"scores": scores, **made._asdict()}
        library = library_of("scores", scores)
        recipe = routing.recipe(8, **{name: described(name, library.describe(one)) for name, one in arrays.items()})
        torch.cuda.synchronize()
        calls = (partial(chain, scores, ones, narrow) for narrow in (False, True))
        took = [beside(stream, recipe.chosen, recipe, arrays, call) for call in calls]
        ours, theirs = min(took, key=lambda pair: pair[1])
        say(f"shuffle of {tokens} tokens: {theirs / ours:.2f}  {recipe.chosen} {ours:.2f}  torch {theirs:.2f}")
        found.append(
            results.Record(
                "shuffle", "time", ours, "us", f"{tokens} tokens", (tokens, 128, 8), "float32", None,
                "torch.topk, stable torch.sort, count: the faster of two CUDA graphs, same turns", theirs,
                theirs / ours,
                "N(0, 1) data, cold L2, CUDA events", {"choice": recipe.chosen},
            )
        )  # fmt: skip
    return found


def groups(stream: Any, say: Callable[[str], None]) -> list[results.Record]:
    """FP8 products of groups in room for more rows, by each choice of tiles: microseconds, printed and not recorded."""
    import torch

    from warplab.gpu.stopwatch import time_in_turns

    most = 256
    for rows, n, k in ((20, 6144, 7168), (192, 6144, 7168), (192, 7168, 2048)):
        sizes = (most * EXPERTS, k), (EXPERTS * n, k)
        x, w = (torch.randn(size, device="cuda").to(torch.float8_e4m3fn) for size in sizes)
        arrays = {"x": x, "w": w.view(EXPERTS, n, k), "x_scale": torch.ones(k // 128, most * EXPERTS, device="cuda")}
        arrays["w_scale"] = torch.ones(EXPERTS, n // 128, k // 128, device="cuda")
        arrays["first"] = torch.arange(EXPERTS, device="cuda", dtype=torch.int32) * most
        arrays["count"] = torch.full((EXPERTS,), rows, device="cuda", dtype=torch.int32)
        arrays["out"] = torch.empty(most * EXPERTS, n, device="cuda", dtype=torch.float16)
        library = library_of("x", x)
        of = {name: described(name, library.describe(array)) for name, array in arrays.items()}
        made = [grouped.by(choice, most, of["x"], of["w"], of["x_scale"]) for choice in OF_GROUPS]
        compile_all(made)
        candidates = {recipe.chosen: Ours(recipe, stream, arrays) for recipe in made}
        torch.cuda.synchronize()
        result = time_in_turns(candidates, stream, budget_seconds=SECONDS, precision=PRECISION)
        took = "  ".join(f"{name} {result.time(name).value * 1e3:.1f}" for name in candidates)
        say(f"{EXPERTS} groups of {rows} rows, n = {n}, k = {k}: {took}")
    return []


OTHERS: dict[str, Callable[[Any, Callable[[str], None]], list[results.Record]]] = {
    "fp8": fp8_products,
    "shuffle": shuffles,
    "groups": groups,
}
