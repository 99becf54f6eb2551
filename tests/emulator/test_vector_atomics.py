"""Atomics on vectors of floats (sm_90), against NumPy: each element is one of its own, the vector is one access."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role

LANES = 32
OPERATIONS: dict[str, Callable] = {"add": np.add, "min": np.minimum, "max": np.maximum}
# The type of an element of the vector, how many lengths it has, and whether elements are pairs.
FORMS = [
    *((kind, n) for kind in ("f32",) for n in (2, 4)),
    *((kind, n) for kind in ("f16", "bf16") for n in (2, 4, 8)),
    *((kind, n) for kind in ("f16x2", "bf16x2") for n in (2, 4)),
]


def to_bits(values: np.ndarray, kind: str) -> np.ndarray:
    """float32 values rounded to an element's type, as its bits: to nearest, halves to even."""
    if kind == "f32":
        return values.view(np.uint32)
    if kind.startswith("f16"):
        return values.astype(np.float16).view(np.uint16)
    words = values.view(np.uint32)
    return ((words + np.uint32(0x7FFF) + (words >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def of_bits(bits: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f32":
        return bits.view(np.float32)
    if kind.startswith("f16"):
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def execution(name: str, operation: str, kind: str, n: int, arrays: dict[str, np.ndarray], shift: int = 0) -> Execution:
    """One warp: lane i adds the i-th vector of `value` to the vector of `out` that `place[i]` numbers."""
    register = {"f32": "b32", "f16": "b16", "bf16": "b16"}.get(kind, "b32")
    size = int(register[1:]) // 8 * n
    group = "{" + ", ".join(f"%x{i}" for i in range(n)) + "}"
    old = "{" + ", ".join(f"%y{i}" for i in range(n)) + "}"
    opcode = f"{name}.global.{operation}{'' if kind == 'f32' else '.noftz'}.v{n}.{kind}"
    # Whatever is not an access that an atomic makes is made element by element.
    each = range(n)
    load = "\n".join(f"ld.global.{register} %x{i}, [%value+{size // n * i}];" for i in each)
    store = "\n".join(f"st.global.{register} [%was+{size // n * i}], %y{i};" for i in each)
    atomic = (
        f"{opcode} {old}, [%out+{shift}], {group};\n{store}" if name == "atom" else f"{opcode} [%out+{shift}], {group};"
    )
    text = f""".version 9.0
    .target sm_90
    .address_size 64
    .visible .entry test(.param .u64 out, .param .u64 value, .param .u64 place, .param .u64 was)
    {{
    .reg .{register} %x<{n}>; .reg .{register} %y<{n}>; .reg .b32 %r<4>;
    .reg .b64 %out; .reg .b64 %value; .reg .b64 %place; .reg .b64 %was;
    ld.param.u64 %out, [out]; ld.param.u64 %value, [value]; ld.param.u64 %place, [place]; ld.param.u64 %was, [was];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %place, %r0, 4, %place;
    ld.global.u32 %r1, [%place];
    mad.wide.u32 %value, %r0, {size}, %value; mad.wide.u32 %was, %r0, {size}, %was;
    mad.wide.u32 %out, %r1, {size}, %out;
    {load}
    {atomic}
    ret;
    }}"""
    roles = {"out": Role.INOUT, "value": Role.INPUT, "place": Role.INPUT, "was": Role.OUTPUT}
    buffers = {key: buffer(key, array, roles[key]) for key, array in arrays.items()}
    pointers = tuple(Pointer(key) for key in ("out", "value", "place", "was"))
    return execute(plan_of(text, "test", buffers, pointers, (1,), (LANES,)), arrays)


def drawn(kind: str, n: int) -> dict[str, np.ndarray]:
    """Values of every sign and size at which sums round, and a place for each lane in another order."""
    rng = np.random.default_rng(n)
    count = LANES * n * (2 if kind.endswith("x2") else 1)
    values = [(rng.standard_normal(count) * 2.0 ** rng.integers(-6, 6, count)).astype(np.float32) for _ in range(2)]
    out, value = (to_bits(v, kind) for v in values)
    place = rng.permutation(LANES).astype(np.uint32)
    return {"out": out, "value": value, "place": place, "was": np.zeros_like(out)}


@pytest.mark.parametrize(("kind", "n"), FORMS)
@pytest.mark.parametrize("operation", list(OPERATIONS))
@pytest.mark.parametrize("name", ["red", "atom"])
def test_each_element_is_combined_and_rounded_by_itself(name: str, operation: str, kind: str, n: int) -> None:
    if kind == "f32" and operation != "add":
        return
    arrays = drawn(kind, n)
    result = execution(name, operation, kind, n, arrays)
    assert not result.findings
    out, value = (of_bits(arrays[key], kind).reshape(LANES, -1) for key in ("out", "value"))
    before, wanted = arrays["out"].reshape(LANES, -1), out.copy()
    wanted[arrays["place"]] = OPERATIONS[operation](out[arrays["place"]], value)
    assert np.array_equal(result.outputs["out"], to_bits(wanted.ravel(), kind))
    if name == "atom":
        assert np.array_equal(result.outputs["was"].reshape(LANES, -1), before[arrays["place"]])


@pytest.mark.parametrize(("kind", "n"), FORMS)
def test_the_vector_is_one_access(kind: str, n: int) -> None:
    """Places side by side are that many bytes; lanes at one place are served one after the other, a sector each."""
    arrays = drawn(kind, n)
    size = arrays["out"].nbytes // LANES
    total = execution("red", "add", kind, n, arrays).total
    assert (total.global_reduction_requests, total.global_reduction_sectors) == (1, LANES * size // 32)
    arrays["place"][:] = 3
    total = execution("red", "add", kind, n, arrays).total
    assert (total.global_reduction_requests, total.global_reduction_sectors) == (1, LANES)
    total = execution("atom", "add", kind, n, arrays).total
    assert (total.global_atomic_requests, total.global_atomic_sectors) == (1, LANES)


@pytest.mark.parametrize(("kind", "n"), FORMS)
def test_lanes_that_meet_add_up(kind: str, n: int) -> None:
    """Whole numbers, which no order of additions rounds."""
    arrays = drawn(kind, n)
    arrays["place"] = (np.arange(LANES) % 5).astype(np.uint32)
    whole = np.random.default_rng(3).integers(-2, 3, arrays["out"].size).astype(np.float32)
    arrays["value"], arrays["out"] = to_bits(whole, kind), to_bits(np.zeros_like(whole), kind)
    result = execution("red", "add", kind, n, arrays)
    assert not result.findings
    wanted = np.zeros_like(whole.reshape(LANES, -1))
    np.add.at(wanted, arrays["place"], whole.reshape(LANES, -1))
    assert np.array_equal(result.outputs["out"], to_bits(wanted.ravel(), kind))


# On an H200: what red.global.v8 left of OLD with NEW, two vectors of bit patterns with zeros, subnormals and NaN.
OLD = (0x0001, 0x8000, 0x7E01, 0x3C01, 0x7BFF, 0x0001, 0x7FC1, 0xBC00)
NEW = (0x0001, 0x0000, 0x3C00, 0x1001, 0x7BFF, 0x8001, 0x7F81, 0x3C00)
LEFT = {
    ("f16", "add"): (0x0002, 0x0000, 0x7FFF, 0x3C02, 0x7C00, 0x0000, 0x7FFF, 0x0000),
    ("f16", "min"): (0x0001, 0x8000, 0x3C00, 0x1001, 0x7BFF, 0x8001, 0x7FFF, 0xBC00),
    ("f16", "max"): (0x0001, 0x0000, 0x3C00, 0x3C01, 0x7BFF, 0x0001, 0x7FFF, 0x3C00),
    ("bf16", "add"): (0x0002, 0x0000, 0x7E01, 0x3C01, 0x7C7F, 0x0000, 0x7FFF, 0x0000),
    ("bf16", "min"): (0x0001, 0x8000, 0x3C00, 0x1001, 0x7BFF, 0x8001, 0x7FFF, 0xBC00),
    ("bf16", "max"): (0x0001, 0x0000, 0x7E01, 0x3C01, 0x7BFF, 0x0001, 0x7FFF, 0x3C00),
}


@pytest.mark.parametrize(("kind", "operation"), list(LEFT))
def test_special_values_are_as_on_an_h200(kind: str, operation: str) -> None:
    arrays = drawn(kind, 8)
    arrays["place"] = np.arange(LANES, dtype=np.uint32)
    arrays["out"][:8], arrays["value"][:8] = OLD, NEW
    arrays["out"][8], arrays["value"][8] = 0x0000, 0x8000
    out = execution("red", operation, kind, 8, arrays).outputs["out"]
    assert tuple(out[:8]) == LEFT[kind, operation]
    assert out[8] == (0x8000 if operation == "min" else 0)


def test_subnormal_floats_are_zeros_as_on_an_h200() -> None:
    arrays = drawn("f32", 4)
    arrays["place"] = np.arange(LANES, dtype=np.uint32)
    arrays["out"][:4], arrays["value"][:4] = (1, 0x400000, 0x7F800001, 0), (1, 0x400000, 1, 0x400000)
    assert tuple(execution("red", "add", "f32", 4, arrays).outputs["out"][:4]) == (0, 0, 0x7FFFFFFF, 0)


def test_a_vector_is_aligned_as_a_whole() -> None:
    (finding,) = execution("red", "add", "f16", 8, drawn("f16", 8), shift=8).findings
    assert (finding.kind, finding.count) == (FindingKind.MISALIGNED, LANES)
