"""Chapter 05: ceilings, intensities and least times from the records and from definitions, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from course.chapters import c05_roofline as c05
from warplab.hardware.operators import OPERATORS

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"


def value(file: str, name: str, metric: str, **where: object) -> float:
    records = json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))["records"]
    fitting = [r for r in records if (r["name"], r["metric"]) == (name, metric)]
    (found,) = [r["value"] for r in fitting if all(r[key] == wanted for key, wanted in where.items())]
    return found


def cells(markdown: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in markdown.splitlines()[2:]]


def test_the_shares_of_the_datasheet() -> None:
    published = {"copy": 4.8e12, "fp32_fma": 66.9e12, "tensor_fp16": 989.5e12}
    shares = {name: value("ceilings", name, "rate") / peak for name, peak in published.items()}
    shown = [float(row[-1].rstrip("%")) for row in cells(c05.table_of_ceilings().data)]
    assert shown == pytest.approx([100 * shares[name] for name in c05.PUBLISHED], abs=0.5)
    assert min(shares, key=shares.__getitem__) == "tensor_fp16", "the answer of the chapter"
    assert max(shares, key=shares.__getitem__) == "fp32_fma"


def test_zeros_are_some_tens_of_percent_faster() -> None:
    gain = c05.product_of("zeros").value / c05.product_of("N(0, 1)").value
    assert 1.1 < gain < 1.5


def test_intensities_by_their_definitions() -> None:
    assert c05.intensity("stencil") == pytest.approx(6 / 8, rel=0.01)
    # A key and a value of 2 x 128 elements of 2 bytes serve four heads: 4 x (4 x 128 + softmax) FLOP in 512 bytes.
    assert 4 <= c05.intensity("attention, decode") < 4.5
    assert c05.intensity("attention, prefill") > 1000


def test_what_limits_a_layer_changes_once() -> None:
    limits = [c05.limited_by(tokens) for tokens in range(1, 600)]
    assert limits[0] == "memory" and limits[-1] == "compute"
    assert sum(old != new for old, new in zip(limits, limits[1:], strict=False)) == 1


def test_ten_of_fourteen_operators_are_limited_by_memory() -> None:
    rows = cells(c05.table_of_operators().data)
    assert len(rows) == len(OPERATORS) == 14 and sum(row[4] == "memory" for row in rows) == 10


def test_the_slow_operators_are_those_below_seven_tenths_of_a_copy() -> None:
    for name, _, times in cells(c05.table_of_slow_operators().data):
        record = next(
            r
            for r in json.loads((RESULTS / "operators.json").read_text(encoding="utf-8"))["records"]
            if (r["name"], r["metric"]) == (name, "rate")
        )
        assert record["value"] / record["baseline_value"] < 0.7
        assert float(times) == pytest.approx(record["baseline_value"] / record["value"], abs=0.06)


def test_slopes_of_the_levels() -> None:
    slopes = c05.slopes()
    assert list(slopes.values()) == sorted(slopes.values(), reverse=True)
    assert slopes["L2"] == value("microbench", "l2", "bandwidth")
