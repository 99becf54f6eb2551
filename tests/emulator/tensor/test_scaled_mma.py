"""mma.sync of GeForce's Blackwell: operands of 4, 6 and 8 bits, with and without block scales, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.model import Pointer, Role

# Bits of exponent and of significand, and the bits by which an element of less than eight lies above its byte's lowest.
TYPES = {"e4m3": (4, 3, 0), "e5m2": (5, 2, 0), "e2m3": (2, 3, 0), "e3m2": (3, 2, 0), "e2m1": (2, 1, 2)}
KINDS = {  # the shape, the scales of a row, and the opcode's middle
    "f8f6f4": (32, 0, "kind::f8f6f4"),
    "mxf8f6f4": (32, 1, "kind::mxf8f6f4.block_scale.scale_vec::1X"),
    "mxf4": (64, 2, "kind::mxf4.block_scale.scale_vec::2X"),
    "mxf4nvf4": (64, 4, "kind::mxf4nvf4.block_scale.scale_vec::4X"),
    "mxf4nvf4 with two": (64, 2, "kind::mxf4nvf4.block_scale.scale_vec::2X"),
}


def numbers(codes: np.ndarray, name: str) -> np.ndarray:
    """The values of codes, all of them finite."""
    exponent_bits, significand, _ = TYPES[name]
    bias = (1 << (exponent_bits - 1)) - 1
    top = exponent_bits + significand
    exponent, fraction = codes >> significand & (1 << exponent_bits) - 1, codes & (1 << significand) - 1
    normal = (1 + fraction / 2**significand) * 2.0 ** (exponent - bias)
    size = np.where(exponent == 0, fraction * 2.0 ** (1 - bias - significand), normal)
    return np.where(codes >> top & 1, -size, size)


def drawn(rng: np.random.Generator, rows: int, depth: int, name: str) -> np.ndarray:
    """Codes of numbers around one, so that sums of their products are exact in float32."""
    exponent_bits, significand, _ = TYPES[name]
    bias = (1 << (exponent_bits - 1)) - 1
    low = max(bias - 2, 0)
    exponent = rng.integers(low, min(low + 4, 1 << exponent_bits), (rows, depth))
    fraction, sign = rng.integers(0, 1 << significand, (rows, depth)), rng.integers(0, 2, (rows, depth))
    return sign << exponent_bits + significand | exponent << significand | fraction


def registers(codes: np.ndarray, name: str, nibbles: bool) -> np.ndarray:
    """The words of a fragment [register, lane]: of a rows r and r + 8, then the columns' upper half; b has no r + 8.

    From the ISA's figures for m16n8k32 of 8 bits and m16n8k64 of 4 bits.
    """
    rows, depth = codes.shape
    count, bits = (8, 4) if nibbles else (4, 8)
    shifted = codes if nibbles else codes << TYPES[name][2]
    words = []
    for left in range(0, depth, 4 * count):
        for top in range(0, rows, 8):
            word = np.zeros(32, np.uint64)
            for lane in range(32):
                part = shifted[top + lane // 4, left + lane % 4 * count : left + lane % 4 * count + count]
                word[lane] = sum(int(code) << bits * i for i, code in enumerate(part))
            words.append(word)
    return np.array(words).astype(np.uint32)


def scale_words(rng: np.random.Generator, scales: np.ndarray, byte: int, thread: int, of_b: bool) -> np.ndarray:
    """A word for each lane; whatever the instruction does not name is noise."""
    words = rng.integers(0, 256, (32, 4), dtype=np.uint8)
    for row, row_scales in enumerate(scales):
        lane = row % 8 * 4 + (thread if of_b else thread * 2 + row // 8)
        words[lane, byte : byte + scales.shape[1]] = row_scales
    return words.view(np.uint32)[:, 0]


def kernel(
    opcode: str,
    sums: int,
    scaled: bool,
    places: tuple[int, int, int, int],
    target: str = "sm_120a",
    sparse: bool = False,
) -> str:
    counts = (4, 4 if sparse else 2, sums, 1, 1, *([1] if sparse else []))
    names = [[f"%r{10 * n + i}" for i in range(count)] for n, count in enumerate(counts)]
    lines = []
    for number, group in enumerate(names):
        lines += [f"ld.global.b32 {name}, [%a{number} + {i * 128}];" for i, name in enumerate(group)]
    packs = ["{" + ", ".join(names[n]) + "}" for n in (2, 0, 1, 2)]
    packs += ["%r50", "0"] if sparse else []
    if scaled:
        byte_a, thread_a, byte_b, thread_b = places
        packs += ["{%r30}", f"{{{byte_a}, {thread_a}}}", "{%r40}", f"{{{byte_b}, {thread_b}}}"]
    count = len(names) + 1
    starts = [f"ld.param.u64 %a{n}, [p{n}]; add.s64 %a{n}, %a{n}, %a9;" for n in range(count)]
    stores = [f"st.global.b32 [%a{count - 1} + {i * 128}], {name};" for i, name in enumerate(names[2])]
    parameters = ", ".join(f".param .u64 p{n}" for n in range(count))
    return f""".version 9.0
.target {target}
.address_size 64
.visible .entry k({parameters}) {{
    .reg .b32 %r<60>; .reg .b64 %a<10>;
    mov.u32 %r59, %tid.x; mul.wide.u32 %a9, %r59, 4;
    {" ".join(starts)} {" ".join(lines)}
    {opcode} {", ".join(packs)};
    {" ".join(stores)}
    ret;
}}"""


def opcode_of(kind: str, a: str, b: str, sums: str, scale: str, sparse: bool = False) -> str:
    depth, count, middle = KINDS[kind]
    last = f".{scale}" if count else ""
    name, depth = ("mma.sp::ordered_metadata", 2 * depth) if sparse else ("mma", depth)
    return f"{name}.sync.aligned.{middle}.m16n8k{depth}.row.col.{sums}.{a}.{b}.{sums}{last}"


def spread(rng: np.random.Generator, codes: np.ndarray, nibbles: bool) -> tuple[np.ndarray, np.ndarray]:
    """The codes of a sparse row, two in each four or two pairs in each eight, and the words of their metadata [lane].

    64 bits for each row, chunk after chunk, in lanes 4 (r % 8) + r / 8 and two further (PTX ISA, m16n8k64 of 8 bits).
    """
    rows, stored = codes.shape
    pairs = 2 if nibbles else 1
    wide = np.zeros((rows, 2 * stored), codes.dtype)
    words = np.zeros(32, np.uint64)
    for row in range(rows):
        for chunk in range(stored // (2 * pairs)):
            first, second = sorted(rng.choice(4, 2, replace=False).tolist())
            for index, place in enumerate((first, second)):
                start = chunk * 4 * pairs + place * pairs
                wide[row, start : start + pairs] = codes[row, (2 * chunk + index) * pairs :][:pairs]
            bit = 4 * chunk
            words[row % 8 * 4 + row // 8 + bit // 32 * 2] |= np.uint64((first | second << 2) << bit % 32)
    return wide, words.astype(np.uint32)


def multiplied(kind: str, a_type: str, b_type: str, sums: str = "f32",
               places: tuple[int, int, int, int] = (0, 0, 0, 0), sparse: bool = False) -> None:  # fmt: skip
    """Run one product and compare it with NumPy's."""
    stored, count, _ = KINDS[kind]
    nibbles, depth = stored == 64, 2 * stored if sparse else stored
    scale = "ue4m3" if count == 4 else "ue8m0"
    rng = np.random.default_rng(len(kind) + sum(places))
    a, b = drawn(rng, 16, stored, a_type), drawn(rng, 8, depth, b_type)
    wide, metadata = spread(rng, a, nibbles) if sparse else (a, np.zeros(32, np.uint32))
    c = rng.integers(-8, 9, (16, 8)).astype(np.float32 if sums == "f32" else np.float16)
    exponents = rng.integers(125, 130, (24, max(count, 1)))
    scales = 2.0 ** (exponents - 127)
    codes = exponents
    if scale == "ue4m3":  # 4 bits of exponent with bias 7 and 3 of significand
        fraction = rng.integers(0, 8, exponents.shape)
        codes, scales = (exponents - 120) << 3 | fraction, scales * (1 + fraction / 8)
    left, right = numbers(wide, a_type), numbers(b, b_type)
    if count:
        left, right = (x * np.repeat(s, depth // count, axis=1) for x, s in ((left, scales[:16]), (right, scales[16:])))
    wanted = left @ right.T + c
    fragment = np.array(
        [[c[8 * h + lane // 4, lane % 4 * 2 + i] for lane in range(32)] for h in (0, 1) for i in (0, 1)]
    )
    if sums == "f16":
        halves = fragment.view(np.uint16).astype(np.uint32)
        words = np.array([halves[0] | halves[1] << 16, halves[2] | halves[3] << 16])
    else:
        words = fragment.view(np.uint32)
    arrays = {
        "a": registers(a, a_type, nibbles),
        "b": registers(b, b_type, nibbles),
        "c": words,
        "scales of a": scale_words(rng, codes[:16].astype(np.uint8), places[0], places[1], False),
        "scales of b": scale_words(rng, codes[16:].astype(np.uint8), places[2], places[3], True),
        **({"metadata": metadata} if sparse else {}),
        "d": np.zeros_like(words),
    }
    buffers = {n: buffer(n, x, Role.OUTPUT if n == "d" else Role.INPUT) for n, x in arrays.items()}
    opcode = opcode_of(kind, a_type, b_type, sums, scale, sparse)
    text = kernel(opcode, len(words), count > 0, places, sparse=sparse)
    plan = plan_of(text, "k", buffers, tuple(Pointer(n) for n in buffers), (1,), (32,))
    result = execute(plan, {n: x for n, x in arrays.items() if n != "d"}, architecture="sm_120a")
    assert result.findings == ()
    out = result.outputs["d"]
    if sums == "f16":
        out = (
            np.array([out[0] & 0xFFFF, out[0] >> 16, out[1] & 0xFFFF, out[1] >> 16]).astype(np.uint16).view(np.float16)
        )
    got = np.zeros((16, 8))
    for register in range(4):
        for lane in range(32):
            word = out[register, lane]
            value = word if sums == "f16" else np.uint32(word).view(np.float32)
            got[register // 2 * 8 + lane // 4, lane % 4 * 2 + register % 2] = value
    if sums == "f16":
        wanted = wanted.astype(np.float16)
    assert np.array_equal(got, wanted)
    assert result.total.tensor_multiply_adds == 16 * 8 * stored


@pytest.mark.parametrize("b", TYPES)
@pytest.mark.parametrize("a", TYPES)
def test_every_pair_of_types(a: str, b: str) -> None:
    multiplied("f8f6f4", a, b)
    multiplied("mxf8f6f4", a, b)


@pytest.mark.parametrize("a", ["e4m3", "e2m1"])
def test_sums_of_sixteen_bits(a: str) -> None:
    multiplied("f8f6f4", a, "e2m1", sums="f16")


@pytest.mark.parametrize("places", [(0, 0, 0, 0), (1, 1, 3, 2), (3, 0, 2, 1), (2, 1, 0, 3)], ids=str)
def test_the_byte_and_the_thread_of_scales(places: tuple[int, int, int, int]) -> None:
    multiplied("mxf8f6f4", "e4m3", "e5m2", places=places)
    pairs = (places[0] & 2, places[1], places[2] & 2, places[3])
    multiplied("mxf4", "e2m1", "e2m1", places=pairs)
    multiplied("mxf4nvf4 with two", "e2m1", "e2m1", places=pairs)
    multiplied("mxf4nvf4", "e2m1", "e2m1", places=(0, places[1], 0, places[3]))


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_products(kind: str) -> None:
    if "mxf4" in kind:
        multiplied(kind, "e2m1", "e2m1", sparse=True, places=(0, 1, 0, 2))
        return
    for a, b in (("e4m3", "e5m2"), ("e2m1", "e3m2"), ("e2m3", "e2m1")):
        multiplied(kind, a, b, sparse=True)


@pytest.mark.processes
def test_ptxas_takes_what_these_tests_run() -> None:
    for kind, (_, count, _) in KINDS.items():
        types = ("e2m1", "e2m1") if "mxf4" in kind else ("e3m2", "e4m3")
        scale = "ue4m3" if count == 4 else "ue8m0"
        text = kernel(opcode_of(kind, *types, "f32", scale), 4, count > 0, (0, 1, 0, 3))
        done = assembler.run(text, "sm_120a", 60)
        assert done.image, (kind, done.log)
        text = kernel(opcode_of(kind, *types, "f32", scale, True), 4, count > 0, (0, 1, 0, 3), sparse=True)
        done = assembler.run(text, "sm_120a", 60)
        assert done.image, (kind, done.log)
