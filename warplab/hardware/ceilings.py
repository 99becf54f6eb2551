"""Ceilings measured on one GPU: what it sustains, as opposed to what its datasheet says. Kept per GPU."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from warplab.files import write_whole
from warplab.folders import CEILINGS, cache_folder


@dataclass(frozen=True)
class Ceilings:
    """Rates sustained by the GPU with this uuid; `*_low` and `*_high` bound the 95% interval of each."""

    gpu: str
    uuid: str
    driver: str
    copy: float  # bytes read plus written a second
    copy_low: float
    copy_high: float
    fp32_fma: float  # FLOP/s
    fp32_fma_low: float
    fp32_fma_high: float
    tensor_fp16: float | None  # FLOP/s, dense, float32 accumulation; None below compute capability 7.5
    tensor_fp16_low: float | None
    tensor_fp16_high: float | None
    tensor_fp8: float | None  # the same of e4m3; None below compute capability 8.9
    tensor_fp8_low: float | None
    tensor_fp8_high: float | None


def load(uuid: str, driver: str) -> Ceilings | None:
    """The ceilings kept for a GPU under this driver, or None if there are none or they cannot be read."""
    try:
        ceilings = Ceilings(**json.loads(_file(uuid).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return ceilings if ceilings.driver == driver else None


def save(ceilings: Ceilings) -> None:
    """Keep the ceilings of a GPU. The file is replaced as a whole."""
    write_whole(_file(ceilings.uuid), json.dumps(asdict(ceilings), indent=1))


def _file(uuid: str) -> Path:
    return cache_folder() / CEILINGS / f"{uuid}.json"
