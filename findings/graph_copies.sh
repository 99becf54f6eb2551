#!/bin/sh
# The same device-to-device copy, captured into a CUDA graph, is a third slower from 512 MiB on.
#
# CuPy 14.2.0, CUDA 13.0; needs a GPU with 3 GiB of free memory. cudaMemcpyAsync within one GPU, and a kernel that copies
# 16 bytes per thread, each queued on a stream and then launched as a graph; bytes read and written per second.
#
# Seen on an NVIDIA H200 (driver 580.159.04): up to 256 MiB all four run at 4.0 to 4.2 TB/s, or faster from the L2 cache.
# From 512 MiB to 4 GiB the stream's memcpy and both kernels stay there (4.2 to 4.3), the graph's memcpy has 2.7. A
# benchmark that takes a captured memcpy for the memory's rate takes two thirds of it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'cupy-cuda13x[ctk]==14.2.0' nvidia-cuda-nvrtc==13.0.88
"$folder/venv/bin/python" - <<'PYTHON'
import cupy

KERNEL = cupy.RawKernel(
    'extern "C" __global__ void copy(const float4* x, float4* y, long long n) {'
    " long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }",
    "copy",
)
stream = cupy.cuda.Stream(non_blocking=True)


def seconds(work, calls):
    best = 1e9
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for _ in range(7):
        begin.record(stream)
        work()
        end.record(stream)
        end.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(begin, end) / 1e3 / calls)
    return best


rates = {}
for power in (28, 29, 30):
    n = 1 << power
    x, y = cupy.ones(n, cupy.uint8), cupy.empty(n, cupy.uint8)
    cupy.cuda.Device().synchronize()
    calls = max(2, (1 << 31) // n)

    def memcpy():
        for _ in range(calls):
            y.data.copy_from_device_async(x.data, n, stream)

    def kernel():
        for _ in range(calls):
            KERNEL((n // 16 // 256,), (256,), (x, y, cupy.int64(n // 16)), stream=stream)

    for name, work in (("memcpy", memcpy), ("kernel", kernel)):
        with stream:
            work()
            stream.synchronize()
            rates[power, name, "stream"] = 2 * n / seconds(work, calls)
            stream.begin_capture()
            work()
            graph = stream.end_capture()
            graph.upload(stream)
            rates[power, name, "graph"] = 2 * n / seconds(lambda: graph.launch(stream), calls)
    del x, y
    cupy.get_default_memory_pool().free_all_blocks()

for (power, name, way), rate in rates.items():
    print(f"{1 << power - 20:5} MiB  {name}, {way:6}  {rate / 1e12:.2f} TB/s")
slower = {power: rates[power, "memcpy", "graph"] / rates[power, "memcpy", "stream"] for power in (28, 29, 30)}
kernels = {power: rates[power, "kernel", "graph"] / rates[power, "kernel", "stream"] for power in (28, 29, 30)}
assert slower[28] > 0.95 and slower[29] < 0.75 and slower[30] < 0.75, "a captured memcpy is as fast as others now"
assert min(kernels.values()) > 0.95, "captured kernels are slower, too"
PYTHON
