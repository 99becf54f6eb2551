"""Where two chapters, a quiz or a lab give one quantity, they give the same one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from course import results
from course.figures.chip_map import SMS, TPCS
from course.measured import Measured
from course.quiz import load
from course.quiz.draw import every_draw
from warplab.hardware.chips import H100, H200

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = {
    path.stem.split("_")[0]: path.read_text(encoding="utf-8") for path in (ROOT / "notebooks" / "source").glob("*.md")
}
QUIZZES = {
    path.stem.split("_")[0]: path.read_text(encoding="utf-8")
    for path in (ROOT / "course/quiz/bank").glob("[0-9]*.toml")
}
LABS = {path.parent.name: path.read_text(encoding="utf-8") for path in (ROOT / "labs").glob("*/README.md")}
EVERYWHERE = [*CHAPTERS.values(), *QUIZZES.values(), *LABS.values()]


def given(pattern: str) -> set[str]:
    """Every figure that stands where the group of the pattern is, wherever the course says so."""
    return {found.group(1) for text in EVERYWHERE for found in re.finditer(pattern, " ".join(text.split()))}


def test_an_h200_has_one_number_of_everything() -> None:
    assert given(r"(\d+) \*\*streaming multiprocessors") == {f"{H200.sms}"}
    assert SMS == H200.sms == H100.sms and sum(TPCS[:2] + TPCS[4:6]) == sum(TPCS[2:4] + TPCS[6:])
    assert given(r"([\d,]+) \"CUDA cores\"|([\d,]+) \*CUDA cores\*") == {f"{H200.cuda_cores:,}", None}
    assert {float(n) for n in given(r"H200[^.|]{0,60}?([\d.]+) TFLOP/s in float32")} == {H200.peaks["fp32"] / 1e12}
    assert {float(n) for n in given(r"([\d.]+) (?:W|watts) on an H200")} == {H200.tdp}


def test_a_random_element_moves_64_bytes_in_the_chapter_and_in_both_quizzes() -> None:
    measured = dict(Measured().curve("strided read", "bandwidth"))
    (gather,) = [q for q in load("04").questions if q.id == "04-gather"]
    (single,) = [d for d in every_draw(gather) if d.names["size"] == 4]
    assert float(single.answer) * 1e9 == pytest.approx(measured[16], rel=0.05)
    (rows,) = [q for q in load("05").questions if q.id == "05-embedding"]
    (eight,) = [d for d in every_draw(rows) if d.names["d"] == 4]  # 8 bytes of 64
    assert float(eight.answer) == pytest.approx(100 * 8 / 64)


def test_bytes_in_flight_for_nine_tenths_of_the_memory() -> None:
    """Lab 01 says 30 KiB an SM; chapter 04 reads it off the curve of 16 warps."""
    measured = Measured()
    of_16_warps = []
    for ahead in (1, 2, 4, 8):
        curve = dict(measured.curve("bytes in flight", "bandwidth", variant=f"{ahead} loads"))
        of_16_warps.append((curve[16], 16 * 512 * ahead / 1024))
    rates, sizes = zip(*of_16_warps, strict=True)
    needed = np.interp(0.9 * measured.value("hbm", "bandwidth"), rates, sizes)
    assert given(r"some (\d+) KiB an SM were needed for 90%") == {"30"} and 25 < needed < 33
    latency = measured.value("hbm", "latency") / measured.value("sm clock", "rate") * 1e9
    (said,) = given(r"4\.8 TB/s and (\d+) ns")
    assert float(said) == pytest.approx(latency, rel=0.02)


def test_units_of_registers() -> None:
    """A warp's registers come in units of 256, in both chapters and both quizzes."""
    assert given(r"registers are given (?:out )?(?:to a warp )?in units of (\d+)") == {"256"}
    assert given(r"handed out (?:to a warp )?in units of (\d+)") == {"256"}


def test_the_gain_of_a_rung_is_given_for_each_regime() -> None:
    """Chapter 08b quotes two steps of the ladder at 8,192 cubed: in shared turns on an H200, alone on an H100."""
    lab, shape = "08_hopper_hgemm", (8192,) * 3
    gemm, alone = (results.read(results.DIRECTORY / name) for name in ("gemm.json", "gemm_alone.json"))
    assert (gemm.header.gpu, alone.header.gpu) == ("NVIDIA H200", "NVIDIA H100 80GB HBM3")

    def gain(old: str, new: str) -> tuple[str, str]:
        shared = [gemm.find(f"{lab}/{n}", "rate", shape=shape, dtype="float16") for n in (old, new)]
        assert shared[0].baseline_value == shared[1].baseline_value  # one group of turns
        each = [alone.find(f"{lab}/{n}", "rate", shape=shape).extra["ratio_turn_by_turn"] for n in (old, new)]
        return f"{100 * (shared[1].value / shared[0].value - 1):.0f}", f"{100 * (each[1] / each[0] - 1):.0f}"

    seven = re.search(r"rung 7 gains (\d+)% over rung 6 in shared turns .*? but (\d+)% when", CHAPTERS["08b"])
    five = re.search(r"Rung 5 over rung 2 gains (\d+)% in the first regime and (\d+)% in the second", CHAPTERS["08b"])
    assert seven and seven.groups() == gain("rung_06_registers", "rung_07_persistent")
    assert five and five.groups() == gain("rung_02_larger_tile", "rung_05_two_consumers")


def test_only_the_rung_that_spills_keeps_its_clock_at_the_power_limit() -> None:
    alone = results.read(results.DIRECTORY / "gemm_alone.json").records
    late = [r for r in alone if r.name.startswith(("07_tensor_core_hgemm", "08_hopper_hgemm"))]
    late = [r for r in late if not r.name.endswith(("rung_2_ldmatrix", "rung_3_swizzle"))]
    assert all(abs(r.extra["power_ours"] - 700) < 70 for r in late)  # "the readings scatter by a tenth"
    (fast,) = [r for r in late if r.extra["clock_ours"] > 1500]
    said = re.search(r"\*\*The exception is rung 4, .*? draws (\d+) W and keeps ([\d,]+) MHz", CHAPTERS["08b"])
    assert fast.name == "08_hopper_hgemm/rung_04_one_consumer"
    assert said and said.groups() == (f"{fast.extra['power_ours']:.0f}", f"{fast.extra['clock_ours']:,.0f}")


def test_chapters_05_and_06_keep_l1_busy_by_one_definition() -> None:
    """A request takes a cycle, whatever it needs; a coalesced warp-wide multiply-add has two, so 64 / 256 FLOP/B."""
    busy = "max(requests, sectors * 32 / 128) + wavefronts"
    assert all(CHAPTERS[chapter].count(busy) == 1 for chapter in ("05", "06"))
