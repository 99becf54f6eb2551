"""Numbers as they lie in a GPU's memory: NumPy has no bfloat16."""

from __future__ import annotations

import numpy as np

_STORED = {"float32": np.float32, "float16": np.float16}


def stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """Float64 as it lies in memory; bfloat16 cut off, in uint16."""
    if dtype == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(_STORED[dtype])


def read(array: np.ndarray, dtype: str) -> np.ndarray:
    """What lies in memory, as float64."""
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)
