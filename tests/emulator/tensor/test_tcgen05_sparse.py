"""tcgen05.mma.sp: products with a sparse A, whose metadata lie in tensor memory. Values against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.emulator.tensor.tensor_memory import (
    AFTER,
    BEFORE,
    CLUSTER_BARRIER,
    COMMIT,
    DONE,
    FENCED,
    PAIR,
    PAIR_END,
    TYPES,
    WAIT_STORE,
    Layout,
    encoded,
    instruction_descriptor,
    kernel,
    product,
    read,
    run,
    store,
    sums,
    take,
    wait,
)
from warplab.plan import assembler
from warplab.plan.execution import Execution, FindingKind

RNG = np.random.default_rng(17)
METADATA = 128  # its first column
PAIR_DONE = (
    "    mov.b16 %h1, 3;\n"
    + COMMIT.replace("cta_group::1", "cta_group::2").replace(
        "cluster.b64 [bar]", "cluster.multicast::cluster.b64 [bar], %h1"
    )
    + wait()
    + AFTER
)
CHUNKS = {1: (4, 2), 2: (4, 2), 4: (2, 1)}  # by the bytes of an element: those of a chunk, and those that are stored


def thinned(rows: int, depth: int, chunk: int, kept: int, pairs: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers [row, k] of which `kept` of each chunk may differ from zero, and the chunks' bits [row, chunk]."""
    matrix, bits = np.zeros((rows, depth), np.int64), np.zeros((rows, depth // chunk), np.uint32)
    choices = list(itertools.combinations(range(chunk // 2 if pairs else chunk), 2)) if kept > 1 else [(0,), (1,)]
    for row in range(rows):
        for index in range(depth // chunk):
            places = choices[RNG.integers(len(choices))]
            code = places[0] | places[-1] << 2 if kept > 1 else (0b0100, 0b1110)[places[0]]
            bits[row, index] = code
            wide = [2 * p + i for p in places for i in range(2)] if pairs else list(places)
            matrix[row, index * chunk + np.array(wide)] = RNG.choice([-3, -2, -1, 1, 2, 3], len(wide))
    return matrix, bits


def stored(matrix: np.ndarray, bits: np.ndarray, element: int, pairs: bool = False) -> np.ndarray:
    """The elements of a thinned matrix that lie in memory."""
    rows, count = bits.shape
    chunks = matrix.reshape(rows, count, -1)
    if element == 4:
        return np.where(bits == 0b0100, chunks[..., 0], chunks[..., 1])
    index = np.stack([bits & 3, bits >> 2 & 3], axis=-1).astype(np.int64)
    if pairs:
        index = (2 * index[..., None] + np.arange(2)).reshape(rows, count, 4)
    return np.take_along_axis(chunks, index, axis=2).reshape(rows, -1)


def metadata_words(bits: np.ndarray, element: int) -> np.ndarray:
    """Words [column, row's lane] for the rows of one instruction, by the strides of CUTLASS's tmem_e_frg."""
    rows, count = bits.shape
    words = np.zeros((2, rows), np.uint32)
    for row, chunk in np.ndindex(rows, count):
        if element == 1:
            lane, bit = row, 4 * chunk
        else:
            lane = row % 8 + row // 16 * 16 + chunk // 4 * 8
            bit = row // 8 % 2 * 16 + chunk % 4 * 4
        words[bit // 32, lane] |= bits[row, chunk] << bit % 32
    return words


def cleared(columns: int) -> str:
    """Zeros in the first columns, of whose lanes a product of 64 rows writes half."""
    stores = (f"    add.u32 %r9, %own, {at};\n" + store(1, address="%r9", first=8) for at in range(columns))
    return "    mov.b32 %r8, 0;\n" + "".join(stores) + WAIT_STORE


def lanes_of(rows: int, parts: int = 1) -> np.ndarray:
    """The lanes of some rows in a block whose D is in one part."""
    return np.arange(64) // 16 * 32 + np.arange(64) % 16 if rows == 64 and parts == 1 else np.arange(rows)


def with_metadata(text: str, form: str = "sp") -> str:
    """A product as a sparse one, with its metadata at their column."""
    text = text.replace("tcgen05.mma.", f"tcgen05.mma.{form}.").replace("%d2, %r10", "%d2, [%r13], %r10")
    return f"    add.u32 %r13, %t, {METADATA};\n{text}"


def put_metadata(selector: int, first: int = 100) -> str:
    """Two registers to the columns of the metadata."""
    return f"    add.u32 %r9, %own, {METADATA + selector};\n" + store(2, address="%r9", first=first) + WAIT_STORE


def sparse(
    types: str,
    m: int,
    n: int,
    *,
    form: str = "sp",
    selector: int = 0,
    transposed: bool = False,
    in_memory: bool = False,
) -> tuple[Execution, np.ndarray]:
    """One product of a block, and what D [m, n] should be."""
    kind, d, a_code, b_code, element = TYPES[types]
    chunk, kept = CHUNKS[element]
    depth, parts = 64 // element, 128 // m if "ws" in form else 1
    a, bits = thinned(m, depth, chunk, kept)
    if (kind, a_code) == ("i8", 0):
        a = abs(a)
    b = RNG.integers(-3, 4, (n, depth))
    left, right = Layout(m, element, 2), Layout(n, element, 2, transposed, start=16384, width=64)
    tile = np.zeros(32768, np.uint8)
    compact = encoded(stored(a, bits, element), kind, a_code)
    left.put(tile, compact)
    right.put(tile, encoded(b, kind, b_code))
    words = np.zeros((10, 128), np.uint32)
    lanes = lanes_of(m, parts) if m == 128 or parts == 1 else np.arange(m)
    for part in range(parts):
        words[:2, part * m + lanes] = metadata_words(bits, element)
        words[2:, part * m + lanes] = np.ascontiguousarray(compact).view(np.uint32).T
    descriptor = instruction_descriptor(m, n, d, a_code, b_code, (False, transposed), 4 | selector)
    columns = n // parts
    body = cleared(columns) + take(10) + put_metadata(selector)
    body += "    add.u32 %r9, %own, 160;\n" + store(8, address="%r9", first=102) + WAIT_STORE
    text = product(descriptor, right.descriptor(), "%r14" if in_memory else left.descriptor(), False, kind)
    body += FENCED + "    add.u32 %r14, %t, 160;\n" + with_metadata(text, form) + DONE + read(columns)
    result = run(body, tile, words, columns)
    assert result.findings == (), result.findings
    got = sums(result.outputs["out"], types)
    in_parts = [got[:, part * m + lanes].T for part in range(parts)]
    return result, np.concatenate(in_parts, axis=1) - a @ b.T


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("m", [64, 128])
def test_sparse_products_of_every_type(types: str, m: int) -> None:
    result, difference = sparse(types, m, 64)
    assert not difference.any()
    assert result.total.tensor_multiply_adds == m * 64 * 32 // TYPES[types][4]


@pytest.mark.parametrize("types", ["f16", "tf32"])
def test_metadata_that_a_selector_selects(types: str) -> None:
    for selector in range(2):
        assert not sparse(types, 128, 32, selector=selector)[1].any()


def test_a_transposed_b_and_an_a_in_tensor_memory() -> None:
    assert not sparse("f16", 128, 64, transposed=True)[1].any()
    for m in (64, 128):
        assert not sparse("bf16", m, 32, in_memory=True)[1].any()
        assert not sparse("e4m3", m, 32, in_memory=True)[1].any()


@pytest.mark.parametrize("types", ["f16", "tf32", "e4m3", "s8"])
@pytest.mark.parametrize("m", [32, 64, 128])
def test_weight_stationary_sparse_products(types: str, m: int) -> None:
    assert not sparse(types, m, 64, form="ws.sp")[1].any()
    assert not sparse(types, m, 128, form="ws.sp", in_memory=True)[1].any()


@pytest.mark.parametrize(("types", "m"), [("f16", 256), ("f16", 128), ("e4m3", 128), ("e4m3", 256)])
def test_sparse_products_of_a_pair(types: str, m: int) -> None:
    """64 rows of a block lie as those of a block alone, with all columns (layout C)."""
    n = 64
    kind, d, a_code, b_code, element = TYPES[types]
    depth = 64 // element
    a, bits = thinned(m, depth, *CHUNKS[element])
    b = RNG.integers(-3, 4, (n, depth))
    rows = m // 2
    left, right = Layout(rows, element, 2), Layout(n // 2, element, 2, start=16384, width=64)
    tile, words = np.zeros((2, 32768), np.uint8), np.zeros((2, 2, 128), np.uint32)
    for block in range(2):
        own = slice(block * rows, block * rows + rows)
        left.put(tile[block], encoded(stored(a[own], bits[own], element), kind, a_code))
        right.put(tile[block], np.split(encoded(b, kind, b_code), 2)[block])
        words[block][:, lanes_of(rows)] = metadata_words(bits[own], element)
    text = product(
        instruction_descriptor(m, n, d, a_code, b_code, more=4), right.descriptor(), left.descriptor(), False, kind,
        group=2,
    )  # fmt: skip
    body = (
        cleared(n)
        + take(2)
        + put_metadata(0)
        + BEFORE
        + CLUSTER_BARRIER
        + AFTER
        + with_metadata(text)
        + PAIR_DONE
        + read(n)
    )
    result = run(body, tile, words, n, blocks=2, start=PAIR, end=PAIR_END)
    assert result.findings == ()
    got = np.concatenate([sums(d, types)[:, lanes_of(rows)].T for d in result.outputs["out"]])
    assert np.array_equal(got, a @ b.T)


E2M1 = np.array([0, 2, 4, 5])  # codes of 0, 1, 2, 3


@pytest.mark.parametrize(("kind", "count"), [("mxf8f6f4", 1), ("mxf4", 2), ("mxf4nvf4", 4)])
def test_sparse_products_with_scales(kind: str, count: int) -> None:
    """A scale stands for twice as many elements of a row as without sparsity."""
    n, nibbles = 32, kind != "mxf8f6f4"
    depth = 128 if nibbles else 64
    a, bits = thinned(128, depth, 8 if nibbles else 4, 4 if nibbles else 2, nibbles)
    b = RNG.integers(-3, 4, (n, depth))
    left, right = Layout(128, 1, 2), Layout(n, 1, 2, start=16384, width=64)
    tile = np.zeros(32768, np.uint8)
    for layout, matrix in ((left, stored(a, bits, 1, nibbles)), (right, b)):
        codes = encoded(matrix, "f8f6f4", 0)
        if nibbles:
            four = (E2M1[abs(matrix)] | (matrix < 0) << 3).astype(np.uint8)
            codes = four[:, ::2] | four[:, 1::2] << np.uint8(4)
        layout.put(tile, codes)
    scales = [RNG.integers(125, 130, (rows, count), dtype=np.uint8) for rows in (128, n)]
    raw = np.zeros((160, 4), np.uint8)
    raw[:128, :count], raw[128:, :count] = scales
    words = np.concatenate([metadata_words(bits, 1), np.tile(raw.view(np.uint32).reshape(5, 32), 4)])
    body = take(7) + put_metadata(0) + "    add.u32 %r9, %own, 160;\n"
    body += "".join(f"    add.u32 %r9, %own, {160 + i};\n" + store(1, address="%r9", first=102 + i) for i in range(5))
    codes_of = (1, 1) if nibbles else (0, 0)
    name = f"{kind}.block_scale" + (".block16" if count == 4 else "")
    text = product(
        instruction_descriptor(128, n, 0, *codes_of, more=4 | 1 << 23), right.descriptor(), left.descriptor(), False,
        name, "[%r11], [%r12], ",
    )  # fmt: skip
    text = "    add.u32 %r11, %t, 160; add.u32 %r12, %t, 164;\n" + with_metadata(text)
    result = run(body + WAIT_STORE + FENCED + text + DONE + read(n), tile, words, n)
    assert result.findings == ()
    spread = [np.repeat(2.0 ** (s.astype(int) - 127), depth // count, axis=1) for s in scales]
    assert np.array_equal(sums(result.outputs["out"], "f16").T, (a * spread[0]) @ (b * spread[1]).T)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (
            lambda text: text.replace("mma.sp", "mma").replace(" [%r13],", ""),
            FindingKind.TRAP,
            "types that it does not",
        ),
        (lambda text: text.replace(f"%t, {METADATA}", "%t, 255"), FindingKind.OUT_OF_BOUNDS, "columns 255 to 256"),
        (lambda text: text.replace(f"%t, {METADATA}", "%t, 192"), FindingKind.UNINITIALISED, "column 192 of tensor"),
        (
            lambda text: text.replace(f"%t, {METADATA}", "%t, 0x100080"),
            FindingKind.TRAP,
            "start D, A and metadata in lane 0",
        ),
    ],
)
def test_faulty_sparse_products(change, kind: FindingKind, words: str) -> None:
    left, right = Layout(128, 1, 2), Layout(32, 1, 2, start=16384, width=64)
    text = product(instruction_descriptor(128, 32, more=4), right.descriptor(), left.descriptor(), kind="f8f6f4")
    body = take(2) + put_metadata(0) + FENCED + change(with_metadata(text)) + DONE
    result = run(body, np.zeros(20480, np.uint8), np.zeros((2, 128), np.uint32))
    assert (result.findings[0].kind, words in result.findings[0].message) == (kind, True), result.findings


def random_form(rng: np.random.Generator) -> str:
    """A sparse, weight-stationary or shifting instruction whose operands lead anywhere."""
    lanes, columns = [0] * 10 + [16, 96], [0] * 6 + [64, 128, 250, 511, 65534, 65535]
    address = [int(rng.choice(lanes)) << 16 | int(rng.choice(columns)) for _ in range(4)]
    matrices = [
        int(rng.integers(0, 2048)) | int(rng.integers(0, 2048)) << 32 | 1 << 46 | int(rng.choice([0, 2])) << 61
        for _ in range(2)
    ]
    if rng.random() < 0.1:
        return f"    mov.b32 %r11, {address[0]:#x};\n    @%p0 tcgen05.shift.cta_group::1.down [%r11];\n"
    form = str(rng.choice(["sp", "ws", "ws.sp"]))
    more = (4 if "sp" in form else 0) | int(rng.integers(0, 4)) | int(rng.integers(0, 4)) << 30
    descriptor = instruction_descriptor(int(rng.choice([32, 64, 128])), int(rng.choice([64, 128])), more=more)
    text = product(descriptor, matrices[1], "%r14" if rng.random() < 0.3 else matrices[0], d="%r12")
    places = "".join(f"    mov.b32 %r{12 + i}, {word:#x};\n" for i, word in enumerate(address[1:]))
    text = text.replace("tcgen05.mma.", f"tcgen05.mma.{form}.")
    text = text.replace("%d2, %r10", "%d2, [%r13], %r10") if "sp" in form else text
    if form == "ws" and rng.random() < 0.5:
        text = f"    mov.b64 %d4, {int(rng.integers(0, 2**62)):#x};\n" + text.replace("%p4;", "%p4, %d4;")
    return places + text


@pytest.mark.parametrize("seed", range(4))
def test_operands_that_lead_anywhere_are_findings(seed: int) -> None:
    """And never an access to memory of the emulator's own."""
    rng = np.random.default_rng(seed)
    made = 0
    for _ in range(40):
        made += run(
            "".join(random_form(rng) for _ in range(3)) + DONE, np.zeros(8192, np.uint8)
        ).total.tensor_instructions
    assert made > 4  # the others are refused


@pytest.mark.processes
def test_ptxas_takes_what_these_tests_run() -> None:
    text = product(1, 1, 1)
    for form, kind in itertools.product(("sp", "ws.sp"), ("f16", "tf32", "f8f6f4", "i8")):
        done = assembler.run(kernel(with_metadata(text.replace("::f16", f"::{kind}"), form)), "sm_100a", 60)
        assert done.image, done.log
