"""Chapter 14: what its cells count, plan and draw beside the steps themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from IPython.display import Markdown
from matplotlib.figure import Figure
from torch import Tensor, nn

from course.figures.live_memory import Course, live_memory
from course.figures.stacks import stacks
from course.figures.trade import trade
from course.lesson import table
from course.measured import needed, results_of
from systems.network.links import find_link
from systems.training import kept_as, recompute
from systems.training.formula import layer_bytes, model_bytes
from systems.training.gpt import GPT
from systems.training.operators import Operator
from systems.training.planner import Plan
from systems.training.sizes import Sizes
from systems.training.step import MeasuredStep, step
from warplab.hardware import Math
from warplab.hardware.chips import H100

MB, GB = 1e6, 1e9
Batch = tuple[Tensor, Tensor]
SMALL = Sizes(layers=3, width=128, heads=4, vocabulary=256, sequence=128, batch=2)
LARGE = Sizes(layers=24, width=2048, heads=16, vocabulary=32_000, sequence=2048, batch=8, value_bytes=2)
PEAK, PCIE, C2C = H100.peaks[Math.BF16_TENSOR], find_link("pcie5").bandwidth, 450e9
_FILE = "checkpointing"
_OPERATORS = ("norm_1", "qkv", "attention", "norm_2", "up", "gelu", "down")


def bytes_a_unit(sizes: Sizes) -> dict[str, float]:
    """Bytes that each operator of a layer is the first to keep, per token and unit of width."""
    return {name: size / sizes.tokens / sizes.width for name, size in layer_bytes(sizes).items()}


def table_of_layer(sizes: Sizes) -> Markdown:
    """The same as a table."""
    rows = [(name, f"{size:.2f}") for name, size in bytes_a_unit(sizes).items()]
    return table(["operator, the first to keep", "bytes per token and unit of width"], rows)


def figure_of_operators() -> Figure:
    """What the backward pass needs of three large models, by operator."""
    models = {
        "GPT, 32,000 words": LARGE,
        "the same, 128,256 words": replace(LARGE, vocabulary=128_256),
        "half as many layers, 128,256 words": replace(LARGE, layers=12, vocabulary=128_256),
    }
    state = 16 * LARGE.parameters / GB
    return stacks(
        {name: _by_operator(sizes) for name, sizes in models.items()},
        title="What the backward pass needs, by operator",
        subtitle=f"24 layers of width 2,048, 16,384 tokens; weights, gradients and Adam's state: {state:.0f} GB more",
        across="GB",
    )


def views_too_large(sizes: Sizes) -> float:
    """Percent by which the count of a layer grows if three views count their complete storage each."""
    return 100 * 2 * 3 * sizes.tokens * sizes.width * sizes.value_bytes / sum(layer_bytes(sizes).values())


def table_of_hooks(seen: Mapping[str, int], sizes: Sizes) -> Markdown:
    """The formula's bytes beside those that the hooks saw."""
    counted = model_bytes(sizes)
    rows = [(name, size, seen.get(name, 0)) for name, size in counted.items()]
    rows.append(("**all**", sum(counted.values()), sum(seen.values())))
    cells = [
        (name, f"{size:,}", f"{found:,}", f"{100 * (found / size - 1):+.2f}%" if size else "")
        for name, size, found in rows
    ]
    return table(["operator", "formula, bytes", "hooks, bytes", "apart"], cells)


def table_of_operators(some: Sequence[Operator]) -> Markdown:
    """What a block runs again."""
    rows = [(one.name, f"{one.bytes:,}", f"{one.flops / 1e6:.1f}", f"{one.moved:,}") for one in some if one.block == 0]
    heads = ["operator that is run again", "bytes of its result", "MFLOP", "bytes it reads and writes"]
    return table(heads, rows)


def share_inside(run: MeasuredStep, plain: MeasuredStep, sizes: Sizes) -> float:
    """Percent of what blocks keep that a run still keeps."""
    inside = sizes.layers * sum(layer_bytes(sizes).values())
    return 100 * (1 - (plain.kept - run.kept) / inside)


def figure_of_steps(runs: Mapping[str, MeasuredStep]) -> Figure:
    """Memory over one step, a line per run."""
    courses = {
        name: Course([call.live for call in run.calls], [call.flops for call in run.calls], run.forward)
        for name, run in runs.items()
    }
    subtitle = "after each operator, without weights and their gradients; a dot: the forward pass has ended"
    return live_memory(courses, title="Memory over one step", subtitle=subtitle)


def table_of_steps(runs: Mapping[str, MeasuredStep], plain: MeasuredStep) -> Markdown:
    """What each run keeps, its peak and its price, beside keeping everything."""
    rows = [(name, *_shares(run, plain), _same(run, plain)) for name, run in runs.items()]
    return table(["", "kept", "peak", "more FLOP", "more bytes moved", "same gradients"], rows)


def forward_flops(plain: MeasuredStep) -> int:
    """FLOP of the forward pass."""
    return sum(call.flops for call in plain.calls[: plain.forward])


def room_for_no_flop(plans: Iterable[Plan]) -> int:
    """The least bytes with which a plan computes no FLOP again."""
    return min(one.bytes for one in plans if not one.flops)


def print_plans(plans: Mapping[str, Plan], some: Sequence[Operator], room: float) -> None:
    """What each plan computes again, and how much of the room it uses."""
    for name, one in plans.items():
        again = ", ".join(f"{o.name} of block {o.block}" for o in some if o.flops and o not in one.kept)
        print(f"{name}: {one.bytes / room:.1%} of the room used; again: {again}")


def table_of_executed(
    model: GPT, batch: Batch, plans: Sequence[Plan], plain: MeasuredStep, full: MeasuredStep
) -> Markdown:
    """Some plans, as planned and as counted."""
    rows = []
    for one in plans[:: len(plans) // 5]:
        run = _selective(model, batch, one)
        planned, counted = f"{one.flops / 1e6:.1f}", f"{(run.flops - plain.flops) / 1e6:.1f}"
        rows.append((f"{one.bytes:,}", f"{run.kept - full.kept:,}", planned, counted, _same(run, plain)))
    heads = ["planned: bytes more than a full checkpoint", "counted", "planned: MFLOP again", "counted"]
    return table([*heads, "same gradients"], rows)


def table_of_budgets(budgets: Mapping[float, MeasuredStep], plain: MeasuredStep) -> Markdown:
    """PyTorch's memory budgets: what each keeps, its peak and its price."""
    rows = [
        (
            f"{budget:g}",
            f"{run.kept / plain.kept:.1%}",
            f"{run.peak / plain.peak:.1%}",
            f"{100 * (run.flops - plain.flops) / forward_flops(plain):.1f}%",
            _same(run, plain),
        )
        for budget, run in budgets.items()
    ]
    return table(["budget", "kept", "peak", "computed again, of the forward pass", "same gradients"], rows)


def figure_of_budgets(
    budgets: Mapping[float, MeasuredStep], plans: Sequence[Plan], runs: Mapping[str, MeasuredStep]
) -> Figure:
    """Memory against FLOP computed again: our plans, PyTorch's budgets, and single runs by name."""
    plain, full = runs["everything kept"], runs["full checkpoint"]
    forward = forward_flops(plain)
    points = {name: (run.kept / MB, 100 * (run.flops - plain.flops) / forward) for name, run in runs.items()}
    return trade(
        {
            "our planner": [((full.kept + one.bytes) / MB, 100 * one.flops / forward) for one in plans],
            "PyTorch's memory budget": [
                (run.kept / MB, 100 * (run.flops - plain.flops) / forward) for run in budgets.values()
            ],
        },
        points,
        title="What memory costs",
        subtitle="kept between the passes, and FLOP computed again; both counted",
        across="MB kept",
        up="FLOP computed again, % of the forward pass",
    )


def least_width(link: float, share: float = 1.0) -> float:
    """The width from which offloading hides behind an H100 at a share of its peak: 4 C / (3 W)."""
    return 4 * share * PEAK / (3 * link)


def table_of_links() -> Markdown:
    """The least width over two links to the host."""
    links = {"PCIe 5 x16": PCIE, "NVLink-C2C": C2C}
    rows = [
        (name, f"{link / GB:.0f}", f"{least_width(link):,.0f}", f"{least_width(link, 0.5):,.0f}")
        for name, link in links.items()
    ]
    heads = ["link to the host", "GB/s, one way", "least width at the datasheet's rate", "at half of it"]
    return table(heads, rows)


def hidden_share(width: int, link: float) -> float:
    """The share of the traffic that hides at half of the peak."""
    return min(1.0, width / least_width(link, 0.5))


def table_of_models() -> Markdown:
    """The hidden share for layers as wide as those of five models."""
    models = {"Llama 3.2 1B": 2048, "Llama 3 8B": 4096, "Llama 3 70B": 8192, "GPT-3 175B": 12288}
    models["Llama 3 405B"] = 16384
    rows = [
        (name, f"{width:,}", *(f"{hidden_share(width, link):.0%}" for link in (PCIE, C2C)))
        for name, width in models.items()
    ]
    heads = ["layers as wide as those of", "width", "of the traffic hidden over PCIe 5", "over NVLink-C2C"]
    return table(heads, rows)


def offloaded(model: GPT, batch: Batch, sizes: Sizes) -> tuple[MeasuredStep, int]:
    """A step whose large tensors go to the host and come back; and the bytes that went."""
    host = kept_as.Host()
    run = step(model, *batch, lambda names: kept_as.kept_as(host.form, names, _row(sizes)))
    return run, host.bytes


def in_eight_bits(model: GPT, batch: Batch, sizes: Sizes, only: set[str] | None = None) -> MeasuredStep:
    """A step that keeps its large tensors in e4m3, with a scale per 128 values; or only those of some operators."""
    form = kept_as.eight_bits(128)
    return step(model, *batch, lambda names: kept_as.kept_as(form, names, _row(sizes), only))


def touched(model: GPT, batch: Batch, sizes: Sizes, plain: MeasuredStep) -> dict[str, dict[str, float]]:
    """By operator whose tensors alone are rounded: the weights whose gradients change, and how far in norm."""
    found = {}
    for name in _OPERATORS:
        run = in_eight_bits(model, batch, sizes, {name})
        errors = kept_as.errors(plain.gradients, run.gradients)
        found[name] = {weight: error for weight, error in errors.items() if error}
    return found


def table_of_touched(found: Mapping[str, Mapping[str, float]], weights: int) -> Markdown:
    """The same as a table."""
    rows = [
        (name, f"{len(errors)} of {weights}", f"{100 * max(errors.values()):.2f}%", max(errors, key=errors.__getitem__))
        for name, errors in found.items()
    ]
    return table(["only what this keeps", "weights whose gradient changes", "largest error", "of"], rows)


FACTORS = (1, 100, 1_000, 10_000, 100_000, 1_000_000)


def error_of_others(times: float, block: int | None) -> float:
    """In norm, of 1,024 channels but for one that is `times` larger, in e4m3 with a scale per `block` values."""
    values = torch.randn(64, 1024, generator=torch.Generator().manual_seed(0))
    values[:, 7] *= times
    form, others = kept_as.eight_bits(block), torch.arange(1024) != 7
    back = form.decode(form.encode(values.flatten())).view_as(values)
    return float((back - values)[:, others].norm() / values[:, others].norm())


def first_spoilt() -> int:
    """The first of FACTORS whose error is above 5%, with one scale for all."""
    return next(times for times in FACTORS if error_of_others(times, None) > 0.05)


def table_of_scales() -> Markdown:
    """The error of the other channels by the factor of one, with three sizes of blocks."""
    ways = {"one for all (8 bits a value)": None, "128 side by side (8.25 bits)": 128, "32 side by side (9 bits)": 32}
    rows = [
        (name, *(f"{100 * error_of_others(times, block):.1f}%" for times in FACTORS)) for name, block in ways.items()
    ]
    return table(["scale, and a channel larger by", *(f"{times:,}" for times in FACTORS)], rows)


def table_side_by_side(
    model: GPT, batch: Batch, sizes: Sizes, runs: Mapping[str, MeasuredStep], fifth: Plan
) -> Markdown:
    """All ways beside each other, with what each costs besides."""
    plain = runs["everything kept"]
    away, sent = offloaded(model, batch, sizes)
    eight = in_eight_bits(model, batch, sizes)
    off = 100 * max(kept_as.errors(plain.gradients, eight.gradients).values())
    every = {**runs, "best plan of a fifth": _selective(model, batch, fifth), "offloaded": away}
    every["FP8, blocks of 128"] = eight
    paid = {"offloaded": f"{2 * sent / MB:.0f} MB over a link", "FP8, blocks of 128": f"gradients off by {off:.1f}%"}
    rows = [(name, *_shares(run, plain), paid.get(name, "nothing else")) for name, run in every.items()]
    return table(["", "kept", "peak", "more FLOP", "more bytes moved", "also"], rows)


def print_held() -> None:
    """What the allocator held between the passes of the large model, beside the formula."""
    recorded = results_of(_FILE)
    if recorded is None:
        print("Not measured yet.")
        return
    held = {r.variant: r.value for r in recorded.records if r.name == "held between the passes"}
    allocated, on_paper = sum(size for line, size in held.items() if line != "before"), sum(model_bytes(LARGE).values())
    version = recorded.header.versions["torch"]
    print(f"{recorded.header.gpu}, PyTorch {version}: {allocated / GB:.2f} GB held for the backward pass")
    print(f"{on_paper / GB:.2f} GB by formula; they differ by {100 * (allocated / on_paper - 1):.2f}%")


def longer(variant: str) -> float:
    """Percent by which a step of the large model is longer than the plain one of the same run."""
    ours, plain = (_at(one)[1] for one in (variant, "plain"))
    return 100 * (ours / plain - 1)


def figure_of_times() -> Figure:
    """Peak memory and time of the ways that are near each other."""
    compiled = [name for name in _measured_ways() if name.startswith("torch.compile")]
    return trade(
        {
            "exact plans, full to plain": [
                _at(name) for name in ("full checkpoint", "plan for 25%", "plan for 50%", "plain")
            ],
            "torch.compile, budgets 0.25, 0.5 and 1": [_at(name) for name in compiled],
        },
        {"products kept": _at("products kept")},
        title="What memory costs in time",
        subtitle="1.3 billion parameters, bfloat16, on an H200; offloading and FP8 are far above",
        across="peak memory, GB",
        up="a step, ms",
    )


def table_of_times() -> Markdown:
    """All ways as measured."""
    rows = []
    for name in _measured_ways():
        memory, time = _at(name)
        rows.append((name, f"{memory:.1f}", f"{time:.0f}", f"{longer(name):+.1f}%"))
    return table(["way", "peak, GB", "a step, ms", "longer"], rows)


def again(sizes: Sizes) -> float:
    """Percent more FLOP of a step whose blocks are all run again, but for their last product."""
    attention, square = 4 * sizes.sequence * sizes.width, sizes.width**2
    block, head = 24 * square + attention, 2 * sizes.width * sizes.vocabulary
    step_flops = 3 * (sizes.layers * block + head) + sizes.layers * attention / 2
    return 100 * sizes.layers * (block - 8 * square) / step_flops


def values_of_gated(h: int, f: int, tokens: int = 6) -> float:
    """Exercise 2: values per token that a gated MLP of width h and f keeps, as hooks count them."""
    gate, up, down = (nn.Linear(*shape, bias=False) for shape in ((h, f), (h, f), (f, h)))
    known = {layer.weight.untyped_storage().data_ptr() for layer in (gate, up, down)}
    storages = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            storages[storage.data_ptr()] = storage  # holds it, so that its address stays its own
        return tensor

    x = torch.randn(tokens, h, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = down(nn.functional.silu(gate(x)) * up(x))
    assert result.requires_grad
    return sum(storage.nbytes() for storage in storages.values()) / 4 / tokens


def counts_as_hooks(mine: Callable[[int, int], float]) -> bool:
    """Whether a formula for it agrees with the hooks for three shapes; prints both."""
    shapes = [(16, 48), (32, 80), (64, 64)]
    both = [(mine(h, f), values_of_gated(h, f)) for h, f in shapes]
    print("yours and the hooks':", both)
    return all(ours == hooks for ours, hooks in both)


def _selective(model: GPT, batch: Batch, one: Plan) -> MeasuredStep:
    kept = one.names(len(model.blocks))
    return step(model, *batch, lambda names: recompute.selective(kept, names))


def _shares(run: MeasuredStep, plain: MeasuredStep) -> tuple[str, str, str, str]:
    more = [100 * (run.flops / plain.flops - 1), 100 * (run.moved / plain.moved - 1)]
    return f"{run.kept / plain.kept:.1%}", f"{run.peak / plain.peak:.1%}", f"{more[0]:.1f}%", f"{more[1]:.1f}%"


def _same(run: MeasuredStep, plain: MeasuredStep) -> str:
    return "yes" if run.same_gradients(plain) else "no"


def _row(sizes: Sizes) -> int:
    return sizes.tokens * sizes.width  # what has fewer values than one stream is left where it is


def _by_operator(sizes: Sizes) -> dict[str, float]:
    """GB of a model, the last norm with the head."""
    parts = {name: size / GB for name, size in model_bytes(sizes).items()}
    parts["head"] += parts.pop("norm")
    return {name: size for name, size in parts.items() if name not in ("projection", "embedding")}


def _measured_ways() -> list[str]:
    recorded = results_of(_FILE)
    return [r.variant for r in recorded.records if r.metric == "time"] if recorded else []


def _at(variant: str) -> tuple[float, float]:
    """GB of the peak, and milliseconds, of one way."""
    memory, time = (needed(_FILE, "training step", metric, variant=variant) for metric in ("peak memory", "time"))
    return memory.value / GB, time.value
