"""Google's TPUs as Google Cloud publishes them, to set beside the GPUs of `chips`: one chip each, with its source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from warplab.hardware.chips import DATA


@dataclass(frozen=True)
class Tpu:
    """One TPU chip. Sizes in bytes, rates a second; `bf16` in dense FLOP/s; `ici` in both directions together."""

    name: str
    tensor_cores: int  # Google's TensorCore: a whole core, with matrix, vector and scalar units
    matrix_units: int | None  # MXUs of the chip; None: no figure is given
    matrix_side: int | None  # multipliers along each side of one
    bf16: float
    fp8: float | None  # None: the chip has none, or no figure is given
    memory: int
    bandwidth: float
    ici: float
    source: str

    @property
    def intensity(self) -> float:
        """FLOP for each byte of memory traffic from which the matrix units can be kept busy (bf16)."""
        return self.bf16 / self.bandwidth


# Each is read from data/ when it is first asked for, as the GPUs of `chips` are.
TPU_V5E: Tpu
TPU_V5P: Tpu
TPU_V6E: Tpu
TPU7X: Tpu
TPUS: tuple[Tpu, ...]  # all of them, in this order

_NAMES = ("TPU_V5E", "TPU_V5P", "TPU_V6E", "TPU7X")


@cache
def _tpu(name: str) -> Tpu:
    from warplab.hardware.datasheets import read_tpu

    return read_tpu(DATA / f"{name.lower()}.toml")


if not TYPE_CHECKING:  # a type checker knows the names declared above, and should know no others

    def __getattr__(name: str) -> Tpu | tuple[Tpu, ...]:
        """A TPU or all of them, by name. Raises DatasheetError if a file is not as it should be."""
        if name == "TPUS":
            return tuple(_tpu(one) for one in _NAMES)
        if name in _NAMES:
            return _tpu(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, "TPUS"})
