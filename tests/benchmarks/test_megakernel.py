"""The benchmark of chapter 15, as far as it goes without a GPU: its rival computes the same, its records are valid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import megakernel
from course import results
from systems.megakernel import launch, reference
from systems.megakernel.schedule import schedule
from systems.megakernel.shapes import LLAMA_1B, TOY

TOKENS = [7, 9, 200, 31, 31, 4]


@pytest.fixture(scope="module")
def rival() -> Any:
    torch = pytest.importorskip("torch")
    from benchmarks.decode.llama import Llama

    weights = reference.draw(TOY, seed=2)
    rows, gains = (torch.from_numpy(reference.from_bfloat16(each)).float() for each in (weights.rows, weights.gains))
    model = Llama(TOY, rows, gains, torch.from_numpy(launch.turns(TOY)))
    return model, reference.logits(TOY, weights, launch.turns(TOY), TOKENS)


def test_the_rival_computes_the_same_decoder(rival: Any) -> None:
    import torch

    model, exact = rival
    found = model.whole(torch.tensor(TOKENS), torch.float64).numpy()
    assert np.abs(found - exact).max() < 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("complex_numbers", [True, False])
def test_its_step_with_a_cache_chooses_the_same_tokens(rival: Any, complex_numbers: bool) -> None:
    import torch

    model, exact = rival
    chosen = [
        int(model.step(torch.tensor([token]), position, complex_numbers=complex_numbers))
        for position, token in enumerate(TOKENS)
    ]
    assert chosen == exact.argmax(-1).tolist()


def test_records_are_those_of_a_results_file() -> None:
    time = SimpleNamespace(value=0.75, low=0.74, high=0.76)
    slower = SimpleNamespace(value=1.5, low=1.4, high=1.6)
    times = {"ours": time, "copy": SimpleNamespace(value=0.6, low=0.6, high=0.6), "torch": slower}
    lists = schedule(TOY, 4, 0)
    clock = np.arange(4 * 40 * 5).reshape(4, 40, 5)
    agreement = SimpleNamespace(positions=512, equal=500, error=0.01, torch_error=0.02)
    flagged = megakernel.flagged_rings()
    kinds = [*megakernel.released_rings(), *flagged, *megakernel.rings_like(flagged[2])]
    assert len({str(ring) for ring in kinds}) == len(kinds), "a variant is one ring"
    records = [
        *megakernel.agreement_records(agreement),
        *megakernel.time_records(times, 12, ["torch.compile was left out: no compiler"]),
        *megakernel.in_a_row(dict.fromkeys(kinds, 0.9)),
        *megakernel.timeline_records(lists, clock),
        *megakernel.timeline_records(lists, clock, ", 13 on their way"),
        *megakernel.timeline_records(lists, clock, ", flags"),
    ]
    header = {name: "x" for name in ("gpu", "driver", "commit", "command", "date")} | {"versions": {}}
    read_back = results.parse({"header": header, "records": [results._to_dict(record) for record in records]})
    assert len(read_back.records) == len(records)
    read = next(record for record in records if record.metric == "weights read")
    assert read.value == pytest.approx(LLAMA_1B.weight_bytes / 0.75e-3)
    assert read.ratio == pytest.approx(0.8), "of the copy's bandwidth"
    assert next(record for record in records if record.variant == "torch").ratio == pytest.approx(0.5)


def test_gaps_and_idle_shares_are_counted_from_clocks() -> None:
    pytest.importorskip("cupy")
    from benchmarks.decode import gaps

    # Two kernels of two blocks on two SMs: the first ends at 10, the second begins at 13; one of its blocks ends early
    times = np.array([[[0, 10], [1, 9]], [[13, 23], [14, 18]]])
    assert gaps.gap(times) == 3
    assert gaps.idle(times[1:], sms=2) == pytest.approx(1 - 14 / 20)


def test_a_clock_that_begins_again_during_a_step_is_followed() -> None:
    pytest.importorskip("torch")
    from benchmarks.decode.contest import since_the_first

    end = 2**32
    first = [[end - 100, end - 90, end - 95, 20, 20], [20, 30, 25, 60, 70], [0, 0, 0, 0, 0]]
    second = [[end - 110, end - 80, end - 80, 10, 15], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    times = since_the_first(np.array([first, second], np.uint32))
    assert times[0].tolist() == [[10, 20, 15, 130, 130], [130, 140, 135, 170, 180], [0, 0, 0, 0, 0]]
    assert times[1].tolist() == [[0, 30, 30, 120, 125], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


def test_without_a_gpu_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(megakernel, "present", lambda: None)
    monkeypatch.setattr(megakernel, "need_torch", lambda: None)
    assert megakernel.main() == 1
    assert "needs a Hopper GPU" in capsys.readouterr().err
