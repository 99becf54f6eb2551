"""Entries of kernels/warp_matrices.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, scalar, write

FILE = "kernels/warp_matrices.py"
# In the order of NAMES in kernels/warp_matrices.py: name, operands' type, sums' type.
_FORMS = (
    ("square", "float16", "float32"),
    ("flat", "float16", "float16"),
    ("tall", "float16", "float32"),
    ("bytes", "int8", "int32"),
    ("doubles", "float64", "float64"),
)


def _product(which: int) -> Entry:
    name, kind, sums = _FORMS[which]
    m, n, k = 64, 96, 48
    arguments = (read("a", kind, m, k), read("b", kind, n, k), write("c", sums, m, n), scalar("which", which))
    inputs = {"a": draws.bits, "b": draws.bits} if kind == "int8" else {}
    wide = {"int32": np.int64, "float64": np.longdouble}.get(sums, np.float64)

    def expected(v: dict) -> dict:
        return {"c": v["a"].astype(wide) @ v["b"].astype(wide).T}

    return Entry(f"wmma/{name}", FILE, "product", arguments, inputs, expected)


ENTRIES: tuple[Entry, ...] = (
    *(_product(which) for which in range(len(_FORMS))),
    Entry(
        "wmma/staged",
        FILE,
        "staged",
        (read("a", "float16", 64, 32), read("b", "float16", 64, 48), write("c", "float32", 32, 48)),
        {},
        lambda v: {"c": v["a"].astype(np.float64).T @ v["b"].astype(np.float64) * 0.5},
    ),
)
