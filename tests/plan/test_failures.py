"""Every way in which a submission can be wrong ends in its own status, one sentence, and the right line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plan.conftest import NUMBA, Grab, Refuse, call
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.submission import capture

pytestmark = pytest.mark.processes

# How the host code ends a process, and a kernel of each language, as users have it; the rest in warm captures.
COLD = pytest.mark.cold_captures

KERNEL = NUMBA + (
    "@cuda.jit\n"  # line 3
    "def k(x, y):\n"
    "    i = cuda.grid(1)\n"
    "    if i < y.size:\n"
    "        y[i] = x[i]\n"
    "def f(x, y):\n"  # line 8
)
CPP = (
    "import cupy as cp\n"
    "import numpy as np\n"
    'CODE = r"""\n'  # line 3
    "// a comment\n"
    'extern "C" __global__ void k(const float* x, float* y, int n, float a) {\n'  # line 5
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = a * x[i];\n"
    "}\n"
    '"""\n'
    "k = cp.RawKernel(CODE, 'k')\n"  # line 10
    "def f(x, y):\n"
)

HOST = {
    "syntax": ("def f(x, y)\n    pass\n", CaptureStatus.SYNTAX_ERROR, 1, "expected ':'"),
    "indentation": ("def f(x, y):\npass\n", CaptureStatus.SYNTAX_ERROR, 2, "indented"),
    "import": ("import numpy\n\n1 / 0\n", CaptureStatus.IMPORT_ERROR, 3, "division by zero"),
    "import name": ("from numpy import nothing\n", CaptureStatus.IMPORT_ERROR, 1, "cannot import name 'nothing'"),
    "module": ("import no_such_module\n", CaptureStatus.IMPORT_ERROR, 1, "no_such_module"),
    "no function": ("def g(x, y):\n    pass\n", CaptureStatus.NO_FUNCTION, None, "'f'"),
    "not a function": ("f = 3\n", CaptureStatus.NO_FUNCTION, None, "int"),
    "a kernel": (NUMBA + "@cuda.jit\ndef f(x, y):\n    pass\n", CaptureStatus.NO_FUNCTION, None, "f(x, y)"),
    "arity": ("\ndef f(x):\n    pass\n", CaptureStatus.ARGUMENT_MISMATCH, 2, "f(x, y)"),
    "exception": ("def f(x, y):\n    z = {}\n    z[3]\n", CaptureStatus.HOST_ERROR, 3, "KeyError: 3"),
    "deep": ("def f(x, y):\n    f(x, y)\n", CaptureStatus.HOST_ERROR, 2, "without end"),
    "exit": ("import sys\ndef f(x, y):\n    sys.exit(0)\n", CaptureStatus.HOST_ERROR, 3, "exit"),
    "os exit": ("import os\ndef f(x, y):\n    os._exit(0)\n", CaptureStatus.CRASHED, None, "ended the process"),
    "abort": ("import os\ndef f(x, y):\n    os.abort()\n", CaptureStatus.CRASHED, None, "SIGABRT"),
    "memory": ("def f(x, y):\n    bytearray(1 << 40)\n", CaptureStatus.RESOURCES, 2, "memory"),
    "prints": ("def f(x, y):\n    while True: print('x' * 9999)\n", CaptureStatus.RESOURCES, None, "prints"),
    "nothing": (KERNEL + "    pass\n", CaptureStatus.NO_LAUNCH, None, "launched no kernel"),
    "absurd kernel": (
        "import cupy\nk = cupy.RawKernel('extern \"C\" __global__ void ' + 'k' * 2000 + '() {}', 'k' * 2000)\n"
        "def f(x, y):\n    k((1,), (1,), ())\n",
        CaptureStatus.UNSUPPORTED,
        None,
        "no usable plan",
    ),
    "own str": (
        "class E(Exception):\n    def __str__(self): raise ValueError\ndef f(x, y):\n    raise E()\n",
        CaptureStatus.HOST_ERROR,
        4,
        "raises E",
    ),
}
LAUNCH = {
    "threads": (KERNEL + "    k[1, 2048](x, y)\n", CaptureStatus.LAUNCH_ERROR, 9, "2048 threads"),
    "block z": (KERNEL + "    k[1, (1, 1, 65)](x, y)\n", CaptureStatus.LAUNCH_ERROR, 9, "z may be at most 64"),
    "zero grid": (KERNEL + "    k[0, 32](x, y)\n", CaptureStatus.LAUNCH_ERROR, 9, "round up"),
    "float grid": (KERNEL + "    k[x.size / 32, 32](x, y)\n", CaptureStatus.LAUNCH_ERROR, 9, "//"),
    "four dims": (KERNEL + "    k[(1, 1, 1, 1), 32](x, y)\n", CaptureStatus.LAUNCH_ERROR, 9, "4 dimensions"),
    "unconfigured": (KERNEL + "    k(x, y)\n", CaptureStatus.LAUNCH_ERROR, 9, "k[grid, block]"),
    "one argument": (KERNEL + "    k[1, 32](x)\n", CaptureStatus.LAUNCH_ERROR, 9, "takes 2 arguments"),
    "a string": (KERNEL + "    k[1, 32](x, object())\n", CaptureStatus.LAUNCH_ERROR, 9, "Argument 2"),
    "dynamic shared": (KERNEL + "    k[1, 32, 0, 300000](x, y)\n", CaptureStatus.LAUNCH_ERROR, 9, "232448"),
    "static shared": (
        KERNEL.replace("y[i] = x[i]", "s = cuda.shared.array(16000, np.float32); s[i] = x[i]; y[i] = s[i + 1]")
        + "    k[1, 32](x, y)\n",
        CaptureStatus.LAUNCH_ERROR,
        9,
        "49152",
    ),
    "cpp default shared": (
        CPP + "    k((1,), (32,), (x, y, 1, np.float32(2)), shared_mem=49153)\n",
        CaptureStatus.LAUNCH_ERROR,
        12,
        "max_dynamic_shared_size_bytes = 49153",
    ),
    "cpp count": (CPP + "    k((1,), (32,), (x, y))\n", CaptureStatus.LAUNCH_ERROR, 12, "4 parameters"),
    "cpp float": (CPP + "    k((1,), (32,), (x, y, 1, 2.0))\n", CaptureStatus.LAUNCH_ERROR, 12, "np.float32"),
    "cpp int for float": (CPP + "    k((1,), (32,), (x, y, 1, 2))\n", CaptureStatus.LAUNCH_ERROR, 12, "'a'"),
    "cpp wide int": (
        CPP + "    k((1,), (32,), (x, y, np.int64(1), np.float32(2)))\n",
        CaptureStatus.LAUNCH_ERROR,
        12,
        "np.int32",
    ),
    "cpp large int": (
        CPP + "    k((1,), (32,), (x, y, 1 << 32, np.float32(2)))\n",
        CaptureStatus.LAUNCH_ERROR,
        12,
        "does not fit",
    ),
    "cpp array for int": (
        CPP + "    k((1,), (32,), (x, y, x, np.float32(2)))\n",
        CaptureStatus.LAUNCH_ERROR,
        12,
        "'n'",
    ),
    "cpp no tuple": (CPP + "    k((1,), (32,), x)\n", CaptureStatus.LAUNCH_ERROR, 12, "tuple"),
}
COMPILE = {
    "name": (KERNEL.replace("x[i]", "foo(x[i])") + "    k[1, 32](x, y)\n", 7, "'foo' is not defined"),
    "attribute": (KERNEL.replace("x[i]", "x[i].bar") + "    k[1, 32](x, y)\n", 7, "a number (float32) has no .bar"),
    "types": (KERNEL.replace("x[i]", "x[i] + 'a'") + "    k[1, 32](x, y)\n", 7, "add(float32, Literal[str](a))"),
    "index": (
        KERNEL.replace("y[i] =", "y[i, 0] =") + "    k[1, 32](x, y)\n",
        7,
        "an array of 1 dimension is indexed with 2",
    ),
    "return": (KERNEL.replace("y[i] = x[i]", "return 1") + "    k[1, 32](x, y)\n", 7, "cannot return a value"),
    "module attribute": (KERNEL.replace("x[i]", "cuda.gird(1)") + "    k[1, 32](x, y)\n", 7, "gird"),
    "undefined": (KERNEL.replace("x[i]", "z\n        z = 1") + "    k[1, 32](x, y)\n", 7, "'z' is not defined"),
    "shared size": (
        KERNEL.replace("y[i] = x[i]", "s = cuda.shared.array(i, np.float32)") + "    k[1, 32](x, y)\n",
        7,
        "cuda.shared.array must be a constant",
    ),
    "eager": (
        NUMBA + "@cuda.jit('void(float32[:], float32[:])')\ndef k(x, y):\n    y[0] = bar\n"
        "def f(x, y):\n    k[1, 1](x, y)\n",
        5,
        "'bar' is not defined",
    ),
    "cpp": (
        CPP.replace("a * x[i]", "a * z[i]") + "    k((1,), (32,), (x, y, 1, np.float32(2)))\n",
        7,
        "'z' is not defined",
    ),
    "cpp built": (
        CPP.replace("a * x[i]", "a * WHAT[i]").replace("(CODE,", "(CODE.replace('WHAT', 'z'),")
        + "    k((1,), (32,), (x, y, 1, np.float32(2)))\n",
        7,
        "'z' is not defined",
    ),
    "cpp name": (
        CPP.replace("'k')", "'kk')") + "    k((1,), (32,), (x, y, 1, np.float32(2)))\n",
        3,
        "defines no kernel 'kk'",
    ),
    "cpp mangled": (
        CPP.replace('extern "C" ', "") + "    k((1,), (32,), (x, y, 1, np.float32(2)))\n",
        3,
        'extern "C"',
    ),
    "cpp tensor map": (
        CPP.replace("int n,", "const __grid_constant__ CUtensorMap n,")
        + "    k((1,), (32,), (x, y, 1, np.float32(2)))\n",
        5,
        "#include <cuda.h>",
    ),
    "cpp own header": (
        CPP.replace("// a comment", '#include "mine.h"') + "    k((1,), (32,), (x, y, 1, np.float32(2)))\n",
        4,
        "put the text of headers of your own into the source",
    ),
    "cpp external": (
        CPP.replace("// a comment", 'extern "C" __device__ float g(float);').replace("a * x[i]", "g(x[i])")
        + "    k((1,), (32,), (x, y, 1, np.float32(2)))\n",
        3,
        "calls g",
    ),
}
UNSUPPORTED = {
    "copy_to_host": (KERNEL + "    k[1, 32](x, y)\n    y.copy_to_host()\n", 10, "judge reads the outputs"),
    "arithmetic": (KERNEL + "    x = x + 1\n", 9, "Arithmetic"),
    "device query": (KERNEL + "    cuda.get_current_device()\n", 9, "without a GPU"),
    "external stream": (KERNEL + "    cuda.external_stream(1)\n", 9, "cuda.stream()"),
    "numpy array": (CPP + "    k((1,), (1,), (np.ones(3), y, 1, np.float32(2)))\n", 12, "cupy.asarray"),
    "cupy stream": ("import cupy\ndef f(x, y):\n    cupy.cuda.ExternalStream(1)\n", 3, "cupy.cuda.Stream()"),
    "cupy function": ("import cupy\ndef f(x, y):\n    cupy.matmul(x, x, out=y)\n", 3, "cupy.matmul"),
    "cupyx": ("import cupyx\n", 1, "cupyx"),
    "cupy texture": (
        "import cupy\ndef f(x, y):\n    cupy.cuda.texture.TextureDescriptor()\n",
        3,
        "no textures and surfaces",
    ),
    "cupy device": ("import cupy\ndef f(x, y):\n    cupy.cuda.Device().attributes\n", 3, "without a GPU"),
}


@pytest.mark.parametrize("name", [*(pytest.param(name, marks=COLD) for name in HOST), *LAUNCH])
def test_a_wrong_host_program_has_its_status_and_line(name: str, refuse: Refuse) -> None:
    text, status, line, words = {**HOST, **LAUNCH}[name]
    failure = refuse(text)
    assert (failure.status, failure.line) == (status, line), failure.message
    assert words in failure.message


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=COLD) if name in ("name", "cpp") else name for name in COMPILE]
)
def test_a_kernel_that_does_not_compile_says_why_and_where(name: str, refuse: Refuse) -> None:
    text, line, words = COMPILE[name]
    failure = refuse(text)
    assert (failure.status, failure.line) == (CaptureStatus.COMPILE_ERROR, line), failure.message
    assert words in failure.message


@pytest.mark.parametrize("name", list(UNSUPPORTED))
def test_what_a_plan_cannot_hold_says_what_to_do_instead(name: str, refuse: Refuse) -> None:
    text, line, words = UNSUPPORTED[name]
    failure = refuse(text)
    assert (failure.status, failure.line) == (CaptureStatus.UNSUPPORTED, line), failure.message
    assert words in failure.message


@COLD
def test_an_endless_loop_ends_in_time(refuse: Refuse) -> None:
    failure = refuse("def f(x, y):\n    while True: pass\n", timeout=1.0)
    assert failure.status is CaptureStatus.TIMEOUT
    assert "1 s" in failure.message


def test_an_array_of_an_earlier_call_is_refused(write: Grab) -> None:
    text = KERNEL.replace("def f(x, y):", "seen = []\ndef f(x, y):") + "    seen.append(x)\n    k[1, 32](seen[0], y)\n"
    with pytest.raises(CaptureFailure) as caught:
        capture(write(text), [call(), call()])
    assert caught.value.status is CaptureStatus.UNSUPPORTED
    assert "earlier call" in caught.value.message


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"\x80\x02\xff\xfe", CaptureStatus.NOT_PYTHON),
        (b"x = 1\0", CaptureStatus.NOT_PYTHON),
        (b"#" * (2 << 20), CaptureStatus.NOT_PYTHON),
        (b"(" * 100_000, CaptureStatus.SYNTAX_ERROR),
    ],
)
def test_a_file_that_is_not_python(content: bytes, status: CaptureStatus, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(content)
    with pytest.raises(CaptureFailure) as caught:
        capture(path, [call()])
    assert caught.value.status is status


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path, status in ((tmp_path / "no.py", CaptureStatus.NOT_FOUND), (tmp_path, CaptureStatus.NOT_PYTHON)):
        with pytest.raises(CaptureFailure) as caught:
            capture(path, [call()])
        assert caught.value.status is status
