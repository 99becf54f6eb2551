"""The appendix to chapter 02: six GPUs side by side, and a GPU beside a TPU."""

from __future__ import annotations

from collections.abc import Callable

from IPython.display import Markdown
from matplotlib.figure import Figure

from course.lesson import table
from course.measured import known
from warplab.figures import style
from warplab.hardware import Chip, Math
from warplab.hardware.chips import A100, B200, GB200, H100, H200, V100
from warplab.hardware.tpus import TPU_V5P, TPUS

CHIPS = (V100, A100, H100, H200, B200, GB200)
_KIB, _MIB = 1024, 1024**2
_ROWS: tuple[tuple[str, Callable[[Chip], float | None]], ...] = (
    ("SMs", lambda c: c.sms),
    ("float32 lanes per SM", lambda c: c.cuda_cores_per_sm),
    ("tensor cores per SM", lambda c: c.tensor_cores_per_sm),
    ("boost clock, MHz", lambda c: c.boost_clock and c.boost_clock / 1e6),
    ("float64, TFLOP/s", lambda c: _tera(c, Math.FP64)),
    ("float32, TFLOP/s", lambda c: _tera(c, Math.FP32)),
    ("TF32 tensor, TFLOP/s", lambda c: _tera(c, Math.TF32_TENSOR)),
    ("float16 tensor, TFLOP/s", lambda c: _tera(c, Math.FP16_TENSOR)),
    ("fp8 tensor, TFLOP/s", lambda c: _tera(c, Math.FP8_TENSOR)),
    ("fp4 tensor, TFLOP/s", lambda c: _tera(c, Math.FP4_TENSOR)),
    ("registers per SM, KiB", lambda c: c.register_file_per_sm / _KIB),
    ("shared memory per SM, KiB", lambda c: c.shared_per_sm / _KIB),
    ("tensor memory per SM, KiB", lambda c: 128 * 512 * 4 / _KIB if c.compute_capability >= (10, 0) else None),
    ("L2, MiB", lambda c: c.l2 and c.l2 / _MIB),
    ("memory, GB", lambda c: c.memory / 1e9),
    ("memory bandwidth, TB/s", lambda c: c.bandwidth / 1e12),
    ("NVLink, both directions, GB/s", lambda c: c.nvlink and c.nvlink / 1e9),
    ("power, W", lambda c: c.tdp),
    ("float16 FLOP per byte of memory", lambda c: known(c.peak(Math.FP16_TENSOR)) / c.bandwidth),
)


def table_of_chips() -> Markdown:
    """What the datasheets of six GPUs say."""
    rows = []
    for name, make in _ROWS:
        values = [make(chip) for chip in CHIPS]
        rows.append((name, *(_figure(value, 2 if "TB/s" in name else 0) for value in values)))
    return table(["", *(chip.name for chip in CHIPS)], rows)


def figure_of_growth() -> Figure:
    """What a chip has in proportion to a V100: all grows but the registers of an SM."""
    figure, (axes,) = style.figure(10, 4)
    shown = CHIPS[:-1]
    grown: tuple[tuple[str, Callable[[Chip], float | None]], ...] = (
        ("float16 tensor peak", lambda c: c.peak(Math.FP16_TENSOR)),
        ("memory bandwidth", lambda c: c.bandwidth),
        ("float32 peak", lambda c: c.peak(Math.FP32)),
        ("SMs", lambda c: c.sms),
        ("registers of an SM", lambda c: c.register_file_per_sm),
    )
    for number, (name, make) in enumerate(grown):
        values = [known(make(chip)) / known(make(V100)) for chip in shown]
        axes.plot(range(len(shown)), values, marker="os^Dv"[number], color=style.PALETTE[number], label=name)
    axes.set_yscale("log", base=2)
    ticks = [1, 2, 4, 8, 16]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks(range(len(shown)), [chip.name for chip in shown])
    axes.set_ylabel("times a V100's")
    axes.grid(True, axis="y")
    axes.legend(frameon=False, fontsize=style.SMALL)
    style.headline(figure, "Five generations, in proportion to the V100", "published figures, dense peaks")
    return figure


def documents_of_chips() -> Markdown:
    """The document behind each figure of a chip."""
    lines = [
        f"* **{chip.name}**: " + "; ".join(f"{source.document} ({source.evidence})" for source in chip.sources)
        for chip in CHIPS
    ]
    return Markdown("\n".join(lines))


def table_of_tpus() -> Markdown:
    """TPUs, with three GPUs below them, by what their makers publish."""
    rows = []
    for t in TPUS:
        side = "" if t.matrix_side is None else f"{t.matrix_side} x {t.matrix_side}"
        parts = (_figure(t.tensor_cores), _figure(t.matrix_units), side)
        speeds = (_figure(t.bf16 / 1e12), _figure(t.memory / 1e9), f"{t.bandwidth / 1e12:.2f}", _figure(t.ici / 1e9))
        rows.append((t.name, *parts, *speeds, _figure(t.intensity)))
    for c in (H100, H200, B200):
        peak = known(c.peak(Math.BF16_TENSOR))
        parts = (f"{c.sms} SMs", f"{c.sms * c.tensor_cores_per_sm} tensor cores", "")
        speeds = (
            _figure(peak / 1e12),
            _figure(c.memory / 1e9),
            f"{c.bandwidth / 1e12:.2f}",
            _figure(c.nvlink and c.nvlink / 1e9),
        )
        rows.append((c.name, *parts, *speeds, _figure(peak / c.bandwidth)))
    speeds_of = ["bf16, TFLOP/s", "memory, GB", "TB/s", "links, both directions, GB/s", "FLOP per byte"]
    return table(["chip", "cores", "matrix units", "size of one", *speeds_of], rows)


def documents_of_tpus() -> Markdown:
    """The document behind each TPU's figures."""
    return Markdown("\n".join(f"* **{t.name}**: {t.source}" for t in TPUS))


def table_of_parts() -> Markdown:
    """The parts of an H100 and of a TPU v5p, counted."""
    assert H100.tensor_clock and TPU_V5P.matrix_side
    of_one = known(H100.peak(Math.BF16_TENSOR)) / (2 * H100.sms * 4 * H100.tensor_clock)
    near = f"{H100.sms * 256 * _KIB / _MIB:.0f} MiB in {H100.sms} pieces"
    rows = [
        ("cores that each run a program", H100.sms, TPU_V5P.tensor_cores),
        ("vector units (a scheduler with its lanes; a slot of the VPU)", 4 * H100.sms, 8),
        ("matrix units", H100.sms * H100.tensor_cores_per_sm, TPU_V5P.matrix_units),
        ("multiply-adds of one matrix unit per cycle, bfloat16", f"{of_one:,.0f}", f"{TPU_V5P.matrix_side**2:,}"),
        ("memory beside the units (L1 and shared memory; VMEM)", near, "128 MB"),
        ("registers", f"{H100.sms * H100.register_file_per_sm / _MIB:.0f} MiB", "256 KB"),
        ("cache for all", f"{known(H100.l2) / _MIB:.0f} MiB of L2", "none"),
    ]
    return table(["", "H100", "TPU v5p"], rows)


def _tera(chip: Chip, math: Math) -> float | None:
    peak = chip.peak(math)
    return peak and peak / 1e12


def _figure(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
