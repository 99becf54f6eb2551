"""What a hostile submission can do to the capture: waste its own time, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plan.conftest import call
from tests.plan.good import GOOD
from warplab.plan.capture import child_process
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.submission import capture
from warplab.plan.model import Plan

pytestmark = pytest.mark.cold_captures


def attempt(write: Callable[[str], Path], text: str, timeout: float = 60.0) -> CaptureFailure:
    with pytest.raises(CaptureFailure) as caught:
        capture(write(text), [call()], timeout=timeout)
    return caught.value


ANSWERS = [
    "b''",
    "b'not json'",
    "b'{}\\n'",
    "b'null\\n'",
    "b'[' * 100000",
    "b'{\"plans\": [5]}\\nabcde'",
    "b'{\"plans\": [-5]}\\n'",
    "b'{\"plans\": []}\\n'",
    "b'{\"plans\": [1e99]}\\n'",
    "b'{\"plans\": [99999999999999999999999]}\\n'",
    'b\'{"status": "correct", "message": "x", "line": 1}\\n\'',
    'b\'{"status": "host error", "message": 3, "line": 1}\\n\'',
    'b\'{"status": "host error", "message": "x"}\\n\'',
]
FORGE = """
import os, sys
for fd in range(3, 20):
    try:
        os.write(fd, ANSWER)
    except OSError:
        pass
os._exit(0)
"""


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_forged_answer_is_no_answer(answer: str, write: Callable[[str], Path]) -> None:
    failure = attempt(write, FORGE.replace("ANSWER", answer))
    assert failure.status is CaptureStatus.CRASHED
    assert len(failure.message) < 500


def test_a_forged_message_cannot_write_to_the_terminal(write: Callable[[str], Path]) -> None:
    text = 'b\'{"status": "host error", "message": "\\\\u001b[2Jhi\\\\u202e\\\\nthere", "line": -3, '
    text += '"original": "a\\\\u001b[2Jb\\\\nc"}\\n\''
    failure = attempt(write, FORGE.replace("ANSWER", text))
    assert failure.original == "a [2Jb\nc"
    assert (failure.status, failure.message, failure.line) == (CaptureStatus.HOST_ERROR, "[2Jhi there", None)


PATCH = """
import dataclasses
import warplab.plan.capture.protocol as protocol
from warplab.plan.model import *
real = protocol.archive.dumps
def with_buffer(plan, buffer):
    return dataclasses.replace(plan, buffers={**plan.buffers, buffer.name: buffer})
def dumps(plan):
    return real(EDIT)
protocol.archive.dumps = dumps
"""


@pytest.mark.parametrize(
    "edit",
    [
        "dataclasses.replace(plan, function='g')",
        "dataclasses.replace(plan, source='import os')",
        "dataclasses.replace(plan, source_name='../x.py')",
        "dataclasses.replace(plan, launches=())",
        "with_buffer(plan, Buffer('y', Role.INPUT, 'float32', (1000,), (4,)))",
        "with_buffer(plan, Buffer('y', Role.OUTPUT, 'float32', (1000,), (4,), True))",
        "with_buffer(plan, Buffer('z', Role.OUTPUT, 'int8', (4,), (1,)))",
        "with_buffer(plan, Buffer('x', Role.INPUT, 'float32', (2000,), (4,)))",
        "dataclasses.replace(plan, kernels={k: dataclasses.replace(v, ptx={'sm_80': v.ptx['sm_90a']}) "
        "for k, v in plan.kernels.items()})",
        "dataclasses.replace(plan, kernels={k: dataclasses.replace(v, cubins={'sm_90a': "
        "Cubin(b'\\x7fELF', 1, 0, 0, 0, 0)}) for k, v in plan.kernels.items()})",
    ],
)
def test_a_plan_of_something_else_is_refused(edit: str, write: Callable[[str], Path]) -> None:
    failure = attempt(write, PATCH.replace("EDIT", edit) + GOOD)
    assert failure.status is CaptureStatus.CRASHED and "no usable answer" in failure.message


def test_what_the_submission_leaves_running_is_ended(write: Callable[[str], Path], tmp_path: Path) -> None:
    text = f"""
import os, time
try:
    if os.fork() == 0:
        with open({str(tmp_path / "pid")!r}, "w") as f:
            f.write(str(os.getpid()))
        time.sleep(600)
except OSError:
    pass  # the limit on processes
def f(x, y):
    time.sleep(600)
"""
    start = time.monotonic()
    failure = attempt(write, text, timeout=1.5)
    assert failure.status is CaptureStatus.TIMEOUT and time.monotonic() - start < 300
    if (tmp_path / "pid").exists():
        child = int((tmp_path / "pid").read_text())
        for _ in range(50):
            try:
                os.kill(child, 0)
            except ProcessLookupError:
                return
            # A killed orphan stays a zombie until it is reaped; that is not running.
            if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.1)
        raise AssertionError("the forked process still runs")


def test_what_outlives_the_process_does_not_hold_the_answer(write: Callable[[str], Path]) -> None:
    text = """
import os, time
try:
    if os.fork() == 0:
        time.sleep(600)
except OSError:
    pass
"""
    start = time.monotonic()
    assert capture(write(text + GOOD), [call()])[0].launches
    assert time.monotonic() - start < 300


def test_an_answer_that_never_ends_is_cut(write: Callable[[str], Path]) -> None:
    text = """
import os
while True:
    for fd in range(3, 7):
        try:
            os.write(fd, b"x" * 65536)
        except OSError:
            pass
"""
    assert attempt(write, text, timeout=20).status in (CaptureStatus.RESOURCES, CaptureStatus.TIMEOUT)


def test_the_judges_environment_and_folder_are_not_the_submissions(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_SEED", "1234")
    root = str(Path(__file__).resolve().parents[2])
    # A checkout below /tmp, which is the submission's folder in a sandbox, is seen there by its first folder's name.
    own = Path(root).parts[2:3] if Path(root).parts[1] == "tmp" else ()
    text = (
        "import os, sys\n"
        "assert 'SECRET_SEED' not in os.environ\n"
        f"assert {root!r} not in sys.path and os.getcwd() != {os.getcwd()!r}\n"
        f"assert set(os.listdir('.')) - {set(own)!r} == {{'submission.py'}}, os.listdir('.')\n"
        "assert os.environ['CUDA_VISIBLE_DEVICES'] == ''\n"
        "try:\n    import autograder\n"
        "except (ModuleNotFoundError, PermissionError):  # not there, or not to be read\n    pass\n"
        "assert sys.argv == ['submission.py']\n"
    )
    assert capture(write(text + GOOD), [call()])[0].launches


def test_descriptors_of_the_judge_are_closed(write: Callable[[str], Path], tmp_path: Path) -> None:
    secret = open(tmp_path / "secret", "w+")  # noqa: SIM115
    os.set_inheritable(secret.fileno(), True)
    text = (
        "import os\n"
        "for fd in range(3, 100):\n"
        "    try: name = os.readlink(f'/proc/self/fd/{fd}')\n"
        "    except OSError: continue\n"
        "    assert 'secret' not in name\n"
    )
    assert capture(write(text + GOOD), [call()])[0].launches
    secret.close()


def test_swapping_the_modules_changes_only_the_submissions_own_process(write: Callable[[str], Path]) -> None:
    text = "import json, zipfile, struct\njson.dumps = lambda *a, **k: 'x'\nzipfile.ZipFile = None\n"
    assert attempt(write, text + GOOD).status in (CaptureStatus.CRASHED, CaptureStatus.HOST_ERROR)
    assert capture(write(GOOD), [call()])[0].launches


def test_threads_and_exit_handlers_cannot_hold_the_answer(write: Callable[[str], Path]) -> None:
    text = (
        "import atexit, threading, time\n"
        "atexit.register(time.sleep, 600)\n"
        "try: threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "except RuntimeError: pass\n"
    )
    start = time.monotonic()
    plan: Plan = capture(write(text + GOOD), [call()])[0]
    assert plan.launches and time.monotonic() - start < 300


def test_a_submission_that_kills_itself(write: Callable[[str], Path]) -> None:
    failure = attempt(write, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert failure.status is CaptureStatus.CRASHED and "SIGKILL" in failure.message


def test_capture_works_from_any_folder_and_a_bare_path(tmp_path: Path, write: Callable[[str], Path]) -> None:
    """The checkout need not be installed: a parent that only has it in sys.path can capture."""
    path = write(GOOD)
    root = Path(__file__).resolve().parents[2]
    program = (
        f"import sys; sys.path.insert(0, {str(root)!r})\n"
        "from pathlib import Path\nfrom warplab.plan.capture.submission import capture\n"
        "from warplab.plan.model import *\n"
        "a = ArrayArgument('x', 'float32', (4,), Role.INPUT), ArrayArgument('y', 'float32', (4,), Role.OUTPUT)\n"
        f"print(len(capture(Path({str(path)!r}), [HostCall('f', a)])))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr


def test_processor_time_is_a_limit_too(write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that the wall clock would only end much later; it is not started again, as what something killed is."""
    monkeypatch.setattr(child_process, "PROCESSOR_SECONDS", 2)
    failure = attempt(write, "def f(x, y):\n    while True: pass\n", timeout=600.0)
    assert failure.status is CaptureStatus.TIMEOUT and "2 s of a processor" in failure.message
