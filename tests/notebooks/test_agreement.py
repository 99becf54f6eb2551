"""Where two chapters, a quiz or a lab give one quantity, they give the same one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from course.measured import Measured
from warplab.hardware.chips import H100, H200
from course.quiz import load
from course.quiz.draw import every_draw
from course.figures.chip_map import SMS, TPCS

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = {path.stem[:2]: path.read_text(encoding="utf-8") for path in (ROOT / "notebooks" / "source").glob("*.md")}
QUIZZES = {path.stem[:2]: path.read_text(encoding="utf-8") for path in (ROOT / "course/quiz/bank").glob("[0-9]*.toml")}
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
