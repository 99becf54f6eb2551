"""Chapter 16: what its cells compute and draw beside the kernels, the proposers and the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
from IPython.display import Markdown, display
from matplotlib.figure import Figure

from course import results
from course.chapters.spoken import dimensions
from course.figures.averages import Raced, arithmetic, by_time, geometric
from course.figures.found_by_trial import found_by_trial
from course.kernel_cell import KernelCell
from course.lesson import table
from course.measured import measured, needed, results_of
from systems.search import half_product as tensor_product
from systems.search import product
from systems.search.by_words import TRANSCRIPT, Transcript
from systems.search.half_product import HalfChoice
from systems.search.product import Choice
from systems.search.proposers import ByChance, ByEvolution, ByGuess
from systems.search.trials import NEAR, Proposer, trials_needed
from warplab.hardware.chips import H200

Shape = tuple[int, int, int]
SQUARE, FLAT = (256, 256, 64), (32, 1024, 64)
RIVALS = ("torch.matmul", "cuBLAS", "cuBLASLt heuristic", "cuBLASLt autotuned")
PROTOCOLS = ("device time", "offline time", "offline time of a graph", "server latency", "server latency of a graph")
FUSED_SHAPES = ((131072, 512), (16384, 4096), (1024, 65536), (4096, 4096), (256, 4096), (32, 1024))
CORPORA = {
    "reference": "the solutions",
    "correct": "other right kernels",
    "wrong": "slips",
    "mutant": "references with one change",
    "exploit": "attacks on the judge",
}
KEPT = ("no", "some", "all")
FOUND = ("wrong answer", "fault", "traffic", "nothing")
# Beside cuBLASLt with autotuning. A100: arXiv 2512.02551, abstract. H100: the lists of CUDA-L2's repository at commit
# dbe0177, eval_results/cuda_l2_h100_F32F16F16F32_speedup_{offline,server}.csv, the column of the better layout.
PUBLISHED = (
    ("CUDA-L2's paper, half-precision sums", "A100", "its offline mode", "1.114", "", ""),
    ("CUDA-L2's paper, half-precision sums", "A100", "its server mode", "1.159", "", ""),
    ("CUDA-L2's list, float32 sums", "H100", "its offline mode", "1.070", "1.056", "338 of 1000"),
    ("the same, all sides 4,096 or more", "H100", "its offline mode", "0.928", "0.926", "58 of 64"),
    ("CUDA-L2's list, float32 sums", "H100", "its server mode", "1.221", "1.195", "203 of 1000"),
    ("the same, all sides 4,096 or more", "H100", "its server mode", "0.966", "0.964", "50 of 64"),
)
_SEEDS = range(100)


def zeros_and_ones() -> tuple[np.ndarray, np.ndarray]:
    """A pair of float16 matrices, [16, 256] and [256, 16], of zeros and ones."""
    rng = np.random.default_rng(16)
    return rng.integers(0, 2, (16, 256)).astype(np.float16), rng.integers(0, 2, (256, 16)).astype(np.float16)


def normal_numbers() -> tuple[np.ndarray, np.ndarray]:
    """A pair of float16 matrices, [16, 256] and [256, 16], of normally distributed numbers."""
    rng = np.random.default_rng(17)
    return rng.standard_normal((16, 256)).astype(np.float16), rng.standard_normal((256, 16)).astype(np.float16)


def wrong_outputs(kernel: KernelCell, a: np.ndarray, b: np.ndarray) -> int:
    """How many outputs of a x b are further from float64 than float32 sums may be, in any order."""
    out = kernel.run({"a": a, "b": b}, out=("float32", (a.shape[0], b.shape[1]))).execution.outputs["out"]
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    allowed = (a.shape[1] - 1) * 2.0**-24 * (abs(wide_a) @ abs(wide_b))
    return int((abs(out - wide_a @ wide_b) > allowed).sum())


def rows_that_show_it(inputs: tuple[np.ndarray, np.ndarray]) -> int:
    """Rows whose sum of products is wrong in float16; 0 where float32 is not exact in every order."""
    a, b = inputs
    exact = a.astype(np.float64) * b
    if (exact != np.rint(exact)).any() or abs(exact).sum(1).max() >= 2**24:
        return 0
    total = np.zeros(len(a), np.float16)
    for p in range(a.shape[1]):
        total += a[:, p] * b[:, p]
    return int((total != exact.sum(1)).sum())


def table_of_workspaces(size_of: Callable[[int, int, int], int]) -> Markdown:
    """Bytes that workspaces need beside those that `size_of` computes in 32 bits."""
    shapes = ((4096, 4), (8192, 8), (16384, 4), (16400, 4), (32768, 1))
    rows = [(f"{n:,} x {n:,}", parts, f"{4 * n * n * parts:,}", f"{size_of(n, n, parts):,}") for n, parts in shapes]
    return table(["outputs", "parts", "bytes needed", "bytes requested"], rows)


def table_of_rooms(kernel: KernelCell, rooms: Sequence[int]) -> Markdown:
    """What a split sum makes of 32 rows with so many numbers in its workspace, and what the emulator finds."""
    x = np.random.default_rng(16).integers(-4, 5, (32, 64)).astype(np.float32)
    rows = []
    for room in rooms:
        run = kernel.run({"x": x, "room": room}, out=("float32", (32,))).execution
        right = int((run.outputs["out"] == x.sum(1)).sum())
        rows.append((room, f"{right} of 32", run.findings[0].message if run.findings else "nothing found"))
    return table(["numbers in the workspace; 128 are needed", "right outputs", "what the emulator says"], rows)


def sixty_races() -> list[Raced]:
    """Rung 14 of lab 08 against cuBLAS on sixty shapes, as measured, by size."""
    races = [
        Raced(2 * np.prod(r.shape, dtype=float) / 1e9, 1 / r.value, 1 / (r.baseline_value or 1))
        for r in results.read(results.DIRECTORY / "gemm.json").records
        if r.name == "08_hopper_hgemm/rung_14_any_shape" and r.variant == "shapes" and r.metric == "rate"
    ]
    return sorted(races, key=lambda race: race.gflop)


def table_of_means(races: Sequence[Raced]) -> Markdown:
    """Three means of all shapes, and of the best and the worst five or more that are neighbours in size."""
    windows = [races[i:j] for i in range(len(races)) for j in range(i + 5, len(races) + 1)]
    best, worst = max(windows, key=geometric), min(windows, key=geometric)
    groups = (("all sixty", races), ("the best five or more", best), ("the worst five or more", worst))
    rows = [
        (name, f"{arithmetic(some):.3f}", f"{geometric(some):.3f}", f"{by_time(some):.3f}") for name, some in groups
    ]
    return table(["shapes", "mean of ratios", "geometric mean", "by time"], rows)


def share_of_the_gpu(copy: str) -> float:
    """The GPU's share of the host clock's time, for a recorded copy such as "copy of 1 MiB"."""
    return needed("stopwatch", copy, "time", variant="one launch, time.time").ratio or 0.0


def table_of_host_clock() -> Markdown:
    """Copies by the host's clock and by the stopwatch, as measured."""
    rows = []
    for name in ("copy of 1 MiB", "copy of 64 MiB", "copy of 1 GiB"):
        record = needed("stopwatch", name, "time", variant="one launch, time.time")
        device = record.value * share_of_the_gpu(name)
        rows.append((name, f"{record.value * 1e3:.0f}", f"{device * 1e3:.1f}", f"{100 * device / record.value:.0f}%"))
    return table(["on an H200", "the host's clock, µs", "our stopwatch, in alternation, µs", "the GPU's share"], rows)


@cache
def estimated() -> dict[Shape, dict[Choice, float]]:
    """The emulator's estimate of every choice for both shapes, in µs."""
    space = results.read(results.DIRECTORY / "search_space.json")

    def of(choice: Choice, shape: Shape) -> float:
        return space.find("product", "estimated time", variant=product.name_of(choice), shape=shape).value

    return {shape: {choice: of(choice, shape) for choice in product.CHOICES} for shape in (SQUARE, FLAT)}


def table_of_choices() -> Markdown:
    """The two best, the middle and the worst choice for each shape."""
    rows = []
    for shape, times in estimated().items():
        ranked = sorted(times, key=times.__getitem__)
        for place in (0, 1, len(ranked) // 2, len(ranked) - 1):
            c = ranked[place]
            knobs = (c.rows, c.columns, c.depth, c.each, c.threads)
            rows.append((dimensions(shape), place + 1, *knobs, f"{times[c]:.1f}"))
    return table(["m x n x k", "place", "rows", "columns", "depth", "each", "threads", "estimated µs"], rows)


def good_choices(shape: Shape) -> int:
    """How many choices are within 2% of the best."""
    times = estimated()[shape]
    return sum(cost <= NEAR * min(times.values()) for cost in times.values())


def by_chance(seed: int) -> ByChance[Choice]:
    """Draws from all choices."""
    return ByChance(product.CHOICES, seed)


def by_evolution(seed: int) -> ByEvolution[Choice]:
    """Changes one parameter of a good choice."""
    return ByEvolution(product.CHOICES, product.neighbours, seed)


def by_guess(shape: Shape) -> ByGuess[Choice]:
    """Takes choices in the order of a formula for their time."""
    return ByGuess(product.CHOICES, lambda choice: product.guess(choice, shape, H200.sms))


@cache
def trials(kind: str, shape: Shape) -> list[int]:
    """Trials that a hundred searches of a kind need; the guess on paper is always the same."""
    make: dict[str, Callable[[int], Proposer[Choice]]] = {
        "chance": by_chance,
        "evolution": by_evolution,
        "a guess on paper": lambda _: by_guess(shape),
    }
    times = estimated()[shape]
    seeds = range(1) if kind == "a guess on paper" else _SEEDS
    return [trials_needed(make[kind](seed), times) for seed in seeds]


def table_of_trials() -> Markdown:
    """Trials until a good choice, in the mean, by kind of search."""
    rows = []
    for shape in (SQUARE, FLAT):
        good = good_choices(shape)
        means = [np.mean(trials(kind, shape)) for kind in ("chance", "evolution", "a guess on paper")]
        by_formula = (len(product.CHOICES) + 1) / (good + 1)
        rows.append((dimensions(shape), good, f"{by_formula:.1f}", *(f"{mean:.1f}" for mean in means)))
    return table(["m x n x k", "good choices", "chance, by formula", "chance", "evolution", "a guess on paper"], rows)


def figure_of_searches(shape: Shape) -> Figure:
    """The share of searches that have found a good choice, over their trials."""
    kinds = ("chance", "evolution", "a guess on paper")
    return found_by_trial(
        {kind: trials(kind, shape) for kind in kinds},
        title=f"Searches that have found a choice within 2% of the best, {dimensions(shape)}",
        subtitle="100 searches of a kind, by the emulator's estimate; the guess has no chance in it",
    )


def table_by_the_clock() -> Markdown:
    """The same choices as a GPU timed them, or a sentence."""
    clock = results_of("search_clock")
    if clock is None:
        return Markdown("*The search by the clock: not measured yet.*")
    display(Markdown(f"Measured on an {clock.header.gpu}:"))
    rows = []
    for shape in (SQUARE, FLAT):
        found = [r for r in clock.records if r.shape == shape and r.metric == "time"]
        best = min(found, key=lambda record: record.value)
        ranks = clock.find("search", "rank correlation of estimate and clock", shape=shape).value
        ways = ("chance", "evolution", "guess", "estimate")
        needs = [clock.find("search", "trials", variant=way, shape=shape).value for way in ways]
        times = (f"{best.value:.2f} µs", f"{best.extra['estimated']:.2f} µs", f"{ranks:.2f}")
        rows.append((dimensions(shape), best.variant, *times, *(f"{n:.0f}" for n in needs)))
    heads = ["m x n x k", "the best as measured", "its time", "as estimated", "rank correlation", "trials: chance"]
    return table([*heads, "evolution", "guess on paper", "in the order of the estimate"], rows)


def print_transcript() -> None:
    """The recorded search by words: each verdict that was asked about, and what was answered."""
    transcript = Transcript.read(TRANSCRIPT)
    print("proposer:", transcript.who, "\n")
    for exchange in transcript.exchanges:
        words = exchange.answered.split("\n{")[0]
        last = exchange.asked.strip().splitlines()[-1]
        print(f"   {last if 'cost' in last else '(nothing tried yet)'}\n{words}\n")


def table_of_knobs() -> Markdown:
    """The parameters of the template on tensor cores, and their values."""
    knobs = ("kind", "rows", "columns", "depth", "stages", "splits", "together", "stays", "slices", "turned")
    values = {knob: sorted({getattr(choice, knob) for choice in tensor_product.CHOICES}) for knob in knobs}
    return table(["parameter", "values"], [(knob, ", ".join(map(str, some))) for knob, some in values.items()])


def table_of_races(file: str) -> Markdown:
    """Geometric means by protocol and rival, and how many shapes were lost, or a sentence."""
    race = results_of(file)
    if race is None:
        return Markdown("*The race against the library: not measured yet.*")
    found = {(r.metric, r.variant): r for r in race.records if r.metric.startswith("geometric mean")}
    for record in race.records:
        if record.metric == "rivals left out":
            display(Markdown(f"*{record.conditions}*"))
    rows = []
    for protocol in PROTOCOLS:
        cells = [found.get((f"geometric mean, {protocol}", rival)) for rival in RIVALS]
        rows.append((protocol, *(_won(record) for record in cells)))
    display(Markdown(f"On an {race.header.gpu}, times as fast as:"))
    return table(["protocol", *RIVALS], rows)


def table_of_shapes(race: results.Results | None) -> Markdown:
    """Every shape, by how it went against torch.matmul on the device."""
    if race is None:
        return Markdown("*The shapes: not measured yet.*")
    of = {(r.shape, r.metric, r.variant): r for r in race.records if r.shape}
    ours = {shape: of[shape, "device time", "torch.matmul"] for shape in {r.shape for r in race.records if r.shape}}
    rows = []
    for shape, record in sorted(ours.items(), key=lambda item: -(item[1].ratio or 0)):
        cells = [of.get((shape, "device time", rival)) for rival in RIVALS]
        ratios = ("not measured" if r is None else f"{r.ratio:.2f}" for r in cells)
        rows.append((dimensions(shape), f"{record.value:.1f}", *ratios, record.extra["choice"]))
    return table(["m x n x k", "ours, µs", *RIVALS, "the choice"], rows)


def table_of_places() -> Markdown:
    """Times of every fourth launch and of the others by bytes of arguments, or a sentence."""
    places = results_of("stopwatch_nvidia_h100_80gb_hbm3")
    found = [r for r in places.records if r.metric == "time of every fourth launch"] if places else []
    if not places or not found:
        return Markdown("*Launches by their place: not measured yet.*")
    rows = [(r.variant, f"{r.value:.2f}", f"{r.baseline_value:.2f}") for r in found]
    return table([f"arguments, on an {places.header.gpu}", "every fourth launch, µs", "the others, µs"], rows)


def table_of_verdicts() -> Markdown:
    """How many points submissions of each part of the corpus kept with the judge, and what the emulator alone found."""
    judged, emulated = results_of("judge"), results_of("seeds")
    if judged is None or emulated is None:
        return Markdown("*Verdicts on the corpus: not measured yet.*")
    by_judge = Counter((_corpus(r), _kept(r)) for r in judged.records)
    by_emulator = Counter((_corpus(r), _found(r)) for r in emulated.records)
    rows = []
    for kind, what in CORPORA.items():
        on_gpu = [str(by_judge[kind, kept]) for kept in KEPT]
        alone = [str(by_emulator[kind, found]) for found in FOUND]
        ran = any(by_emulator[kind, found] for found in FOUND)
        rows.append((f"{kind}: {what}", *on_gpu, *(alone if ran else ["not run"] * len(FOUND))))
    heads = [f"judge: {kept} points" for kept in KEPT]
    return table(["corpus", *heads, *(f"emulator: {found}" for found in FOUND)], rows)


def _corpus(record: results.Record) -> str:
    return record.variant.partition("/")[0]


def _kept(record: results.Record) -> str:
    """How many points the judge left a submission, one of KEPT."""
    return {"passed": "all", "partial": "some"}.get(record.conditions.partition(";")[0], "no")


def _found(record: results.Record) -> str:
    """The part by which the emulator fails a submission for every seed, one of FOUND."""
    part = record.conditions.partition(":")[0]
    return {"correctness": "wrong answer", "safety": "fault", "traffic": "traffic"}.get(part, "nothing")


def seen_by_no_answer() -> Counter[str]:
    """Of wrong submissions that kept points on the GPU, as their answers are right: what the emulator finds."""
    judged, emulated = (results.read(results.DIRECTORY / f"{file}.json") for file in ("judge", "seeds"))
    found = {(r.name, r.variant): _found(r) for r in emulated.records}
    kept = [r for r in judged.records if _corpus(r) in ("wrong", "mutant") and _kept(r) == "some"]
    return Counter(found[r.name, r.variant] for r in kept)


def table_of_lineage() -> Markdown:
    """What was published of machine-written products, and what this chapter's search gains by each protocol."""
    race = results_of("search")
    rows: list[Sequence[str]] = list(PUBLISHED)
    for protocol in PROTOCOLS if race else ():
        assert race is not None
        ratios = [r.ratio or 0 for r in race.records if (r.metric, r.variant) == (protocol, RIVALS[-1])]
        mean, geomean = np.mean(ratios), race.find("half product", f"geometric mean, {protocol}", variant=RIVALS[-1])
        lost = f"{sum(ratio < 1 for ratio in ratios)} of {len(ratios)}"
        gpu = race.header.gpu.removeprefix("NVIDIA ")
        rows.append(
            ("this chapter's search, 64 drawn shapes", gpu, protocol, f"{mean:.3f}", f"{geomean.value:.3f}", lost)
        )
    return table(["kernels", "GPU", "protocol", "mean of ratios", "geometric mean", "shapes lost"], rows)


def table_of_costs(race: results.Results | None) -> Markdown:
    """Seconds of the searches, and the trials that three proposers need on the same times."""
    if race is None:
        return Markdown("*What the search cost: not measured yet.*")
    found = [r for r in race.records if r.metric == "search"]
    compiling, tried = race.find("half product", "compiling"), np.mean([len(r.extra["tried"]) for r in found])
    said = f"On an {race.header.gpu}. Compiling: {compiling.value:.0f} s ({compiling.conditions}). "
    seconds = sum(r.value for r in found)
    display(Markdown(said + f"Trying: {seconds:.0f} s for {len(found)} shapes, {tried:.0f} choices each."))
    counted = [_trials_of(record) for record in found]
    heads = ["proposer", "trials until within 2% of the best, mean", "median", "most"]
    numbers = {way: [one[way] for one in counted] for way in counted[0]}
    return table(heads, [(way, f"{np.mean(n):.1f}", f"{np.median(n):.0f}", max(n)) for way, n in numbers.items()])


def table_of_fusion() -> Markdown:
    """Each way's microseconds, and how many times as fast lab 05's reference is, by the two clocks; or a sentence."""
    ways, rows = ("lab 05, submission", "lab 05, submission_cuda", "torch, eager", "torch.compile"), []
    for shape in FUSED_SHAPES:
        for metric in ("device time", "offline time"):
            found = [measured("fusion", "masked softmax", metric, variant=way, shape=shape) for way in ways]
            times = [one.value for one in found if one]
            if len(times) == len(ways):
                said = [f"{one:,.1f}" for one in times] + [f"{one / times[0]:.2f}" for one in times[2:]]
            else:
                said = ["not measured"] + [""] * 5
            rows.append((f"{shape[0]:,} x {shape[1]:,}", metric, *said))
    display(Markdown(f"On an {results.read(results.DIRECTORY / 'fusion.json').header.gpu}:"))
    heads = ["rows x elements", "clock", "Numba, µs", "CUDA C++, µs", "eager, µs", "compiled, µs"]
    return table([*heads, "times as fast as eager", "as compiled"], rows)


def _won(record: results.Record | None) -> str:
    if record is None:
        return "not measured"
    return f"{record.value:.2f} (lost {record.extra['lost']} of {record.extra['shapes']})"


def _trials_of(record: results.Record) -> Mapping[str, int]:
    """Trials that three proposers need on the times of one shape's recorded search."""
    costs = {tensor_product.named(name): cost for name, cost in record.extra["tried"].items()}
    choices, (m, n, k) = tuple(costs), record.shape

    def neighbours(choice: HalfChoice) -> list[HalfChoice]:
        return [other for other in tensor_product.neighbours(choice) if other in costs]

    ways: dict[str, Proposer[HalfChoice]] = {
        "chance": ByChance(choices, 0),
        "evolution": ByEvolution(choices, neighbours, 0),
        "guess": ByGuess(choices, lambda choice: tensor_product.guess(choice, (m, n, k), H200.sms)),
    }
    return {way: trials_needed(proposer, costs) for way, proposer in ways.items()}
