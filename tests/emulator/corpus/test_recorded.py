"""Recorded kernels replayed: no findings, the outputs that NumPy confirmed, and Nsight Compute's counters.

A few run without their machine code in `make test`, every fourth in `make test-all`, and all with WARPLAB_WHOLE=1.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus.emulator import record, recorded
from course import results
from tests.sampling import part_of
from warplab import emulator
from warplab.plan.disassembler import nvdisasm
from warplab.plan.execution import METRICS, Execution

ARCHITECTURE = "sm_90a"
NAMES = recorded.names()
# Checksums of what an H100 wrote where products and additions are many
BITS = {
    "unseen_third/winograd": 0xFE0A38A9,
    "unseen_third/fourier_9": 0x0FAC8B74,
    "unseen_fourth/shallow_water": 0x24E78126,
}


# Its lock is taken without a fence, so that the volatile sum it guards may be read before it was given back.
FOUND = {"applications/control/lock_in_a_warp": "volatile does not order the two"}


def replay(kernel: recorded.RecordedKernel) -> Execution:
    return emulator.execute(kernel.plan, dict(kernel.inputs), architecture=ARCHITECTURE)


@pytest.mark.parametrize("name", NAMES[::50])
def test_computes_what_numpy_says(name: str) -> None:
    kernel = recorded.load(name)
    kernels = {key: replace(one, cubins={}) for key, one in kernel.plan.kernels.items()}
    execution = replay(replace(kernel, plan=replace(kernel.plan, kernels=kernels)))
    assert [finding.message for finding in execution.findings] == []
    assert kernel.problem(execution.outputs) == ""
    for output in execution.outputs.keys() - set(kernel.known.unconfirmed):
        array = execution.outputs[output]
        right = array.flat[0]
        array.flat[0] = right ^ 1 if array.dtype.kind != "f" else 0.5 if abs(right) > 1 else right + 1
        assert output in kernel.problem(execution.outputs)
        array.flat[0] = right


@pytest.mark.processes  # nvdisasm
@pytest.mark.parametrize("name", part_of(NAMES, 4, lambda name: name.partition("/")[0]))
def test_replays_as_it_was_recorded(name: str) -> None:
    kernel = recorded.load(name)
    execution = replay(kernel)
    messages = [finding.message for finding in execution.findings]
    assert bool(messages) == (name in FOUND) and all(FOUND[name] in message for message in messages), messages
    assert kernel.problem(execution.outputs) == ""
    if kernel.approximate is None:  # so a GPU's bits are these
        assert recorded.digests(execution.outputs) == kernel.known.outputs
    if kernel.known.counters and nvdisasm() is not None:
        counted = {counter: kernel.known.counters.get(counter, 0) for counter in METRICS}
        apart = {counter for counter, value in counted.items() if getattr(execution.total, counter) != value}
        assert apart == set(kernel.known.apart), kernel.known.why


@pytest.mark.processes
@pytest.mark.parametrize("name", BITS)
def test_products_are_fused_as_on_an_h100(name: str) -> None:
    assert zlib.crc32(replay(recorded.load(name)).outputs["out"].tobytes()) == BITS[name]


def test_the_sets_are_whole_and_small() -> None:
    assert len(NAMES) >= 1200 and sum(path.stat().st_size for path in recorded.FOLDER.glob("*.zip")) < 10_000_000
    known = [one for name in recorded.sets() for one in recorded.of_set(name).values()]
    assert all(bool(one.why) == bool(one.apart) and bool(one.card) == bool(one.counters) for one in known)
    assert all(one.outputs.keys() - one.unconfirmed for one in known)
    assert sum(len(one.unconfirmed) for one in known) <= 10


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
    assert again.expected.keys() == kernels[0].expected.keys()


ENTRIES = """
from corpus.emulator.entry import Entry, read, write

ENTRIES = [Entry("mine/doubled", "kernels.py", "doubled", (read("a", "float32", 40), write("out", "float32", 40)),
                 expected=lambda v: {"out": FACTOR * v["a"].astype("float64")})]
"""
KERNELS = """
from numba import cuda

@cuda.jit
def kernel(a, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * a[i]

def doubled(a, out):
    kernel[2, 32](a, out)
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a kernel and its entry, outside of the checkout; sets and results of counters are below it."""
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    monkeypatch.setattr(results, "DIRECTORY", tmp_path)
    monkeypatch.setattr(record, "_COUNTED", ("counters.json",))
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "entries.py").write_text(ENTRIES.replace("FACTOR", "2"))
    _count(tmp_path, 0)
    yield tmp_path
    recorded.of_set.cache_clear()


def _count(folder: Path, requests: int) -> None:
    """Have Nsight Compute count loads of the kernel, or nothing."""
    numbers = {"global_load_requests": requests, "global_load_sectors": 5, "global_store_requests": 2,
               "global_store_sectors": 5, "thread_fadd": 40}  # fmt: skip
    records = [
        results.Record("corpus/mine/doubled", METRICS[c], n, "count", baseline="ncu", baseline_value=n, ratio=1.0)
        for c, n in numbers.items()
    ]
    header = results.Header("NVIDIA H200", "580", {"numpy": "2"}, "abc", "validate", "2026-11-28T00:00:00+00:00")
    results.write(folder / "counters.json", header, records if requests else [])


@pytest.mark.processes
def test_a_kernel_from_outside_is_recorded_and_its_counters_taken_over(
    outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record.main(["mine", str(outside / "entries.py")]) == 0
    kernel = recorded.load("mine/doubled")
    assert kernel.known.counters == {} and kernel.expected["out"].dtype == np.float64
    assert kernel.problem(replay(kernel).outputs) == ""
    for file in ("kernels.py", "entries.py"):
        (outside / file).unlink()
    if nvdisasm() is None:
        return
    _count(outside, 2)
    assert record.main(["mine"]) == 0
    known = recorded.load("mine/doubled").known
    assert known.counters["global_load_requests"] == 2 and known.card == "NVIDIA H200, 2026-11-28" and not known.apart
    _count(outside, 3)
    assert record.main(["mine"]) == 1 and "--why doubled REASON" in capsys.readouterr().err
    assert recorded.load("mine/doubled").known == known
    assert record.main(["mine", "--why", "doubled", "a miscount"]) == 0
    known = recorded.load("mine/doubled").known
    assert known.apart == ("global_load_requests",) and known.why == "a miscount"


@pytest.mark.processes
def test_nothing_is_recorded_that_numpy_denies(outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (outside / "entries.py").write_text(ENTRIES.replace("FACTOR", "3"))
    assert record.main(["mine", str(outside / "entries.py")]) == 1
    assert "where NumPy says" in capsys.readouterr().err and not (outside / "mine.zip").exists()


@pytest.mark.processes
def test_outputs_without_values_of_numpy_are_named(outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for values in ("{}", '{"a": v["a"]}'):
        (outside / "entries.py").write_text(
            ENTRIES.replace('{"out": FACTOR * v["a"].astype("float64")}', values)
            .replace("read(", "update(")
            .replace("import Entry, read", "import Entry, update")
        )
        status = record.main(["mine", str(outside / "entries.py")])
        assert status == (1 if values == "{}" else 0)
    assert "mine/doubled: NumPy says nothing" in capsys.readouterr().err
    kernel = recorded.load("mine/doubled")
    outputs = replay(kernel).outputs
    assert kernel.known.unconfirmed == ("out",) and kernel.problem(outputs | {"out": 0 * outputs["out"]}) == ""
    assert "a has the digest" in kernel.problem(outputs | {"a": 0 * outputs["a"]})


def test_what_cannot_be_recorded_is_said(outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (outside / "empty.py").write_text("")
    for arguments, words in (
        (["mine"], "There is no set 'mine'"),
        (["mine", str(outside / "gone.py")], "is no Python file"),
        (["mine", str(outside / "empty.py")], "has no ENTRIES"),
    ):
        assert record.main(arguments) == 1
        assert words in capsys.readouterr().err
