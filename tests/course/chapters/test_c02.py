"""Chapter 02 and its appendix: formulas against counting by hand, tables against the records and published figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from course.chapters import c02_chips_and_tpus as appendix
from course.chapters import c02_inside_an_sm as c02
from course.measured import Measured

RECORD = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "microbench.json"


def records(name: str) -> list[dict]:
    return [r for r in json.loads(RECORD.read_text(encoding="utf-8"))["records"] if r["name"] == name]


def cells(markdown: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in markdown.splitlines()[2:]]


@pytest.mark.parametrize("schedulers", [1, 2, 4, 8])
@pytest.mark.parametrize("warps", [1, 4, 5, 13, 32])
def test_the_comb_by_dealing_warps_out(schedulers: int, warps: int) -> None:
    held = [len(range(first, warps, schedulers)) for first in range(schedulers)]
    assert c02.comb(warps, schedulers, 16) == pytest.approx(16 * warps / max(held))


def test_an_instruction_is_shown_with_what_was_measured() -> None:
    rows = {row[0]: row for row in cells(c02.table_of_instructions(Measured()).data)}
    assert tuple(rows) == c02.INSTRUCTIONS
    assert float(rows["fma.f32"][1]) == pytest.approx(4, abs=0.1)  # Volta Tuning Guide
    for name in ("fma.f64", "ex2.f32"):
        (rate,) = [r["value"] for r in records(name) if r["metric"] == "rate"]
        assert float(rows[name][3]) == pytest.approx(128 / rate, rel=0.01)


def test_the_choices_about_rates_are_what_the_record_says() -> None:
    rate = {name: Measured().value(name, "rate") for name in ("fma.f32", "mad.s32", "ex2.f32")}
    assert rate["mad.s32"] / rate["fma.f32"] == pytest.approx(1 / 2, rel=0.02)
    assert rate["ex2.f32"] / rate["fma.f32"] == pytest.approx(1 / 8, rel=0.02)
    (random,) = [
        r for r in records("tensor core sustained") if r.get("variant") == "random" and r.get("dtype") == "float16"
    ]
    assert random["value"] < 0.9 * random["known"] and random["sm_clock"] < 1.83e9


def test_the_clocks_of_the_peaks() -> None:
    lanes, tensor = c02.clocks_of_the_peaks()
    assert (lanes, tensor) == (pytest.approx(67e3 / (132 * 128 * 2), rel=0.01), pytest.approx(1.83, abs=0.005))


def test_each_generation_doubles_an_sm() -> None:
    rates = [int(row[5].replace(",", "")) for row in cells(c02.table_of_generations().data)]
    assert [round(new / old, 1) for old, new in zip(rates, rates[1:], strict=False)] == pytest.approx(
        [2, 2, 2], rel=0.07
    )


def test_the_appendix_gives_published_figures() -> None:
    rows = {row[0]: row[1:] for row in cells(appendix.table_of_chips().data)}
    assert rows["SMs"][:4] == ["80", "108", "132", "132"] and rows["memory bandwidth, TB/s"][3] == "4.80"
    assert rows["fp8 tensor, TFLOP/s"][0] == ""  # a V100 has none
    parts = {row[0]: row[1:] for row in cells(appendix.table_of_parts().data)}
    assert parts["matrix units"] == ["528", "8"] and parts["registers"][0] == "33 MiB"
    of_one = next(row for name, row in parts.items() if name.startswith("multiply-adds"))
    assert int(of_one[0].replace(",", "")) == pytest.approx(512, rel=0.01) and of_one[1] == "16,384"
