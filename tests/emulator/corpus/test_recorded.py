"""Recorded kernels replayed: no findings, the outputs that NumPy confirmed, and Nsight Compute's counters."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from corpus.emulator import recorded
from tests.sampling import part_of
from warplab import emulator
from warplab.plan.disassembler import nvdisasm
from warplab.plan.execution import METRICS, Execution

pytestmark = pytest.mark.processes  # nvdisasm

ARCHITECTURE = "sm_90a"
NAMES = recorded.names()
# Checksums of what an H100 wrote where products and additions are many
BITS = {
    "unseen_third/winograd": 0xFE0A38A9,
    "unseen_third/fourier_9": 0x0FAC8B74,
    "unseen_fourth/shallow_water": 0x24E78126,
}


def replay(kernel: recorded.RecordedKernel) -> Execution:
    return emulator.execute(kernel.plan, dict(kernel.inputs), architecture=ARCHITECTURE)


@pytest.mark.parametrize("name", part_of(NAMES, 4, lambda name: name.partition("/")[0]))
def test_replays_as_it_was_recorded(name: str) -> None:
    kernel = recorded.load(name)
    execution = replay(kernel)
    assert [finding.message for finding in execution.findings] == []
    assert recorded.digests(execution.outputs) == kernel.known.outputs
    if kernel.known.counters and nvdisasm() is not None:
        counted = {counter: kernel.known.counters.get(counter, 0) for counter in METRICS}
        apart = {counter for counter, value in counted.items() if getattr(execution.total, counter) != value}
        assert apart == set(kernel.known.apart), kernel.known.why


@pytest.mark.parametrize("name", BITS)
def test_products_are_fused_as_on_an_h100(name: str) -> None:
    assert zlib.crc32(replay(recorded.load(name)).outputs["out"].tobytes()) == BITS[name]


def test_the_sets_are_whole_and_small() -> None:
    assert len(NAMES) == 596 and sum(path.stat().st_size for path in recorded.FOLDER.glob("*.zip")) < 10_000_000
    assert all(known.why for name in recorded.sets() for known in recorded.of_set(name).values() if known.apart)


def test_a_set_that_is_written_again_has_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [recorded.load(name) for name in NAMES if name.startswith("unseen/")][:3]
    whole = (recorded.FOLDER / "unseen.zip").read_bytes()
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    first = recorded.write("few", kernels).read_bytes()
    recorded.write("few", [recorded.load(name) for name in recorded.names()])
    assert (tmp_path / "few.zip").read_bytes() == first != whole
    again = recorded.load("few/" + kernels[0].name.partition("/")[2])
    assert again.plan == kernels[0].plan and again.known == kernels[0].known
    assert all(np.array_equal(again.inputs[name], array) for name, array in kernels[0].inputs.items())
