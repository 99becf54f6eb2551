"""Chapter 13: what its cells compute and draw beside the layouts, the schedules and the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from statistics import geometric_mean, median

from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters import c13_a_books_problems
from course.figures.cost_lines import CostLine, cost_lines
from course.figures.planned_runs import planned_runs
from course.figures.stacks import stacks
from course.figures.stages import stages
from course.lesson import table
from course.results import DIRECTORY, Record, read
from systems.network.execution import Fault, FaultKind
from systems.parallel import rooflines
from systems.parallel.bubbles import bubble
from systems.parallel.bubbles import held as held_at_most
from systems.parallel.execution import Work, train
from systems.parallel.layout import DEEPSEEK_FP8, MIXED, Axis, Job, Layout, Recompute, Schedule
from systems.parallel.machines import DGX_A100, DGX_B200, DGX_H100, H800, NVL72
from systems.parallel.memory import layer_activations, memory
from systems.parallel.models import find_model
from systems.parallel.runs import Run, runs, without
from systems.parallel.search import search
from systems.parallel.shapes import LayoutError, gpt
from systems.parallel.step import Step, plan
from systems.parallel.timeline import Kind, Pass, held, idle, orders, run
from warplab.hardware import Math

GB = 1e9
llama70, llama405, deepseek, gpt3 = map(find_model, ("Llama 3 70B", "Llama 3 405B", "DeepSeek-V3", "GPT-3 175B"))
table_of_the_book, table_of_the_chip = c13_a_books_problems.table_of_the_book, c13_a_books_problems.table_of_the_chip

SMALL = gpt("7.5B", 36, 4096, 32, 51200)  # the ZeRO paper's, on 64 GPUs
PLAIN, CUT = Layout(data=8192), Layout(data=128, tensor=8, pipeline=8)
PRETRAINING = Job(llama405, batch=2048, sequence=8192)
PUBLISHED = Layout(data=128, tensor=8, pipeline=16, chunks=8, zero=2, overlapped=frozenset({Axis.DATA, Axis.PIPELINE}))
DEEPSEEK_JOB = Job(deepseek, batch=15_360, sequence=4096, precision=DEEPSEEK_FP8)
DEEPSEEK_LAYOUT = Layout(data=128, pipeline=16, expert=64, schedule=Schedule.DUALPIPE)


def state_of(zero: int) -> dict[str, float]:
    """GB per GPU of weights, gradients and optimizer, of 7.5 billion parameters on 64 GPUs at a stage of ZeRO."""
    found = memory(Job(SMALL, batch=64, sequence=1024, precision=MIXED), Layout(data=64, zero=zero))
    return {
        "weights": found.weights / GB,
        "gradients": found.gradients / GB,
        "optimizer": found.optimizer / GB,
    }


def figure_of_zero() -> Figure:
    """The stages of ZeRO beside each other."""
    return stacks(
        {f"ZeRO {zero}": state_of(zero) for zero in range(4)},
        title="Memory of the ZeRO stages",
        subtitle="7.5 billion parameters, 64 GPUs, data parallel; activations left out",
        across="GB per GPU",
    )


def table_of_activations() -> Markdown:
    """Activations of GPT-3 in four ways, for a layer and for all layers."""
    job = Job(gpt3, batch=64, sequence=2048)
    ways = {
        "tensor 8": Layout(tensor=8, sequence=False, flash=False),
        "tensor 8, sequence split": Layout(tensor=8, flash=False),
        "and scores recomputed": Layout(tensor=8, flash=False, recompute=Recompute.SELECTIVE),
        "complete layers recomputed": Layout(tensor=8, flash=False, recompute=Recompute.FULL),
    }
    each = {name: layer_activations(job, layout) for name, layout in ways.items()}
    rows = [(name, f"{size / 1e6:,.0f}", f"{96 * size / GB:.1f}") for name, size in each.items()]
    return table(["GPT-3 175B, one sequence of 2,048 tokens", "MB per layer and GPU", "GB for 96 layers"], rows)


def data_bytes(zero: int, micro_batches: int) -> float:
    """Bytes that a GPU sends in a step of the small model, by data parallelism over 64 GPUs."""
    step = plan(Job(SMALL, 64 * micro_batches, 1024, MIXED), Layout(data=64, zero=zero), DGX_H100)
    (flow,) = [one for one in step.flows if one.axis is Axis.DATA]
    return flow.inside + flow.across


def table_of_zero_traffic() -> Markdown:
    """The same by stage and number of micro-batches."""
    rows = [(f"ZeRO {zero}", *(f"{data_bytes(zero, many) / GB:.0f}" for many in (1, 2, 8))) for zero in range(4)]
    return table(["GB sent per GPU and step", "1 micro-batch", "2", "8"], rows)


def table_of_tokens() -> Markdown:
    """Tokens from which gradients hide, by layout and machine."""
    layouts = {"8 GPUs": Layout(data=8), "16 GPUs": Layout(data=16), "8,192 GPUs": PLAIN}
    layouts |= {"8,192 GPUs, tensor 8": Layout(data=1024, tensor=8), "the same, pipeline 8": CUT}
    layouts["the same, pipeline 16"] = Layout(data=64, tensor=8, pipeline=16)
    machines = (DGX_A100, DGX_H100, DGX_B200, NVL72)
    rows = [
        (name, *(f"{rooflines.data_tokens(machine, layout):,.0f}" for machine in machines))
        for name, layout in layouts.items()
    ]
    heads = ["tokens per GPU and step from which gradients hide", "DGX A100", "DGX H100", "DGX B200", "GB200 NVL72"]
    return table(heads, rows)


def table_of_tensor_limits() -> Markdown:
    """How many GPUs can share an MLP before its traffic shows."""
    rows = []
    for model in (find_model("Llama 3 8B"), llama70, llama405):
        limits = (
            rooflines.tensor_limit(machine, model.ffn, matrices=model.matrices)
            for machine in (DGX_A100, DGX_H100, DGX_B200)
        )
        rows.append((model.name, f"{model.ffn:,}", *(f"{limit:.1f}" for limit in limits)))
    return table(["most GPUs for tensor parallelism", "width", "DGX A100", "DGX H100", "DGX B200"], rows)


def figure_of_tensor_costs() -> Figure:
    """What tensor parallelism costs if nothing hides it, on eight A100s and eight H100s."""
    bars = {}
    for width in (2048, 4096, 8192, 16384):
        job = Job(gpt("layers", 8, width, width // 128, 1024), 8, 4096)
        for machine in (DGX_A100, DGX_H100):
            step = plan(job, Layout(tensor=8, overlapped=frozenset()), machine)
            bars[f"{machine.name.split(',')[0]}, width {width:,}"] = _percent(step)
    return stacks(
        bars,
        title="What tensor parallelism costs if nothing hides it",
        subtitle="one node, a micro-batch of 4,096 tokens; eight layers without an embedding to speak of",
        across="% of the step",
    )


def draw(schedule: Schedule, gpus: int, many: int, title: str, chunks: int = 1) -> Figure:
    """A pipeline's passes over time; a forward pass takes 1, a backward pass 2."""
    return stages(run(orders(schedule, gpus, many, chunks), 1, 1, 1, chunks), title=title, chunks=chunks)


def table_of_bubbles() -> Markdown:
    """Closed forms of six schedules beside the results of running them: 8 GPUs, 24 micro-batches; F 1, B 2, W 1."""
    rows = []
    for name, schedule, chunks, formula in (
        ("GPipe", Schedule.GPIPE, 1, "(p − 1)(F + B)"),
        ("1F1B", Schedule.ONE_F_ONE_B, 1, "(p − 1)(F + B)"),
        ("interleaved, 2 chunks", Schedule.ONE_F_ONE_B, 2, "(p − 1)(F + B)/v"),
        ("ZB-H1", Schedule.ZERO_BUBBLE, 1, "(p − 1)(F + B − 2W)"),
        ("ZB-V", Schedule.ZERO_BUBBLE_V, 1, "0, if all parts are equal"),
        ("DualPipe", Schedule.DUALPIPE, 1, "(p/2 − 1)(F&B + B − 3W)"),
    ):
        waits, most = bubble(schedule, 8, 1, 2, 1, chunks), held_at_most(schedule, 8, 24, chunks)
        seen = "(order not written here)", ""
        if schedule is not Schedule.ZERO_BUBBLE_V:
            cells = run(orders(schedule, 8, 24, chunks), 1, 1, 1, chunks)
            seen = f"{idle(cells, 0):g}", f"{max(held(cells, gpu) for gpu in range(8)) / chunks:g}"
        rows.append((name, formula, f"{waits:g}", seen[0], f"{most:g}", seen[1]))
    heads = ["8 GPUs, 24 micro-batches", "bubble", "closed form", "run", "micro-batches held", "run"]
    return table(heads, rows)


def print_hanging_rank() -> None:
    """Three processes train by 1F1B; once as they should, and once with a rank that stops answering."""
    work = Work(orders(Schedule.ONE_F_ONE_B, 3, 5), micro_batches=5)
    for faults in ((), (Fault(1, 4, FaultKind.HANG),)):
        print(train(work, seed=1, patience=3.0 if faults else 30.0, faults=faults).sentence)


def table_of_expert_widths() -> Markdown:
    """The least width of experts whose exchange hides, by GPUs and machine."""
    rows = []
    for gpus in (2, 4, 8, 16, 32, 64, 128, 256):
        widths = (
            rooflines.expert_width(machine, 256, 8, gpus, matrices=deepseek.matrices)
            for machine in (H800, DGX_H100, NVL72)
        )
        rows.append((gpus, *(f"{width:,.0f}" for width in widths)))
    return table(["GPUs that share 256 experts, 8 active", "least width on H800", "on DGX H100", "on NVL72"], rows)


def table_of_pieces() -> Markdown:
    """The least length of a piece of a sequence whose keys and values hide."""
    rows = []
    for model in (gpt3, llama70, llama405):
        pieces = (rooflines.context_tokens(DGX_H100, model, across=far) for far in (False, True))
        rows.append((model.name, f"{model.heads} / {model.kv_heads}", *(f"{piece:,.0f}" for piece in pieces)))
    heads = ["tokens of a piece from which keys and values hide", "heads / keys", "over NVLink", "over the network"]
    return table(heads, rows)


@cache
def llama_step(data: int = 128) -> Step:
    """The published layout of Llama 3 405B with so many replicas."""
    return plan(PRETRAINING, replace(PUBLISHED, data=data), DGX_H100)


def figure_of_two_sizes() -> Figure:
    """The same batch on 8,192 and 16,384 GPUs."""
    half, whole = llama_step(64), llama_step(128)
    return stacks(
        {f"{step.layout.gpus:,} GPUs": _percent(step) for step in (half, whole)},
        title="The same batch on twice the GPUs",
        subtitle=f"planned: {half.utilisation:.1%} and {whole.utilisation:.1%} of the bfloat16 peak",
        across="% of the step",
    )


def table_of_traffic(step: Step) -> Markdown:
    """Bytes of a GPU by axis, how long links are busy, and what is not hidden."""
    rows = [
        (
            flow.axis.value,
            f"{flow.inside / GB:.1f}",
            f"{flow.across / GB:.1f}",
            f"{flow.seconds:.2f}",
            f"{step.exposed.get(flow.axis, 0.0):.2f}",
        )
        for flow in step.flows
        if flow.seconds
    ]
    heads = [f"of a step of {step.seconds:.1f} s", "GB sent in the node", "GB sent across", "links busy, s"]
    return table([*heads, "not hidden, s"], rows)


def table_of_memory(step: Step) -> Markdown:
    """The parts of a GPU's memory."""
    parts = ("weights", "gradients", "optimizer", "activations", "total")
    return table(["memory", "GB per GPU"], [(part, f"{getattr(step.memory, part) / GB:.1f}") for part in parts])


def table_of_layouts() -> Markdown:
    """The best layouts of the search for Llama 3 405B on 16,384 GPUs, one for each depth of pipeline."""
    found = search(PRETRAINING, DGX_H100, 16_384)
    best: dict[int, Step] = {}
    for step in found:
        best.setdefault(step.layout.pipeline, step)
    print(f"{len(found)} layouts fit; the best for each depth of pipeline:")
    rows = []
    for step in sorted(best.values(), key=lambda step: step.seconds)[:6]:
        one = step.layout
        axes = (one.data, one.tensor, one.pipeline, one.context, one.expert, one.micro_batch, one.chunks, one.zero)
        reached = f"{step.memory.total / GB:.0f}", f"{step.utilisation:.1%}", step.bound
        rows.append((*axes, one.recompute.value, *reached))
    heads = ["data", "tensor", "pipeline", "context", "expert", "micro-batch", "chunks", "ZeRO", "recompute"]
    return table([*heads, "GB", "utilisation", "bound"], rows)


def deepseek_step(across: float = H800.across) -> Step:
    """DeepSeek-V3's published layout, on H800s with NICs of so many bytes per second."""
    return plan(DEEPSEEK_JOB, DEEPSEEK_LAYOUT, replace(H800, across=across))


def all_to_alls(step: Step) -> float:
    """Seconds of a step's links for experts."""
    return next(flow.seconds for flow in step.flows if flow.axis is Axis.EXPERT)


def table_of_deepseek(step: Step, hours: float = 180e3) -> Markdown:
    """The plan beside the report, which gives GPU-hours for a trillion tokens."""
    reported = 1e12 / (hours * 3600)
    seconds = DEEPSEEK_JOB.tokens / (reported * DEEPSEEK_LAYOUT.gpus)
    rows = [
        ("tokens per GPU and second", f"{reported:,.0f}", f"{step.tokens_a_second:,.0f}"),
        ("a step, s", f"{seconds:.1f}", f"{step.seconds:.1f}"),
        ("of it the all-to-alls' links, s", "", f"{all_to_alls(step):.1f}"),
    ]
    return table(["DeepSeek-V3 on 2,048 H800", "from the report", "planned"], rows)


@cache
def every_run() -> Sequence[Run]:
    """All published runs."""
    return tuple(runs())


def unseen() -> list[Run]:
    """Those to which no constant was fitted."""
    return [one for one in every_run() if not one.fit]


def figure_of_runs() -> Figure:
    """Planned against published utilisation."""
    every = every_run()
    mine, whole = (median(abs(one.error) for one in some) for some in (unseen(), every))
    print(f"{len(every)} runs, {len(unseen())} of them unseen: median error {mine:.1%}; of all {whole:.1%}")
    subtitle = "utilisation of the bfloat16 peak; band: 10%; hollow: in the fit"
    return planned_runs(every, title="Planned and published", subtitle=subtitle)


def table_of_runs() -> Markdown:
    """All runs with their errors, folded."""
    rows = [
        (
            one.name,
            f"{one.layout.gpus:,}",
            f"{one.published:.1%}",
            f"{one.planned():.1%}",
            f"{one.error:+.1%}" + (" (fit)" if one.fit else ""),
            ", ".join(one.assumed),
        )
        for one in every_run()
    ]
    heads = ["run", "GPUs", "published", "planned", "error", "not said, so chosen"]
    made = table(heads, rows).data
    return Markdown(f"<details><summary>All {len(rows)} runs</summary>\n\n{made}\n\n</details>")


def errors_beside_a_guess() -> dict[str, tuple[int, float, float]]:
    """By kind of run: how many, the planner's median error, and that of the runs' own mean."""
    kinds = {
        "Ampere": ("ampere", Math.BF16_TENSOR),
        "Hopper": ("hopper", Math.BF16_TENSOR),
        "Hopper, FP8": ("hopper", Math.FP8_TENSOR),
    }
    found = {}
    for name, kind in kinds.items():
        some = [one for one in unseen() if (one.machine.generation, one.job.precision.math) == kind]
        guess = geometric_mean(one.published for one in some)
        by_guess = median(abs(guess / one.published - 1) for one in some)
        found[name] = len(some), median(abs(one.error) for one in some), by_guess
    return found


def table_of_errors() -> Markdown:
    """The same as a table."""
    rows = [
        (name, many, f"{mine:.1%}", f"{guess:.1%}") for name, (many, mine, guess) in errors_beside_a_guess().items()
    ]
    return table(["unseen runs", "number", "planner, median error", "their own mean, median error"], rows)


def table_of_left_out() -> Markdown:
    """Each of the fitted runs, planned with constants that were fitted without it."""
    rows = [(one.name, f"{without(one) / one.published - 1:+.1%}") for one in every_run() if one.fit]
    return table(["left out of the fit", "error"], rows)


@cache
def shared_layers() -> dict[tuple[str, int], dict[int, dict[str, Record]]]:
    """Records of layers that GPUs share: {(layer, GPUs): {tokens: {way: record}}}."""
    found: dict[tuple[str, int], dict[int, dict[str, Record]]] = {}
    for one in read(DIRECTORY / "collectives.json").records:
        if one.metric == "forward and backward":
            gpus, tokens = (int(size) for size in one.shape[:2])
            found.setdefault((one.name, gpus), {}).setdefault(tokens, {})[one.variant] = one
    return found


def share_of_exchange(gpus: int = 4, tokens: int = 8192) -> float:
    """Percent of the time of a complete expert-parallel layer that its exchange takes alone."""
    ways = shared_layers()["expert-parallel layer", gpus][tokens]
    return 100 * ways["traffic alone"].value / ways["whole"].value


def table_of_parts() -> Markdown:
    """Of the layers with 8,192 tokens: the whole over the sum of its parts."""
    rows = []
    for (name, gpus), sizes in shared_layers().items():
        ways = sizes[8192]
        parts = ways["without traffic"].value + ways["traffic alone"].value
        rows.append((name, gpus, f"{ways['whole'].value / parts:.2f}"))
    return table(["layer, 8,192 tokens per GPU", "GPUs", "complete layer / sum of its parts"], rows)


def table_of_layers() -> Markdown:
    """All measured layers, and how the planner compares."""
    rows = []
    for (name, gpus), sizes in shared_layers().items():
        for tokens, ways in sizes.items():
            cells = (f"{one.value / 1e3:.2f} ({one.ratio:.2f})" for one in ways.values())
            rows.append((name, gpus, f"{tokens:,}", *cells))
    heads = [
        "layer",
        "GPUs",
        "tokens",
        "complete layer, ms measured (planned / measured)",
        "without traffic",
        "traffic alone",
    ]
    return table(heads, rows)


def figure_of_layers() -> Figure:
    """Experts over four GPUs: measured dots and planned lines."""
    drawn = []
    for way in ("without traffic", "traffic alone"):
        of = {tokens: ways[way] for tokens, ways in shared_layers()["expert-parallel layer", 4].items()}
        drawn.append(CostLine(way, [*of], [one.value * 1e-6 for one in of.values()], dots=True))
        drawn.append(CostLine(way, [*of], [(one.baseline_value or 0) * 1e-6 for one in of.values()]))
    return cost_lines(
        drawn,
        title="Experts over four H200s: the planner predicts the slopes, not the floor",
        subtitle="DeepSeek-V3's routed experts, forward and backward; lines: planned",
        across="tokens per GPU",
        units=("", "s"),
    )


def bloom_needs() -> dict[int, float]:
    """GB that the planner gives BLOOM's 70 layers with 64 heads, by the size of a micro-batch."""
    bloom = next(one for one in every_run() if one.name.startswith("BLOOM"))
    job = replace(bloom.job, model=gpt("BLOOM, 64 heads", 70, 14_336, 64, 250_880))
    return {many: memory(job, replace(bloom.layout, micro_batch=many)).total / GB for many in (2, 4)}


def share_waiting(many: int) -> float:
    """Exercise 1: the share of a step of 1F1B with 16 stages that is bubble."""
    waits = bubble(Schedule.ONE_F_ONE_B, 16, 1, 2, 1)
    return waits / (waits + many * 3)


def judged_orders(mine: Sequence[Sequence[Pass]]) -> bool:
    """Exercise 2: whether two GPUs do every pass of four micro-batches, wait for 1 and hold 2 at most."""
    kinds = (Kind.FORWARD, Kind.INPUT, Kind.WEIGHTS)
    try:
        complete = all(
            sorted((one.kind, one.micro_batch, one.stage) for one in order)
            == sorted((kind, micro_batch, gpu) for kind in kinds for micro_batch in range(4))
            for gpu, order in enumerate(mine)
        )
        cells = run([list(order) for order in mine], 1, 1, 1)
        waiting, holding = max(idle(cells, gpu) for gpu in range(2)), max(held(cells, gpu) for gpu in range(2))
    except (LayoutError, TypeError, AttributeError, ValueError) as error:
        print(error)
        return False
    said = "" if complete else "; but a pass is missing or duplicated"
    print(f"waits for {waiting:g}, holds {holding}{said}")
    return complete and waiting <= 1 and holding <= 2


def judged_layout(mine: Layout) -> bool:
    """Exercise 3: whether a layout of Llama 3 70B on 256 H100s fits and is within 2% of the best."""
    job = Job(llama70, 256, 8192)
    best = search(job, DGX_H100, 256)[0]
    try:
        step = plan(job, mine, DGX_H100)
    except (LayoutError, TypeError) as error:
        print(error)
        return False
    said = f"{step.utilisation:.1%} of the peak against {best.utilisation:.1%}; {step.memory.total / GB:.0f} GB"
    print(f"{said}; bound by {step.bound}")
    return step.fits and mine.gpus == 256 and step.seconds <= 1.02 * best.seconds


def share_of_products(gbs: float) -> float:
    """Exercise 4: time of DeepSeek-V3's all-to-alls over that of its products, with NICs of so many GB/s."""
    step = deepseek_step(max(gbs, 1) * GB)
    return all_to_alls(step) / step.products


def _percent(step: Step) -> dict[str, float]:
    return {name: 100 * seconds / step.seconds for name, seconds in step.parts.items()}
