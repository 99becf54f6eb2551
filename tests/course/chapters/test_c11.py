"""Chapter 11: its models against sums by hand, and against what its text says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from course.chapters import c11_processes as processes
from course.chapters import c11_shared_links as shared
from course.chapters import c11_the_network as c11
from course.chapters import c11_tuner as tuner
from systems.network.costs import Algorithm
from systems.network.schedules import Op, Transfer, build
from systems.network.simulation import simulate


def test_half_of_the_time_is_waiting_at_the_sizes_of_the_text() -> None:
    """0.6 us at 450 GB/s, 2.7 us at 50 GB/s."""
    sizes = c11.half_sizes()
    assert sizes == pytest.approx({"NVLink": 270e3, "network, same rail": 135e3}, rel=0.01)


def test_the_way_of_the_text_has_one_switch() -> None:
    assert c11.switches_between(0, 9) == 1 and c11.switches_between(8, 24) == 3
    way = " > ".join(c11.pod.path(0, 9))
    assert way == "gpu 0 > nvswitch 0 > gpu 1 > nic 1 > leaf 1 > nic 9 > gpu 9"


def test_fair_rates_are_those_by_hand() -> None:
    """a and d share a NIC of 50; b and c share what a leaves of 100, and their NICs have 50."""
    assert shared.fair_rates() == pytest.approx({"a": 25, "b": 37.5, "c": 37.5, "d": 25})


def test_the_order_of_the_ranks_decides() -> None:
    """Eight rings put an eighth of 2 x 31/32 GB on a NIC if one hop in eight crosses, all of it if each does."""
    once = 2 * 31 / 32 * 1e9 / 50e9
    assert shared.run_of_order("round robin").seconds == pytest.approx(once, rel=0.01)
    assert shared.run_of_order("node after node").seconds == pytest.approx(once / 8, rel=0.06)  # and some latency
    assert shared.run_of_order("shuffled").seconds > 2 * once


def test_the_rings_fill_a_slimmer_tree_only_from_4_to_1() -> None:
    rings, exchange = (
        [run.seconds for run in shared.tapered()[name]] for name in ("eight rings, node after node", "all-to-all")
    )
    assert rings[1] == pytest.approx(rings[0]) and shared.slower_at_4_to_1("eight rings, node after node") > 1.8
    # Half of 32 GPUs' GB goes up from each GPU through a 16th of what its group has: 0.5 GB at 50/4 GB/s.
    assert exchange[2] == pytest.approx(0.5e9 / (50e9 / 4), rel=0.01)


def test_few_fat_flows_collide_and_many_small_ones_do_not() -> None:
    slower = {name: hashed.seconds / even.seconds for name, (even, hashed) in shared.hashed().items()}
    assert slower["halving-doubling"] > 1.3
    assert slower["all-to-all"] < 1.05 and slower["eight rings, node after node"] < 1.05


def test_one_ring_waits_as_long_as_its_messages() -> None:
    """32,766 messages of 3.96 us; 2 GB, nearly, at 50 GB/s."""
    whole, waits = c11.one_ring(1e9)
    assert waits == pytest.approx(32_766 * 3.96e-6, rel=0.005)
    assert whole - waits == pytest.approx(2 * 16383 / 16384 / 50, rel=1e-6)


def test_two_levels_carry_an_eighth_through_a_nic() -> None:
    """At large sizes: 2 x 7/8 of the array through a port of NVLink, nearly 2/8 through a NIC, one after the other."""
    large = 1e14
    seconds = 2 * 7 / 8 * large / c11.port + 2 / 8 * 2047 / 2048 * large / 50e9
    assert c11.two_levels(large, Algorithm.HALVING_DOUBLING) == pytest.approx(seconds, rel=1e-3)


def test_ll_ends_where_the_prediction_says() -> None:
    assert tuner.last_of_ll() == 1024  # KiB


def test_tokens_are_sent_to_as_many_nodes_as_draws_hit() -> None:
    """Against drawn tokens."""
    of = c11.Dispatch()
    drawn = np.random.default_rng(0).integers(0, 8, (20_000, 8))
    nodes = np.mean([len(set(row) - {0}) for row in drawn.tolist()])
    assert of.per_node == pytest.approx(4096 * 7168 * nodes, rel=0.01)
    assert of.per_node / of.per_expert == pytest.approx(0.66, abs=0.01)  # "saves a third"
    assert of.four_nodes / of.per_node == pytest.approx(0.76, abs=0.01)  # "another quarter"


def test_a_slow_nic_is_the_only_busy_one() -> None:
    busy, sent = shared.busy_nics()
    before, after = shared.hurt("eight rings")
    assert 1.8 < after.seconds / before.seconds < 2
    assert busy[3] > 0.9 and np.delete(busy, 3).max() < 0.55 and sent.max() - sent.min() < 0.01 * sent.max()


def test_one_memory_serves_the_sum_of_all_bytes() -> None:
    """A step of a ring of four moves one array in all, in turns; a port each moves a quarter."""
    ring, size = build.ring(c11.ALL_REDUCE, 4), 4e6
    assert simulate(ring, processes.one_memory(1e-3, 1e9), size).seconds == pytest.approx(6 * (1e-3 + size / 1e9))
    assert simulate(ring, processes.port_each(1e-3, 1e9), size).seconds == pytest.approx(6 * (1e-3 + size / 4e9))


def test_models_are_fitted_to_the_ring() -> None:
    """A clock that is made by one memory with 1 ms and 1 GB/s is found again."""
    sizes = [4 * length for length in processes.LENGTHS]
    clock = {("ring", size): 6 * (1e-3 + size / 1e9) + 4 * size / 1e9 for size in sizes}
    wait, rate = processes.fitted(clock)[processes.one_memory]
    assert wait == pytest.approx(1e-3, rel=0.01) and rate == pytest.approx(1e9, rel=0.01)
    assert processes.charged(clock, "ring", sizes[1]) == pytest.approx(clock["ring", sizes[1]], rel=0.01)


def test_what_is_no_schedule_takes_for_ever(capsys: pytest.CaptureFixture[str]) -> None:
    assert c11.time_of_mine([Transfer(0, 0, 9, 0)], 1) == math.inf
    assert c11.time_of_mine([Transfer(0, 0, 1, 0, Op.REDUCE)], 1) == math.inf
    assert c11.bandwidth_of_rings([[0, 1, 2, 3, 4, 5, 6, 6]]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
