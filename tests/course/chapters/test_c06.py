"""Chapter 06: the meters of an SM, by counters that are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from course.chapters import c06_tiled_gemm as c06
from course.lesson import Time
from warplab.emulator.profiling.timeline import Reason, Stall, Timeline


@dataclass
class Rung:
    """A step whose counters per warp-wide multiply-add are given."""

    counters: dict[str, float]
    name: str = "a rung"
    time: Time | None = None
    total: Any = field(
        default_factory=lambda: SimpleNamespace(shared_load_bank_conflicts=2, shared_store_bank_conflicts=3)
    )

    def per_multiply_add(self, *names: str) -> float:
        return sum(self.counters.get(name, 0) for name in names)


def naive() -> Any:
    return Rung({"global_load_sectors": 33, "global_load_requests": 2, "warp_instructions": 16})


def test_the_busiest_resource_by_hand() -> None:
    """33 sectors of 32 bytes at 128 per cycle are 8.25 cycles; a quarter of a cycle over that is 3% of the peak."""
    assert c06.cycles(naive()) == {"arithmetic": 0.25, c06.L1: 8.25, "instruction issue": 4}
    assert c06.at_most(naive()) == pytest.approx(0.25 / 8.25)


def test_a_request_takes_a_cycle_whatever_it_moves() -> None:
    few = Rung({"global_load_sectors": 3, "global_load_requests": 2, "shared_load_wavefronts": 1.5})
    assert c06.cycles(few)[c06.L1] == 2 + 1.5  # type: ignore[arg-type]


def test_the_busiest_resource_is_marked() -> None:
    said, bound, _ = (shown.data for shown in c06.meters(naive()))
    assert f"**{c06.L1}**" in said and "**instruction issue**" not in said and "**3.0%**" in bound


def test_what_the_clock_says_of_a_rung() -> None:
    rung = naive()
    assert "not known here" in c06.ladder_table([rung]).data and "| 5 |" in c06.ladder_table([rung]).data
    assert c06.cycles_taken(rung).data == "*Not measured.*" and c06.model_table([rung]).data.count("\n") == 1
    assert "nothing to place" in c06.main_memory_roofline([rung])[0].data
    rung.time = Time(1, 1, 1, 1e12, 0.01, "measured")
    assert "**25.0 cycles**" in c06.cycles_taken(rung).data and "0.33" in c06.model_table([rung]).data


def test_waiting_is_a_share_of_all_warps_time() -> None:
    stalls = (Stall(0, 0, 50, Reason.GLOBAL, 1, 0xFFFFFFFF), Stall(1, 50, 100, Reason.BARRIER, 2, 0xFFFFFFFF))
    assert c06.waiting(Timeline((0, 0, 0), 2, (), stalls)) == 25
