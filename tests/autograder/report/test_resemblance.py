"""What a submission is said to resemble: by a ladder made by hand, whose counters and speeds are known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.records.measurement import Library
from autograder.report.resemblance import APART, LIKE, beyond, distance, resemblance
from autograder.spec.lab import Lab, LabError
from autograder.spec.recorded import FILE, INSTRUCTIONS, relative_counters
from tests.autograder.handmade import LAB_TOML, make_lab, measurement
from warplab.plan.execution import Counters

FEEDBACK = 'correctness = "00_start_here, section 1"'


def counters(loads: int = 128, stores: int = 128, instructions: int = 320) -> Counters:
    """Of the profile case, which allows 128 sectors of either kind; 9,216 bytes and operations are 288 of a warp."""
    return Counters(global_load_sectors=loads, global_store_sectors=stores, warp_instructions=instructions)


def rung(name: str, share: float | None, what: str = "a thing", **counted: int) -> dict[str, Any]:
    relative = {
        "global_load_sectors": counted.get("loads", 128) / 128,
        "global_store_sectors": counted.get("stores", 128) / 128,
        INSTRUCTIONS: counted.get("instructions", 320) / 288,
    }
    counts = [{"size": {"n": 1024}, "counters": relative}]
    return {"name": name, "what": what if name[0] != "s" else "", "share": share, "counted": counts}


LADDER = (
    rung("rung_01_naive", 0.042, "one thread an element", loads=1024),
    rung("rung_02_wide", 0.4, "lanes side by side", instructions=640),
    rung("rung_03_fall", 0.1, "a fall", stores=512),
    rung("rung_04_vectors", 0.8, "four at a time", instructions=160),
    rung("numba_1_first", None, "a start", loads=512, stores=512),
    rung("submission", 0.96, instructions=40),
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = make_lab(tmp_path, toml=LAB_TOML.replace(FEEDBACK, FEEDBACK + '\nefficiency = "labs/x, section 9"'))
    write(made, *LADDER)
    return made


def write(lab: Lab, *rungs: dict[str, Any]) -> None:
    data = {"gpu": "NVIDIA H200", "of": "the roofline", "rungs": rungs, "left_out": []}
    (lab.folder / FILE).write_text(json.dumps(data))


def words(lab: Lab, counted: Counters) -> str:
    found = resemblance(lab, counted)
    assert found is not None
    return found.words


def test_counters_are_relative_to_what_grows_with_the_size(lab: Lab) -> None:
    found = relative_counters(lab.task, {"n": 1024}, counters(loads=256))
    assert found == {"global_load_sectors": 2, "global_store_sectors": 1, INSTRUCTIONS: 320 * 32 / (9 * 1024)}
    twice = relative_counters(lab.task, {"n": 2048}, counters(loads=512, stores=256, instructions=640))
    assert twice == pytest.approx(found)


def test_the_distance_is_one_where_all_is_twice_as_much() -> None:
    one = {"a": 1.0, "b": 100.0, INSTRUCTIONS: 0.001}
    assert distance(one, one) == 0
    assert distance(one, {name: 2 * value for name, value in one.items()}) == pytest.approx(1, abs=0.03)
    assert distance(one, one | {INSTRUCTIONS: 0.002}) == pytest.approx(1 / math.sqrt(3))
    assert distance(one | {"a": 0.0}, one | {"a": 0.001}) < 0.02  # next to nothing beside a budget
    assert distance(one, {"a": 1.0}) == math.inf


def test_the_nearest_rung_is_named_with_its_speed_and_the_next_one(lab: Lab) -> None:
    assert words(lab, counters(loads=1000)) == (
        'Its counters are most like those of rung 1 ("one thread an element"), which reached 4.2% of the roofline on '
        'an NVIDIA H200 (the reference: 96%). Above that is rung 2 ("lanes side by side"), which reached 40%, '
        "with 0.13 times your global load sectors and 2.0 times your warp instructions."
    )
    found = resemblance(lab, counters(loads=1000))
    assert found is not None and found.further is not None
    assert ([r.name for r in found.alike], found.further.name) == (["rung_01_naive"], "rung_02_wide")
    assert 0 < found.alike[0].distance < found.further.distance


def test_a_rung_that_was_slower_is_not_what_comes_next(lab: Lab) -> None:
    said = words(lab, counters(instructions=640))
    assert 'Above that is rung 4 ("four at a time"), which reached 80%, with 0.25 times' in said


def test_above_the_last_rung_is_the_reference_and_nothing_above_that(lab: Lab) -> None:
    assert words(lab, counters(instructions=160)).endswith(
        "Only the reference is above, with 0.25 times your warp instructions: read labs/x, section 9."
    )
    found = resemblance(lab, counters(instructions=40))
    assert found is not None and found.further is None
    assert found.words == (
        "Its counters are most like those of the reference, which reached 96% of the roofline on an NVIDIA H200."
    )


def test_a_rung_that_nobody_timed_is_said_to_be_so(lab: Lab) -> None:
    said = words(lab, counters(loads=512, stores=512))
    assert 'rung 1 in Numba ("a start"), whose time is not recorded (the reference: 96%)' in said


def test_rungs_that_counters_do_not_tell_apart_are_named_together(lab: Lab) -> None:
    same = [rung(f"rung_{n}_same", share, "the same") for n, share in ((5, 0.7), (6, 0.75), (7, 0.72))]
    write(lab, *same, rung("rung_8_more", 0.9, "more", instructions=100), LADDER[-1])
    assert words(lab, counters()) == (
        'Its counters are most like those of rung 5 ("the same"), rung 6 ("the same") and 1 other, which they do not '
        "tell apart; these reached 70% to 75% of the roofline on an NVIDIA H200 (the reference: 96%). "
        'Above that is rung 8 ("more"), which reached 90%, with 0.31 times your warp instructions.'
    )


def test_what_is_like_none_is_said_to_be_like_none(lab: Lab) -> None:
    found = resemblance(lab, counters(loads=1 << 20, stores=1 << 20))
    assert found is not None and (found.alike, found.further) == ((), None)
    assert found.words == (
        'No recorded solution of this lab has similar counters. The nearest is rung 1 in Numba ("a start"), with '
        "1/2,048 of your global store sectors and 1/2,048 of your global load sectors."
    )
    assert LIKE > APART


def test_a_rung_is_compared_for_the_size_that_was_drawn_if_it_was_counted_for_it(lab: Lab) -> None:
    one, other = rung("rung_1_one", 0.2, "one"), rung("rung_2_other", 0.4, "other", stores=256)
    larger = {**one["counted"][0]["counters"], "global_store_sectors": 2.0}
    one["counted"].append({"size": {"n": 2048}, "counters": larger})
    again = {**other["counted"][0]["counters"], "global_store_sectors": 8.0}
    other["counted"].append({"size": {"n": 2048}, "counters": again})
    write(lab, one, other)
    profile = replace(lab.task.profile, dimensions={"n": 2048})
    drawn = replace(lab, task=replace(lab.task, profile=profile))
    found = resemblance(drawn, counters(loads=256, stores=512, instructions=640))
    assert found is not None and (found.alike[0].name, found.alike[0].distance) == ("rung_1_one", 0)
    found = resemblance(lab, counters(stores=256))
    assert found is not None and found.alike[0].name == "rung_2_other"


def test_a_lab_without_records_has_no_resemblance_and_a_damaged_one_is_named(lab: Lab) -> None:
    (lab.folder / FILE).write_text('{"gpu": 1}')
    with pytest.raises(LabError, match=r"rungs\.json cannot be read .* python -m benchmarks\.rungs"):
        resemblance(lab, counters())
    (lab.folder / FILE).unlink()
    assert resemblance(lab, counters()) is None


def test_what_is_like_a_slower_reference_hears_of_the_faster_rung(lab: Lab) -> None:
    faster = rung("rung_5_more", 0.99, "more", instructions=20)
    write(lab, *LADDER, faster)
    assert words(lab, counters(instructions=41)).endswith(
        'Faster is rung 5 ("more"), which reached 99%, with 0.49 times your warp instructions.'
    )


def test_a_counter_that_one_of_the_two_lacks_has_no_ratio(lab: Lab) -> None:
    write(lab, rung("rung_1_none", 0.9, "none", loads=0))
    assert "with none of your global load sectors." in words(lab, counters(loads=1 << 20))


def test_full_points_on_a_gpu_hear_what_is_faster_still(lab: Lab) -> None:
    found = beyond(lab, counters(instructions=160), measurement(efficiency=0.8))
    assert found is not None and found.further is not None
    assert found.words == (
        "Faster still is the reference, which reached 96% of the roofline on an NVIDIA H200, with 0.25 times your "
        "warp instructions."
    )
    assert beyond(lab, counters(), measurement(efficiency=0.96)) is None
    slower, faster = (Library("cuBLAS", 1.0, ratio) for ratio in (1.5, 0.75))
    assert beyond(lab, counters(), measurement(efficiency=0.97, library=slower)) is None
    beaten = beyond(lab, counters(), measurement(efficiency=0.97, library=faster))
    assert beaten is not None and beaten.words == "cuBLAS takes 75% of your time."


def test_a_share_above_the_roofline_is_explained(lab: Lab) -> None:
    above = "A copy sets the roofline, and a kernel that reads more than it writes can move more."
    write(lab, *LADDER[:-1], rung("submission", 1.02, instructions=40))
    assert above in words(lab, counters(instructions=40)) and above in words(lab, counters(loads=1000))
    write(lab, *LADDER)
    assert above not in words(lab, counters(instructions=40))
