"""`warplab.run`: functions of a module, closures, cells of a notebook, kernels alone; what comes back."""

from __future__ import annotations

import subprocess
import sys
import threading

import cupy
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from numba import cuda

import warplab
from tests.own_kernels.helper_kernels import square, stride
from warplab.own_kernels.run import OwnCodeError
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.processes

X = np.arange(64, dtype=np.float32)


@cuda.jit
def scale(x, factor, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * factor  # LINE scale


CODE = r"""
extern "C" __global__ void half(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / 2;  // LINE half
}
"""
half = cupy.RawKernel(CODE, "half")


def line_of(mark: str) -> str:
    """The line of this file that ends in a mark, as text."""
    with open(__file__) as file:
        return next(line.strip() for line in file if line.rstrip().endswith(f"LINE {mark}"))


def counted(result, number: int) -> str:
    """A line of the result's source."""
    return result.plan.source.splitlines()[number - 1].strip()


def through_the_device(x, factor):
    d_x = cuda.to_device(x)
    d_out = cuda.device_array_like(d_x)
    scale[2, 32](d_x, factor, d_out)
    return {"all": d_out.copy_to_host(), "part": (d_out[::3], factor)}


@pytest.mark.cold_captures
def test_a_host_function_copies_launches_and_returns() -> None:
    result = warplab.run(through_the_device, X, factor=3)
    assert np.array_equal(result.returned["all"], 3 * X)
    assert np.array_equal(result.returned["part"][0], 3 * X[::3]) and result.returned["part"][1] == 3
    assert result.findings == () and result.outputs == {} and result.stdout == ""
    assert {counted(result, line) for line, c in result.lines.items() if c.global_load_requests} == {line_of("scale")}
    assert result.counters.global_load_requests == 2 and result.counters.global_load_sectors == 8


def test_arrays_at_a_launch_come_back_and_the_callers_stay() -> None:
    def on_arrays(x, out):
        scale[2, 32](x, 2, out)
        out2 = np.zeros_like(out)
        scale[2, 32](out, 2, out2)
        return out2

    x, out = X.copy(), np.zeros(64, np.float32)
    result = warplab.run(on_arrays, x, out)
    assert np.array_equal(result.outputs["out"], 2 * X) and np.array_equal(result.returned, 4 * X)
    assert np.array_equal(x, X) and not out.any()
    assert "x: float32[64], unchanged" in str(result) and "out: float32[64]\n" in str(result)


def test_a_copy_into_a_host_array_and_a_closure() -> None:
    factors = [np.float32(5)]

    def closed(x):
        out = np.empty_like(x)
        d = cuda.to_device(out.reshape(8, 8, order="F"))
        scale[1, 64](x.reshape(8, 8)[0], factors[0], d[0])
        whole = np.empty((8, 8), np.float32, order="F")
        d.copy_to_host(whole)
        return whole

    assert np.array_equal(warplab.run(closed, X).returned[0], 5 * X[:8])


@pytest.mark.parametrize("kernel", ["numba", "cupy"])
def test_a_kernel_alone_with_its_grid_and_block(kernel: str) -> None:
    out = np.zeros(64, np.float32)
    if kernel == "numba":
        result = warplab.run(scale, X, 0.5, out, grid=2, block=32)
    else:
        result = warplab.run(half, X, out, np.int32(64), grid=(2, 1), block=32)
    found = result.outputs["out" if kernel == "numba" else "argument1"]
    assert np.array_equal(found, X / 2)
    lines = [counted(result, line) for line, c in result.lines.items() if c.global_store_requests]
    assert lines == [line_of("scale" if kernel == "numba" else "half")]


def test_cupy_arrays_inside_the_function() -> None:
    def with_cupy(x):
        x, out = cupy.asarray(x), cupy.empty(64, cupy.float32)
        half((2,), (32,), (x, out, 64))
        return cupy.asnumpy(out), out.get()

    for found in warplab.run(with_cupy, X).returned:
        assert np.array_equal(found, X / 2)


def test_a_source_that_lies_in_no_file_is_listed_itself() -> None:
    code = "\n".join(['extern "C" __global__ void k(float* y)', "{", "    y[threadIdx.x] = 2;", "}"])
    result = warplab.run(cupy.RawKernel(code, "k"), np.zeros(32, np.float32), grid=1, block=32)
    assert np.all(result.outputs["argument0"] == 2)
    assert [counted(result, n) for n, c in result.lines.items() if c.global_store_requests] == ["y[threadIdx.x] = 2;"]


def test_kernels_of_several_files_are_one_listing() -> None:
    def both(x, out):
        scale[2, 32](x, 1, out)
        stride[2, 32](x, out, 8)

    result = warplab.run(both, X, np.zeros(64, np.float32))
    assert np.array_equal(result.outputs["out"], X[np.arange(64) * 8 % 64] ** 2)
    loads = {counted(result, line) for line, c in result.lines.items() if c.global_load_requests}
    assert loads == {line_of("scale"), "out[i] = square(x[i * step % x.size])"}
    assert "from helper_kernels.py" in result.plan.source
    assert square.py_func(3) == 9


def test_cells_of_a_notebook() -> None:
    shell = InteractiveShell()
    cells = [
        "import numpy as np\nimport cupy\nfrom numba import cuda\nimport warplab\nSIZE = 48",
        "@cuda.jit(device=True)\ndef clipped(v):\n    return min(v, 10.0)",
        "@cuda.jit\ndef clip(x, out):\n    i = cuda.grid(1)\n    out[i] = clipped(x[i])  # no guard",
        "TEXT = r'''\nextern \"C\" __global__ void one(float* y) {\n    y[threadIdx.x] = 1;  // here\n}\n'''",
        "one = cupy.RawKernel(TEXT, 'one')",
        "def host(x):\n    out = cuda.device_array(SIZE, np.float32)\n    clip[2, 32](x, out)\n"
        "    one((1,), (4,), (out,))\n    return out",
        "result = warplab.run(host, np.arange(SIZE, dtype=np.float32))",
    ]
    for cell in cells:
        shell.run_cell(cell).raise_error()
    result = shell.user_ns["result"]
    expected = np.minimum(np.arange(48), 10)
    expected[:4] = 1
    assert np.array_equal(result.returned, expected)
    (read, write) = sorted(result.findings, key=lambda finding: finding.array)
    assert read.kind is write.kind is FindingKind.OUT_OF_BOUNDS
    assert counted(result, read.line) == "out[i] = clipped(x[i])  # no guard"
    assert read.line == 4  # the kernel's cell comes first, and keeps its own lines
    stores = {counted(result, line) for line, c in result.lines.items() if c.global_store_requests}
    assert "y[threadIdx.x] = 1;  // here" in stores
    page = result._repr_html_()
    assert "out of bounds" in page and "clipped(x[i])" in page and "<table" in page


def test_a_profile_and_a_seed() -> None:
    result = warplab.run(through_the_device, X, 2, seed=7)
    profile = result.profile(block=(1, 0, 0))
    assert profile.block == (1, 0, 0) and [counted(result, line) for line in profile.lines()] == [line_of("scale")]
    assert "global load sectors" in str(result.table()) and line_of("scale") in str(result.source())


LOCK = threading.Lock()
REFUSED = {
    "a kernel without a grid": (scale, (X,), {}, "pass grid=... and block=..."),
    "half of a launch": (scale, (X,), {"grid": 1}, "both"),
    "no launch": (lambda: None, (), {}, "launched no kernel"),
    "an exception": (lambda x: x[100], (X,), {}, "IndexError"),
    "a lock": (lambda: LOCK, (), {}, "cannot pickle"),
    "an exit": (lambda: __import__("os")._exit(3), (), {}, "exit code 3"),
    "too long": (lambda: __import__("time").sleep(60), (), {"timeout": 3.0}, "3 s"),
}


def as_users_have_it(what: str):
    """Mark what depends on how the process starts and ends."""
    return pytest.param(what, marks=pytest.mark.cold_captures) if what in ("an exit", "too long") else what


@pytest.mark.parametrize("what", list(map(as_users_have_it, REFUSED)))
def test_what_cannot_be_run_is_one_sentence(what: str) -> None:
    function, arguments, keywords, words = REFUSED[what]
    with pytest.raises(OwnCodeError) as caught:
        warplab.run(function, *arguments, **keywords)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value._render_traceback_() == [f"warplab.run: {caught.value}"]


def reads_on_the_host(x):
    d = cuda.to_device(x)
    scale[2, 32](d, 2, d)
    return float(d.copy_to_host()[0] + 1)  # LINE reads


def copies_too_early(x):
    d = cuda.to_device(x)
    scale[2, 32](d, 2, d)
    first = d.copy_to_host()
    scale[2, 32](d, 2, d)  # LINE early
    return first


@pytest.mark.parametrize(
    ("function", "mark", "words"),
    [(reads_on_the_host, "reads", "return the array"), (copies_too_early, "early", "last")],
)
def test_what_is_not_known_while_recording_is_refused_with_its_line(function, mark: str, words: str) -> None:
    with pytest.raises(OwnCodeError) as caught:
        warplab.run(function, X)
    with open(__file__) as file:
        number = next(n for n, line in enumerate(file, start=1) if line.rstrip().endswith(f"LINE {mark}"))
    assert str(caught.value).startswith(f"Line {number} of test_run.py: ") and words in str(caught.value)


def sums_what_a_kernel_wrote(x, out):
    scale[2, 32](x, 2, out)
    return out.sum()


def clears_between_launches(x, out):
    scale[2, 32](x, 2, out)
    out[:] = 0
    scale[1, 32](x, 3, out)


def prints_what_a_kernel_wrote(x, out):
    scale[2, 32](x, 2, out)
    print(out[1])


@pytest.mark.parametrize("function", [sums_what_a_kernel_wrote, clears_between_launches, prints_what_a_kernel_wrote])
def test_host_code_that_uses_what_a_kernel_changed_is_refused(function) -> None:
    with pytest.raises(OwnCodeError, match=r"uses an array \(out\) after a launch that changes it"):
        warplab.run(function, X, np.zeros(64, np.float32))


def test_host_code_may_use_what_no_kernel_changes_and_draw_numbers(capsys) -> None:
    def drawn(x, out):
        noise = np.random.default_rng().standard_normal(64).astype(np.float32)
        scale[2, 32](noise, 2, out)
        print("sum", x.sum(), noise.size)
        return noise

    result = warplab.run(drawn, X, np.zeros(64, np.float32))
    assert np.array_equal(result.outputs["out"], 2 * result.returned)
    assert capsys.readouterr().out == f"sum {X.sum()} 64\n"


def test_importing_warplab_is_light() -> None:
    text = "import sys, warplab; print([m for m in ('numpy', 'numba', 'cupy', 'cloudpickle') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError):
        warplab.walk  # noqa: B018


@cuda.jit(debug=True, opt=False)
def divides(a, b, out):
    i = cuda.threadIdx.x
    out[i] = a[i] // b[i]  # LINE divides


@cuda.jit(debug=True, opt=False)
def divides_floats(a, b, out):
    i = cuda.threadIdx.x
    out[i] = a[i] / b[i]  # LINE quotient


@pytest.mark.parametrize(
    ("kernel", "dtype", "mark"), [(divides, np.int32, "divides"), (divides_floats, np.float32, "quotient")]
)
def test_a_zero_divisor_in_a_debug_build_stops_at_its_line(kernel, dtype: type, mark: str) -> None:
    """As Numba's error model "python", which debug=True chooses; the host would raise ZeroDivisionError."""
    divisors = np.where(np.arange(32) == 5, 0, 2).astype(dtype)
    result = warplab.run(kernel, np.arange(32, dtype=dtype), divisors, np.zeros(32, dtype), grid=1, block=32)
    (finding,) = result.findings
    assert finding.kind is FindingKind.TRAP and counted(result, finding.line) == line_of(mark)
    assert finding.thread == (5, 0, 0)


@cuda.jit(fastmath=True)
def fast_sum(x, out):
    out[cuda.grid(1)] = x[cuda.grid(1)] + x[cuda.grid(1)]


def test_fastmath_keeps_subnormal_sums_as_numbas_linker_does() -> None:
    small = np.full(32, 1e-40, np.float32)
    result = warplab.run(fast_sum, small, np.zeros(32, np.float32), grid=1, block=32)
    assert np.array_equal(result.outputs["out"], small + small)


NOBODY_NEEDS = r"""
extern "C" __global__ void stores(int* a) {
    __shared__ int s[2];
    s[0] = threadIdx.x;  // LINE store
}
extern "C" __global__ void loads(int* a) {
    int x = a[threadIdx.x + 32];  // LINE load
}
"""


@cuda.jit
def stores_twice(a):
    a[cuda.threadIdx.x + 32] = 1  # LINE lost
    a[cuda.threadIdx.x + 32] = 2


@pytest.mark.parametrize(
    ("name", "mark", "kind"), [("stores", "store", FindingKind.RACE), ("loads", "load", FindingKind.OUT_OF_BOUNDS)]
)
def test_faults_of_what_nobody_needs_are_found_without_optimisation(name: str, mark: str, kind: FindingKind) -> None:
    """In CUDA C++ either by `optimise=False` or by the kernel's own option; -dopt=on has it optimised all the same."""

    def found(*options: str, optimise: bool = True) -> list:
        kernel = cupy.RawKernel(NOBODY_NEEDS, name, options)
        result = warplab.run(kernel, np.zeros(32, np.int32), grid=1, block=64, optimise=optimise)
        return [(f.kind, counted(result, f.line)) for f in result.findings]

    assert found() == []
    for accused in (found("-G"), found(optimise=False), found("-dopt=on", optimise=False)):
        assert accused and set(accused) == {(kind, line_of(mark))}


def test_a_numba_kernel_without_optimisation_keeps_a_store_that_another_overwrites() -> None:
    for optimise, lines in ((True, 1), (False, 2)):
        result = warplab.run(stores_twice, np.zeros(32, np.int32), grid=1, block=32, optimise=optimise)
        assert len({finding.line for finding in result.findings}) == lines
        assert all(finding.kind is FindingKind.OUT_OF_BOUNDS for finding in result.findings)


def test_unoptimised_code_computes_the_same() -> None:
    """Calls that are not inlined, variables in local memory, and loops as they are written."""
    code = r"""
    __device__ __noinline__ float next(float v, int n) { return v * 0.5f + n; }
    struct Pair { float a, b; };
    __device__ Pair swapped(Pair p) { Pair q; q.a = p.b; q.b = p.a; return q; }
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ float t[64];
        Pair p = swapped(Pair{x[threadIdx.x], 2.0f});
        for (int n = 0; n < 5; n++) p.b = next(p.b, n);
        t[threadIdx.x] = p.a * p.b;
        __syncthreads();
        y[threadIdx.x] = t[63 - threadIdx.x] + __shfl_xor_sync(0xffffffffu, p.b, 1);
    }
    """
    kernel = cupy.RawKernel(code, "k")

    def run(x, y):
        y = cupy.asarray(y)
        kernel((1,), (64,), (cupy.asarray(x), y))
        return y.get()

    first, second = (warplab.run(run, X, np.zeros_like(X), optimise=optimise) for optimise in (True, False))
    assert not second.findings
    assert first.returned.any()
    np.testing.assert_array_equal(first.returned, second.returned)
