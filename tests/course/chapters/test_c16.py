"""Chapter 16: its numbers against records read in another way, counts by hand, and what its text says."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from course.chapters import c16_searching_for_kernels as c16
from course.chapters import c16_tiles_and_slices as appendix
from course.figures.averages import geometric
from systems.search.half_product import HalfChoice

RECORDS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"


def records(file: str) -> list[dict]:
    return json.loads((RECORDS / file).read_text(encoding="utf-8"))["records"]


def test_the_races_are_those_of_the_record() -> None:
    races = c16.sixty_races()
    ratios = [
        one["value"] / one["baseline_value"]
        for one in records("gemm.json")
        if (one["name"], one.get("variant")) == ("08_hopper_hgemm/rung_14_any_shape", "shapes")
        and one["metric"] == "rate"
    ]
    assert len(races) == len(ratios) == 60
    assert geometric(races) == pytest.approx(math.exp(np.mean(np.log(ratios))))
    assert geometric(races) == pytest.approx(0.986, abs=5e-4)  # as text and summary say
    assert [one.gflop for one in races] == sorted(one.gflop for one in races)


def test_the_means_of_chosen_shapes_reach_as_far_as_the_prediction_says() -> None:
    shown = c16.table_of_means(c16.sixty_races()).data.splitlines()
    best, worst = (float(row.split("|")[3]) for row in shown[3:5])
    assert 1.01 < best < 1.02 and 0.895 < worst < 0.905


def test_chance_needs_what_the_formula_says_and_evolution_is_no_better() -> None:
    times = c16.estimated()
    assert all(min(of, key=of.__getitem__).each == 1 for of in times.values())
    for shape in (c16.SQUARE, c16.FLAT):
        assert c16.good_choices(shape) == 3  # as the prediction says
        chance, evolution = (np.mean(c16.trials(kind, shape)) for kind in ("chance", "evolution"))
        assert chance == pytest.approx(70 / 4, rel=0.25)
        assert 0.8 * chance < evolution < 2 * chance
    assert np.mean(c16.trials("evolution", c16.FLAT)) > np.mean(c16.trials("chance", c16.FLAT))


def test_the_hosts_clock_has_mostly_launch_in_it() -> None:
    """The share that the summary gives, and the prediction's 100 us."""
    (record,) = [
        one
        for one in records("stopwatch.json")
        if (one["name"], one.get("variant")) == ("copy of 1 MiB", "one launch, time.time") and one["metric"] == "time"
    ]
    assert c16.share_of_the_gpu("copy of 1 MiB") == record["ratio"] == pytest.approx(0.03, abs=0.005)
    assert 0.1 < record["value"] < 0.15


def test_rows_of_ones_are_exact_and_of_fives_are_not() -> None:
    ones, fives = (np.full((2, 4, 1024), value, np.float16) for value in (1, 5))
    assert c16.rows_that_show_it((ones[0], ones[1])) == 0
    assert c16.rows_that_show_it((fives[0], fives[1])) == 4  # beyond 2,048 a float16 holds no odd number
    assert c16.rows_that_show_it((fives[0] / 3, fives[1])) == 0, "not exact in float32"


def test_tiles_come_in_as_many_waves_as_by_hand() -> None:
    wide = HalfChoice("warpgroups", 128, 192, 64, 4, 1, 1)
    assert appendix.in_waves(wide, (2496, 896, 256), 132) == "128 x 192: 100 in 1"
    assert all(one.guessed >= 1 for one in appendix.promising()) and len(appendix.promising()) == 5


def test_what_the_appendix_gains_is_that_of_the_trials() -> None:
    gains = appendix.gains()
    assert sum(map(len, gains.values())) == 64
    every = [gain for some in gains.values() for gain in some]
    assert min(every) >= 1 and set(gains["neither"]) == {1.0}
    assert np.prod(every) ** (1 / 64) == pytest.approx(1.05, abs=0.01)


def test_the_table_of_verdicts_counts_each_record_once() -> None:
    kept = [one for one in records("judge.json") if not one["variant"].startswith("bad_input/")]
    kinds = [one["variant"].split("/")[0] for one in kept]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in c16.table_of_verdicts().data.splitlines()[2:]]
    counted = {row[0].partition(":")[0]: sum(map(int, row[1:4])) for row in rows}
    assert counted == {kind: kinds.count(kind) for kind in set(kinds)}
    passed = sum(one["conditions"].startswith("passed;") for one in kept)
    assert sum(int(row[3]) for row in rows) == passed > 0


def test_the_emulator_stands_beside_the_judge_for_each_part_of_the_corpus() -> None:
    rows = {row.split("|")[1].split(":")[0].strip(): row for row in c16.table_of_verdicts().data.splitlines()}
    cells = {kind: [cell.strip() for cell in rows[kind].split("|")[2:-1]] for kind in c16.CORPORA}
    assert cells["reference"] == ["0", "0", "21", "0", "0", "0", "21"]
    assert cells["exploit"][3:] == ["not run"] * 4
    wrong = [r for r in records("seeds.json") if r["variant"].startswith("wrong/")]
    races = [r for r in wrong if r["conditions"].startswith("safety")]
    assert cells["wrong"][4] == str(len(races)) and cells["wrong"][6] == "0"
    assert sum(map(int, cells["wrong"][:3])) == len(wrong)


def test_answers_alone_miss_what_the_text_says() -> None:
    assert c16.seen_by_no_answer() == {"fault": 41, "traffic": 36}
    kept = [r for r in records("judge.json") if r["conditions"].startswith("partial")]
    assert sum(r["variant"].split("/")[0] in ("wrong", "mutant") for r in kept) == 77


def test_the_lineage_ends_in_what_the_search_measured() -> None:
    rows = c16.table_of_lineage().data.splitlines()[2:]
    assert len(rows) == len(c16.PUBLISHED) + len(c16.PROTOCOLS)
    server = [
        one["ratio"]
        for one in records("search.json")
        if (one["metric"], one.get("variant")) == ("server latency of a graph", "cuBLASLt autotuned")
    ]
    shown = [cell.strip() for cell in rows[-1].split("|")]
    assert shown[4:7] == [
        f"{np.mean(server):.3f}",
        f"{math.exp(np.mean(np.log(server))):.3f}",
        f"{sum(ratio < 1 for ratio in server)} of 64",
    ]
