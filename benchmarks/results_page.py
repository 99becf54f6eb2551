"""Writes docs/results.md from the files in benchmarks/results: `python -m benchmarks.results_page`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import geometric_mean

from course import results
from course.results import Record, Results

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
SIZES = (2048, 4096, 8192, 16384)
PRODUCTS = {
    "[any shape](../solutions/08_hopper_hgemm/rung_14_any_shape.py), CUDA C++": "08_hopper_hgemm/rung_14_any_shape",
    "[clusters](../solutions/08_hopper_hgemm/numba_4_clusters.py), Numba": "08_hopper_hgemm/numba_4_clusters",
    "[`mma`](../solutions/07_tensor_core_hgemm/submission.py), Numba": "07_tensor_core_hgemm/submission",
}
FP8 = {
    "blocks of 1×128 and 128×128": "beside blocks",
    "one scale per tensor, accurate": "beside tensor-wise",
    "one scale per tensor, fast": "beside tensor-wise fast",
    "bfloat16": "beside bfloat16",
}
COMPARED = {  # function and parts of products.json: what is compared
    ("matmul", "squares"): "`matmul`: cubes of 2,048 to 16,384",
    ("matmul", "drawn"): "`matmul`: drawn sizes, to which the model was fitted",
    ("matmul", "held"): "`matmul`: other drawn sizes",
    ("matmul", "shapes"): "`matmul`: shapes of language models and of other benchmarks",
    ("fp8_matmul", "drawn"): "`fp8_matmul`: drawn sizes, beside one scale, which is less work",
    ("shuffle", ""): "`shuffle`: 8 of 128 experts for 256 to 16,384 tokens",
}
GROUPS = {
    "PyTorch's grouped FP8 product, fast accumulation": "beside grouped fast",
    "PyTorch's grouped FP8 product, accurate accumulation": "beside grouped",
    "lab 09's dense product of as many rows": "beside dense, all rows",
}
MODELS = {7168: "DeepSeek-V3", 5120: "Llama 4 Scout"}
INTRODUCTION = """# Results

`python -m benchmarks.results_page` computes these numbers from the records in `benchmarks/results`. Each table holds
one subject on one kind of GPU. [measuring.md](measuring.md) says how times are taken.
[benchmarks/README.md](../benchmarks/README.md) names the command behind each record.

"Times as fast" means our speed divided by the baseline's; both ran in alternation in one run, with a cold L2.
"""


def page() -> str:
    """The page as text. Raises ResultsError if a record is missing."""
    sections = [
        _labs(_read("labs")),
        _softmax(_read("rows")),
        _products(_read("gemm")),
        _compared(_read("products")),
        *(_fp8(_read(name)) for name in ("fp8", "fp8_nvidia_h100_80gb_hbm3")),
        _shuffle(_read("experts")),
        *(_groups(_read(name)) for name in ("experts", "experts_nvidia_h100_80gb_hbm3")),
        _layer(_read("experts")),
        *(_decoding(_read(name)) for name in ("megakernel_nvidia_h200", "megakernel")),
        _by_hand(_read("collectives")),
        _predicted(_read("collectives")),
        *(_search(_read(name)) for name in ("search", "search_nvidia_h100_80gb_hbm3")),
        _judge(_read("judge")),
    ]
    return "\n".join([INTRODUCTION, *sections])


def _read(name: str) -> tuple[str, Results]:
    return name, results.read(results.DIRECTORY / f"{name}.json")


def _section(title: str, source: tuple[str, Results], text: str, head: list[str], rows: Iterable[list[str]]) -> str:
    name, found = source
    table = [head, ["---"] * len(head), *rows]
    lines = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join(
        [f"## {title}, {found.header.gpu}", "", text, f"Record: [{name}.json](../benchmarks/results/{name}.json).", ""]
        + [*lines, ""]
    )


def _labs(source: tuple[str, Results]) -> str:
    shares: dict[str, dict[str, str]] = {}
    for record in source[1].records:
        if record.metric == "efficiency" and record.variant in ("submission", "submission_cuda"):
            roof = record.conditions.split("floor from the ")[1].split(" ceiling")[0]
            shares.setdefault(record.name, {"roof": f"`{roof}`"})[record.variant] = _percent(record.value)
    rows = [
        [name.replace("_", " "), row["roof"], row.get("submission", ""), row.get("submission_cuda", "")]
        for name, row in sorted(shares.items())
    ]
    text = (
        "How near each lab's reference comes to its roof: the time that the slower of arithmetic and memory needs at\n"
        "measured ceilings, divided by the kernel's time. `submission` is Numba in labs 01 to 07 and lab 10."
    )
    return _section(
        "Labs",
        source,
        text + _picture("Roofline of an H200 with the labs' kernels", "roofline"),
        ["lab", "ceiling", "`submission`", "`submission_cuda`"],
        rows,
    )


def _softmax(source: tuple[str, Results]) -> str:
    by_row: dict[int, dict[str, str]] = {}
    for record in source[1].records:
        by_row.setdefault(record.shape[1], {})[record.variant] = _percent(record.value)
    rows = [[f"{n:,}", row["submission"], row["submission_cuda"]] for n, row in sorted(by_row.items())]
    text = "Lab 05's references against the rate of a copy, by the length of a row."
    return _section("Softmax", source, text, ["elements per row", "Numba", "CUDA C++"], rows)


def _products(source: tuple[str, Results]) -> str:
    rows = []
    for title, name in PRODUCTS.items():
        for dtype in ("float16", "bfloat16"):
            found = [r for r in source[1].records if (r.name, r.variant, r.dtype) == (name, "squares", dtype)]
            if len(found) == len(SIZES):
                by_size = {record.shape[0]: f"{record.ratio:.3f}" for record in found}
                rows.append([title, dtype, *(by_size[size] for size in SIZES)])
    drawn = [r for r in source[1].records if (r.name, r.variant) == (PRODUCTS[next(iter(PRODUCTS))], "shapes")]
    ratios = [_ratio(record) for record in drawn]
    worst = min(drawn, key=_ratio)
    text = (
        "Times as fast as `torch.matmul` (cuBLAS), for square products of N(0, 1) data. For "
        f"{len(drawn)} shapes drawn from sizes\nof 512 to 16,384, the first kernel's geometric mean is "
        f"{geometric_mean(ratios):.3f}. The lowest is {min(ratios):.2f}, at {' × '.join(map(str, worst.shape))}."
    )
    head = ["product", "type", *(f"{size:,}³" for size in SIZES)]
    return _section(
        "Half-precision products",
        source,
        text + _picture("From naive to past the library", "product_ladder"),
        head,
        rows,
    )


def _fp8(source: tuple[str, Results]) -> str:
    name = "09_fp8_gemm/rung_5_any_shape"
    found = [r for r in source[1].records if r.name == name and r.metric == "rate"]
    tokens = sorted({record.shape[0] for record in found})
    rows = []
    for title, variant in FP8.items():
        of_it = [record for record in found if record.variant == variant]
        means = [geometric_mean(_ratio(r) for r in of_it if r.shape[0] == n) for n in tokens]
        rows.append([title, *(f"{mean:.2f}" for mean in means)])
    text = (
        "Lab 09's last rung: times as fast as PyTorch's products. Each number is a geometric mean over the seven\n"
        "weight matrices of DeepSeek-V3. Only the first baseline scales by block, as lab 09 does."
    )
    return _section("FP8 products", source, text, ["baseline", *(f"{n:,} tokens" for n in tokens)], rows)


def _shuffle(source: tuple[str, Results]) -> str:
    found = [r for r in source[1].records if r.name == "10_index_shuffle/submission_cuda" and r.variant == "cold"]
    rows = []
    for tokens in sorted({record.shape[0] for record in found}):
        ratios = [_ratio(record) for record in found if record.shape[0] == tokens]
        rows.append([f"{tokens:,}", f"{min(ratios):.1f}", f"{geometric_mean(ratios):.1f}", f"{max(ratios):.1f}"])
    text = (
        "Lab 10 routes tokens to experts in one launch. Times as fast as `torch.topk`, a stable sort and a count in a\n"
        f"CUDA graph, over {len(found)} shapes."
    )
    return _section("Index shuffle", source, text, ["tokens", "lowest", "geometric mean", "highest"], rows)


def _compared(source: tuple[str, Results]) -> str:
    """The functions beside PyTorch by kind of shape: mean ratio, number of slower shapes, least ratio."""
    found: dict[str, list[float]] = {title: [] for title in COMPARED.values()}
    for record in source[1].records:
        part = record.variant.partition(",")[0] if record.name != "shuffle" else ""
        found[COMPARED[record.name, part]].append(_ratio(record))
    rows = [
        [title, str(len(of)), f"{geometric_mean(of):.3f}", str(sum(ratio < 1 for ratio in of)), f"{min(of):.2f}"]
        for title, of in found.items()
        if of
    ]
    text = (
        "How many times as fast the functions of `systems.kernels` are as PyTorch's: the geometric mean, the number\n"
        "of shapes that are slower, and the least. Sizes are drawn from 1 to 16,384, evenly by their logarithm. Half\n"
        "of them are no multiple of 8, and operands are transposed. Of the 200 shapes for fitting, 84 were timed.\n"
        "The model is fitted to these times, and the table shows its choices before that fit. The table above has\n"
        "Numba kernels with `wgmma`.\n\n"
        "Run `python -m benchmarks.products` on a Hopper GPU with PyTorch to compare yours. It checks each result and\n"
        "prints each shape with the chosen kernel and its rivals. A second run continues where the first stopped."
    )
    return _section("How we compare", source, text, ["", "shapes", "mean", "slower", "least"], rows)


def _groups(source: tuple[str, Results]) -> str:
    found = [
        r
        for r in source[1].records
        if r.name == "11_grouped_gemm/rung_4_shared_strips" and r.metric == "rate" and r.ratio
    ]
    shapes = sorted({record.shape for record in found})
    rows = []
    for title, variant in GROUPS.items():
        of_it = {r.shape: r for r in found if r.variant == f"contiguous, {variant}"}
        rows.append([title, *(f"{_ratio(of_it[shape]):.2f}" for shape in shapes)])
    text = "Lab 11's last rung: times as fast as each baseline, for 32,768 rows, thousands per expert."
    head = ["baseline", *(f"{e} experts, n = {n:,}, k = {k:,}" for e, n, k in shapes)]
    return _section("Grouped FP8 products", source, text, head, rows)


def _layer(source: tuple[str, Results]) -> str:
    def read(name: str, shape: tuple[int, ...]) -> str:
        return _percent(_ratio(source[1].find(name, "weights read", shape=shape)))

    beside = [r for r in source[1].records if (r.name, r.variant) == ("layer/one_kernel", "beside chain")]
    rows = [
        [MODELS[r.shape[3]], f"{r.shape[0]:,}", read("layer/one_kernel", r.shape), read("layer/chain", r.shape)]
        + [f"{_ratio(r):.2f}"]
        for r in beside
    ]
    text = (
        "A layer of experts in FP8, from the router's scores to the outputs. The chain is the labs' kernels in a CUDA\n"
        "graph. The rate at which weights are read is a share of a copy's rate."
    )
    head = ["sizes of", "tokens", "one kernel reads at", "the chain reads at", "one kernel, times as fast as the chain"]
    return _section("A layer of experts in one kernel", source, text, head, rows)


def _decoding(source: tuple[str, Results]) -> str:
    ours = source[1].find("decoding step", "weights read", variant="ours")
    steps = [r for r in source[1].records if r.name == "decoding step" and r.metric == "time" and r.ratio]
    assert steps[0].baseline_value
    rows = [["ours, one launch", f"{steps[0].baseline_value:.3f}", ""]]
    rows += [[r.variant, f"{r.value:.3f}", f"{_ratio(r):.2f}"] for r in steps if r.variant != "copy"]
    text = (
        "One decoding step of a model with the sizes of Llama 3.2 1B, in bf16.\n"
        f"Ours reads its weights at {_percent(_ratio(ours))} of the rate of a copy of as many bytes."
    )
    head = ["step", "milliseconds", "our time divided by its time"]
    return _section("Decoding in one launch", source, text, head, rows)


def _by_hand(source: tuple[str, Results]) -> str:
    found = [r for r in source[1].records if r.name == "all_reduce" and r.variant.startswith("by hand: ") and r.ratio]
    best: dict[tuple[int, int], Record] = {}
    for record in found:
        key = (record.shape[0], record.shape[1])
        if key not in best or record.value < best[key].value:
            best[key] = record
    rows = [
        [str(gpus), _bytes(size), f"{r.value:.1f}", f"{r.baseline_value:.1f}", r.variant.removeprefix("by hand: ")]
        for (gpus, size), r in sorted(best.items())
        if size in (1 << n for n in range(10, 25, 2))
    ]
    text = "Our fastest all-reduce, written by hand, beside NCCL's in alternation: microseconds, of the slowest rank."
    return _section("All-reduce", source, text, ["GPUs", "bytes", "ours", "NCCL", "our kernel"], rows)


def _predicted(source: tuple[str, Results]) -> str:
    def error(name: str, where: str) -> str:
        return _percent(source[1].find(name, f"error {where}, by the laws of two GPUs").value)

    names = sorted({r.name for r in source[1].records if r.metric.endswith("by the laws of two GPUs")})
    rows = [[name.replace("_", "-"), error(name, "below 1 MiB"), error(name, "from 1 MiB up")] for name in names]
    text = "NCCL's time on four GPUs, predicted from constants fitted on two: the largest error of all sizes."
    return _section("Predicted collectives", source, text, ["collective", "below 1 MiB", "from 1 MiB up"], rows)


def _search(source: tuple[str, Results]) -> str:
    names = [r.variant for r in source[1].records if r.metric == "geometric mean, device time"]
    rows = []
    for variant in names:
        times = [r for r in source[1].records if r.metric == "device time" and r.baseline == variant]
        ratios = [_ratio(record) for record in times]
        rows.append([variant, f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}"])
    text = (
        "The best of 395 half-precision products, chosen per shape by the clock. Times as fast as each library\n"
        "in device time, over 64 shapes from 64 to 4,096."
    )
    head = ["baseline", "geometric mean", "lowest", "highest"]
    return _section("Searched products", source, text, head, rows)


def _judge(source: tuple[str, Results]) -> str:
    right = _count(source[1].records, lambda record: record.value == 1)
    total = _count(source[1].records, lambda record: True)
    rows = [[kind.replace("_", " "), str(total[kind]), str(right[kind])] for kind in sorted(total)]
    text = "Submissions with a known verdict, graded by the sandboxed judge."
    return _section("The judge", source, text, ["kind", "submissions", "right verdicts"], rows)


def _count(records: Iterable[Record], which: Callable[[Record], bool]) -> Counter[str]:
    return Counter(record.variant.split("/")[0] for record in records if which(record))


def _ratio(record: Record) -> float:
    assert record.ratio, record.key
    return record.ratio


def _picture(shows: str, name: str) -> str:
    return f"\n\n![{shows}](images/{name}.png)\n"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
