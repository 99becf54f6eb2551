"""Google's TPUs as Google Cloud publishes them, to set beside the GPUs of `chips`: one chip each, with its source."""

from __future__ import annotations

from dataclasses import dataclass

from warplab.hardware.chips import GB, TERA

_GIB = 1 << 30
_DOCS = "Google Cloud TPU documentation, docs.cloud.google.com/tpu/docs"


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


_TABLE = f"{_DOCS}: tpu7x, table of v5p, v6e and TPU7x"
_BOOK = "matrix units: How to Scale Your Model, chapter 2 (jax-ml.github.io/scaling-book/tpus)"

TPU_V5E = Tpu(
    "TPU v5e", 1, 4, 128, 197 * TERA, None, 16 * GB, 819 * GB, 400 * GB, f"{_DOCS}/v5e; {_BOOK}"
)  # fmt: skip
TPU_V5P = Tpu(
    "TPU v5p", 2, 8, 128, 459 * TERA, None, 95 * _GIB, 2765 * GB, 1200 * GB, f"{_TABLE}; {_DOCS}/v5p; {_BOOK}"
)  # fmt: skip
TPU_V6E = Tpu(
    "TPU v6e", 1, 2, 256, 918 * TERA, None, 32 * GB, 1638 * GB, 800 * GB, f"{_DOCS}/v6e"
)  # fmt: skip
TPU7X = Tpu(
    "TPU7x", 2, None, None, 2307 * TERA, 4614 * TERA, 192 * _GIB, 7380 * GB, 1200 * GB,
    _TABLE,
)  # fmt: skip

TPUS = (TPU_V5E, TPU_V5P, TPU_V6E, TPU7X)
