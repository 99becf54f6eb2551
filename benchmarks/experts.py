"""Times what a mixture of experts needs beside PyTorch, into results/experts.json.

shuffle   lab 10's reference: 16 to 16,384 tokens and the experts of five models, against torch.topk, a stable
          torch.sort and a count, each as one CUDA graph, in the same turns, with a cold L2 and with a warm one
grouped   lab 11's products for prefill (4 groups of 8192 rows, 8 of 4096) and decode (32 groups of about 20), beside
          torch's FP8 products of groups and a dense product of lab 09, in the same turns, with a cold L2
layer     a whole layer, from scores to outputs, of DeepSeek-V3 (32 of its experts) and Llama 4 Scout, for 1 to 4,096
          tokens: in one kernel, as a chain of the labs' kernels, and by torch, in the same turns, with a cold L2
backward  gradients of those layers in bf16 for 4,096 tokens, as a chain of seven kernels, four of them products of
          groups, and by torch, in the same turns, with a cold L2; each kernel alone beside its roofline
gradients_fp8  gradients of those layers' weights in FP8 with scales for 1 x 128 on both sides, beside the bf16 product
          of `backward` and torch's products in bf16 and FP8, for 4,096 tokens, in the same turns, with a cold L2

Run as `python -m benchmarks.experts` on a Hopper GPU, or name the parts.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from autograder.spec.lab import find_lab, solutions_folder
from autograder.spec.task import Task
from benchmarks.moe import grouped
from benchmarks.moe.backward import measured as backward
from benchmarks.moe.gradients_fp8 import measured as gradients_fp8
from benchmarks.moe.layer import measured as layer
from benchmarks.moe.shuffle import NARROW, OURS, WIDE
from course import results
from warplab.errors import WarplabError
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.model import Plan
from warplab.worker.process import Worker

FILE = results.DIRECTORY / "experts.json"
LAB, REFERENCE = "10_index_shuffle", "submission_cuda"
TOKENS = (16, 64, 256, 1024, 4096, 16384)
SECONDS = 0.6  # of turns for all numbers of tokens of one model
BASELINE = "torch.topk, stable torch.sort, count: the faster of two CUDA graphs, same turns"


@dataclass(frozen=True)
class Router:
    """What a router chooses: `k` of `experts`."""

    experts: int
    k: int


ROUTERS = (Router(16, 1), Router(32, 4), Router(128, 4), Router(128, 8), Router(320, 8))


def plans_of(task: Task, router: Router, architecture: str) -> dict[int, Plan]:
    """The reference's plan for each number of tokens, assembled."""
    sizes = [{"tokens": tokens, "k": router.k, "experts": router.experts} for tokens in TOKENS]
    calls = [task.host_call(size, {"k": router.k}) for size in sizes]
    plans = capture(solutions_folder() / LAB / f"{REFERENCE}.py", calls, (architecture,), timeout=120)
    return {tokens: assemble(plan, architecture) for tokens, plan in zip(TOKENS, plans, strict=True)}


def shuffle(worker: Worker, architecture: str) -> Iterator[list[results.Record]]:
    """Records of each router, one for each number of tokens and state of the L2: microseconds beside PyTorch's."""
    task = find_lab(LAB).task
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = dict(zip(ROUTERS, pool.map(lambda router: plans_of(task, router, architecture), ROUTERS), strict=True))
    records: list[results.Record] = []
    with tempfile.TemporaryDirectory() as folder:
        for router, plans in made.items():
            files = {str(tokens): str(Path(folder) / f"{tokens}.plan") for tokens in plans}
            for tokens, plan in plans.items():
                save(plan, Path(files[str(tokens)]))
            for warm in (False, True):
                made_now = measure(worker, files, router, warm)
                records += made_now
                yield made_now
    for variant in ("cold", "warm"):
        if ratios := [r.ratio for r in records if r.variant == variant and r.ratio]:
            mean = geometric_mean(ratios)
            print(f"{variant}: {len(ratios)} shapes, geometric mean {mean:.2f}, least {min(ratios):.2f}", flush=True)


def measure(worker: Worker, files: dict[str, str], router: Router, warm: bool) -> list[results.Record]:
    """The records of one router; what could not be measured is said and left out."""
    try:
        answer = worker.call(
            "benchmarks.moe.shuffle:timed",
            timeout=60,
            plans=files,
            experts=router.experts,
            k=router.k,
            warm=warm,
            seconds=SECONDS,
        )
    except WarplabError as error:
        answer = {"wrong": [f"nothing measured for {router}: {error}"]}
    for sentence in answer["wrong"]:
        print(sentence, file=sys.stderr, flush=True)
    return [record(answer, tokens, router, warm) for tokens in map(int, files) if f"{tokens} {OURS}" in answer]


def record(answer: dict[str, Any], tokens: int, router: Router, warm: bool) -> results.Record:
    """The record of one shape, and its line."""
    ours, rivals = answer[f"{tokens} {OURS}"], {name: answer[f"{tokens} {name}"]["us"] for name in (WIDE, NARROW)}
    best = min(rivals.values())
    state = "warm" if warm else "cold"
    print(
        f"{tokens:6} tokens {router.experts:4} experts k = {router.k}  {state}  {ours['us']:8.2f} us  "
        f"torch {rivals[WIDE]:8.2f} us, narrow {rivals[NARROW]:8.2f} us  {best / ours['us']:6.2f}",
        flush=True,
    )
    return results.Record(
        f"{LAB}/{REFERENCE}",
        "time",
        ours["us"],
        "us",
        variant=state,
        shape=(tokens, router.experts, router.k),
        dtype="float32",
        interval=(ours["low"], ours["high"]),
        baseline=BASELINE,
        baseline_value=best,
        ratio=best / ours["us"],
        conditions=f"distinct scores in random order, {state} L2, CUDA events around a graph, {answer['turns']} turns",
        extra={"torch_int64_us": rivals[WIDE], "torch_int16_us": rivals[NARROW]},
    )


def replaced(records: Sequence[results.Record], old: results.Record) -> bool:
    """Whether `old` is of a chain's kernels or of a race that `records` have anew: with other choices there are other
    kernels and other runners."""
    whole = old.metric == "time of a kernel" or old.name.endswith("/choices")
    return whole and any((old.name, old.metric, old.shape) == (new.name, new.metric, new.shape) for new in records)


PARTS: dict[str, Callable[[Worker, str], Iterator[list[results.Record]]]] = {
    "shuffle": shuffle,
    "grouped": grouped.measured,
    "layer": layer.measured,
    "backward": backward.measured,
    "gradients_fp8": gradients_fp8.measured,
}


def main(arguments: Sequence[str]) -> int:
    """Measure the parts named, or all. Exit code 0, or 2 for an unknown part, 3 if it cannot be measured."""
    if unknown := set(arguments) - set(PARTS):
        print(f"There is no part named {unknown.pop()}: parts are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    try:
        device = present()
        if device is None:
            raise WarplabError("There is no GPU here to time routing and products on.")
        header = results.make_header(" ".join(["python -m benchmarks.experts", *arguments]))
        records: list[results.Record] = []
        with Worker() as worker:
            for part in arguments or PARTS:
                for made in PARTS[part](worker, architecture_of(device)):
                    records += made
                    if records:  # whoever ends it early keeps what there is
                        results.write(FILE, header, records, merge=True, stale=partial(replaced, records))
        if not records:
            raise WarplabError("Nothing could be measured: the sentences above say why.")
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
