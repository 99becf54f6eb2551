"""Tensor-core products of one warp, and the moves that bring their fragments (PTX ISA, "Warp-level matrix").

A fragment is the part of a matrix that one lane holds. For lane t, group g = t // 4 and member q = t % 4:

* `mma` m16n8k16 (16-bit operands): a = 4 registers of two neighbours along k: rows g and g + 8 at columns 2q and
  2q + 1, then the same rows 8 columns further; b = 2 registers: column g, rows 2q and 2q + 1, then 8 rows further;
  c and d = 4 sums: row g columns 2q and 2q + 1, then row g + 8.
* 8-bit operands put four neighbours into a register and tf32 one, so that m16n8k32 and m16n8k8 look the same.
* `ldmatrix_xN` gives each lane the fragment of N 8x8 matrices of 16-bit elements: register i holds row g, columns
  2q and 2q + 1 of matrix i, whose row r starts at the address that lane 8i + r passes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from warplab.ptx.inline import F32, F64, I32, U32, Fragment, Operand, instruction

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_SHAPES = {
    "f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "e4m3": (32,), "e5m2": (32,), "s8": (16, 32), "u8": (16, 32),
}  # fmt: skip
_SUMS = {"f16": ("f32", "f16"), "e4m3": ("f32", "f16"), "e5m2": ("f32", "f16"), "s8": ("s32",), "u8": ("s32",)}


@cache
def mma(a: str, *, k: int, b: str | None = None, sums: str | None = None) -> Callable:
    """A function `product(a, b, c) -> d` that issues mma.sync.m16n8kK: d = a b + c for the whole warp.

    `a` and `b` (default: as `a`) name the operands' types: f16, bf16, tf32, e4m3, e5m2, s8, u8, or f64; `sums` the type
    of c and d (default f32; s32 for s8 and u8). Call it at the top level of a file and use the result in kernels:

        product = ptx.mma("f16", k=16)
        ...
        d = product(a, b, c)

    a, b are tuples of uint32 (f64: float64), c and d tuples of 4 float32 or int32, or 2 uint32 (two f16 each).
    Needs sm_80, f16 with k=8 sm_75, e4m3 and e5m2 sm_89, f64 sm_90. Raises ValueError for a form that PTX has not.
    """
    b = b or a
    sums = sums or ("s32" if a in ("s8", "u8") else "f64" if a == "f64" else "f32")
    text = f"mma.sync.aligned.m16n8k{k}.row.col.{sums}.{a}.{b}.{sums} {{d}}, {{0}}, {{1}}, {{2}};"
    name = f"mma_m16n8k{k}_{a}_{b}_{sums}"
    doc = f"{name}(a, b, c) -> d: see warplab.ptx.mma."
    if a == b == sums == "f64" and k in (4, 8, 16):
        total: Operand = Fragment(F64, 4)
        operands = [Fragment(F64, k // 2), Fragment(F64, k // 4) if k > 4 else F64, total]
        return instruction(name, text, operands, total, doc=doc)
    fits = _BITS.get(a) == _BITS.get(b, 0) and (a[0] in "su" or a == b or {a, b} == {"e4m3", "e5m2"})
    if not fits or k not in _SHAPES[a] or sums not in _SUMS.get(a, ("f32",)):
        raise ValueError(f"PTX has no mma.sync.m16n8k{k} with a {a}, b {b} and sums {sums}: see warplab/ptx/matrix.py.")
    registers = 16 * k * _BITS[a] // (32 * 32)
    total = {"f32": Fragment(F32, 4), "s32": Fragment(I32, 4), "f16": Fragment(U32, 2)}[sums]
    b_part: Operand = Fragment(U32, registers // 2)
    if registers == 2:
        b_part = U32
        text = text.replace("{1}", "{{1}}")
    return instruction(name, text, [Fragment(U32, registers), b_part, total], total, doc=doc)


def _matrix_load(count: int, transposed: bool) -> Callable:
    name = f"ldmatrix_x{count}" + ("_trans" if transposed else "")
    modifier = ".trans" if transposed else ""
    result = Fragment(U32, count) if count > 1 else U32
    return instruction(
        name,
        f"ldmatrix.sync.aligned.m8n8.x{count}{modifier}.shared.b16 {'{d}' if count > 1 else '{{d}}'}, [{{0}}];",
        [U32],
        result,
        doc=f"""{name}(address) -> {count} uint32{" in a tuple" if count > 1 else ""}: loads {count} 8x8 matrices.

        `address`: uint32, a shared address, 16-byte aligned; lane 8i + r names row r of matrix i.
        {"Transposed: lane t gets column g of the matrix. " if transposed else ""}Needs sm_75 (PTX ISA, "ldmatrix").
        """,
    )


ldmatrix_x1 = _matrix_load(1, False)
ldmatrix_x2 = _matrix_load(2, False)
ldmatrix_x4 = _matrix_load(4, False)
ldmatrix_x1_trans = _matrix_load(1, True)
ldmatrix_x2_trans = _matrix_load(2, True)
ldmatrix_x4_trans = _matrix_load(4, True)


def _matrix_store(count: int, transposed: bool) -> Callable:
    name = f"stmatrix_x{count}" + ("_trans" if transposed else "")
    modifier = ".trans" if transposed else ""
    return instruction(
        name,
        f"stmatrix.sync.aligned.m8n8.x{count}{modifier}.shared.b16 [{{0}}], {'{1}' if count > 1 else '{{1}}'};",
        [U32, Fragment(U32, count) if count > 1 else U32],
        doc=f"""{name}(address, registers): stores {count} 8x8 matrices of 16 bits, the inverse of ldmatrix_x{count}.

        `address`: uint32, shared, 16-byte aligned; `registers`: {count} uint32. Needs sm_90 (PTX ISA, "stmatrix").
        """,
    )


stmatrix_x1 = _matrix_store(1, False)
stmatrix_x2 = _matrix_store(2, False)
stmatrix_x4 = _matrix_store(4, False)
stmatrix_x1_trans = _matrix_store(1, True)
stmatrix_x2_trans = _matrix_store(2, True)
stmatrix_x4_trans = _matrix_store(4, True)

movmatrix = instruction(
    "movmatrix",
    "movmatrix.sync.aligned.m8n8.trans.b16 {d}, {0};",
    [U32],
    U32,
    doc="""movmatrix(register) -> uint32: transposes the 8x8 matrix of 16-bit elements that the warp holds.

    Needs sm_75 (PTX ISA, "movmatrix").
    """,
)
