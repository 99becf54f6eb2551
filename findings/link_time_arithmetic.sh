#!/bin/sh
# Link-time optimisation forgets how a kernel's arithmetic was asked for.
#
# nvidia-cuda-nvrtc 13.0.88, nvidia-nvjitlink 13.0.88 (no GPU needed). One kernel, x[0] = x[1] / x[2] + x[3] * x[4],
# is compiled for sm_90 twice with each set of options: to machine code, and to LTO-IR that nvJitLink then links with
# nothing but `-arch=sm_90 -lto`.
#
# Seen: of --use_fast_math the approximate division survives the link, flush-to-zero does not (FFMA.FTZ becomes FFMA).
# -fmad=false does not survive at all: the product and the sum are fused again. The linker takes both as options of its
# own, `-ftz=1` and `-fma=0`. numba-cuda's cuda.jit(fastmath=True) links this way, so 1e-40 + 1e-40 is not 0 there.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q cuda-bindings==13.0.3 nvidia-cuda-nvrtc==13.0.88 nvidia-nvjitlink==13.0.88 \
    nvidia-cuda-nvdisasm==13.3.73
"$folder/venv/bin/python" - <<'PYTHON'
import re
import subprocess
import tempfile
from pathlib import Path

import nvidia
from cuda.bindings import nvjitlink, nvrtc

KERNEL = b'extern "C" __global__ void k(float* x) { x[0] = x[1] / x[2] + x[3] * x[4]; }'
DISASSEMBLER = next(p for f in nvidia.__path__ for p in Path(f).glob("*/bin/nvdisasm"))


def checked(result):
    assert result[0] == 0, result[0]
    return result[1] if len(result) > 1 else None


def compiled(*options):
    program = checked(nvrtc.nvrtcCreateProgram(KERNEL, b"k.cu", 0, [], []))
    options = [b"-arch=sm_90", *options]
    checked(nvrtc.nvrtcCompileProgram(program, len(options), options))
    size, get = (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    if b"-dlto" in options:
        size, get = (nvrtc.nvrtcGetLTOIRSize, nvrtc.nvrtcGetLTOIR)
    made = b" " * checked(size(program))
    checked(get(program, made))
    return made


def linked(ir, *options):
    options = ["-arch=sm_90", "-lto", *options]
    link = nvjitlink.create(len(options), options)
    nvjitlink.add_data(link, nvjitlink.InputType.LTOIR, ir, len(ir), "k")
    nvjitlink.complete(link)
    cubin = bytearray(nvjitlink.get_linked_cubin_size(link))
    nvjitlink.get_linked_cubin(link, cubin)
    return bytes(cubin)


def arithmetic(cubin):
    """The kernel's floating-point instructions, those of the division's slow path left out."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([DISASSEMBLER, file.name], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\b(?:FADD|FMUL|FFMA|FCHK)[.\w]*", text.split(" EXIT ")[0])


rows = {
    "fast": arithmetic(compiled(b"--use_fast_math")),
    "fast, linked": arithmetic(linked(compiled(b"--use_fast_math", b"-dlto"))),
    "fast, linked with -ftz=1": arithmetic(linked(compiled(b"--use_fast_math", b"-dlto"), "-ftz=1")),
    "-fmad=false": arithmetic(compiled(b"-fmad=false")),
    "-fmad=false, linked": arithmetic(linked(compiled(b"-fmad=false", b"-dlto"))),
    "-fmad=false, linked with -fma=0": arithmetic(linked(compiled(b"-fmad=false", b"-dlto"), "-fma=0")),
}
for name, row in rows.items():
    print(f"{name:32} {' '.join(row)}")
assert rows["fast"] == ["FMUL.FTZ", "FFMA.FTZ"]
assert rows["fast, linked"] == ["FMUL.FTZ", "FFMA"]
assert rows["fast, linked with -ftz=1"] == ["FMUL.FTZ", "FFMA.FTZ"]
assert rows["-fmad=false"][-2:] == ["FMUL", "FADD"]
assert rows["-fmad=false, linked"][-1] == "FFMA"
assert rows["-fmad=false, linked with -fma=0"][-2:] == ["FMUL", "FADD"]
PYTHON
