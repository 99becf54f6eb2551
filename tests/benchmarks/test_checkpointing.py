"""The benchmark of chapter 14, as far as it goes without a GPU: its ways do the same step, its records are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import checkpointing
from course import results
from systems.training.sizes import Sizes


def test_every_way_that_needs_no_compiler_gives_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from systems.training import gpt

    sizes = Sizes(layers=2, width=32, heads=2, vocabulary=40, sequence=16, batch=2)
    monkeypatch.setattr(checkpointing, "SIZES", sizes)
    model, batch = gpt.make(sizes), gpt.draw(sizes)
    found = {}
    for name, once in checkpointing.ways(model, batch):
        model.zero_grad()
        once()
        found[name] = [parameter.grad.clone() for parameter in model.parameters()]
    assert {"plain", "full checkpoint", "plan for 25%", "offloaded", "FP8, blocks of 128"} <= set(found)
    for name, gradients in found.items():
        same = [torch.equal(one, exact) for one, exact in zip(gradients, found["plain"], strict=True)]
        assert all(same) is not name.startswith("FP8"), name


def test_records_are_those_of_a_results_file(tmp_path: Path) -> None:
    peaks = {"plain": 100, "full checkpoint": 40}
    times = {"plain": [2.0, 1.0, 9.0], "full checkpoint": [3.0, 2.5, 4.0]}
    records = checkpointing.records_of(peaks, times)
    full = next(r for r in records if r.variant == "full checkpoint" and r.metric == "time")
    assert (full.value, full.baseline_value, full.ratio) == (3.0, 2.0, pytest.approx(2 / 3))
    results.write(tmp_path / "r.json", results.Header("x", "x", {}, "x", "x", "x"), records)
    assert results.read(tmp_path / "r.json").records == tuple(records)


def test_without_a_gpu_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(checkpointing, "present", lambda: None)
    monkeypatch.setattr(checkpointing, "need_torch", lambda: None)
    assert checkpointing.main() == 1
    assert "needs a GPU with 80 GB or more" in capsys.readouterr().err
