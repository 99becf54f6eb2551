"""What notebooks quote from the microbenchmarks, and the kernels that they show and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from course.experiment import emulate, observe
from course.kernel_cell import kernel_cell
from course import measured as module
from course.measured import KERNELS, Measured, kernel, measured as find, records_of, said
from warplab.errors import WarplabError
from warplab.hardware.chips import H200
from course.results import Header, Record, ResultsError, write

pytestmark = pytest.mark.stored

WALK = """
from numba import cuda

@cuda.jit
def copy_kernel(x, out, stride):
    i = cuda.grid(1)
    out[i] = x[i * stride]

def copy(x, out, stride):
    copy_kernel[1, 32](x, out, stride)
"""


@pytest.fixture(scope="module")
def measured() -> Measured:
    return Measured()


def test_a_record_is_found_or_nobody_has_measured_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    assert find("times", "copy", "rate") is None, "no file"
    header = Header("NVIDIA H200", "580", {"numpy": "2"}, "abc", "make bench", "2026-01-02T03:04:05+00:00")
    records = [
        Record("copy", "rate", rate, "B/s", variant=variant) for variant, rate in (("cold", 4e12), ("warm", 9e12))
    ]
    write(tmp_path / "times.json", header, records)
    found = find("times", "copy", "rate", variant="warm")
    assert found is not None and found.value == 9e12
    assert find("times", "copy", "rate") is None, "two records fit"
    assert find("times", "copy", "time", variant="warm") is None
    (tmp_path / "times.json").write_text("{")
    assert find("times", "copy", "rate", variant="warm") is None, "a damaged file"


def test_a_curve_is_in_order_and_complete(measured: Measured) -> None:
    curve = measured.curve("dependent load", "latency")
    sizes = [size for size, _ in curve]
    assert sizes == sorted(set(sizes)) and sizes[0] == 1024 and sizes[-1] == 4 << 30
    with pytest.raises(KeyError, match="no curve"):
        measured.curve("dependent load", "bandwidth")
    with pytest.raises(ResultsError):
        measured.value("dependent load", "latency")  # many


def test_the_table_says_what_is_known_and_why_not(measured: Measured) -> None:
    record = Record(
        "x", "rate", 50.0, "1/cycle/SM", extra={"known": 64.0, "deviation": -0.22, "explanation": "a reason"}
    )
    text = measured.beside(record, measured.record("l2", "latency")).data
    assert "50 per cycle and SM" in text and "64 per cycle and SM" in text and "-22.0%" in text and "a reason" in text
    assert "nothing published that fits" in text
    assert len(records_of(measured, ["divergence"])) == 6


def test_values_read_well() -> None:
    assert said(4.8e12, "B/s") == "4.8 TB/s"
    assert said(1.98e9, "Hz") == "1.98 GHz"
    assert said(126.16, "1/cycle/SM") == "126 per cycle and SM"
    assert said(132, "SMs") == "132 SMs"


def test_kernels_are_shown_whole() -> None:
    shown = kernel("sm", "diverge", "FmaF32").data
    assert "syncwarp" in shown and "fma.rn.f32" in shown and "benchmarks/micro/sm.cu" in shown
    with pytest.raises(ValueError, match="no definition of 'nowhere'"):
        kernel("sm", "nowhere")


def test_every_kernel_text_is_balanced() -> None:
    for path in KERNELS.glob("*.cu"):
        text = path.read_text()
        assert text.count("{") == text.count("}") and text.count("(") == text.count(")"), path.name


def test_a_kernel_of_a_notebook_runs_and_is_counted(tmp_path) -> None:
    cell = kernel_cell("copy", WALK, tmp_path)
    cases = [{"x": np.arange(32 * s), "out": np.zeros(32, np.int64), "stride": s} for s in (1, 4)]
    runs = emulate(cell, cases, caches=H200)
    for case, run in zip(cases, runs, strict=True):
        assert (run.outputs["out"] == np.arange(32) * case["stride"]).all()
    assert [run.total.global_load_sectors for run in runs] == [8, 32]
    assert runs[1].launches[0].caches is not None
    seen = observe(cell, cases[0])
    assert seen.warps == 1 and not seen.findings
    with pytest.raises(WarplabError):
        emulate(cell, cases, function="nothing_of_this_name")
