"""tcgen05.mma.ws and tcgen05.shift, .ashift and k = 96: values against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.tensor.tensor_memory import (
    BASE,
    DONE,
    FENCED,
    TYPES,
    WAIT_STORE,
    Layout,
    copy,
    encoded,
    fill,
    instruction_descriptor,
    kernel,
    product,
    read,
    run,
    store,
    sums,
    take,
)
from warplab.errors import PlanError
from warplab.plan import assembler
from warplab.plan.execution import Execution, FindingKind

RNG = np.random.default_rng(23)


def stationary(text: str, mask: int | None = None) -> str:
    """A product as a weight-stationary one."""
    text = text.replace("tcgen05.mma.", "tcgen05.mma.ws.")
    if mask is not None:
        text = f"    mov.b64 %d4, {mask:#x};\n" + text.replace("%p4;", "%p4, %d4;")
    return text


def multiply(
    types: str, m: int, n: int, *, keep: bool = False, mask: int | None = None, shift: int = 0, more: int = 0,
    in_memory: bool = False, transposed: bool = False,
) -> tuple[Execution, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """One product with `n + shift` columns in B: the execution, D [m, n], what D was, and A B of all columns.

    The parts of D's columns lie in lanes behind each other (layouts D, E and G of the PTX ISA).
    """
    kind, d, a_code, b_code, element = TYPES[types]
    depth, parts = 32 // element, 128 // m
    a = RNG.integers(0 if types == "u8 x s8" else -3, 4, (m, depth))
    b = RNG.integers(-3, 4, (n + shift, depth))
    rows = -(-(n + shift) // 16) * 16
    left, right = Layout(m, element, 2), Layout(rows, element, 2, transposed, start=16384)
    tile = np.zeros(16384 + rows * 128 + 2048, np.uint8)
    compact = encoded(a, kind, a_code)
    left.put(tile, compact)
    padded = np.zeros((rows, depth), np.int64)
    padded[: n + shift] = b
    right.put(tile, encoded(padded, kind, b_code))
    columns = n // parts
    before = RNG.integers(-20, 21, (m, n))
    kept = np.ascontiguousarray(np.concatenate(np.split(before, parts, axis=1)).T)  # column, lane
    words = kept.astype(np.float16 if d == 0 else np.float32 if d == 1 else np.int32)
    words = words.view(np.uint16).astype(np.uint32) if d == 0 else words.view(np.uint32)
    operand = np.ascontiguousarray(np.tile(np.ascontiguousarray(compact).view(np.uint32).T, parts))
    descriptor = instruction_descriptor(m, n, d, a_code, b_code, (False, transposed), more)
    body = take(8) + "    add.u32 %r9, %own, 248;\n" + store(8, address="%r9") + WAIT_STORE
    body += fill(columns).replace("%a1 +", "%a3 +") + FENCED
    text = product(descriptor, right.descriptor(), "%r14" if in_memory else left.descriptor(), keep, kind)
    body = f"    add.s64 %a3, %a1, {8 * 512};\n{body}    add.u32 %r14, %t, 248;\n"
    result = run(body + stationary(text, mask) + DONE + read(columns), tile, np.concatenate([operand, words]), columns)
    got = sums(result.outputs["out"], types)
    return result, np.concatenate([got[:, part * m : part * m + m].T for part in range(parts)], axis=1), before, a @ b.T


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize(("m", "n"), [(32, 64), (64, 128), (128, 64)])
def test_weight_stationary_products(types: str, m: int, n: int) -> None:
    for keep, in_memory in ((False, False), (True, False), (True, True)):
        result, got, before, exact = multiply(types, m, n, keep=keep, in_memory=in_memory)
        assert result.findings == () and np.array_equal(got, exact + (before if keep else 0))


def zero_mask(
    zeros: int, used: int, starts=(0, 0, 0, 0), first=(0, 0, 0, 0), shift: int = 0, there: bool = True
) -> int:
    """The descriptor for runs of so many columns."""
    word = there << 39 | zeros - 1 << 40 | used - 1 << 48 | shift << 56
    for part in range(4):
        word |= starts[part] << 8 * part | first[part] << 32 + part
    return word


# Bits of sub-masks from the lowest on, 1 for a column of zeros: the examples of the PTX ISA (9.7.16.4.3)
EXAMPLES = [
    (128, zero_mask(5, 4, there=False), [""]),
    (128, zero_mask(3, 4), ["00001110000111"]),
    (64, zero_mask(3, 4, first=(1, 0, 0, 0)), ["11100001110000111", "00001110000111"]),
    (
        32,
        zero_mask(3, 4, (0, 1, 2, 1), (1, 1, 0, 0)),
        ["11100001110000", "1100001110000", "00111000011", "00011100001"],
    ),
]


@pytest.mark.parametrize(("m", "mask", "parts"), EXAMPLES)
def test_columns_of_zeros(m: int, mask: int, parts: list[str]) -> None:
    result, got, _, exact = multiply("f16", m, 64, mask=mask)
    assert result.findings == ()
    for part, bits in enumerate(parts):
        for place, bit in enumerate(bits[: 64 // len(parts)]):
            column = part * 64 // len(parts) + place
            assert np.array_equal(got[:, column], exact[:, column] * (bit == "0"))
    if mask >> 39 & 1 == 0:
        assert np.array_equal(got, exact)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "shift"), [(32, 5), (64, 32), (128, 17)])
def test_shifted_columns_of_b(m: int, shift: int, transposed: bool) -> None:
    mask, swizzle = zero_mask(3, 4, shift=shift), 3 << 30
    result, got, _, exact = multiply("f16", m, 64, mask=mask, shift=shift, more=swizzle, transposed=transposed)
    assert result.findings == ()
    parts = 128 // m
    zero = np.arange(64) % (64 // parts) % 7 >= 4
    assert np.array_equal(got, exact[:, shift:] * ~zero)
    result, *_ = multiply("f16", m, 64, mask=mask, shift=shift, more=0)
    assert "shifts the columns of B by more" in result.findings[0].message


@pytest.mark.parametrize(("m", "n"), [(32, 32), (64, 80), (128, 48), (16, 64)])
def test_shapes_that_are_not_stationary(m: int, n: int) -> None:
    text = stationary(
        product(instruction_descriptor(m, n), Layout(128, 2, 2).descriptor(), Layout(128, 2).descriptor())
    )
    result = run(text + DONE, np.zeros(32768, np.uint8))
    assert result.findings[0].kind is FindingKind.TRAP and f"m = {m} and n = {n}" in result.findings[0].message


# Shifted rows


@pytest.mark.parametrize("first", [0, 32, 96])
def test_rows_that_are_shifted(first: int) -> None:
    """A copy of the shape 4x256b to lane 31 then fills the last lane of each warp's 32."""
    content = RNG.integers(0, 2**32, (16, 128), dtype=np.uint32)
    shift = f"    add.u32 %r11, %t, {first << 16 | 2:#x};\n    @%p0 tcgen05.shift.cta_group::1.down [%r11];\n"
    result = run(fill(16) + FENCED + shift + DONE + read(16), words=content, out=16)
    assert result.findings == ()
    wanted = content.copy()
    wanted[2:10, first:127] = content[2:10, first + 1 :]
    assert np.array_equal(result.outputs["out"], wanted)


def test_a_shift_before_a_copy_and_a_product() -> None:
    """The pairs that the ISA keeps in order: A moves up by a row, and the last row comes from shared memory."""
    a, b = RNG.integers(-3, 4, (129, 16)).astype(np.float16), RNG.integers(-3, 4, (16, 16)).astype(np.float16)
    right, last = Layout(16, 2, 2), Layout(8, 1, 0, start=16384)
    tile = np.zeros(18432, np.uint8)
    right.put(tile, b)
    rows = np.zeros((8, 16), np.float16)
    rows[:4] = a[[32, 64, 96, 128]]
    last.put(tile, rows.view(np.uint8))
    words = np.zeros((32, 128), np.uint32)
    words[:8] = a[:128].view(np.uint32).T
    text = "    @%p0 tcgen05.shift.cta_group::1.down [%t];\n    add.u32 %r11, %t, 0x1f0000;\n"
    text += copy("4x256b", last.descriptor(), "%r11") + "    add.u32 %r12, %t, 32;\n"
    text += product(instruction_descriptor(128, 16), right.descriptor(), "%t", d="%r12")
    shown = read(16).replace("%own, 0", "%own, 32")
    result = run(fill(32) + FENCED + text + DONE + shown, tile, words, 16)
    assert result.findings == ()
    assert np.array_equal(sums(result.outputs["out"], "f16").T, a[1:].astype(int) @ b.T.astype(int))


def test_a_product_that_shifts_its_a() -> None:
    a, b = RNG.integers(-3, 4, (128, 16)).astype(np.float16), RNG.integers(-3, 4, (16, 16)).astype(np.float16)
    right = Layout(16, 2, 2)
    tile, words = np.zeros(2048, np.uint8), np.zeros((32, 128), np.uint32)
    right.put(tile, b)
    words[:8] = a.view(np.uint32).T
    text = "    add.u32 %r12, %t, 32;\n" + product(instruction_descriptor(128, 16), right.descriptor(), "%t", d="%r12")
    text = text.replace("kind::f16", "kind::f16.ashift")
    result = run(fill(32) + FENCED + text + DONE + read(16).replace("%own, 0", "%own, 32"), tile, words, 16)
    assert result.findings == ()
    shifted = np.concatenate([a[1:], a[-1:]]).astype(int)
    assert np.array_equal(sums(result.outputs["out"], "f16").T, shifted @ b.T.astype(int))


def test_where_a_shift_may_not_start() -> None:
    for address, kind, words in (
        ("0x100000", FindingKind.TRAP, "from lane 16 on: start in lane 0, 32, 64 or 96"),
        ("250", FindingKind.OUT_OF_BOUNDS, "columns 250 to 257"),
    ):
        shift = f"    add.u32 %r11, %t, {address};\n    @%p0 tcgen05.shift.cta_group::1.down [%r11];\n"
        result = run(fill(8) + FENCED + shift + DONE, words=np.zeros((8, 128), np.uint32))
        assert (result.findings[0].kind, words in result.findings[0].message) == (kind, True), result.findings


# k = 96

FOUR_BITS = np.array([0, 1, 2, 3, 4, 6])  # what e2m1 has, in halves: 0, 0.5, 1, 1.5, 2, 3


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(("modifier", "count", "at"), [("block32", 3, 0), ("block32", 3, 3), ("block16", 6, 2)])
def test_96_elements_of_four_bits(modifier: str, count: int, at: int, absolute: bool) -> None:
    """Scales go on in the word four columns behind; a row in two buffers goes on at the address of the second."""
    n = 32
    a, b = RNG.integers(0, 6, (128, 96)), RNG.integers(0, 6, (n, 96))
    start = 96 if absolute else 0
    tile = np.zeros(49152 - 2048, np.uint8)
    descriptors = []
    for matrix, place in ((a, 0), (b, 32768)):
        nibbles = matrix.astype(np.uint8)
        raw = nibbles[:, ::2] | nibbles[:, 1::2] << np.uint8(4)
        lines = Layout(128, 1, 2, width=128).places()[: len(matrix)] + place
        step = 128 * len(matrix)
        spots = np.concatenate([lines, lines + step], axis=1)[:, start : start + 48]
        tile[spots] = raw
        address, second = BASE + place + start, BASE + place + step
        leading = second >> 4 if absolute else 1
        descriptors.append(address >> 4 | leading << 16 | 64 << 32 | 1 << 46 | absolute << 52 | 2 << 61)
    scales = [RNG.integers(125, 130, (rows, count), dtype=np.uint8) for rows in (128, n)]
    raw = np.zeros((2, 128, 8), np.uint8)
    raw[0, :, at : at + count], raw[1, :n, at : at + count] = scales
    words = raw.view(np.uint32).reshape(2, 4, 32, 2).transpose(0, 3, 1, 2)  # of A or B, word, rows, lane
    words = np.tile(words.reshape(16, 32), 4)
    body = take(16) + "    add.u32 %r9, %own, 128;\n" + store(16, address="%r9") + WAIT_STORE + FENCED
    more = 1 << 23 | at << 29 | 1 << 31
    descriptor = instruction_descriptor(128, n, at, 1, 1) | more
    form = f"mxf4nvf4.block_scale.{modifier}"
    text = product(descriptor, descriptors[1], descriptors[0], False, form, "[%r11], [%r12], ")
    text = "    add.u32 %r11, %t, 128; add.u32 %r12, %t, 136;\n" + text
    result = run(body + text + DONE + read(n), tile, words, n, target="sm_103a")
    assert result.findings == (), result.findings
    spread = [np.repeat(2.0 ** (s.astype(int) - 127), 96 // count, axis=1) for s in scales]
    exact = (FOUR_BITS[a] / 2 * spread[0]) @ (FOUR_BITS[b] / 2 * spread[1]).T
    assert np.array_equal(sums(result.outputs["out"], "f16").T, exact)
    assert result.total.tensor_multiply_adds == 128 * n * 96
    other = run(body + text + DONE, tile, words, n, target="sm_100a")
    assert other.findings[0].kind is FindingKind.TRAP


@pytest.mark.parametrize("target", ["sm_100a", "sm_100f", "sm_103a", "sm_110a"])
@pytest.mark.processes
def test_ptxas_takes_what_these_tests_run(target: str) -> None:
    text = product(1, 1, 1)
    bodies = [stationary(text), stationary(text, 5), product(1, 1, "%t").replace("::f16", "::f16.ashift")]
    bodies += [stationary(text).replace("::f16", "::f16.collector::b2::fill")]
    for body in bodies:
        done = assembler.run(kernel(body, target=target), target, 60)
        assert done.image, done.log
    shift = "    @%p0 tcgen05.shift.cta_group::1.down [%t];\n"
    if target == "sm_100f":
        assert not assembler.run(kernel(shift, target=target), target, 60).image
        with pytest.raises(PlanError, match=r"uses tcgen05.shift, which is not part of the target sm_100f"):
            run(shift, target=target)
    else:
        assert assembler.run(kernel(shift, target=target), target, 60).image
