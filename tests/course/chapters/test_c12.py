"""Chapter 12: its models against formulas by hand, its fit against the tuner's table, its tables against records."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import collectives
from course import measured, results
from course.chapters import c12_by_hand as hand
from course.chapters import c12_collectives as c12
from course.chapters.spoken import binary, spoken
from systems.network import nccl
from systems.network.collectives import Collective, bus_factor
from systems.network.fits import fit


def rows(table: object) -> list[list[str]]:
    """The cells of a Markdown table, without its head."""
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.data.splitlines()[2:]]  # type: ignore[attr-defined]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results that is still empty."""
    monkeypatch.setattr(measured, "DIRECTORY", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("seconds", "said"), [(1.5, "1.5 s"), (2e-3, "2 ms"), (3.14159e-6, "3.14 µs"), (5e-9, "5 ns")])
def test_seconds_are_said_in_a_unit(seconds: float, said: str) -> None:
    assert spoken(seconds) == said


def test_bytes_are_said_in_powers_of_1024() -> None:
    assert [binary(size) for size in (512, 1024, 3 << 19, 1 << 30, 1 << 42)] == [
        "512 B", "1 KiB", "1.5 MiB", "1 GiB", "4096 GiB",
    ]  # fmt: skip


def test_a_broadcast_has_the_lowest_bus_bandwidth_at_one_megabyte() -> None:
    """By hand: 0.6 us a message, 450 GB/s; a chain in four pieces has ten steps of 0.6 us and 0.25 MB."""
    rates = {kind: c12.bus_bandwidth(kind, 8, 1e6, c12.modelled(kind, 1e6)) for kind in c12.WHAT}
    assert min(rates, key=rates.__getitem__) is Collective.BROADCAST
    assert max(rates, key=rates.__getitem__) is Collective.ALL_TO_ALL
    assert rates[Collective.BROADCAST] == pytest.approx(1e6 / (10 * (0.6e-6 + 0.25e6 / 450e9)), rel=0.02)
    assert rates[Collective.ALL_REDUCE] == pytest.approx(1.75e6 / (14 * 0.6e-6 + 1.75e6 / 450e9))
    assert rates[Collective.ALL_REDUCE] == pytest.approx(rates[Collective.ALL_GATHER])


def test_the_fit_finds_the_protocols_again() -> None:
    """The three lines are those of the tuner's table, which the fit has not seen."""
    table, found = [c12.tuned(protocol) for protocol in nccl.PROTOCOLS], fit(c12.tuners_times())
    assert [line.alpha for line in found] == pytest.approx([entry.latency for entry in table], rel=1e-3)
    assert [line.bandwidth for line in found] == pytest.approx([entry.bandwidth for entry in table], rel=1e-3)
    assert c12.error_of_one_line(c12.tuners_times()) > 0.2


def test_latency_is_no_part_of_the_ceiling() -> None:
    """By hand: 14 steps of 3.4 us beside the bytes of 1 GB at the tuner's 360 GB/s."""
    step, whole = c12.ring_of_simple(10**9)
    bytes_alone = 1e9 * bus_factor(Collective.ALL_REDUCE, 8) / 360e9
    assert 14 * step / whole == pytest.approx(14 * 3.4e-6 / (bytes_alone + 8.4e-6 + 14 * 3.4e-6))
    assert 14 * step / whole < 0.015


@pytest.mark.slow
def test_trees_win_for_small_sizes_and_many_nodes_only() -> None:
    text = Path(__file__).parents[3].joinpath("notebooks/source/12_collectives.md").read_text(encoding="utf-8")
    for nodes in (4, 16, 64):
        rings, trees = c12.rings_over(nodes), [seconds for seconds, _ in c12.trees_over(nodes)]
        assert trees[0] < rings[0] and trees[-1] > rings[-1]
    ring, tree = c12.rings_over(64)[0], c12.trees_over(64)[0][0]
    assert ring > 9 * tree  # as exercise 3 says
    assert text.count(f"{ring * 1e6:.0f} µs") and text.count(f"{tree * 1e6:.0f} µs")


@pytest.mark.parametrize("ranks", range(2, 9))
def test_the_mark_is_where_one_shot_and_two_shot_cross(ranks: int) -> None:
    ways = hand.hops_and_bytes(ranks)

    def seconds(way: str, size: float) -> float:
        hops, times = ways[way]
        return hops * c12.alpha + times * size / c12.port

    cross = hand.crossing(ranks)
    assert seconds("one-shot, LL", cross) == pytest.approx(seconds("two-shot, fences", cross))
    assert seconds("one-shot, LL", 0.9 * cross) < seconds("two-shot, fences", 0.9 * cross)


def test_the_stages_of_a_hierarchy_take_turns() -> None:
    shares = [c12.share_of_stages(part) for part in ("gpu 0 to nvswitch 0", "nic 0 to leaf 0")]
    assert sum(shares) == pytest.approx(1, abs=0.01) and min(shares) > 0.2


def test_gpus_are_quoted_only_if_they_were_measured(empty: Path) -> None:
    assert c12.on_gpus("all_reduce") == [] and c12.table_of_nccl() is c12.NOT_YET and c12.took(2) is None
    header = results.Header("some GPU", "1", {}, "abc", "make bench NET=1", "2026-01-01T00:00:00+00:00")
    records = [
        results.Record("all_reduce", "time", value, "us", variant, (gpus, size), "float32")
        for gpus, size, value, variant in ((2, 1024, 9.0, "nccl"), (2, 2048, 9.5, "nccl"), (2, 1024, 99.0, "gloo"))
    ]
    results.write(empty / "collectives.json", header, records)
    assert c12.on_gpus("all_reduce") == [(2, 1024, 9.0), (2, 2048, 9.5)]
    assert rows(c12.table_of_measured_small()) == [["2 GPUs", "9.0"]]


@pytest.mark.processes
def test_all_reduces_by_hand_are_shown_if_they_were_measured(empty: Path) -> None:
    for shown in (hand.table_beside_nccl(), hand.figure_beside_nccl(), hand.table_by_ranks(), hand.table_of_fused()):
        assert shown is c12.NOT_YET
    ways = {"nccl": [1e-5] * 3, "one-shot": [4e-6] * 3, "two-shot": [8e-6] * 3, "two-shot, LL": [5e-6] * 3}
    less = {way: ways[way] for way in ("nccl", "one-shot")}  # as it is where the time was over before the others
    said = {"name": "all_reduce", "dtype": "float32", "shape": [1024], "memory": "", "ways": ways}
    fused = said | {"name": "all_reduce, residual, RMS norm", "dtype": "bfloat16", "shape": [4, 8192]}
    fused["ways"] = {"nccl": [1e-5] * 3, "nccl and torch": [2e-5] * 3, "one-shot": [5e-6] * 3, "fused": [3e-6] * 3}
    records = [*collectives.by_hand(said, 2), *collectives.by_hand(fused, 2)]
    records += collectives.by_hand(said | {"shape": [2048], "ways": less}, 2)
    results.write(empty / "collectives.json", results.make_header("x"), records)
    assert rows(hand.table_beside_nccl()) == [
        ["1 KiB", "10.00", "4.00", "8.00", "5.00", "0.40", "0.80", "0.50"],
        ["2 KiB", "10.00", "4.00", "", "", "0.40", "", ""],
    ]
    assert rows(hand.table_of_fused()) == [["2 GPUs, 4 rows of 8192", "20.00", "10.00", "5.00", "3.00"]]
