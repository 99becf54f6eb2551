"""The benchmark of a shared GPU, on stand-ins for processes, and its record's shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.sharing import __main__ as sharing
from benchmarks.sharing import mps
from benchmarks.sharing.tenant import CHAIN, COPY, LINE, LOADS, PROBES, PRODUCT, RING, SMALL, ring
from course import results
from course.results import Record
from warplab.errors import WarplabError


class Stub:
    """Both processes: a rate halves and a latency doubles while a load runs."""

    def __init__(self, fails: str = "") -> None:
        self.load, self.fails = "", fails
        self.seen: list[tuple[str, str]] = []

    def __call__(self, function: str, /, **payload: Any) -> Any:
        if function == "start":
            assert not self.load, "the last load has not ended"
            self.load = payload["load"]
        elif function == "stop":
            self.load = ""
        elif function == "probe":
            self.seen.append((payload["name"], self.load))
            if self.load and self.load == self.fails:
                raise WarplabError("lost")
            slower = 2 if self.load else 1
            if payload["name"] in (SMALL, CHAIN):
                value = 1e-5 * slower
                tail = {"p99": 3 * value, "mean": value, "most": 9 * value}
                return {"value": value, "low": value, "high": value, "samples": 100} | tail
            return {"value": 4e12 / slower, "low": 3e12 / slower, "high": 5e12 / slower, "samples": 5}
        return None


def test_each_probe_runs_alone_and_beside_each_load() -> None:
    stub = Stub()
    groups = list(sharing.cells(sharing.STREAMS, stub, stub))
    assert stub.seen == [(probe, load) for load in ("", *LOADS) for probe in PROBES] and not stub.load
    found = {(record.name, record.metric, record.extra["neighbour"]): record for group in groups for record in group}
    assert found[COPY, "rate", "product"].ratio == pytest.approx(0.5)
    assert found[SMALL, "latency, 99th percentile", "L2 sweep"].ratio == pytest.approx(0.5)
    assert found[CHAIN, "latency", sharing.ALONE].ratio == pytest.approx(1)
    assert found[CHAIN, "latency, longest", "copy"].value == pytest.approx(18e-5)


def test_a_lost_probe_leaves_no_load_running_and_keeps_what_was_measured() -> None:
    stub = Stub(fails="product")
    kept: list[list[Record]] = []
    with pytest.raises(WarplabError, match="lost"):
        kept.extend(sharing.cells(sharing.SLICES, stub, stub))
    assert not stub.load and len(kept) == 2  # alone, and beside a copy


def test_dependent_loads_meet_every_line_once() -> None:
    words, order = ring(np.random.default_rng(7))
    at, met = int(order[0]) * LINE, set()
    for _ in range(RING):
        met.add(at // LINE)
        at = int(words[at])
    assert len(met) == RING and at == int(order[0]) * LINE


def test_a_machine_without_mps_is_a_record_that_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    [[record]] = list(sharing.through_mps())
    assert record.value == 0 and mps.CONTROL in record.conditions


@pytest.mark.processes
def test_the_daemon_has_a_folder_of_its_own_and_is_told_to_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program, seen = tmp_path / mps.CONTROL, tmp_path / "seen"
    program.write_text(f'#!/bin/sh\necho "$1 $CUDA_MPS_PIPE_DIRECTORY" >> {seen}\n[ "$1" ] || cat >> {seen}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(KeyError), mps.daemon() as environment:
        folder = environment["CUDA_MPS_PIPE_DIRECTORY"]
        assert seen.read_text() == f"-d {folder}\n"
        raise KeyError
    assert seen.read_text().splitlines()[1:] == [f" {folder}", "quit -t 5"]
    assert not Path(folder).exists()


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert sharing.main(["mig"]) == 2
    assert "no part named mig" in capsys.readouterr().err


@pytest.mark.pages
def test_the_record_is_whole_and_the_page_quotes_it() -> None:
    record = results.read(sharing.FILE)
    assert len(record.header.commit) == 40
    page = (Path(__file__).resolve().parents[2] / "docs" / "sharing.md").read_text(encoding="utf-8")
    rows = {row.split("|")[1].strip(): row.split("|")[2:-1] for row in page.splitlines() if row.startswith("| ")}
    ways = (sharing.SLICES, sharing.STREAMS, sharing.MPS)
    for row, probe, metric, scale in (
        ("copy, TB/s", COPY, "rate", 1e-12),
        ("product, TFLOP/s", PRODUCT, "rate", 1e-12),
        ("kernel of one warp, median, µs", SMALL, "latency", 1e6),
        ("dependent loads in L2, ns", CHAIN, "latency", 1.0),
    ):
        worst = min if metric == "rate" else max
        alone = record.find(probe, metric, variant=f"{ways[0]}, beside {sharing.ALONE}").value
        figures = [alone]
        for way in ways:
            figures.append(worst(record.find(probe, metric, variant=f"{way}, beside {load}").value for load in LOADS))
        shown = [float(cell.replace(",", "")) for cell in rows[row]]
        assert shown == [round(figure * scale, 0 if figure * scale > 10 else 2) for figure in figures], row
