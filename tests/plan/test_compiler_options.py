"""docs/compiler-options.md: what is captured and assembled is what the user's own compilers and linkers make.

Numba's kernels are compiled, linked by nvJitLink and compared without a driver; CuPy's by NVRTC with the options that
CuPy 14 passes. Compared is the arithmetic of the machine code (its opcodes with their modifiers), its registers and
its local memory.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.plan.conftest import Grab, Refuse
from warplab.plan.assemble import assemble
from warplab.plan.disassembler import disassembled, nvdisasm
from warplab.plan.model import ArrayArgument, Cubin, Role

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(nvdisasm() is None, reason="compares machine code, which nvdisasm prints"),
]

XYZ = [ArrayArgument(name, "float32", (1024,), Role.INOUT) for name in "xyz"]
_ARITHMETIC = re.compile(r"FADD|FMUL|FFMA|FSET|FMNMX|MUFU|DADD|DMUL|DFMA|HADD|HMUL|HFMA|F2|I2F|REDG?|ATOM|STL|LDL")


def arithmetic(image: bytes) -> Counter[str]:
    """How often each arithmetic, atomic or local opcode occurs."""
    code = disassembled(image)
    assert code, "nvdisasm cannot read this"
    # An addition whose result is not used may be either of two opcodes.
    found = Counter(
        i.opcode.replace("ATOMG.", "REDG.") for body in code.values() for i in body if _ARITHMETIC.match(i.opcode)
    )
    # How a spilled value comes back is the assembler's choice, which a limit by option or directive changes a little.
    return Counter({opcode: 1 if opcode[1:3] in ("TL", "DL") else n for opcode, n in found.items()})


def registers(image: bytes) -> int:
    """The most registers of a kernel in a cubin: attribute 0x2f of its section .nv.info."""
    start = struct.unpack_from("<Q", image, 40)[0]
    size, count, names = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, start + n * size) for n in range(count)]
    texts = headers[names][4]
    (info,) = (h for h in headers if image[texts + h[0] :].startswith(b".nv.info\0"))
    at, most = info[4], 0
    while at < info[4] + info[5]:
        form, attribute, length = struct.unpack_from("<BBH", image, at)
        if attribute == 0x2F:
            most = max(most, struct.unpack_from("<I", image, at + 8)[0])
        at += 4 + (length if form == 4 else 0)
    return most


# Numba

BODIES = """
import numpy as np
from numba import cuda

def sums(x, y, z):
    i = cuda.grid(1)
    part = cuda.local.array(8, np.float32)
    for j in range(8):
        part[j] = x[i + j]
    total = np.float32(0)
    for j in range(8):
        total += part[7 - j] * z[j]
    y[i] = total + x[i] / z[i]

def adds(x, y, z):
    i = cuda.grid(1)
    cuda.atomic.add(y, i % 4, x[i] + z[i])

def half(x, y, z):
    i = cuda.grid(1)
    y[i] = x[i] + z[i] * x[i] + np.float32(np.float16(x[i]) * np.float16(z[i]))

def many(x, y, z):
    i = cuda.grid(1)
    part = cuda.local.array(48, np.float32)
    for j in range(48):
        part[j] = x[i * 48 + j]
    for k in range(8):
        for j in range(48):
            part[j] = part[j] * part[(j + 1) % 48] + z[j]
    for j in range(48):
        y[i * 48 + j] = part[j]
"""
# numba-cuda's own way to a cubin, for a GPU of compute capability 9.0 that is not there.
OWN = """
import json, sys, types, warnings
warnings.simplefilter("ignore")
from numba.cuda import codegen, dispatcher
from numba.cuda import types as t
dispatcher.get_current_device = lambda: types.SimpleNamespace(compute_capability=(9, 0))
codegen.CUDACodeLibrary._ensure_cc = lambda library, cc: (9, 0, "a")
ARRAY = t.Array(t.float32, 1, "C")
for n, (name, options, call) in enumerate(json.loads(sys.argv[1])):
    function = globals()[name]
    made = cuda.jit(function, **options) if call else cuda.jit(**options)(function)
    kernel = dispatcher._Kernel(made.py_func, (ARRAY, ARRAY, ARRAY), **made.targetoptions)
    code = kernel._codelibrary.get_cubin(cc=(9, 0, "a"))
    open(f"{sys.argv[2]}/{n}.cubin", "wb").write(bytes(getattr(code, "code", code)))
"""
# Of each: the kernel, its options, and whether cuda.jit is called with the function. As a decorator it forgets lto.
NUMBA: list[tuple[str, dict[str, Any], bool]] = [
    *((name, {}, False) for name in ("sums", "adds", "half")),
    *((name, {"opt": False}, False) for name in ("sums", "adds", "half")),
    *((name, {"fastmath": True}, False) for name in ("sums", "adds", "half")),
    *((name, {"fastmath": True, "opt": False}, False) for name in ("sums", "adds")),
    *((name, {"fastmath": True, "lto": False}, call) for name in ("sums", "adds") for call in (False, True)),
    ("adds", {"opt": False, "lto": False}, False),
    ("sums", {"lineinfo": True}, False),
    ("sums", {"inline": "always"}, False),
    ("sums", {"forceinline": True}, False),
    ("sums", {"launch_bounds": (128, 2, 2)}, False),
    *(("many", limits, False) for limits in ({}, {"max_registers": 32}, {"launch_bounds": 128})),
    ("many", {"launch_bounds": 128, "max_registers": 32}, False),
]


@pytest.mark.slow
def test_numbas_options_end_at_numbas_own_machine_code(grab: Grab, tmp_path: Path) -> None:
    """All rows: arithmetic, local memory and registers alike."""
    (tmp_path / "own").mkdir()
    command = [sys.executable, "-c", BODIES + OWN, json.dumps(NUMBA), str(tmp_path / "own")]
    own_path = tmp_path / "bodies.py"  # Numba reads a function's source where it lies
    own_path.write_text(BODIES + OWN)
    subprocess.run([sys.executable, str(own_path), *command[3:]], check=True, timeout=300)
    lines = []
    for n, (name, options, call) in enumerate(NUMBA):
        given = ", ".join(f"{option}={value!r}" for option, value in options.items())
        lines.append(f"k{n} = cuda.jit({name}, {given})" if call else f"k{n} = cuda.jit({given})({name})")
    launches = [f"    k{n}[1, 32](x, y, z)" for n in range(len(NUMBA))]
    plan = assemble(grab("\n".join([BODIES, *lines, "def f(x, y, z):", *launches]), *XYZ), "sm_90a")
    assert len(plan.launches) == len(NUMBA)
    for n, (row, launch) in enumerate(zip(NUMBA, plan.launches, strict=True)):
        ours = plan.kernels[launch.kernel].cubins["sm_90a"]
        own = (tmp_path / "own" / f"{n}.cubin").read_bytes()
        assert arithmetic(ours.image) == arithmetic(own), row
        assert ours.registers == registers(ours.image) == registers(own), row


def test_a_debug_build_fuses_no_products_where_it_is_not_optimised(grab: Grab) -> None:
    """Seen in Numba's own cubin: FMUL and FADD with opt=False, FFMA without. An optimised build is captured."""
    text = BODIES + "k = cuda.jit(debug=True, OPTION)(sums)\ndef f(x, y, z):\n    k[1, 32](x, y, z)\n"
    for option, fused in (("opt=False", False), ("opt=True", True)):
        (kernel,) = grab(text.replace("OPTION", option), *XYZ).kernels.values()
        assert ("fma.rn.f32" in kernel.ptx["sm_90a"]) is fused


# CuPy

SOURCE = r"""
extern "C" __global__ void BOUNDS k(const float* x, float* y, const float* z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float part[48];
    for (int j = 0; j < 48; j++) part[j] = x[i * 48 + j];
    for (int n = 0; n < 4; n++) for (int j = 0; j < 48; j++) part[j] = part[j] * part[(j + 1) % 48] + z[j];
    for (int j = 0; j < 48; j++) y[i * 48 + j] = part[j] / z[j] + sqrtf(x[j]);
    atomicAdd(y, x[i]);
}
"""
CUPY = [
    (), ("-ftz=false",), ("-fmad=false",), ("-prec-div=false",), ("-prec-sqrt=false",), ("--use_fast_math",),
    ("--use_fast_math", "-prec-div=true"), ("-std=c++14",), ("-lineinfo",), ("-DN=1", "-UN"), ("-maxrregcount=32",),
    ("--maxrregcount", "32"), ("--extra-device-vectorization",), ("-Xptxas=-v",), ("--ptxas-options", "-warn-spills"),
    ("--Ofast-compile=0",),
]  # fmt: skip


def made_by_nvrtc(code: str, options: tuple[str, ...]) -> bytes:
    """A cubin as CuPy 14 has NVRTC make it (cupy/cuda/compiler.py), but with the accelerated target's suffix."""
    from cuda.bindings import nvrtc

    flags = [*options, "-std=c++17"] if not any("std" in o for o in options) else list(options)
    flags += ["-ftz=true", "-arch=sm_90a", "--device-as-default-execution-space"]
    _, program = nvrtc.nvrtcCreateProgram(code.encode(), b"kernel.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    assert not int(status), options
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    image = bytes(size + 2)
    nvrtc.nvrtcGetCUBIN(program, image)
    return image[:size]


def captured(grab: Grab, code: str, options: tuple[str, ...]) -> Cubin:
    text = f"""
import cupy
k = cupy.RawKernel({code!r}, "k", {options!r})
def f(x, y, z):
    k((1,), (32,), (x, y, z))
"""
    (kernel,) = assemble(grab(text, *XYZ), "sm_90a").kernels.values()
    return kernel.cubins["sm_90a"]


@pytest.mark.slow
@pytest.mark.parametrize("bounds", ["", "__launch_bounds__(128)"])
def test_cupys_options_end_at_nvrtcs_own_machine_code(bounds: str, grab: Grab) -> None:
    code = SOURCE.replace("BOUNDS", bounds)
    for options in CUPY:
        ours, own = captured(grab, code, options), made_by_nvrtc(code, options)
        assert arithmetic(ours.image) == arithmetic(own), options
        assert ours.registers == registers(own), options


@pytest.mark.parametrize("option", ["-G", "--device-debug", "--Ofast-compile=max"])
def test_unoptimised_code_fuses_no_products(option: str, grab: Grab) -> None:
    """As in NVRTC's own cubin, where the kernel's products and sums stay apart; -dopt=on optimises them again."""
    code = 'extern "C" __global__ void k(float* x, float* y, float* z) { *y = *x * *z + *y; }'
    for options, fused in (((option,), False), ((option, "-fmad=true"), False), ((), True)):
        found = {"FFMA.FTZ"} if fused else {"FMUL.FTZ", "FADD.FTZ"}
        assert set(arithmetic(captured(grab, code, options).image)) == found, options
        assert found <= set(arithmetic(made_by_nvrtc(code, options))), options


def test_one_source_needs_no_linker(grab: Grab) -> None:
    code = 'extern "C" __global__ void k(float* x, float* y, float* z) { *y = *x + *z; }'
    for option in ("-dc", "-rdc=true", "--relocatable-device-code=true", "--device-c"):
        assert captured(grab, code, (option,)).image == captured(grab, code, ()).image


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("'-dlto',", "", "-dlto makes code for a linker"),
        ("'-Xptxas=-dlcm=cg',", "", "the assembler's option -dlcm=cg is not carried out"),
        ("'--ptxas-options', '--maxrregcount=16'", "", "limit registers with -maxrregcount=32"),
        ("", "child<<<1, 1>>>(y);", "dynamic parallelism"),
        ("'-rdc=true',", "child<<<1, 1>>>(y);", "launch it from the host"),
    ],
)
def test_what_a_plan_cannot_hold_is_one_sentence(options: str, code: str, words: str, refuse: Refuse) -> None:
    text = f"""
import cupy
CODE = '__global__ void child(float* y) {{}} extern "C" __global__ void k(float* y) {{ {code} }}'
k = cupy.RawKernel(CODE, "k", ({options}))
def f(x, y):
    k((1,), (32,), (y,))
"""
    assert words in refuse(text).message


def test_a_managed_variable_is_one_of_global_memory(grab: Grab) -> None:
    text = """
import cupy
CODE = '__device__ __managed__ float m = 5; extern "C" __global__ void k(float* y) { y[threadIdx.x] = m; }'
k = cupy.RawKernel(CODE, "k")
def f(x, y):
    k((1,), (32,), (y,))
"""
    (kernel,) = grab(text).kernels.values()
    assert ".managed" not in kernel.ptx["sm_90a"]
    assert ".global .align 4 .f32 m = 0f40A00000;" in kernel.ptx["sm_90a"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import cupyx.scipy.sparse", "do that work in a cupy.RawKernel"),
        ("y.fill(0)", "Writing to the argument 'y' in host code"),
        ("y.copy_to_device(np.zeros(1000))", "fill an array of your own"),
        ("cupy.ReductionKernel('T x', 'T y', 'x + _raw_x[0]', 'a + b', 'y = a', '0')(x)", "uses _raw_x"),
        ("cupy.ReductionKernel('T x', 'T y', '_in_ind.size()', 'a + b', 'y = a', '0')(x)", "uses _in_ind"),
        ("cupy.ElementwiseKernel('T x', 'T y', 'y = _raw_x[i]')(x)", "declare the array 'raw'"),
        ("raise AssertionError('Torch not compiled with CUDA enabled')", "puts a PyTorch tensor on the GPU"),
    ],
)
def test_what_host_code_cannot_do_is_one_sentence(body: str, words: str, refuse: Refuse) -> None:
    assert words in refuse(textwrap.dedent(f"import cupy\nimport numpy as np\ndef f(x, y):\n    {body}\n")).message
