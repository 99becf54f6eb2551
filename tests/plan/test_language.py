"""The language of a kernel, whatever the capture process says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from warplab.plan.capture.submission import capture
from warplab.plan.language import language_of
from warplab.plan.model import ArrayArgument, HostCall, Kernel, Language, Role

pytestmark = pytest.mark.processes

NUMBA = """
from numba import cuda

{decorator}
def kernel(out):
    out[cuda.grid(1)] = cuda.grid(1)

def fill(out):
    kernel[1, 32](out)
"""
CUDA = '''
import cupy

module = cupy.RawModule(code=r"""{code}""", name_expressions={expressions})

def fill(out):
    module.get_function("{name}")((1,), (32,), (out,))
'''
PLAIN = 'extern "C" __global__ void kernel(float* out) { out[threadIdx.x] = threadIdx.x; }'
MANGLED = "template <int N> __global__ void kernel(float* out) { out[threadIdx.x] = N; }"
SPACED = "namespace numba { __global__ void kernel(float* out) { out[threadIdx.x] = 1; } }"


def kernel_of(text: str, folder: Path) -> Kernel:
    path = folder / "submission.py"
    path.write_text(text)
    call = HostCall("fill", (ArrayArgument("out", "float32", (32,), Role.OUTPUT),))
    (plan,) = capture(path, [call], ("sm_80", "sm_90a"))
    (kernel,) = plan.kernels.values()
    return kernel


@pytest.mark.parametrize(
    "decorator", ["@cuda.jit", "@cuda.jit(lineinfo=True)", "@cuda.jit(fastmath=True, max_registers=32)"]
)
def test_numba(decorator: str, tmp_path: Path) -> None:
    kernel = kernel_of(NUMBA.format(decorator=decorator), tmp_path)
    assert kernel.language is language_of(kernel) is Language.NUMBA


@pytest.mark.parametrize(
    ("code", "name"), [(PLAIN, "kernel"), (MANGLED, "kernel<3>"), (SPACED, "numba::kernel")], ids=str
)
def test_cuda(code: str, name: str, tmp_path: Path) -> None:
    expressions = repr(None if code is PLAIN else [name])
    kernel = kernel_of(CUDA.format(code=code, name=name, expressions=expressions), tmp_path)
    assert kernel.language is language_of(kernel) is Language.CUDA_CPP


def test_what_the_capture_process_says_is_not_believed(tmp_path: Path) -> None:
    honest = kernel_of(CUDA.format(code=PLAIN, name="kernel", expressions="None"), tmp_path)
    assert language_of(replace(honest, language=Language.NUMBA)) is Language.CUDA_CPP


def test_numbas_functions_of_half_precision_change_nothing(tmp_path: Path) -> None:
    """They come by another linker, which drops what the kernel does not use."""
    text = NUMBA.replace("from numba import cuda", "import numpy as np\nfrom numba import cuda")
    text = text.replace("= cuda.grid(1)", "= np.float16(cuda.grid(1)) * np.float16(out[0])")
    kernel = kernel_of(text.format(decorator="@cuda.jit"), tmp_path)
    assert kernel.language is language_of(kernel) is Language.NUMBA
