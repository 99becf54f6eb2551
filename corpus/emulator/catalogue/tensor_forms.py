"""Entries of kernels/tensor_forms.py. NumPy says exact sums by writing a sparse matrix out in full."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from corpus.emulator import draws
from corpus.emulator.draws import Draw
from corpus.emulator.entry import Entry, read, scalar, write

FILE = "kernels/tensor_forms.py"
_LANE = np.arange(32)
_GROUP, _MEMBER = _LANE // 4, _LANE % 4
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
_LIMITS = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16), "b1": (0, 2)}
_FLOATS = {"f16": draws.packed_halves, "bf16": draws.packed_bfloats, "tf32": draws.float_bits}


@dataclass(frozen=True)
class _Form:
    """m and k, the types of a, b and of the sums, the selector of a sparse a, and what single bits are joined by."""

    m: int
    k: int
    a: str
    b: str
    sums: str = "s32"
    selector: int | None = None
    operation: str = ""
    saturates: bool = False

    @property
    def name(self) -> str:
        parts = [f"m{self.m}n8k{self.k}", self.a, self.b, self.sums, self.operation]
        parts += ["satfinite"] if self.saturates else []
        parts += [] if self.selector is None else [f"selector_{self.selector}"]
        return "_".join(p for p in parts if p)


# In the order of FORMS in kernels/tensor_forms.py.
_FORMS = (
    *(_Form(16, 16, "f16", "f16", "f32", selector) for selector in range(4)),
    *(_Form(16, 32, "f16", "f16", "f32", selector) for selector in range(2)),
    _Form(16, 32, "f16", "f16", "f16", 0),
    _Form(16, 16, "bf16", "bf16", "f32", 1),
    _Form(16, 32, "bf16", "bf16", "f32", 0),
    *(_Form(16, 8, "tf32", "tf32", "f32", selector) for selector in range(4)),
    *(_Form(16, 16, "tf32", "tf32", "f32", selector) for selector in range(2)),
    *(_Form(16, 32, "s8", "s8", selector=selector) for selector in range(2)),
    _Form(16, 64, "s8", "s8", selector=0),
    _Form(16, 64, "u8", "s8", selector=0, saturates=True),
    *(_Form(16, 64, "s4", "s4", selector=selector) for selector in range(2)),
    _Form(16, 128, "u4", "s4", selector=0),
    _Form(8, 32, "s4", "s4"),
    _Form(16, 32, "s4", "u4"),
    _Form(16, 64, "s4", "s4"),
    _Form(16, 64, "u4", "u4", saturates=True),
    *(
        _Form(m, k, "b1", "b1", operation=operation)
        for m, k in ((8, 128), (16, 128), (16, 256))
        for operation in ("and", "xor")
    ),
    _Form(16, 16, "s8", "u8"),
    _Form(8, 16, "u8", "u8", saturates=True),
)


def _patterns(values: np.ndarray, kind: str) -> np.ndarray:
    """Whole numbers, small ones for floats, as bits of a type in uint32."""
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    if kind in ("bf16", "tf32", "f32"):
        return values.astype(np.float32).view(np.uint32) >> np.uint32(16 if kind == "bf16" else 0)
    return (values & ((1 << _BITS.get(kind, 32)) - 1)).astype(np.uint32)


def _words(patterns: np.ndarray, bits: int) -> np.ndarray:
    """Rows along k as the lanes hold them: neighbours of eight rows a register, then of rows 8 to 15, then further."""
    packed = 32 // bits
    registers = []
    for left in range(0, patterns.shape[1], 4 * packed):
        for top in range(0, patterns.shape[0], 8):
            held = [patterns[top + _GROUP, left + _MEMBER * packed + i] << np.uint32(bits * i) for i in range(packed)]
            registers.append(np.bitwise_or.reduce(held))
    return np.concatenate(registers)


def _sum_words(matrix: np.ndarray, kind: str) -> np.ndarray:
    """c or d: two neighbours of a row, in two registers or one, and then those of rows 8 to 15."""
    patterns = _patterns(matrix, kind)
    pairs = [patterns[top + _GROUP, 2 * _MEMBER + i] for top in range(0, len(matrix), 8) for i in (0, 1)]
    if kind == "f16":
        return np.concatenate([low | high << np.uint32(16) for low, high in zip(pairs[::2], pairs[1::2], strict=True)])
    return np.concatenate(pairs)


def _thinned(form: _Form, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which columns the stored elements of each row are from (16 x k / 2), and the metadata as a row of bits each.

    Two of every four elements are stored; of tf32 one of every two, whose halves the metadata name; of four bits two
    pairs of neighbours of every four pairs.
    """
    columns, bits = [], []
    for _ in range(16):
        chosen, fields = [], []
        for chunk in range(form.k * (2 if form.a == "tf32" else 1) // (8 if _BITS[form.a] == 4 else 4)):
            first = int(generator.integers(0, 2)) if form.a == "tf32" else None
            places = [2 * first, 2 * first + 1] if first is not None else sorted(generator.permutation(4)[:2].tolist())
            if first is not None:
                chosen.append(2 * chunk + first)
            elif _BITS[form.a] == 4:
                chosen += [8 * chunk + 2 * place + i for place in places for i in (0, 1)]
            else:
                chosen += [4 * chunk + place for place in places]
            fields += [place >> i & 1 for place in places for i in (0, 1)]
        columns.append(chosen)
        bits.append(fields)
    return np.array(columns), np.array(bits)


def _metadata(form: _Form, bits: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The lanes' metadata registers; those of lanes that the selector leaves out hold anything.

    From 16 bits on a lane has 16 bits of row g and 16 of row g + 8; below, a lane has 32 bits of one of the two.
    """
    words = generator.integers(0, 2**32, 32, np.uint32)
    wide = _BITS[form.a] >= 16
    width = 16 if wide else 32
    weights = np.uint64(1) << np.arange(width, dtype=np.uint64)
    pieces = (bits.reshape(16, -1, width) * weights).sum(axis=2).astype(np.uint32)  # row, piece
    first = (form.selector or 0) * pieces.shape[1] * (1 if wide else 2)
    for group in range(8):
        for piece in range(pieces.shape[1]):
            low, high = pieces[group, piece], pieces[group + 8, piece]
            if wide:
                words[4 * group + first + piece] = low | high << np.uint32(16)
            else:
                words[4 * group + first + 2 * piece : 4 * group + first + 2 * piece + 2] = low, high
    return words


def _arguments(which: int) -> tuple:
    form = _FORMS[which]
    stored = form.k // (1 if form.selector is None else 2)
    sums = form.m * 8 // (2 if form.sums == "f16" else 1)
    sizes = form.m * stored * _BITS[form.a] // 32, form.k * 8 * _BITS[form.b] // 32
    return (
        *(read("a", "uint32", sizes[0]), read("b", "uint32", sizes[1]), read("c", "uint32", sums)),
        *(read("e", "uint32", 32), write("out", "uint32", sums), scalar("which", which)),
    )


def _exact(which: int) -> Entry:
    """Whole numbers, so that no order of sums matters."""
    form = _FORMS[which]
    generator = np.random.default_rng(zlib.crc32(form.name.encode()))
    low, high = zip(*(_LIMITS.get(kind, (-3, 4)) for kind in (form.a, form.b)), strict=True)
    a = generator.integers(low[0], high[0], (form.m, form.k if form.selector is None else form.k // 2))
    b = generator.integers(low[1], high[1], (8, form.k))
    c = generator.integers(-9, 10, (form.m, 8))
    if form.sums == "s32":
        c = generator.choice(np.array([2**31 - 5, -(2**31) + 5, 0, 77]), (form.m, 8))
    e, whole = generator.integers(0, 2**32, 32, np.uint32), a
    if form.selector is not None:
        columns, bits = _thinned(form, generator)
        e, whole = _metadata(form, bits, generator), np.zeros((form.m, form.k), np.int64)
        np.put_along_axis(whole, columns, a, axis=1)
    product = (whole[:, None] ^ b[None]).sum(axis=2) if form.operation == "xor" else whole @ b.T
    total = product + c
    if form.saturates:
        total = np.clip(total, -(2**31), 2**31 - 1)
    expected = _sum_words(total, form.sums)
    a_words, b_words = (_words(_patterns(x, kind), _BITS[kind]) for x, kind in ((a, form.a), (b, form.b)))
    inputs = {"a": a_words, "b": b_words, "c": _sum_words(c, form.sums), "e": e}
    fixed: dict[str, Draw] = {name: draws.fixed(words) for name, words in inputs.items()}
    return Entry(f"mma_forms/{form.name}", FILE, "multiply", _arguments(which), fixed, lambda v: {"out": expected})


def _random(which: int) -> Entry:
    """Ordinary numbers in a sparse a: only the GPU says what the sum of rounded products is."""
    form = _FORMS[which]
    generator = np.random.default_rng(which)
    metadata = _metadata(form, _thinned(form, generator)[1], generator)
    sums = draws.packed_halves if form.sums == "f16" else draws.float_bits
    inputs = {"a": _FLOATS[form.a], "b": _FLOATS[form.b], "c": sums, "e": draws.fixed(metadata)}
    return Entry(f"mma_forms/{form.name}_random", FILE, "multiply", _arguments(which), inputs)


ENTRIES: tuple[Entry, ...] = (
    *(_exact(which) for which in range(len(_FORMS))),
    *(_random(which) for which, form in enumerate(_FORMS) if form.a in _FLOATS and not form.selector),
)
