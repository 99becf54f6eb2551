#!/bin/sh
# cuda-core compiles to machine code without a driver, but not to PTX; and a target that the options do not make is empty.
#
# cuda-core 1.2.2, cuda-bindings 13.0.3, nvidia-cuda-nvrtc 13.0.88, on a machine without NVIDIA's driver. One kernel,
# Program(code, "c++", options).compile(target).
#
# Seen: "cubin" gives an ELF file. "ptx", which needs less, raises RuntimeError: for a warning it asks the driver whether it
# could load the PTX. NVRTC itself, through cuda.bindings.nvrtc, gives the PTX. "ltoir" gives an object of 0 bytes and no
# error unless link_time_optimization=True; with that option it is "cubin" that has 0 bytes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q cuda-core==1.2.2 cuda-bindings==13.0.3 nvidia-cuda-nvrtc==13.0.88 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import ctypes

from cuda.bindings import nvrtc
from cuda.core import Program, ProgramOptions

try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    pass
else:
    raise SystemExit("This machine has a driver: the behaviour cannot be seen here.")
CODE = 'extern "C" __global__ void k(float* x) { x[0] = 1; }'


def size(target, **options):
    try:
        return len(Program(CODE, "c++", ProgramOptions(arch="sm_90", **options)).compile(target).code)
    except RuntimeError as error:
        return str(error)


found = {
    (target, linked): size(target, link_time_optimization=linked)
    for target in ("cubin", "ptx", "ltoir")
    for linked in (False, True)
}
for key, value in found.items():
    print(*key, value)
assert found["cubin", False] > 0 and found["ltoir", True] > 0
assert found["cubin", True] == found["ltoir", False] == 0
assert "libcuda" in found["ptx", False]
_, program = nvrtc.nvrtcCreateProgram(CODE.encode(), b"k.cu", 0, None, None)
nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_90"])
assert nvrtc.nvrtcGetPTXSize(program)[1] > 100
PYTHON
