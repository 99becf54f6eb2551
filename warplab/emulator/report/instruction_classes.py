"""What kind of work each decoded instruction is. PTX is not SASS: the assembler merges, drops and adds instructions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cache

from warplab.emulator.core.alu.dispatch import vector_index
from warplab.emulator.core.state import layout as L


class Work(StrEnum):
    """A kind of instruction, by the pipe that would run it. The values are the first words of fields of Counters."""

    FP32 = "fp32"
    FP64 = "fp64"
    FP16 = "fp16"
    INTEGER = "integer"
    CONVERSION = "conversion"
    SPECIAL = "special"  # reciprocals, roots, exponentials, sines
    MOVE = "move"  # copies between registers and reads of parameters, which the assembler mostly drops
    MEMORY = "memory"
    CONTROL = "control"
    EXCHANGE = "exchange"  # between the lanes of a warp
    TENSOR = "tensor"


_SPECIAL = {"ex2", "lg2", "sin", "cos", "tanh", "rcp", "sqrt", "rsqrt", "div"}
_MOVES = {"mov", "pack", "low", "high", "zext", "sext", "trunc", "zext_low", "sext_low"}
_FLOATS = {"f32": Work.FP32, "f64": Work.FP64, "f16": Work.FP16, "f16x2": Work.FP16, "bf16": Work.FP16,
           "bf16x2": Work.FP16}  # fmt: skip
_OPCODES = {
    **dict.fromkeys((L.OP_LOAD, L.OP_STORE, L.OP_ATOMIC, L.OP_LDMATRIX, L.OP_STMATRIX, L.OP_COPY), Work.MEMORY),
    **dict.fromkeys(
        (L.OP_SHUFFLE, L.OP_VOTE, L.OP_MATCH, L.OP_REDUX, L.OP_ACTIVEMASK, L.OP_ELECT, L.OP_MOVMATRIX), Work.EXCHANGE
    ),
    L.OP_MMA: Work.TENSOR,
    L.OP_WGMMA: Work.TENSOR,
    L.OP_NOP: Work.MOVE,
    L.OP_UNUSUAL: Work.MOVE,
}
# As Nsight Compute tells them apart; a sine or cosine begins with a product, which makes turns of radians.
FLOAT_OPERATIONS = {"add": "add", "sub": "add", "mul": "mul", "fma": "fma", "sin": "mul", "cos": "mul"}
FLOAT_LETTERS = {"f32": "f", "f64": "d", "f16": "h", "f16x2": "h", "bf16": "h", "bf16x2": "h"}


def _of_vector(key: str) -> Work:
    name, *_, kind = key.split(".")
    if name in _MOVES or kind == "pred" and name == "mov":
        return Work.MOVE
    if name == "cvt" or name == "sat":
        return Work.CONVERSION
    if name in _SPECIAL and kind in _FLOATS and kind != "f64":
        return Work.SPECIAL
    return _FLOATS.get(kind, Work.INTEGER)


@cache
def _vectors() -> tuple[list[Work], list[bool], list[str]]:
    """Of each vector operation: its kind, whether it is integer arithmetic on 64 bits, its float operation."""
    keys = vector_index()
    works = [_of_vector(key) for key in keys]
    wide = [w is Work.INTEGER and key.endswith("64") for w, key in zip(works, keys, strict=True)]
    return works, wide, [_float_operation(key) for key in keys]


class Classifier:
    """Looks instructions up."""

    def __init__(self) -> None:
        self._works, self._wide, self._floats = _vectors()

    def work(self, record: Sequence[int]) -> Work:
        """The kind of a record (its RECORD_WORDS fields)."""
        op = record[L.OP]
        if op >= L.VECTOR_BASE:
            return self._works[op - L.VECTOR_BASE]
        if op == L.OP_LOAD and record[L.X0] in (L.SPACE_CONST, L.SPACE_PARAM):
            return Work.MOVE
        return _OPCODES.get(op, Work.CONTROL)

    def is_wide(self, record: Sequence[int]) -> bool:
        """Is it integer arithmetic on 64 bits?"""
        op = record[L.OP]
        return op >= L.VECTOR_BASE and self._wide[op - L.VECTOR_BASE]

    def float_operation(self, record: Sequence[int]) -> str:
        """ "fadd", "dmul", "hfma" and so on for additions, products and fused ones of floats, else nothing."""
        op = record[L.OP]
        return self._floats[op - L.VECTOR_BASE] if op >= L.VECTOR_BASE else ""


def _float_operation(key: str) -> str:
    name, *_, kind = key.split(".")
    if name in FLOAT_OPERATIONS and kind in FLOAT_LETTERS:
        return FLOAT_LETTERS[kind] + FLOAT_OPERATIONS[name]
    return ""
