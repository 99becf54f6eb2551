"""Numba submissions: what is recorded equals what numba-cuda's own launcher would pass to the driver."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import warplab
from tests.plan.conftest import NUMBA, Grab, Refuse, X, Y
from warplab.plan import archive
from warplab.plan.assemble import assemble
from warplab.plan.capture.arrays import CapturedArray
from warplab.plan.capture.failure import CaptureStatus
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Language, Plan, Pointer, Role, ScalarArgument, Value

pytestmark = pytest.mark.processes

ADDRESS = 0x7F00_0000_0000


def passed(plan: Plan, launch: int = 0) -> list[bytes]:
    """The bytes of each kernel argument, with every buffer at ADDRESS."""
    result = []
    for argument in plan.launches[launch].arguments:
        if isinstance(argument, Pointer):
            result.append((ADDRESS + argument.offset).to_bytes(8, "little"))
        else:
            result.append(argument.to_bytes())
    return result


def expected(numba_types: list[Any], values: list[Any]) -> list[bytes]:
    """The same from numba-cuda's own `_prepare_args`, given arrays that lie at ADDRESS."""
    from numba.cuda.args import ArgHint
    from numba.cuda.dispatcher import _Kernel

    class OnDevice(ArgHint):
        def to_device(self, retr: list, stream: int = 0) -> Any:
            array = self.value
            layout = SimpleNamespace(strides_in_bytes=array.strides)
            return SimpleNamespace(
                size=array.size, dtype=array.dtype, ptr=ADDRESS + array._offset, shape=array.shape, _layout=layout
            )

    kernel = _Kernel.__new__(_Kernel)
    kernel.extensions = []
    prepared: list[Any] = []
    for ty, value in zip(numba_types, values, strict=True):
        value = OnDevice(value) if hasattr(value, "_offset") else value
        kernel._prepare_args(ty, value, 0, [], prepared)
    return [bytes(v) if isinstance(v, ctypes._SimpleCData) else _plain(v) for v in prepared]


def _plain(value: int | bool) -> bytes:
    # cuda.core passes a Python bool as one byte and an int as a pointer-sized integer.
    return bytes([value]) if isinstance(value, bool) else int(value).to_bytes(8, "little", signed=True)


def view(shape: tuple, strides: tuple, dtype: str, offset: int = 0) -> CapturedArray:
    from warplab.plan.capture.arrays import argument_array

    array = argument_array("a", dtype, shape, Role.INPUT)
    return CapturedArray(array._storage, offset, shape, strides, np.dtype(dtype))


@pytest.mark.smoke
def test_arguments_are_those_of_numbas_own_launcher(grab: Grab) -> None:
    from numba.cuda import types as t

    plan = grab(
        NUMBA
        + """
@cuda.jit
def k(c, sub, t, n, v, i8, u16, h, s, d, b, z, tup):
    if n > 0:
        t[0, 0] = c[0, 0] + sub[0, 0] + v + s + d + h + tup[1] + z.real

def f(x, y):
    k[(2, 3), (4, 5, 6), 0, 64](x, x[1:, ::2], x.T, -7, 2.5, np.int8(-3), np.uint16(65535), np.float16(0.1),
                                np.float32(0.1), np.float64(0.1), True, np.complex64(1 + 2j), (3, 4.5, np.int32(-1)))
""",
        ArrayArgument("x", "float32", (5, 8), Role.INOUT),
        Y,
    )
    (launch,) = plan.launches
    assert (launch.grid, launch.block, launch.shared_bytes) == ((2, 3, 1), (4, 5, 6), 64)
    f4 = t.float32
    numba_types = [t.Array(f4, 2, "C"), t.Array(f4, 2, "A"), t.Array(f4, 2, "F"), t.int64, t.float64, t.int8, t.uint16]
    numba_types += [t.float16, f4, t.float64, t.boolean, t.complex64, t.Tuple([t.int64, t.float64, t.int32])]
    values = [
        view((5, 8), (32, 4), "float32"),
        view((4, 4), (32, 8), "float32", 32),
        view((8, 5), (4, 32), "float32"),
        *(-7, 2.5, np.int8(-3), np.uint16(65535), np.float16(0.1), np.float32(0.1), np.float64(0.1), True),
        *(np.complex64(1 + 2j), (3, 4.5, np.int32(-1))),
    ]
    assert passed(plan) == expected(numba_types, values)
    kernel = plan.kernels["k"]
    assert [p.size for p in kernel.parameters] == [len(b) for b in passed(plan)]
    names = "c c c c c c c c c sub sub sub sub sub sub sub sub sub t t t t t t t t t n v i8 u16 h s d b z z tup tup tup"
    assert [p.name for p in kernel.parameters] == [a.parameter for a in launch.arguments] == names.split()


def test_a_declared_signature_converts_scalars(grab: Grab) -> None:
    from numba.cuda import types as t

    plan = grab(
        NUMBA
        + """
@cuda.jit("void(float32, uint8, float32[:], float32[::1])")
def k(a, n, x, y):
    y[0] = a * x[0] + n

def f(x, y):
    k[1, 1](2, 300, x, y)
"""
    )
    array = t.Array(t.float32, 1, "A")
    a = view((1000,), (4,), "float32")
    assert passed(plan) == expected([t.float32, t.uint8, array, array], [2, 300, a, a])


def test_several_declared_signatures_choose_by_type(grab: Grab) -> None:
    plan = grab(
        NUMBA
        + """
@cuda.jit(["void(float32, float32[:])", "void(int32, float32[:])", "void(int32, float64[:])"])
def k(a, y):
    y[0] = a

def f(x, y):
    k[1, 1](np.int32(2), y)
    k[1, 1](np.float32(2), y)
"""
    )
    assert [launch.arguments[0].dtype for launch in plan.launches] == ["int32", "float32"]  # type: ignore[union-attr]
    assert len(plan.kernels) == 2 and {k.name for k in plan.kernels.values()} == {"k"}


@pytest.mark.parametrize("arguments", ["y.view(np.int32)", "y.reshape(10, 100)", "3", "y[::2]"])
def test_an_array_that_no_signature_takes_is_a_launch_error(arguments: str, refuse: Refuse) -> None:
    text = NUMBA + "@cuda.jit('void(float32[::1])')\ndef k(y):\n    y[0] = 1\ndef f(x, y):\n    k[1, 1](ARG)\n"
    failure = refuse(text.replace("ARG", arguments))
    assert failure.status is CaptureStatus.LAUNCH_ERROR
    assert "fits none" in failure.message


def test_kernels_launches_scratch_and_lines(grab: Grab) -> None:
    plan = grab(
        """
        import numpy as np
        from numba import cuda, float32
        TILE, PITCH = 32, 33
        TABLE = np.arange(4, dtype=np.float32)

        @cuda.jit(device=True, inline=True)
        def twice(v):
            return 2 * v

        def make(scale):
            @cuda.jit(
                fastmath=True,
            )
            def scaled(x, y):
                s = cuda.shared.array((TILE, PITCH), float32)
                d = cuda.shared.array(0, float32)
                l = cuda.local.array(4, float32)
                c = cuda.const.array_like(TABLE)
                i = cuda.grid(1)
                s[cuda.threadIdx.x, 0] = x[i]
                d[cuda.threadIdx.x] = x[i]
                l[i % 4] = x[i]
                cuda.syncthreads()
                y[i] = scale * twice(s[0, cuda.threadIdx.x]) + d[0] + l[1] + c[i % 4]
            return scaled

        half, double = make(0.5), make(2.0)
        kept = cuda.device_array((3, 4), np.float16)

        @cuda.jit
        def other(z, w):
            w[0] = z[0, 0]

        def f(x, y):
            unused = cuda.device_array(7)
            tmp = cuda.device_array_like(x)
            half[2, 32, 0, 128](x, tmp)
            double[2, 32, 0, 128](
                tmp, y
            )
            other.forall(1000)(kept, tmp)
            other.forall(10, tpb=64)(cuda.device_array((2, 2), order="F").T, y)
            cuda.synchronize()
        """
    )
    assert list(plan.kernels) == ["scaled", "scaled_2", "other", "other_2"]
    assert [plan.kernels[k].line for k in plan.kernels] == [15, 15, 32, 32]
    assert [launch.line for launch in plan.launches] == [38, 39, 42, 43]
    assert [launch.grid[0] * launch.block[0] for launch in plan.launches] == [64, 64, 1024, 64]
    assert {n: b.role for n, b in plan.buffers.items()} == {
        "x": Role.INPUT,
        "y": Role.OUTPUT,
        "scratch0": Role.SCRATCH,
        "scratch1": Role.SCRATCH,
        "scratch2": Role.SCRATCH,
    }
    assert plan.buffers["scratch1"].dtype == "float16" and plan.buffers["scratch1"].shape == (3, 4)
    assert plan.buffers["scratch2"].strides == (8, 16)
    assert [a.buffer for a in plan.launches[0].arguments if isinstance(a, Pointer)] == ["x", "scratch0"]
    for kernel in plan.kernels.values():
        assert kernel.language is Language.NUMBA
        assert '.file\t1 "submission.py"' in kernel.ptx["sm_90a"] and "/tmp" not in kernel.ptx["sm_90a"]


def test_options_reach_the_code(grab: Grab) -> None:
    plan = grab(
        NUMBA
        + """
def body(x, y):
    i = cuda.grid(1)
    y[i] = x[i] / y[i] + x[i]

plain = cuda.jit(body)
fast = cuda.jit(fastmath=True, lineinfo=True)(body)
few = cuda.jit(max_registers=24)(body)
bounded = cuda.jit(launch_bounds=(128, 2))(body)
debug = cuda.jit(debug=True, opt=False)(body)

def f(x, y):
    for k in (plain, fast, few, bounded, debug):
        k[1, 32](x, y)
"""
    )
    plain, fast, few, bounded, debug = (k.ptx["sm_90a"] for k in plan.kernels.values())
    assert "div.approx" not in plain and "div.approx" in fast
    # Numba links fastmath kernels by LTO, which drops flush-to-zero from sums (seen on an H100).
    assert "add.f32" in fast and "add.ftz.f32" not in fast
    assert ".maxnreg 24" in few and ".maxnreg" not in plain
    assert ".maxntid 128" in bounded and ".minnctapersm 2" in bounded
    assert "__errcode__" not in debug and all(".loc" in p for p in (plain, fast, few, bounded, debug))


def test_a_kernel_made_in_each_call_keeps_its_name_and_code(grab: Grab) -> None:
    text = (
        NUMBA
        + """
def made(step):
    @cuda.jit(device=True)
    def add(v):
        return v + step

    @cuda.jit(cache=True)
    def k(x, y):
        i = cuda.grid(1)
        y[i] = add(x[i])
    return k

def f(x, y):
    for step in (1, 1, 2):
        made(step)[1, 32](x, y)
"""
    )
    plan = grab(text)
    first, second, other = (plan.kernels[launch.kernel] for launch in plan.launches)
    assert first.ptx == second.ptx and first.entry == second.entry
    assert other.ptx != first.ptx


def test_launch_bounds_hold(refuse: Refuse) -> None:
    text = NUMBA + "@cuda.jit(launch_bounds=64)\ndef k(y):\n    y[0] = 1\ndef f(x, y):\n    k[1, 96](y)\n"
    failure = refuse(text)
    assert failure.status is CaptureStatus.LAUNCH_ERROR and "64" in failure.message and failure.line == 7


def test_each_architecture_has_its_code(grab: Grab) -> None:
    text = NUMBA + "@cuda.jit\ndef k(y):\n    y[0] = 1\ndef f(x, y):\n    k[1, 1](y)\n"
    plan = grab(text, architectures=("sm_80", "sm_90a"))
    ptx = plan.kernels["k"].ptx
    assert ".target sm_80" in ptx["sm_80"] and ".target sm_90a" in ptx["sm_90a"]


def test_eight_calls_compile_once(write: Any) -> None:
    path = write(
        NUMBA
        + """
from numba.cuda import compiler

compile_cuda, compilations = compiler.compile_cuda, 0

def counted(*arguments, **options):
    global compilations
    compilations += 1
    return compile_cuda(*arguments, **options)

compiler.compile_cuda = counted

@cuda.jit
def k(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i]

imports = 0
def f(a, x, y):
    global imports
    imports += 1
    k[imports, 32 * (1 + compilations)](np.float32(a), x, y)
"""
    )
    calls = [
        HostCall(
            "f",
            (
                ScalarArgument("a", n / 2),
                ArrayArgument("x", "float32", (n,), Role.INPUT),
                ArrayArgument("y", "float32", (n,), Role.OUTPUT),
            ),
        )
        for n in range(8)
    ]
    plans = capture(path, calls)
    assert len({k.ptx["sm_90a"] for p in plans for k in p.kernels.values()}) == 1
    assert [p.launches[0].grid[0] for p in plans] == [1, 2, 3, 4, 5, 6, 7, 8]  # one process, imported once
    assert [p.launches[0].block[0] for p in plans] == [32] + [64] * 7  # compiled by the first one alone
    assert [p.buffers["x"].shape for p in plans] == [(n,) for n in range(8)]
    assert [p.launches[0].arguments[0] for p in plans] == [Value("float32", n / 2, "a") for n in range(8)]


def test_views_are_numpys(grab: Grab) -> None:
    """Offsets, shapes and strides of views against NumPy's, for the same expressions."""
    expressions = [
        *("a[1]", "a[-1, 2:5]", "a[::2, ::-1]", "a[1:1]", "a[..., 3]", "a[None, 2]", "a.T[3:]", "a.reshape(-1, 2)[5]"),
        *("a.ravel()[7:9]", "a[2].view(np.uint16)", "a.transpose(1, 0)[::3]", "a[3:, 1]", "a.view(np.int32)[0]"),
        *("a[4][None]", "a.reshape(4, 2, 6)[1:, ..., ::2]", "a[-3:-1, -2:]", "a[100:]"),
    ]
    lines = "\n".join(f"    k[1, 1]({e})" for e in expressions)
    text = NUMBA + "@cuda.jit\ndef k(v):\n    v.size\ndef f(a):\n" + lines + "\n"
    plan = grab(text, ArrayArgument("a", "float32", (6, 8), Role.INOUT))
    a = np.zeros((6, 8), np.float32)
    for expression, launch in zip(expressions, plan.launches, strict=True):
        truth = eval(expression, {"a": a, "np": np})
        size, _, pointer, *rest = launch.arguments[2:]
        offset = truth.__array_interface__["data"][0] - a.__array_interface__["data"][0]
        assert isinstance(pointer, Pointer) and isinstance(size, Value)
        assert size.value == truth.size, expression
        if truth.size:
            assert pointer.offset == offset, expression
        shape = tuple(v.value for v in rest[: truth.ndim])  # type: ignore[union-attr]
        strides = tuple(v.value for v in rest[truth.ndim :])  # type: ignore[union-attr]
        assert shape == truth.shape, expression
        same = all(n <= 1 or s == t for n, s, t in zip(shape, strides, truth.strides, strict=True))
        assert same or not truth.size, expression


def test_types_follow_the_layout(grab: Grab) -> None:
    """The same kernel launched with C, F and other layouts is three kernels, as it is in Numba."""
    text = (
        NUMBA + "@cuda.jit\ndef k(v):\n    v[0, 0] = 1\ndef f(a):\n    for v in (a, a.T, a[::2], a[2:], a[None, 0]):\n"
    )
    plan = grab(text + "        k[1, 1](v)\n", ArrayArgument("a", "float32", (6, 8), Role.OUTPUT))
    # a[None, 0] has one row and is contiguous both ways: C comes first, except that its zero stride makes it A.
    assert [launch.kernel for launch in plan.launches] == ["k", "k_2", "k_3", "k", "k_3"]


def test_default_arguments_and_prints_do_no_harm(grab: Grab) -> None:
    text = (
        NUMBA + "print('hello')\n@cuda.jit\ndef k(y):\n    y[0] = 1\ndef f(x, y, n=3):\n    print(x)\n    k[n, 1](y)\n"
    )
    assert grab(text).launches[0].grid == (3, 1, 1)
    assert grab(text, X, Y, ScalarArgument("n", 5)).launches[0].grid == (5, 1, 1)


def test_half_precision_and_reshape_are_inlined(grab: Grab) -> None:
    """Numba leaves these to its linker; the plan's PTX is whole all the same, with lines, for each architecture."""
    plan = grab(
        NUMBA
        + """
@cuda.jit
def half(x, y):
    i = cuda.grid(1)
    acc = np.float16(0)
    for j in range(8):
        acc += np.float16(x[i]) * np.float16(x[j])
    y[i] = acc + cuda.fp16.hexp(np.float16(x[i]))

@cuda.jit(max_registers=40)
def shaped(x, y):
    y[0] = x.reshape((10, 100))[cuda.grid(1), 3]

def f(x, y):
    half[1, 32](x, y)
    shaped[1, 32](x, y)
""",
        architectures=("sm_80", "sm_90a"),
    )
    for architecture in ("sm_80", "sm_90a"):
        half, shaped = (k.ptx[architecture] for k in plan.kernels.values())
        for ptx in (half, shaped):
            assert ".extern .func" not in ptx.replace(".extern .func  (.param .b32 func_retval0) vprintf", "")
            assert f".target {architecture}" in ptx and ptx.count(".entry") == 1 and '"submission.py"' in ptx
            assert "/numba" not in ptx
        assert "mul.f16" in half or "fma.rn.f16" in half
        assert ".maxnreg 40" in shaped
    assembled = assemble(plan, "sm_90a")
    assert assembled.kernels["shaped"].cubins["sm_90a"].registers <= 40


def test_what_waits_for_the_whole_grid_is_launched_so(grab: Grab) -> None:
    """Numba's device runtime is outside of a plan: the barrier is that of cooperative groups, in the kernel's code."""
    plan = grab(
        """
        import cupy
        from numba import cuda

        @cuda.jit
        def k(y):
            grid = cuda.cg.this_grid()
            y[cuda.grid(1)] = 1
            grid.sync()
            y[cuda.grid(1)] += y[0]

        @cuda.jit
        def plain(y):
            y[0] = 1

        CODE = '#include <cooperative_groups.h>\\nextern "C" __global__ void c(float* y) {' \
               ' cooperative_groups::this_grid().sync(); y[0] = 1; }'
        c = cupy.RawKernel(CODE, "c", enable_cooperative_groups=True)
        of_module = cupy.RawModule(code=CODE, enable_cooperative_groups=True).get_function("c")

        def f(x, y):
            k[2, 32](y)
            plain[1, 32](y)
            c((2,), (32,), (y,))
            of_module((2,), (32,), (y,))
        """
    )
    assert [launch.cooperative for launch in plan.launches] == [True, False, True, True]
    text = plan.kernels["k"].ptx["sm_90a"]
    assert "%envreg" in text and "cudaCG" not in "".join(line for line in text.splitlines() if ".extern" in line)
    assert [launch.cooperative for launch in archive.loads(archive.dumps(plan)).launches] == [True, False, True, True]


def test_the_code_is_the_same_in_every_process(grab: Grab) -> None:
    """Else nothing that was made of it before would be found again, not even for the hidden cases of one grade."""
    text = (
        NUMBA
        + """
@cuda.jit(device=True)
def last(x):
    return x + 1

def link(k, after):
    @cuda.jit(device=True)
    def step(x):
        return after(x) * k + last(x)
    return step

steps = [link(k, last) for k in range(6)]
a, b, c, d, e, f_ = [link(k, step) for k, step in enumerate(steps)]

@cuda.jit
def k(x, y):
    y[0] = a(x[0]) + b(x[1]) + c(x[2]) + d(x[3]) + e(x[4]) + f_(x[5])

def f(x, y):
    k[1, 1](x, y)
"""
    )
    first, *others = [grab(text).kernels["k"].ptx["sm_90a"] for _ in range(3)]
    assert first.count("NumbaEnv") >= 13
    assert all(other == first for other in others)


def test_one_module_knows_numba_cudas_insides() -> None:
    imports = re.compile(r"^\s*(?:from|import) (numba\.cuda\.\S+)|^\s*from numba\.cuda import", re.MULTILINE)
    root = Path(warplab.__file__).parent
    found = [path for path in root.rglob("*.py") if imports.search(path.read_text(encoding="utf-8"))]
    # inline.py takes what numba-cuda documents for extensions: intrinsic and types.
    assert sorted(path.name for path in found) == ["inline.py", "insides.py"]


def test_a_number_for_a_vectorised_function_is_one_number_in_the_plan(grab: Grab) -> None:
    """Numba broadcasts it to an array of the others' shape: here of 4 MiB, where a plan holds 1 MiB of host data."""
    large = [ArrayArgument(name, "float32", (1 << 20,), Role.INOUT) for name in "xy"]
    text = """
from numba import vectorize
@vectorize(["float32(float32, float32)"], target="cuda")
def scaled(a, x):
    return a * x

def f(x, y):
    scaled(2.0, x, out=y)
"""
    plan = grab(text, *large)
    (held,) = (b for b in plan.buffers.values() if b.role is Role.SCRATCH)
    assert held.shape == (1 << 20,) and held.content == np.float32(2).tobytes()
