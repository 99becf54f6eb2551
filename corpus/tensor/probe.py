"""One tensor-core instruction for each tile, on a real GPU: what the emulator's tensor cores are held against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from warplab.emulator.core.tensor.numerics import BITS, FORMATS, FP8, Kind

COLUMNS = 8


@dataclass(frozen=True)
class Instruction:
    """An mma.sync (m16n8) or wgmma (m64n8) variant."""

    name: str
    a: Kind
    b: Kind
    accumulator: Kind
    row_bytes: int = 32
    """Bytes of a row of A: 32, or 16 for the shorter shapes of mma.sync."""

    @property
    def rows(self) -> int:
        return 64 if self.name == "wgmma" else 16

    @property
    def k(self) -> int:
        return self.row_bytes // np.dtype(BITS[self.a]).itemsize

    @property
    def types(self) -> tuple[str, str, str]:
        """PTX's names of the types of A, B and D."""
        return self.a.name.lower(), self.b.name.lower(), self.accumulator.name.lower()

    def __str__(self) -> str:
        return "_".join([self.name, *self.types, f"k{self.k}"])


@dataclass(frozen=True)
class IntegerInstruction:
    """The same for 8-bit integers, "s8" or "u8" each."""

    name: str
    a: str
    b: str
    row_bytes: int = 32
    saturates: bool = False

    @property
    def rows(self) -> int:
        return 64 if self.name == "wgmma" else 16

    @property
    def k(self) -> int:
        return self.row_bytes

    @property
    def types(self) -> tuple[str, str, str]:
        return self.a, self.b, "s32"

    def __str__(self) -> str:
        return "_".join([self.name, *self.types, f"k{self.k}", *(["satfinite"] if self.saturates else [])])


def instructions() -> list[Instruction]:
    """Every variant that Hopper's compiler takes and the rules cover."""
    found = []
    for name, sizes in (("mma", (32, 16)), ("wgmma", (32,))):
        for size in sizes:
            found += [Instruction(name, kind, kind, Kind.F32, size) for kind in (Kind.F16, Kind.BF16, Kind.TF32)]
            found += [Instruction(name, Kind.F16, Kind.F16, Kind.F16, size)]
            found += [Instruction(name, a, b, c, size) for a in FP8 for b in FP8 for c in (Kind.F32, Kind.F16)]
    return found


def patterns(kind: Kind, shape: tuple[int, ...], family: str, generator: np.random.Generator) -> np.ndarray:
    """Random bit patterns of a kind.

    "any" draws every bit; "near" keeps exponents close to each other, where carries and cancellation happen; "edges"
    draws half of the elements from zeros, subnormals, the largest numbers, infinities and NaN; "zeros" draws zeros of
    both signs; "tiny" makes products near and below the smallest float32; "huge" near and above the largest.
    """
    exponent_bits, fraction_bits, ignored = (int(field) for field in FORMATS[kind])
    top = (1 << exponent_bits) - 1
    bias = top // 2
    ranges = {"near": (bias - 3, bias + 4), "tiny": (0, bias // 2), "huge": (bias + bias // 2, top)}
    low, high = ranges.get(family, (0, top))
    biased = generator.integers(low, high, shape)
    bits = (biased << fraction_bits) | generator.integers(0, 1 << fraction_bits, shape)
    if family == "any":
        bits = generator.integers(0, 1 << (exponent_bits + fraction_bits), shape)
    if family == "zeros":
        bits = np.zeros(shape, np.int64)
    if family == "edges":
        least, one, infinity = 1 << fraction_bits, bias << fraction_bits, top << fraction_bits
        edges = np.array([0, 0, 1, least - 1, least, one, one, infinity - 1, infinity, infinity + 1])
        rare = generator.random(shape) < 0.97
        edge = np.where(rare, edges[generator.integers(0, 8, shape)], edges[generator.integers(8, 10, shape)])
        bits = np.where(generator.random(shape) < 0.5, edge, bits)
    bits |= generator.integers(0, 2, shape) << (exponent_bits + fraction_bits)
    return ((bits << ignored) | generator.integers(0, 1 << ignored, shape)).astype(BITS[kind])


def source(instruction: Instruction | IntegerInstruction) -> str:
    """CUDA C++ of a kernel `probe(a, b, c, d)` with one block for each tile; rows are read as 32-bit words."""
    words = instruction.row_bytes // 4
    a_count, b_count = words // 2, words // 4
    *types, result = instruction.types
    single = result != "f16"
    saturates = ".satfinite" if isinstance(instruction, IntegerInstruction) and instruction.saturates else ""
    count = 4 if single else 2
    registers = lambda first, n: ", ".join(f"%{first + i}" for i in range(n))  # noqa: E731
    outputs = ", ".join(f'"+r"(f[{i}])' for i in range(count))
    a_inputs = ", ".join(f'"r"(x[{i}])' for i in range(a_count))
    if instruction.name == "mma":
        text = (
            f"mma.sync.aligned.m16n8k{instruction.k}.row.col{saturates}.{result}.{types[0]}.{types[1]}.{result} "
            f"{{{registers(0, count)}}}, {{{registers(count, a_count)}}}, {{{registers(count + a_count, b_count)}}}, "
            f"{{{registers(0, count)}}};"
        )
        b_inputs = ", ".join(f'"r"(y[{i}])' for i in range(b_count))
        body = f'asm volatile("{text}" : {outputs} : {a_inputs}, {b_inputs});'
    else:
        scales = "" if result == "s32" else ", 1, 1"
        scales += ", 0" if types[0] in ("f16", "bf16") else ""
        text = (
            f"wgmma.mma_async.sync.aligned.m64n8k{instruction.k}{saturates}.{result}.{types[0]}.{types[1]} "
            f"{{{registers(0, count)}}}, {{{registers(count, a_count)}}}, %{count + a_count}, 1{scales};"
        )
        # Two 8x16-byte core matrices without swizzle, 128 bytes apart.
        body = f"""
        __shared__ alignas(1024) unsigned staged[64];
        unsigned t = threadIdx.x;
        if (t < 64) staged[t] = b[t % 32 / 4 * 8 + t / 32 * 4 + t % 4];
        asm volatile("fence.proxy.async.shared::cta;");
        __syncthreads();
        unsigned long long address = __cvta_generic_to_shared(staged);
        unsigned long long view = (address & 0x3ffff) >> 4 | 8ull << 16 | 8ull << 32;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{text}" : {outputs} : {a_inputs}, "l"(view));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        """
    cells = ["(g * 8 + 2 * q)", "(g * 8 + 2 * q + 1)", "((g + 8) * 8 + 2 * q)", "((g + 8) * 8 + 2 * q + 1)"]
    if not single:
        cells = ["(g * 4 + q)", "((g + 8) * 4 + q)"]
    c_words = instruction.rows * COLUMNS // (1 if single else 2)
    warp_words = 16 * COLUMNS // (1 if single else 2)
    return f"""
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* d) {{
  int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, w = threadIdx.x / 32;
  a += blockIdx.x * {instruction.rows * words} + w * {16 * words};
  b += blockIdx.x * {COLUMNS * words};
  c += blockIdx.x * {c_words} + w * {warp_words};
  d += blockIdx.x * {c_words} + w * {warp_words};
  unsigned x[4], y[2], f[4];
  for (int i = 0; i < {a_count}; i++) x[i] = a[(g + i % 2 * 8) * {words} + q + i / 2 * 4];
  for (int i = 0; i < {b_count}; i++) y[i] = b[g * {words} + q + i * 4];
  {" ".join(f"f[{i}] = c[{cell}];" for i, cell in enumerate(cells))}
  {body}
  {" ".join(f"d[{cell}] = f[{i}];" for i, cell in enumerate(cells))}
}}"""


@cache
def kernel(instruction: Instruction | IntegerInstruction):
    """The compiled kernel of an instruction."""
    import cupy

    return cupy.RawModule(code=source(instruction), backend="nvrtc", options=("-arch=sm_90a",)).get_function("probe")


def run(instruction: Instruction | IntegerInstruction, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """D of every tile: `a` (tiles, rows, k), `b` (tiles, 8, k), `c` (tiles, rows, 8), as bit patterns."""
    import cupy

    # Float accumulators travel as bits: the compiler moves them into the instruction unchanged.
    d = cupy.zeros(c.shape, c.dtype)
    threads = 128 if instruction.name == "wgmma" else 32
    words = [cupy.asarray(np.ascontiguousarray(array).view(np.uint32)) for array in (a, b, c)]
    kernel(instruction)((len(a),), (threads,), (*words, d))
    return cupy.asnumpy(d)
