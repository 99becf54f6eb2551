"""The race against the library: its shapes, its records, and what the host's clock asks of a candidate."""

from __future__ import annotations

from ctypes import sizeof
from pathlib import Path
from random import Random
from statistics import geometric_mean

import numpy as np
import pytest

from benchmarks.search import protocols
from benchmarks.search.__main__ import AUTOTUNED, CONDITIONS, NAME, OURS, TORCH, Raced, earlier, means_of, records_of
from benchmarks.search.cublas import Heuristic, loaded
from benchmarks.search.shapes import drawn
from course import results
from systems.search.half_product import CHOICES
from warplab.errors import DeviceError
from warplab.gpu.stopwatch import TurnTimes


def test_shapes_are_drawn_once_and_evenly_by_their_logarithms() -> None:
    shapes = drawn()
    sizes = np.array(shapes)
    assert shapes == drawn() and len(set(shapes)) == 64 and drawn(4) == shapes[:4] != drawn(4, seed=1)
    assert sizes.min() == 64 and 3500 < sizes.max() <= 4096 and (sizes % 64 == 0).all()
    assert 0.35 < (sizes <= 512).mean() < 0.65  # 512 is half way


class Stream:
    """Nothing to wait for."""

    def sync(self) -> None: ...


class Cold:
    def __init__(self) -> None:
        self.sweeps = 0

    def sweep(self) -> None:
        self.sweeps += 1


class Counted:
    launches = 1

    def __init__(self) -> None:
        self.launched = 0

    def launch(self) -> None:
        self.launched += 1


def test_offline_sweeps_before_every_launch_and_counts_turns_of_each() -> None:
    candidates, cold = {"one": Counted(), "other": Counted()}, Cold()
    times = protocols.offline(candidates, Stream(), cold)  # type: ignore[arg-type]
    launched = sum(candidate.launched for candidate in candidates.values())
    assert times.turns == protocols.TURNS and cold.sweeps == launched == 2 * (protocols.TURNS + 2)
    assert all(time > 0 for samples in times.samples.values() for time in samples)


class Clock:
    """Seconds that pass when somebody looks or works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gap: float) -> None:
        self.now = 0.0
        monkeypatch.setattr(protocols, "perf_counter", self)
        monkeypatch.setattr(protocols, "TURNS", 2)
        monkeypatch.setattr(protocols.np, "cumsum", lambda gaps: np.arange(1, len(gaps) + 1) * gap)

    def __call__(self) -> float:
        self.now += 1e-7
        return self.now

    def working(self, seconds: float) -> Counted:
        clock = self

        class Working(Counted):
            def launch(self) -> None:
                super().launch()
                clock.now += seconds

        return Working()


@pytest.mark.parametrize(("slowest", "requests"), [(0.01, protocols.REQUESTS), (1.0, 15), (20.0, 5)])
@pytest.mark.slow
def test_servers_get_as_many_requests_as_time_allows(
    slowest: float, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrivals at twice the time of the slow one: nobody waits for another."""
    clock = Clock(monkeypatch, 2 * slowest / 1e3)
    candidates = {"quick": clock.working(0), "slow": clock.working(slowest / 1e3)}
    times = protocols.server(candidates, Stream(), slowest, Random(1))
    assert {candidate.launched for candidate in candidates.values()} == {2 * requests}
    assert times.samples["slow"] == pytest.approx([slowest] * 2, abs=1e-3)
    assert times.samples["quick"] == pytest.approx([0, 0], abs=1e-3)


def test_who_arrives_while_another_is_served_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Service of 2 ms, arrivals every ms: number i of n, from 1, is done at 1 + 2 i ms and came at i ms."""
    clock = Clock(monkeypatch, 1e-3)
    times = protocols.server({"busy": clock.working(2e-3)}, Stream(), 0.5, Random(1))
    assert times.samples["busy"] == pytest.approx([1 + (protocols.REQUESTS + 1) / 2] * 2, abs=1e-2)


def raced(shape: tuple[int, int, int], theirs: float) -> Raced:
    turns = TurnTimes({OURS: [0.010] * 16, TORCH: [theirs] * 16, AUTOTUNED: [0.009] * 16})
    names = [choice.name for choice in CHOICES[:3]]
    return Raced(
        shape,
        CHOICES[1],
        dict.fromkeys(CONDITIONS, turns),
        dict(zip(names, (9, 8, 12.3456), strict=True)),
        {"0": 9.0},
        [],
        0.4,
    )


@pytest.mark.processes
def test_records_have_wins_and_losses_and_what_was_tried(tmp_path: Path) -> None:
    shapes = drawn(2)
    records = [
        record
        for shape, theirs in zip(shapes, (0.020, 0.005), strict=True)
        for record in records_of(raced(shape, theirs))
    ]
    means = means_of(records)
    path = tmp_path / "search.json"
    results.write(path, results.make_header("x"), [*means, *records])
    kept = results.read(path)
    won = kept.find(NAME, "device time", variant=TORCH, shape=shapes[0])
    assert won.value == pytest.approx(10) and won.baseline_value == pytest.approx(20) and won.ratio == pytest.approx(2)
    assert won.extra["choice"] == CHOICES[1].name and won.extra["paired_ratio"] == pytest.approx([2, 2, 2])
    mean = kept.find(NAME, "geometric mean, server latency", variant=TORCH)
    assert mean.value == pytest.approx(geometric_mean([2, 0.5])) and (mean.extra["shapes"], mean.extra["lost"]) == (
        2,
        1,
    )
    assert kept.find(NAME, "geometric mean, device time", variant=AUTOTUNED).extra["lost"] == 2
    search = kept.find(NAME, "search", shape=shapes[1])
    assert search.value == 0.4 and search.extra["tried"] == {
        CHOICES[0].name: 9,
        CHOICES[1].name: 8,
        CHOICES[2].name: 12.346,
    }


def test_the_librarys_structure_has_the_size_of_its_header() -> None:
    """cublasLtMatmulHeuristicResult_t: 64 bytes of algorithm, a size_t, two words and four reserved ones."""
    assert sizeof(Heuristic) == 96 and Heuristic.workspace.offset == 64 and Heuristic.state.offset == 72


def test_a_library_that_is_not_there_is_said_in_a_sentence() -> None:
    with pytest.raises(DeviceError, match="libcublasNone is not loaded here: import a PyTorch"):
        loaded("libcublasNone")


@pytest.mark.gpu
def test_every_choice_and_the_library_are_right_on_a_gpu() -> None:
    """Of one shape; the race does so for all of them."""
    pytest.importorskip("torch")
    from benchmarks.search.__main__ import Race
    from benchmarks.search.candidates import compiled
    from warplab.gpu import executor
    from warplab.hardware.device import architecture_of, present

    device = present()
    assert device is not None
    if not (architecture := architecture_of(device)).startswith("sm_90"):
        pytest.skip("the template's warpgroups need a Hopper GPU")
    from cuda.core import Device

    shape = 320, 1408, 640
    cubins = compiled(CHOICES, architecture, 8)
    with executor.on_stream() as stream:
        race = Race(stream, cubins, Device().properties.multiprocessor_count)
        found = race.run(shape, 1)
    assert not found.wrong and not race.left_out and len(found.tried) == sum(choice.takes(shape) for choice in CHOICES)


@pytest.mark.processes
def test_a_run_that_was_cut_is_gone_on_with(tmp_path: Path) -> None:
    """What it has is kept, with the day and commit of its own, and counted in the means."""
    one, other = drawn(2)
    path = tmp_path / "search.json"
    old = results.make_header("x")
    first = records_of(raced(one, 0.020))
    results.write(path, old, [*means_of(first), *first])
    before, second = earlier(path, old.gpu), records_of(raced(other, 0.005))
    results.write(path, old, [*means_of([*before, *second]), *second], merge=True)
    kept = results.read(path)
    assert {record.shape for record in kept.records if record.shape} == {one, other}
    extra = kept.find(NAME, "geometric mean, device time", variant=TORCH).extra
    assert (extra["shapes"], extra["lost"]) == (2, 1)
    assert kept.find(NAME, "search", shape=one).extra["commit"] == old.commit
    with pytest.raises(results.ResultsError, match="race all shapes"):
        earlier(path, "another GPU")
