"""Google's TPUs as Google Cloud publishes them, to set beside the GPUs of `chips`: one chip each, with its source."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from warplab.hardware.records import DATA, Tpu

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
