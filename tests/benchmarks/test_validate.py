"""The comparison with a GPU, as far as it goes without one: what was measured is kept if the rest never is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import validate
from corpus.emulator import recorded
from course import results
from warplab import emulator
from warplab.errors import DeviceError
from warplab.plan.execution import METRICS

pytestmark = pytest.mark.processes

ARCHITECTURE = "sm_90a"
SET = "corpus/unseen_fifth/"


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """A GPU that gives what the emulator gives, but for one more of the first counter; how many plans ncu was given."""
    given: list[int] = []

    def execute(plan: Any, inputs: Any) -> Any:
        return emulator.execute(plan, inputs, architecture=ARCHITECTURE, workers=1)

    def counters(plans: Sequence[tuple[Any, Any]], metrics: Sequence[str], folder: Path) -> list[list[dict[str, int]]]:
        given.append(len(plans))
        if len(given) > 2:
            raise DeviceError("ncu failed: gone")
        by_name = {metric: name for name, metric in METRICS.items()}
        first = metrics[0]
        return [
            [
                {m: getattr(launch.total, by_name[m]) + (m == first) for m in metrics}
                for launch in execute(*each).launches
            ]
            for each in plans
        ]

    monkeypatch.setattr(validate, "choose_machine", lambda _: SimpleNamespace(architecture=ARCHITECTURE))
    monkeypatch.setattr(validate.nsight, "counters", counters)
    monkeypatch.setattr(validate.executor, "execute", lambda plan, inputs, _: [execute(plan, inputs)])
    monkeypatch.setattr(validate.results, "DIRECTORY", tmp_path)
    monkeypatch.setattr(validate, "AT_ONCE", 2)
    some = [name for name in recorded.names() if f"corpus/{name}".startswith(SET)][:5]
    monkeypatch.setattr(validate.recorded, "names", lambda: some)
    return given


def test_what_was_compared_is_kept_if_the_card_is_lost(
    card: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validate.main([SET]) == 3
    assert "ncu failed: gone" in capsys.readouterr().err
    assert card == [2, 2, 1]
    kept = results.read(tmp_path / "counters.json").records
    first = next(iter(METRICS.values()))
    assert len({record.name for record in kept}) == 4
    assert not any(record.value for record in kept if record.metric == "elements that differ")
    for record in kept:
        if record.metric != "elements that differ":
            assert record.baseline_value == record.value + (record.metric == first), record
