"""What Nsight Compute counted on GPUs: the baselines that `benchmarks/results` keeps."""

from __future__ import annotations

import json
from functools import cache

import pytest

from course import results
from warplab.plan.disassembler import nvdisasm

_FILES = ("counters.json", "counters_nvidia_h100_80gb_hbm3.json")  # of an H200; of an H100
needs_nvdisasm = pytest.mark.skipif(nvdisasm() is None, reason="nvidia-cuda-nvdisasm is not installed")


@cache
def recorded() -> dict[tuple[str, str], int]:
    """Sums over all launches, by a subject's name and a metric's; what is zero in the emulator too is left out."""
    records = [r for file in _FILES for r in json.loads((results.DIRECTORY / file).read_text())["records"]]
    return {(r["name"], r["metric"]): r["baseline_value"] for r in records if r["baseline_value"] is not None}
