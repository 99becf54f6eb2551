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


# In the order of PACKED in kernels/warp_matrices.py: name and bits of an element.
_PACKED = (("nibbles", 4), ("unsigned_nibbles", 4), ("bits_and", 1), ("bits_xor", 1))


def _packed(which: int) -> Entry:
    name, bits = _PACKED[which]
    m, n, words = 16, 24, 8
    arguments = (read("a", "uint32", m, words), read("b", "uint32", n, words), write("c", "int32", m, n))

    def expected(v: dict) -> dict:
        places = np.arange(0, 32, bits, dtype=np.uint32)
        a, b = ((v[x][:, :, None] >> places & (1 << bits) - 1).reshape(len(v[x]), -1).astype(np.int32) for x in "ab")
        if name == "bits_xor":
            return {"c": (a[:, None] ^ b[None]).sum(axis=2, dtype=np.int32)}
        if name == "nibbles":
            a, b = (np.where(x > 7, x - 16, x) for x in (a, b))
        return {"c": a @ b.T}

    return Entry(f"wmma/{name}", FILE, "packed", (*arguments, scalar("which", which)), {}, expected)


ENTRIES: tuple[Entry, ...] = (
    *(_product(which) for which in range(len(_FORMS))),
    *(_packed(which) for which in range(len(_PACKED))),
    Entry(
        "wmma/staged",
        FILE,
        "staged",
        (read("a", "float16", 64, 32), read("b", "float16", 64, 48), write("c", "float32", 32, 48)),
        {},
        lambda v: {"c": v["a"].astype(np.float64).T @ v["b"].astype(np.float64) * 0.5},
    ),
)
