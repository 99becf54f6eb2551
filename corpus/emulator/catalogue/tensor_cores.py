"""Entries of kernels/tensor_cores.py; those with an expectation have exact sums only, so that NumPy can say it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, scalar, write

FILE = "kernels/tensor_cores.py"
_LANE = np.arange(32)
_GROUP, _MEMBER = _LANE // 4, _LANE % 4


@dataclass(frozen=True)
class _Form:
    """An mma.sync of 16 x 8 x k: the operands' type, its bits, and the accumulator's dtype."""

    name: str
    k: int
    operand: str
    bits: int
    accumulator: str = "float32"


# In the order of MMA in kernels/tensor_cores.py.
_FORMS = (
    _Form("f16_f32", 16, "float16", 16),
    _Form("f16_f16", 16, "float16", 16, "float16"),
    _Form("bf16_f32", 16, "bfloat16", 16),
    _Form("tf32_f32", 8, "float32", 32),
    _Form("s8_s32", 32, "int8", 8, "int32"),
    _Form("f16_f32_k8", 8, "float16", 16),
    _Form("e4m3_f32", 32, "e4m3", 8),
    _Form("e5m2_f32", 32, "e5m2", 8),
)


def _encoded(values: np.ndarray, operand: str) -> np.ndarray:
    """Small whole numbers in the operand's bits."""
    if operand == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if operand == "e5m2":
        return (values.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8)
    if operand == "e4m3":
        # half has the same fraction bits on top and an exponent with a bias of 15 instead of 7
        half = values.astype(np.float16).view(np.uint16)
        sign, rest = half >> 8 & 0x80, (half & 0x7FFF) >> 7
        return np.where(rest == 0, sign, sign | (rest - (8 << 3))).astype(np.uint8)
    return values.astype(operand)


def _words(matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """One word a lane: neighbours along the row of `matrix` from (rows, columns)."""
    per_word = 4 // matrix.itemsize
    taken = matrix[rows[:, None], columns[:, None] + np.arange(per_word)]
    return np.ascontiguousarray(taken).view(np.uint32).ravel()


def _operand(generator: np.random.Generator, form: _Form, height: int) -> np.ndarray:
    return generator.integers(-2, 3, (height, form.k))


def _a_words(matrix: np.ndarray, form: _Form) -> np.ndarray:
    per_word = 32 // form.bits
    half = 4 * per_word  # of k that one word of the four lanes of a group covers
    places = [(row, column) for column in range(0, form.k, half) for row in (0, 8)]
    return np.concatenate([_words(matrix, _GROUP + row, _MEMBER * per_word + column) for row, column in places])


def _b_words(matrix: np.ndarray, form: _Form) -> np.ndarray:
    """`matrix` is b transposed: 8 x k."""
    per_word = 32 // form.bits
    half = 4 * per_word
    return np.concatenate([_words(matrix, _GROUP, _MEMBER * per_word + column) for column in range(0, form.k, half)])


def _c_words(matrix: np.ndarray) -> np.ndarray:
    """The accumulator's elements (or pairs of halves) as the lanes hold them."""
    if matrix.dtype == np.float16:
        return np.concatenate([_words(matrix, _GROUP + row, _MEMBER * 2) for row in (0, 8)])
    return np.concatenate([matrix[_GROUP + row, _MEMBER * 2 + column] for row in (0, 8) for column in (0, 1)])


def _matrices(form: _Form) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(form.k * 100 + form.bits)
    return _operand(generator, form, 16), _operand(generator, form, 8), generator.integers(-9, 10, (16, 8))


def _mma(which: int) -> Entry:
    form = _FORMS[which]
    a, b, c = _matrices(form)
    product = (a @ b.T + c).astype(form.accumulator)
    a_words, b_words = _a_words(_encoded(a, form.operand), form), _b_words(_encoded(b, form.operand), form)
    c_words, expected = _c_words(c.astype(form.accumulator)), _c_words(product)
    arguments = (
        *(read("a", "uint32", a_words.size), read("b", "uint32", b_words.size)),
        *(read("c", c_words.dtype.name, c_words.size), write("out", c_words.dtype.name, c_words.size)),
        scalar("which", which),
    )
    inputs = {"a": draws.fixed(a_words), "b": draws.fixed(b_words), "c": draws.fixed(c_words)}
    return Entry(f"mma/{form.name}", FILE, "mma", arguments, inputs, lambda v: {"out": expected})


def _random_mma(which: int) -> Entry:
    """Ordinary numbers: only the GPU says what the sum of rounded products is."""
    form = _FORMS[which]
    a, b, c = (4, 2, 4) if form.k * form.bits == 256 else (2, 1, 4)
    source = {"float16": draws.packed_halves, "bfloat16": draws.packed_bfloats, "float32": draws.float_bits}
    draw = source[form.operand]
    half = form.accumulator == "float16"
    dtype, size = ("uint32", 64) if half else ("float32", c * 32)
    arguments = (
        *(read("a", "uint32", a * 32), read("b", "uint32", b * 32), read("c", dtype, size)),
        *(write("out", dtype, size), scalar("which", which)),
    )
    inputs = {"a": draw, "b": draw} | ({"c": draws.packed_halves} if half else {})
    return Entry(f"mma/{form.name}_random", FILE, "mma", arguments, inputs)


def _loaded(v: dict) -> dict:
    matrices = v["a"].view(np.uint16).reshape(256, 8)[v["rows"]].reshape(4, 8, 8)[: v["count"]]
    if v["transposed"]:
        matrices = matrices.transpose(0, 2, 1)
    return {"out": np.ascontiguousarray(matrices).view(np.uint32).ravel()}


def _load(count: int, transposed: bool, name: str, rows: np.ndarray) -> Entry:
    arguments = (
        *(read("a", "uint32", 1024), read("rows", "int32", 32), write("out", "uint32", 32 * count)),
        *(scalar("count", count), scalar("transposed", int(transposed))),
    )
    label = f"ldmatrix/x{count}{'_trans' if transposed else ''}/{name}"
    return Entry(label, FILE, "load_matrices", arguments, {"rows": draws.fixed(rows)}, _loaded)


def _stored(v: dict) -> dict:
    out = np.zeros((256, 4), np.uint32)
    out[v["rows"]] = v["c"].reshape(4, 8, 4).reshape(32, 4)
    return {"out": out.ravel()}


def _copied(v: dict) -> dict:
    parts = v["a"].reshape(64, -1).copy()
    cut = parts.view(np.uint8).reshape(64, -1)
    cut[::4, v["kept"] :] = 0
    return {"out": parts[::-1].ravel()}


def _copy(width: int, kept: int) -> Entry:
    n = 16 * width
    arguments = (read("a", "int32", n), write("out", "int32", n), scalar("width", width), scalar("kept", kept))
    return Entry(f"cp_async/{width}_bytes_{kept}_kept", FILE, "copy", arguments, {}, _copied)


def _summed(v: dict) -> dict:
    return {"out": v["a"].reshape(-1, 32, 4)[:, ::-1].astype(np.float64).sum(0).ravel()}


def _product(m: int, n: int, k: int) -> Entry:
    arguments = (read("a", "float16", m, k), read("b", "float16", k, n), write("c", "float32", m, n))
    name = f"product/tensor_cores_{m}x{n}x{k}"
    return Entry(name, FILE, "product", arguments, {}, lambda v: {"c": v["a"].astype(np.float64) @ v["b"]})


_ROWS = {
    "rows_of_16_bytes": _LANE,
    "rows_of_64_bytes": _LANE * 4 % 256,
    "rows_of_128_bytes": _LANE * 8 % 256,
    "swizzled": (_LANE * 8 + (_LANE % 8)) % 256,
}

ENTRIES: tuple[Entry, ...] = (
    *(_mma(which) for which in range(len(_FORMS))),
    *(_random_mma(which) for which in (0, 1, 2, 3, 5)),
    *(
        _load(count, transposed, name, rows)
        for count in (1, 2, 4)
        for transposed in (False, True)
        for name, rows in _ROWS.items()
    ),
    *(
        Entry(
            f"stmatrix/x4/{name}",
            FILE,
            "store_matrices",
            (read("c", "uint32", 128), read("rows", "int32", 32), write("out", "uint32", 1024)),
            {"rows": draws.fixed(rows)},
            _stored,
        )
        for name, rows in (("rows_of_16_bytes", _LANE), ("swizzled", _LANE * 8 % 256 + _LANE % 8))
    ),
    *(_copy(width, kept) for width in (4, 8, 16) for kept in (width, 0)),
    _copy(16, 4),
    Entry(
        "cp_async/pipeline",
        FILE,
        "pipeline",
        (read("a", "float32", 6, 128), write("out", "float32", 128)),
        {},
        _summed,
    ),
    _product(128, 64, 128),
    _product(100, 72, 104),
)
