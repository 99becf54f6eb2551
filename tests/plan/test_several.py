"""One capture process for two requests of a submission: each comes out as in a process of its own, and what the first
runs learns nothing of the second, and leaves nothing for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from warplab.plan.capture import child_process
from warplab.plan.capture.escape_probe import strongest
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.protocol import Request, decode_response
from warplab.plan.capture.several_process import CaptureProcess, CaptureProcesses
from warplab.plan.model import ArrayArgument, HostCall, Role, ScalarArgument
from warplab.sandbox.isolation import Isolation

pytestmark = [
    pytest.mark.processes,
    pytest.mark.cold_captures,
    pytest.mark.skipif(strongest() is Isolation.REDUCED, reason="nothing keeps captures from each other here"),
]

NUMBA = """
from numba import cuda
@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]
def twice(x, out):
    double[(x.shape[0] + 63) // 64, 64](x, out)
"""
CUPY = '''
import cupy
kernel = cupy.RawKernel(r"""extern "C" __global__ void f(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }""", "f")
def twice(x, out):
    kernel(((x.size + 63) // 64,), (64,), (x, out, cupy.int32(x.size)))
'''


def request(text: str, size: int, seconds: int = 30) -> Request:
    arrays = (ArrayArgument("x", "float32", (size,), Role.INPUT), ArrayArgument("out", "float32", (size,), Role.OUTPUT))
    return Request(text, "submission.py", (HostCall("twice", arrays),), ("sm_90a",), seconds)


def outcome(run, asked: Request, timeout: float = 60.0) -> object:
    """The launches of the plans, or the failure's words."""
    try:
        (plan,) = decode_response(run(asked, strongest(), timeout), asked)
    except CaptureFailure as failure:
        return failure.status, failure.message, failure.line
    return [(launch.grid, launch.block) for launch in plan.launches], len(plan.kernels)


@pytest.fixture
def process() -> Iterator[CaptureProcess]:
    with CaptureProcess() as process:
        yield process
    assert not child_process.survivors()


@pytest.mark.parametrize("text", [NUMBA, CUPY], ids=["numba", "cupy"])
def test_each_request_comes_out_as_alone_and_the_second_takes_no_new_process(
    text: str, process: CaptureProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [request(text, 100), request(text, 1000)]
    alone = [outcome(child_process.run, one) for one in asked]
    monkeypatch.setattr(child_process, "run", None)  # what goes wrong is carried out there
    assert [outcome(process.run, one) for one in asked] == alone
    assert alone[0] != alone[1]


def test_one_process_is_kept_for_all_texts_that_import_the_same() -> None:
    with CaptureProcesses() as kept:
        assert kept.for_text(NUMBA) is kept.for_text("import numba") is not kept.for_text(CUPY)
        assert outcome(kept.for_text(NUMBA).run, request(NUMBA, 100)) == ([((2, 1, 1), (64, 1, 1))], 1)
        assert child_process.survivors()
    assert not child_process.survivors()


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('why')",
        "import os; os.kill(os.getpid(), 11)",
        "import os; os._exit(0)",
        "import sys; sys.exit(3)",
        "print('x' * (1 << 20), flush=True); raise ValueError('said much')",
        "while True: print('x' * (1 << 20), flush=True)",
        "return [0] * (1 << 40)",
    ],
)
def test_what_goes_wrong_comes_out_as_alone(body: str, process: CaptureProcess) -> None:
    asked = request(f"def twice(x, out):\n    {body}\n", 100)
    alone = outcome(child_process.run, asked)
    assert outcome(process.run, asked) == alone
    assert outcome(process.run, asked) == alone  # what the first did is nothing to the second


def test_a_loop_ends_with_its_time_and_the_next_request_has_its_own(process: CaptureProcess) -> None:
    spent: list[float] = []
    asked = request("def twice(x, out):\n    while x.shape[0] == 100:\n        pass\n", 100, seconds=3)
    with pytest.raises(CaptureFailure, match="used up its time"):
        process.run(asked, strongest(), 60.0, spent.append)
    assert 2.5 < sum(spent) < 5
    assert outcome(process.run, request(NUMBA, 100)) == outcome(child_process.run, request(NUMBA, 100))


def test_one_that_sleeps_too_long_is_ended(process: CaptureProcess) -> None:
    asked = request("import time\ndef twice(x, out):\n    time.sleep(60)\n", 100)
    with pytest.raises(CaptureFailure, match="did not finish within 2 s"):
        process.run(asked, strongest(), 2.0)


_REACH = """
import ctypes, os
library = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    if getattr(library, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)

def wrote(place):
    with open(place, "wb") as opened:
        opened.write(b"x")

parent = os.getppid()
buffer = ctypes.create_string_buffer(64)
local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
remote = (ctypes.c_void_p * 2)(id(os), 64)
attempts = {
    "ends its parent": lambda: os.kill(parent, 9),
    "asks for its parent": lambda: os.kill(parent, 0),
    "reads its memory": lambda: call("process_vm_readv", parent, local, 1, remote, 1, 0),
    "writes its memory": lambda: call("process_vm_writev", parent, local, 1, remote, 1, 0),
    "traces it": lambda: call("ptrace", 16, parent, 0, 0),
    "opens its memory": lambda: os.open(f"/proc/{parent}/mem", os.O_RDONLY),
    "lists its descriptors": lambda: os.listdir(f"/proc/{parent}/fd"),
    "takes a descriptor": lambda: call("syscall", 434, parent, 0),
    "forks": lambda: os.fork(),
    "leaves a file": lambda: wrote("left"),
    "leaves a file in /tmp": lambda: wrote("/tmp/left"),
    "changes its file": lambda: wrote("submission.py"),
    "makes memory that is shared": lambda: call("shmget", 77, 4096, 0o1600),
}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
    except Exception:
        continue
    done.append(name)
if os.read(0, 1):
    done.append("reads requests")
for number in range(4, 256):
    try:
        os.fstat(number)
    except OSError:
        continue
    done.append(f"has descriptor {number}")

def twice(x, out):
    raise ValueError("reached: " + ", ".join(done))
"""


def test_a_child_reaches_neither_its_parent_nor_the_next(process: CaptureProcess) -> None:
    """Descriptor 3 is the pipe of its own answer."""
    for size in (100, 1000):
        _, message, _ = outcome(process.run, request(_REACH, size))  # type: ignore[misc]
        assert message.endswith("raises ValueError: reached:."), message


def test_a_process_that_was_killed_costs_nothing(process: CaptureProcess) -> None:
    alone = outcome(child_process.run, request(NUMBA, 100))
    assert outcome(process.run, request(NUMBA, 100)) == alone
    assert process._process is not None
    process._process.kill()
    assert outcome(process.run, request(NUMBA, 100)) == alone


def test_a_function_with_numbers_is_called_with_them(process: CaptureProcess) -> None:
    call = HostCall("twice", (ScalarArgument("n", 3),))
    asked = Request("def twice(n):\n    raise ValueError(n)\n", "a.py", (call,), ("sm_90a",), 30)
    _, message, line = outcome(process.run, asked)  # type: ignore[misc]
    assert message == "'twice' raises ValueError: 3." and line == 2
