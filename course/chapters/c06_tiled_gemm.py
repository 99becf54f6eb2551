"""Chapter 06: three meters of an SM per warp-wide multiply-add, and the ladder of lab 06 by them and by the clock."""

from __future__ import annotations

from IPython.display import Markdown
from matplotlib.figure import Figure

from autograder.own_work import capture_submission
from course.captures import process_for
from course.figures.explore import Explorer
from course.figures.tiles import Tiling, tiles
from course.lesson import Lesson, Step, ceilings, datasheet, speed, table
from warplab.emulator.profiling.timeline import Reason, Timeline
from warplab.figures import style
from warplab.figures.roofline import Point, roofline
from warplab.hardware import Roofline

L1 = "L1 and shared memory"


def cycles(step: Step) -> dict[str, float]:
    """Cycles of one SM per warp-wide multiply-add, by resource."""
    count = step.per_multiply_add
    requests = count("global_load_requests", "global_store_requests")
    moved = count("global_load_sectors", "global_store_sectors")
    wavefronts = count("shared_load_wavefronts", "shared_store_wavefronts")
    return {
        "arithmetic": 1 / 4,
        L1: max(requests, moved * 32 / 128) + wavefronts,
        "instruction issue": count("warp_instructions") / 4,
    }


def at_most(step: Step) -> float:
    """The share of the arithmetic peak that the busiest resource leaves."""
    return (1 / 4) / max(cycles(step).values())


def meters(step: Step) -> list[Markdown]:
    """The three meters of a rung, the bound that follows, and how fast the rung is."""
    busy = cycles(step)
    worst = max(busy, key=lambda name: busy[name])
    rows = [(f"**{name}**" if name == worst else name, needed) for name, needed in busy.items()]
    words = f"Modelled, not measured: at most **{at_most(step):.1%}** of the arithmetic peak, for {worst}."
    return [table([f"{step.name}: resource", "cycles per warp-wide multiply-add"], rows), Markdown(words), speed(step)]


def requested(step: Step) -> Markdown:
    """Bytes that a rung requests in the timing case, and how long all L1s take for them."""
    case = step.lab.task.timing.dimensions
    m, n, k = case["m"], case["n"], case["k"]
    asked = step.per_multiply_add("global_load_sectors") * 32 * (m * n * k / 32)
    needed = 2 * m * k + 2 * k * n + 4 * m * n
    chip = datasheet()
    rate = l1_rate()
    return Markdown(
        f"Requested from L1 for {m}³: {asked / 1e12:.2f} TB. Needed from the main memory: {needed / 1e12:.6f} TB.\n\n"
        f"The L1s of all SMs of an {chip.name} together deliver {rate / 1e12:.1f} TB/s, so this takes at least "
        f"{asked / rate * 1e3:.0f} ms."
    )


def l1_rate() -> float:
    """Bytes per second of all L1s of the GPU here, else of an H200: 128 bytes per cycle and SM."""
    chip = datasheet()
    return chip.sms * 128 * (chip.boost_clock or 0)


def loop_of(lesson: Lesson, step: Step) -> str:
    """The PTX from one multiply-add of a rung to the next."""
    task, architecture = lesson.lab.task, lesson.machine.architecture
    source = step.rung.source
    captured = capture_submission(lesson.lab, source, (task.profile,), 0, architecture, captured_in=process_for(source))
    (kernel,) = captured.plans[task.profile.name].kernels.values()
    lines = [line.strip() for line in kernel.ptx[architecture].splitlines()]
    lines = [line for line in lines if line and not line.startswith((".loc", "//", "$", "."))]
    first, second = [number for number, line in enumerate(lines) if line.startswith("fma")][:2]
    return "\n".join(lines[first : second + 1])


def explore_tiles() -> Explorer:
    """Choose the tile of a block and of a thread."""

    def draw(rows: int, columns: int, depth: int, rows_of_a_thread: int, columns_of_a_thread: int) -> Figure:
        tiling = Tiling(256, 256, 128, (rows, columns), depth, (rows_of_a_thread, columns_of_a_thread))
        return tiles(tiling, thread=(1, 2))

    return Explorer(
        draw,
        rows=(64, [32, 64, 128]),
        columns=(64, [32, 64, 128]),
        depth=(16, [8, 16, 32]),
        rows_of_a_thread=(4, [1, 2, 4, 8]),
        columns_of_a_thread=(4, [1, 2, 4, 8]),
    )


def room_table(*steps: Step) -> Markdown:
    """Registers and shared memory of rungs, and the occupancy that they leave."""
    rows = []
    for step in steps:
        kernel = step.rung.kernels[0]
        rows.append((step.name, kernel.registers, kernel.spill_bytes, kernel.shared, f"{kernel.occupancy:.0%}"))
    heads = ["registers per thread", "spilled bytes", "shared bytes per block", "occupancy"]
    return table(["rung", *heads], rows)


def counters_table(*steps: Step) -> Markdown:
    """A few counters of rungs, in all."""
    shared = ("shared_load_wavefronts", "shared_store_wavefronts")
    names = ("global_load_sectors", *shared, "barriers", "warp_instructions")
    rows = [(step.name, *(getattr(step.total, name) for name in names)) for step in steps]
    return table(["rung", *(name.replace("_", " ") for name in names)], rows)


def waiting(chart: Timeline, reason: Reason = Reason.GLOBAL) -> float:
    """Percent of the time of all warps of a modelled timeline that they wait for something."""
    waited = sum(stall.end - stall.start for stall in chart.stalls if stall.reason is reason)
    return 100 * waited / (chart.warps * chart.end)


def ladder_table(steps: list[Step]) -> Markdown:
    """Every rung by its counters, by the model and by the clock."""
    rows = [
        (
            step.name,
            step.per_multiply_add("global_load_sectors"),
            step.per_multiply_add("shared_load_wavefronts"),
            step.total.shared_load_bank_conflicts + step.total.shared_store_bank_conflicts,
            step.per_multiply_add("warp_instructions"),
            f"{at_most(step):.1%}",
            f"{step.time.efficiency:.1%}" if step.time else "not known here",
        )
        for step in steps
    ]
    heads = ["global sectors", "shared wavefronts", "bank conflicts", "PTX instructions", "at most (model)", "measured"]
    return table(["rung", *heads], rows)


def ladder_figure(steps: list[Step]) -> Figure:
    """The bound of the model and the measured share of the peak, rung by rung."""
    made, (axes,) = style.figure(7.2, 1.5 + 0.5 * len(steps))
    bounds = [100 * at_most(step) for step in steps]
    axes.barh(range(len(steps)), bounds, height=0.66, color=style.FAINT, label="at most (model)")
    timed = [(place, 100 * step.time.efficiency) for place, step in enumerate(steps) if step.time]
    if timed:
        places, reached = zip(*timed, strict=True)
        axes.barh(places, reached, height=0.36, color=style.BLUE, label="measured")
        for place, value in timed:
            axes.text(max(value, bounds[place]), place, f"  {value:.0f}%", va="center", color=style.INK)
    axes.set_yticks(range(len(steps)), [step.name for step in steps])
    axes.set_ylim(len(steps) - 0.4, -0.6)
    axes.set_xlim(0, 115)
    axes.set_xlabel("percent of the arithmetic peak")
    axes.legend(frameon=False, loc="upper right", labelcolor=style.INK)
    style.headline(made, "Six kernels, one product", "the bound of the model, and the clock")
    return made


def main_memory_roofline(steps: list[Step]) -> list:
    """The timed rungs on the roofline of the main memory; a sentence where no time is known."""
    timed = [step for step in steps if step.time]
    if not timed:
        return [Markdown("No times are known here, so there is nothing to place on this roofline.")]
    case = steps[0].lab.task.timing.dimensions
    m, n, k = case["m"], case["n"], case["k"]
    at = 2 * m * n * k / (2 * m * k + 2 * k * n + 4 * m * n)
    peak, copy, where = ceilings()
    points = [Point(step.name, at, step.time.flops) for step in timed if step.time]
    drawn = roofline(Roofline(peak, copy, where), points, title="The ladder against the main memory")
    return [Markdown(f"Roof: {where}."), drawn]


def on_chip_roofline(steps: list[Step]) -> list:
    """The rungs on the roofline of L1 and shared memory: measured where a time is known, else by the model."""
    peak, _, _ = ceilings()
    points = []
    for step in steps:
        reached = step.time.flops if step.time else peak * at_most(step)
        points.append(Point(step.name, 64 / (128 * cycles(step)[L1]), reached))
    timed = all(step.time for step in steps)
    words = "Points: measured." if timed else "Points: modelled, not measured: the bound of the busiest resource."
    title = "The same kernels against L1 and shared memory" + ("" if timed else " (modelled)")
    return [Markdown(words), roofline(Roofline(peak, l1_rate(), L1), points, title=title)]


def model_table(steps: list[Step]) -> Markdown:
    """The measured share of the peak over the model's bound."""
    rows = [
        (s.name, f"{at_most(s):.1%}", f"{s.time.efficiency:.1%}", s.time.efficiency / at_most(s))
        for s in steps
        if s.time
    ]
    return table(["rung", "at most (model)", "measured", "measured / model"], rows)


def cycles_taken(step: Step) -> Markdown:
    """The measured cycles of an SM per warp-wide multiply-add beside the sectors that it requests."""
    if not step.time:
        return Markdown("*Not measured.*")
    taken, asked = (1 / 4) / step.time.efficiency, step.per_multiply_add("global_load_sectors")
    return Markdown(
        f"{step.name}: **{taken:.1f} cycles** per warp-wide multiply-add, in which it requests **{asked:.0f} "
        "sectors**, each in a cache line of its own."
    )


def instruction_mix(step: Step) -> Markdown:
    """What 100 instructions of a rung are."""
    issued = step.per_multiply_add("warp_instructions")
    reads = step.per_multiply_add("shared_load_requests")
    k = step.lab.task.profile.dimensions["k"]
    return Markdown(
        f"Of 100 PTX instructions, {100 / issued:.0f} are multiply-adds and {100 * reads / issued:.1f} read shared "
        "memory. The others convert float16 to float32, store tiles and results, and compute addresses. (Their share "
        f"is larger here than in a long product: the profile case has a k of only {k}.)"
    )
