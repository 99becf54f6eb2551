#!/bin/sh
# One addition in global memory, two answers: the atomic unit flushes subnormal numbers, a bulk reduction keeps them.
#
# CuPy 14.2.0 with NVRTC 13.0.88; needs a GPU of compute capability 9.0. Four ways to add 1e-40, a subnormal float32, to
# a zero in memory.
#
# Seen on an NVIDIA H200 (driver 580.159.04): atomicAdd in shared memory keeps it. In global memory atomicAdd flushes it
# to zero, and so does red of four floats at once. cp.reduce.async.bulk, which adds float32 into the same global memory,
# keeps it. A sum of small gradients thus depends on which of the two units adds it up.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'cupy-cuda13x[ctk]==14.2.0' nvidia-cuda-nvrtc==13.0.88
"$folder/venv/bin/python" - <<'PYTHON'
import cupy

KERNEL = r"""
extern "C" __global__ void add(float* out, const float* tiny) {
    __shared__ alignas(16) float addends[4];
    __shared__ float sum;
    const float x = *tiny;
    sum = 0;
    for (int i = 0; i < 4; ++i) addends[i] = x;
    atomicAdd(&sum, x);
    out[1] = sum;
    atomicAdd(&out[2], x);
    asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(out + 4), "f"(x) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const unsigned from = __cvta_generic_to_shared(addends);
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 16;" ::"l"(out + 8), "r"(from)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
}
"""
WAYS = {"atomicAdd, shared": 1, "atomicAdd, global": 2, "red.v4, global": 4, "cp.reduce.async.bulk": 8}
out = cupy.zeros(12, cupy.float32)
cupy.RawKernel(KERNEL, "add")((1,), (1,), (out, cupy.array([1e-40], cupy.float32)))
kept = {way: float(out[place]) != 0 for way, place in WAYS.items()}
for way, keeps in kept.items():
    print(f"{way:22} {'keeps it' if keeps else 'flushes it'}")
assert kept == {
    "atomicAdd, shared": True,
    "atomicAdd, global": False,
    "red.v4, global": False,
    "cp.reduce.async.bulk": True,
}
PYTHON
