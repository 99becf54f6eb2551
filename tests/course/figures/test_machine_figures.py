"""Floor plan, occupancy and working sets: what the pictures say, against the datasheet and rules counted here."""

from __future__ import annotations

from io import BytesIO

import pytest

from course.figures.floor_plan import floor_plan
from course.figures.occupancy import occupancy_limits
from course.figures.occupancy_sliders import occupancy_sliders
from course.figures.working_set import Level, byte_size, working_set
from warplab.figures import style
from warplab.hardware.chips import A100, B200, CHIPS, H200, V100
from warplab.plan.occupancy import occupancy


def kinds(figure) -> list[str]:
    (axes,) = figure.axes
    return [patch.get_gid() for patch in axes.patches]


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_the_floor_plan_has_the_lanes_of_the_datasheet(chip) -> None:
    found = kinds(floor_plan(chip))
    assert found.count("float32") == chip.cuda_cores_per_sm
    assert found.count("tensor core") == chip.tensor_cores_per_sm
    assert sum(kind.startswith("partition") for kind in found) == found.count("scheduler") == 4
    assert found.count("special") == 16  # a warp in 8 cycles on each of four partitions


def test_float64_lanes_make_the_published_peaks() -> None:
    for chip in (V100, A100, H200):
        lanes = kinds(floor_plan(chip)).count("float64")
        assert 2 * lanes * chip.sms * chip.boost_clock == pytest.approx(chip.peaks["fp64"], rel=0.02)


def test_lanes_stay_inside_their_partition() -> None:
    (axes,) = floor_plan(B200).axes
    frames = [p for p in axes.patches if p.get_gid().startswith("partition")]
    for lane in (
        p for p in axes.patches if p.get_gid() in ("float32", "int32", "float64", "load_store", "tensor core")
    ):
        inside = [
            f
            for f in frames
            if f.get_x() < lane.get_x()
            and lane.get_x() + lane.get_width() < f.get_x() + f.get_width()
            and f.get_y() < lane.get_y()
            and lane.get_y() + lane.get_height() < f.get_y() + f.get_height()
        ]
        assert len(inside) == 1


def test_occupancy_limits_mark_what_runs_out() -> None:
    figure = occupancy_limits("sm_90a", 256, 72, 20_000)
    bars, by_registers, by_shared = figure.axes
    red = [p.get_gid() for p in bars.patches if p.get_facecolor()[:3] == pytest.approx((0.835, 0.369, 0), abs=0.01)]
    assert red == ["registers"] and style.RED == "#D55E00"
    # 72 registers x 32 lanes are 2,304 a warp; 65,536 / 2,304 = 28 warps, in whole blocks of 8: 24.
    assert "3 blocks, 24 of 64 warps per SM (38%)" in figure.texts[1].get_text()
    for axes, value in ((by_registers, 72), (by_shared, 20_000 / 1024)):
        (point,) = [line for line in axes.lines if line.get_gid() == "here"]
        assert list(point.get_xdata()) == [value] and list(point.get_ydata()) == [24]
    curve = by_registers.lines[0]
    for registers, warps in zip(curve.get_xdata()[::40], curve.get_ydata()[::40], strict=True):
        assert occupancy("sm_90a", 256, int(registers), 20_000).warps == warps


def test_working_set_draws_levels_as_bands_and_sorts_curves() -> None:
    figure = working_set(
        {"one": [(4096, 200.0), (1024, 30.0)], "two": [(2048, 60.0), (8192, 90.0)]},
        "cycles",
        [Level("L1", 2048), Level("L2", 4096), Level("memory", None)],
        label="latency",
    )
    (axes,) = figure.axes
    assert list(axes.lines[0].get_xdata()) == [1024, 4096]
    bands = {p.get_gid(): p for p in axes.patches if p.get_gid()}
    assert list(bands) == ["level L1", "level L2", "level memory"]
    assert bands["level L2"].get_x() == 2048 and bands["level L2"].get_width() == 2048
    assert axes.get_xscale() == "log" and axes.get_ylabel() == "latency, cycles"


def test_sizes_read_well() -> None:
    assert [byte_size(n) for n in (512, 1024, 196_608, 60 << 20, 1 << 32)] == [
        "512 B", "1 KiB", "192 KiB", "60 MiB", "4 GiB",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda: floor_plan(H200),
        lambda: occupancy_limits("sm_80", 1024, 32),
        lambda: working_set(
            {"a": [(1, 1.0), (2**40, 2.0)]}, "B/s", [Level("all", None)], label="bandwidth", logarithmic=True
        ),
    ],
)
def test_it_draws(make) -> None:
    buffer = BytesIO()
    make().savefig(buffer, format="png")
    assert len(buffer.getvalue()) > 5_000


def test_the_knobs_draw_what_they_say() -> None:
    turned = occupancy_sliders(threads=128, registers=32, shared=0)
    assert "16 blocks, 64 of 64 warps" in turned.figure.texts[1].get_text()
    at_first = bytes(turned.picture.value)
    turned.sliders["registers"].value = 64
    assert bytes(turned.picture.value) != at_first
    most = turned.sliders["shared"].max
    turned.sliders["shared"].value = most  # as much as one block may have
    assert most == 227 * 1024 and len(turned.picture.value) > 5_000


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="every curve needs points"):
        working_set({"a": []}, "s", [], label="time")
    with pytest.raises(ValueError, match="must be positive"):
        working_set({"a": [(0, 1.0)]}, "s", [], label="time")
    with pytest.raises(ValueError, match="threads must be"):
        occupancy_limits("sm_90a", 2048, 32)
