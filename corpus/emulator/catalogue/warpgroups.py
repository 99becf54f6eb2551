"""Entries of kernels/warpgroups.py; what a chain of rounded sums gives, only the GPU says, whole products NumPy too."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.draws import Draw
from corpus.emulator.entry import Entry, read, scalar, write

FILE = "kernels/warpgroups.py"
_BYTES = 40960
# The name, registers of sums, and types of A and D of each form of kernels/warpgroups.py, in its order.
_FORMS = (
    ("f16", 32, "f16", "f32"),
    ("f16_wide", 128, "f16", "f32"),
    ("f16_narrow", 4, "f16", "f32"),
    ("f16_sums", 24, "f16", "f16"),
    ("bf16", 64, "bf16", "f32"),
    ("tf32", 20, "tf32", "f32"),
    ("e4m3", 32, "e4m3", "f32"),
    ("e5m2", 12, "e5m2", "f32"),
    ("mixed_fp8_half_sums", 8, "e5m2", "f16"),
    ("s8", 24, "s8", "s32"),
    ("mixed_integers_saturated", 8, "u8", "s32"),
    ("a_across", 32, "f16", "f32"),
    ("b_across", 32, "f16", "f32"),
    ("both_across", 68, "bf16", "f32"),
    ("both_across_plain", 12, "f16", "f32"),
    ("wide_across", 128, "f16", "f32"),
    ("f16_registers", 32, "f16", "f32"),
    ("f16_registers_across", 18, "f16", "f16"),
    ("tf32_registers", 8, "tf32", "f32"),
    ("e4m3_registers", 32, "e4m3", "f32"),
    ("u8_registers", 16, "u8", "s32"),
    ("minus_a", 32, "f16", "f32"),
    ("minus_b", 16, "bf16", "f32"),
    ("minus_both", 8, "tf32", "f32"),
    ("fresh", 32, "f16", "f16"),
    ("bits", 24, "b1", "s32"),
    ("bits_registers", 8, "b1", "s32"),
)
_DRAWS: dict[str, Draw] = {
    "f16": draws.packed_halves,
    "bf16": draws.packed_bfloats,
    "tf32": draws.float_bits,
    "f32": draws.float_bits,
}


def _one(which: int) -> Entry:
    name, registers, kind, sums = _FORMS[which]
    operand = _DRAWS.get(kind, draws.bits)
    arguments = (
        *(read("image", "uint32", _BYTES // 4), read("x", "uint32", 512), read("c", "uint32", 128 * registers)),
        *(write("out", "uint32", 128 * registers), scalar("which", which)),
    )
    inputs = {"image": operand, "x": operand, "c": _DRAWS.get(sums, draws.bits)}
    return Entry(f"wgmma/{name}", FILE, "warpgroup", arguments, inputs)


def _product(m: int, n: int, k: int) -> Entry:
    arguments = (read("a", "float16", m, k), read("b", "float16", k, n), write("c", "float32", m, n))
    name = f"product/warpgroups_{m}x{n}x{k}"
    return Entry(name, FILE, "product", arguments, {}, lambda v: {"c": v["a"].astype(np.float64) @ v["b"]})


def _halves_of_k(v: dict) -> dict:
    a, b = v["a"].astype(np.float64), v["b"].astype(np.float64)
    return {"c": np.concatenate([a[:, :32] @ b[:32], a[:, 32:] @ b[32:]])}


ENTRIES: tuple[Entry, ...] = (
    *(_one(which) for which in range(len(_FORMS))),
    _product(64, 64, 64),
    _product(128, 192, 320),
    Entry(
        "wgmma/two_in_flight",
        FILE,
        "two_in_flight",
        (read("a", "float16", 64, 64), read("b", "float16", 64, 64), write("c", "float32", 128, 64)),
        {},
        _halves_of_k,
    ),
    Entry(
        "wgmma/handed_back",
        FILE,
        "handed_back",
        (read("a", "float16", 64, 64), read("b", "float16", 64, 64), write("c", "float32", 64, 64)),
        {},
        lambda v: {"c": v["a"].astype(np.float64) @ v["b"]},
    ),
    Entry(
        "wgmma/two_warpgroups",
        FILE,
        "warpgroups",
        (read("a", "float16", 128, 64), read("b", "float16", 64, 64), write("c", "float32", 128, 64)),
        {},
        lambda v: {"c": v["a"].astype(np.float64) @ v["b"]},
    ),
)
