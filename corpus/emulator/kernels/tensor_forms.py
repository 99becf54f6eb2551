"""mma.sync forms beside the everyday ones: sparse a, 4-bit operands and single bits. A warp each, on registers."""

import cupy

_SPARSE = "mma.sp::ordered_metadata.sync.aligned."
_DENSE = "mma.sync.aligned."
# Opcode, registers of a, b and c, and the selector of a sparse a (-1: a is dense). The catalogue has the same order.
FORMS = (
    *((_SPARSE + "m16n8k16.row.col.f32.f16.f16.f32", 2, 2, 4, selector) for selector in range(4)),
    *((_SPARSE + "m16n8k32.row.col.f32.f16.f16.f32", 4, 4, 4, selector) for selector in range(2)),
    (_SPARSE + "m16n8k32.row.col.f16.f16.f16.f16", 4, 4, 2, 0),
    (_SPARSE + "m16n8k16.row.col.f32.bf16.bf16.f32", 2, 2, 4, 1),
    (_SPARSE + "m16n8k32.row.col.f32.bf16.bf16.f32", 4, 4, 4, 0),
    *((_SPARSE + "m16n8k8.row.col.f32.tf32.tf32.f32", 2, 2, 4, selector) for selector in range(4)),
    *((_SPARSE + "m16n8k16.row.col.f32.tf32.tf32.f32", 4, 4, 4, selector) for selector in range(2)),
    *((_SPARSE + "m16n8k32.row.col.s32.s8.s8.s32", 2, 2, 4, selector) for selector in range(2)),
    (_SPARSE + "m16n8k64.row.col.s32.s8.s8.s32", 4, 4, 4, 0),
    (_SPARSE + "m16n8k64.row.col.satfinite.s32.u8.s8.s32", 4, 4, 4, 0),
    *((_SPARSE + "m16n8k64.row.col.s32.s4.s4.s32", 2, 2, 4, selector) for selector in range(2)),
    (_SPARSE + "m16n8k128.row.col.s32.u4.s4.s32", 4, 4, 4, 0),
    (_DENSE + "m8n8k32.row.col.s32.s4.s4.s32", 1, 1, 2, -1),
    (_DENSE + "m16n8k32.row.col.s32.s4.u4.s32", 2, 1, 4, -1),
    (_DENSE + "m16n8k64.row.col.s32.s4.s4.s32", 4, 2, 4, -1),
    (_DENSE + "m16n8k64.row.col.satfinite.s32.u4.u4.s32", 4, 2, 4, -1),
    *(
        (f"{_DENSE}{shape}.row.col.s32.b1.b1.s32.{operation}.popc", *counts, -1)
        for shape, counts in (("m8n8k128", (1, 1, 2)), ("m16n8k128", (2, 1, 4)), ("m16n8k256", (4, 2, 4)))
        for operation in ("and", "xor")
    ),
    (_DENSE + "m16n8k16.row.col.s32.s8.u8.s32", 2, 1, 4, -1),
    (_DENSE + "m8n8k16.row.col.satfinite.s32.u8.u8.s32", 1, 1, 2, -1),
)


def _kernel(number, opcode, a, b, c, selector):
    """Word i of lane t lies at i * 32 + t of each array."""
    first = iter(range(a + b + c + 1))
    sums = ", ".join(f"%{next(first)}" for _ in range(c))
    operands = [", ".join(f"%{next(first)}" for _ in range(count)) for count in (a, b)]
    rest = f", %{next(first)}, {selector}" if selector >= 0 else ""
    inputs = [f'"r"({name}[{i} * 32 + t])' for name, count in (("a", a), ("b", b)) for i in range(count)]
    inputs += ['"r"(e[t])'] if selector >= 0 else []
    loads = " ".join(f"unsigned x{i} = c[{i} * 32 + t];" for i in range(c))
    stores = " ".join(f"out[{i} * 32 + t] = x{i};" for i in range(c))
    outputs = ", ".join(f'"+r"(x{i})' for i in range(c))
    return f"""
extern "C" __global__ void form_{number}(const unsigned* a, const unsigned* b, const unsigned* c, const unsigned* e,
                                         unsigned* out)
{{
    int t = threadIdx.x;
    {loads}
    asm volatile("{opcode} {{{sums}}}, {{{operands[0]}}}, {{{operands[1]}}}, {{{sums}}}{rest};"
                 : {outputs} : {", ".join(inputs)});
    {stores}
}}"""


module = cupy.RawModule(code="\n".join(_kernel(number, *form) for number, form in enumerate(FORMS)))


def multiply(a, b, c, e, out, which):
    """`which` is a place in FORMS."""
    module.get_function(f"form_{which}")((1,), (32,), (a, b, c, e, out))
