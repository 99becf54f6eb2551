#!/bin/sh
# Triton's interpreter gives 0 for the sum of 1,024 ones in bfloat16, and casts to narrow types by cutting bits off.
#
# triton 3.9.0 with TRITON_INTERPRET=1, torch 2.13.0 on the CPU (no GPU needed).
#
# Seen: tl.sum adds the bit patterns of bfloat16 as 16-bit integers: 1,024 times 0x3f80 is 0 modulo 2^16. The same ones
# in float32 or float16 give 1024. float32 to bfloat16 is truncated where a GPU's cvt.rn rounds to nearest: 1 + 2^-8 +
# 2^-20 becomes 1 and not 1 + 2^-7. 500 cast to float8e4nv becomes 256, where torch's cast and a GPU's cvt.rn.satfinite
# give 448, the largest. A kernel that is tested without a GPU needs float32 inputs and tolerances for such casts, or it
# fails there and is right on the card.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps triton==3.9.0
cat >"$folder/kernels.py" <<'PYTHON'
import torch
import triton
import triton.language as tl


@triton.jit
def total(x, out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, N))))


@triton.jit
def narrowed(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(out + i, value.to(tl.bfloat16).to(tl.float32))
    tl.store(out + N + i, value.to(tl.float8e4nv).to(tl.float32))


sums = {}
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    out = torch.full((1,), -1, dtype=dtype)
    total[(1,)](torch.ones(1024, dtype=dtype), out, 1024)
    sums[dtype] = out.item()
print("sum of 1,024 ones", sums)
assert sums == {torch.float32: 1024, torch.float16: 1024, torch.bfloat16: 0}
x = torch.tensor([1 + 2**-8 + 2**-20, 500.0])
out = torch.zeros(4)
narrowed[(1,)](x, out, 2)
print("bfloat16", out[0].item(), "by torch", x[0].bfloat16().item())
print("float8e4nv", out[3].item(), "by torch", x[1].to(torch.float8_e4m3fn).float().item())
assert out[0] == 1 and x[0].bfloat16() == 1 + 2**-7
assert out[3] == 256 and x[1].to(torch.float8_e4m3fn) == 448
PYTHON
TRITON_INTERPRET=1 "$folder/venv/bin/python" "$folder/kernels.py"
