"""What keeps a submission from the machine holds, in every way that this machine has, and the proof of it can fail."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plan.conftest import NUMBA, call
from tests.plan.good import GOOD
from tests.sampling import only_whole
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.submission import capture, child_process, escape_probe
from warplab.sandbox import isolation as ways
from warplab.sandbox.isolation import Isolation

pytestmark = pytest.mark.cold_captures

STRONG = (Isolation.BUBBLEWRAP, Isolation.LANDLOCK)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the limits on system calls are Linux's")


def require(isolation: Isolation) -> None:
    """Skip, saying why, where this machine has no such isolation."""
    fault = escape_probe.prove(isolation).fault
    if fault:
        pytest.skip(f"{isolation} does not work here: {fault}")


@pytest.mark.parametrize("isolation", STRONG)
def test_nothing_gets_out(isolation: Isolation, tmp_path: Path) -> None:
    require(isolation)
    classmate = tmp_path / "classmate" / "submission.py"
    classmate.parent.mkdir()
    classmate.write_text("x = 1")
    checkout = Path(__file__).resolve().parents[2]
    private = [classmate, classmate.parent, *(checkout / name for name in ("solutions", "autograder", "tests", "labs"))]
    assert escape_probe.prove(isolation, private, thorough=True) == escape_probe.Proof(isolation)


@linux
def test_reduced_isolation_is_called_so_because_files_are_open() -> None:
    """The attempts tell the difference; all else is kept even there."""
    proof = escape_probe.prove(Isolation.REDUCED, thorough=True)
    assert not proof.holds and set(proof.escapes) == {"read"}, proof


@linux
def test_the_attempts_notice_what_they_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the confinement every attempt succeeds, so one that fails means something."""
    disarm = "import warplab.sandbox.confinement as c\nc.limit_resources = lambda limits: None\n"
    disarm += "c.allow_system_calls = lambda role: True\nprogram.main()\n"
    monkeypatch.setattr(ways, "_BOOTSTRAP", ways._BOOTSTRAP.replace("program.main()\n", disarm))
    monkeypatch.setattr(escape_probe.child_process, "_end", lambda process: process.kill())
    real = ways._environment
    try:
        for seconds in (5.0, 25.0, 125.0):  # on a busy machine what should outlive may not have begun
            monkeypatch.setattr(escape_probe, "_ENDLESS_SECONDS", seconds)
            environments = iter([real("/tmp")])  # what the judge believes that it gives away
            monkeypatch.setattr(ways, "_environment", lambda f, e=environments: next(e, real(f) | {"SECRET": "1"}))
            proof = escape_probe.prove(Isolation.REDUCED, thorough=True)
            if "outlive" in proof.escapes:
                break
        assert set(proof.escapes) == set(escape_probe.ATTEMPTS), proof
    finally:
        for process in child_process.survivors():
            os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("isolation", Isolation)
def test_the_package_is_there_for_kernels_and_the_judge_is_not(
    isolation: Isolation, write: Callable[[str], Path]
) -> None:
    if isolation in STRONG:
        require(isolation)
    head = "from warplab import ptx\nimport warplab.ptx\n"
    head += "try:\n    import autograder\nexcept (ImportError, PermissionError):\n    pass\n"
    head += "else:\n    raise SystemExit\n" if isolation in STRONG else ""
    assert capture(write(head + GOOD), [call()], isolation=isolation)[0].launches


@pytest.mark.parametrize("isolation", STRONG)
def test_what_solves_a_lab_is_not_there_where_it_is_installed(
    isolation: Isolation, write: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of installed packages, with whatever finds modules put back as Python has it."""
    require(isolation)
    site = tmp_path / "site-packages"
    (site / "known-1.dist-info").mkdir(parents=True)
    for package in ("known", "systems/network", "systems/training"):
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").write_text("SCHEDULE = 1\n")
    packages = (*ways._packages(), str(site))
    monkeypatch.setattr(ways, "_packages", lambda: packages)
    tries = f"""
import sys
from importlib import import_module
from importlib.machinery import PathFinder
import known
sys.meta_path.append(PathFinder)
sys.path.append({str(site)!r})
for name in ("systems.network", "systems.training"):
    try:
        import_module(name)
    except (ImportError, PermissionError):
        continue
    raise SystemExit
try:
    open({str(site / "systems/network/__init__.py")!r})
except OSError:
    pass
else:
    raise SystemExit
"""
    assert capture(write(tries + GOOD), [call()], isolation=isolation)[0].launches


@pytest.mark.parametrize(
    ("isolation", "language"),
    [
        (Isolation.BUBBLEWRAP, "numba"),
        pytest.param(Isolation.BUBBLEWRAP, "cuda", marks=only_whole),
        pytest.param(Isolation.LANDLOCK, "numba", marks=only_whole),
        (Isolation.LANDLOCK, "cuda"),
    ],
)
def test_both_languages_compile_to_the_same_wherever_they_are_kept(
    isolation: Isolation, language: str, write: Callable[[str], Path]
) -> None:
    require(isolation)
    numba = (
        "@cuda.jit\ndef k(x, y):\n    i = cuda.grid(1)\n    if i < x.size:\n        y[i] = x[i]\n"
        "def f(x, y):\n    k[8, 128](x, y)\n"
    )
    path = write(NUMBA + numba if language == "numba" else GOOD)
    (plan,) = capture(path, [call()], isolation=isolation)
    (plain,) = capture(path, [call()], isolation=Isolation.REDUCED)
    assert [k.ptx for k in plan.kernels.values()] == [k.ptx for k in plain.kernels.values()]


def test_only_installations_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed warplab lies inside the installation; a checkout and a home never lie in what is shown."""
    checkout = Path(__file__).resolve().parents[2]
    for private in (checkout, Path.home().resolve(), checkout / "solutions"):
        assert not any(private == Path(shown) or Path(shown) in private.parents for shown in ways.readable())
    monkeypatch.setattr(ways, "root", lambda: Path(sys.prefix) / "lib" / "python3" / "site-packages")
    assert {sys.prefix, f"{sys.prefix}/lib"} & set(ways.readable())  # a part of it, where it is the system's
    monkeypatch.setenv("CUDA_HOME", str(Path.home()))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/:relative:{Path.home().parent}:{tmp_path}")
    shown = ways.readable()
    assert str(tmp_path) in shown and not {"/", "relative", str(Path.home()), str(Path.home().parent)} & set(shown)


# What tries them all, and says which were allowed.
TRY = """
import os
allowed = []
for attempt in ATTEMPTS:
    try:
        exec(attempt)
    except EXCEPTION:
        continue
    allowed.append(attempt)
raise SystemError(f"allowed: {allowed}")
"""
CHANGES = [
    "open('new', 'w')",
    "os.open('.', os.O_TMPFILE | os.O_RDWR)",
    "os.mkdir('folder')",
    "os.symlink('submission.py', 'link')",
    "os.link('submission.py', 'link')",
    "os.mkfifo('pipe')",
    "os.unlink('submission.py')",
    "os.rename('submission.py', 'other')",
    "os.truncate('submission.py', 1 << 40)",
    "os.chmod('submission.py', 0o777)",
    "os.utime('submission.py', (0, 0))",
    "os.setxattr('submission.py', 'user.a', b'b')",
    "os.chmod(os.__file__, 0o777)",
    "os.posix_fallocate(os.open('submission.py', os.O_RDWR), 0, 1 << 30)",
]
SYSTEM_CALLS = [
    "__import__('subprocess').run(['true'])",
    "os.execv('/bin/true', ['true'])",
    "os.posix_spawn('/bin/true', ['true'], {})",
    "__import__('socket').socketpair()[0].connect(('127.0.0.1', 1))",
    "__import__('socket').socket(__import__('socket').AF_UNIX)",
    "__import__('threading').Thread(target=print).start()",
    "os.memfd_create('x')",
    "os.kill(1, 0)",
    "os.kill(0, 9)",
    "os.kill(-1, 9)",
    "os.setsid()",
    "os.unshare(0x10000000) if hasattr(os, 'unshare') else 1 / 0",
    "os.chroot('/')",
    "open('/proc/1/environ')",
    "__import__('resource').prlimit(1, 7)",
    "os.setuid(12345)",
]


def attempted(attempts: list[str], exception: str, isolation: Isolation, write: Callable[[str], Path]) -> str:
    """What a submission says that makes these attempts, each of which must raise the exception."""
    text = TRY.replace("ATTEMPTS", repr(attempts)).replace("EXCEPTION", exception)
    with pytest.raises(CaptureFailure) as caught:
        capture(write(text), [call()], isolation=isolation)
    assert caught.value.status is CaptureStatus.IMPORT_ERROR, caught.value.message
    return caught.value.message


@linux
@pytest.mark.parametrize("isolation", Isolation)
def test_a_capture_changes_no_file(isolation: Isolation, write: Callable[[str], Path]) -> None:
    """Nothing to fill a disk, a table of inodes or a tree with, named or not, in any isolation."""
    if isolation in STRONG:
        require(isolation)
    said = attempted(CHANGES, "OSError", isolation, write)
    assert said == "submission.py raises SystemError: allowed: []."


@linux
def test_system_calls_that_no_capture_needs_fail(write: Callable[[str], Path]) -> None:
    said = attempted(SYSTEM_CALLS, "Exception", escape_probe.strongest(), write)
    assert said == "submission.py raises SystemError: allowed: []."


@linux
def test_attempts_that_are_allowed_are_named(write: Callable[[str], Path]) -> None:
    """So that those above, which name none, mean something."""
    said = attempted(["os.getpid()", "os.execv('/bin/true', ['true'])"], "Exception", Isolation.REDUCED, write)
    assert said == "submission.py raises SystemError: allowed: ['os.getpid()']."


@linux
def test_a_capture_that_something_kills_is_started_again(write: Callable[[str], Path]) -> None:
    """The first two processes are killed from outside; the verdict is the submission's own."""
    path = write("import time\ntime.sleep(0.5)\n" + GOOD)
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < 2:
            for process in set(child_process.survivors()) - set(killed):
                killed.append(process)
                os.kill(process, signal.SIGKILL)
                break
            time.sleep(0.05)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    (plan,) = capture(path, [call()], isolation=Isolation.REDUCED)
    assert plan.launches and len(killed) == 2


def test_a_process_that_does_not_start_is_no_fault_of_the_submission(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import sys; sys.exit('no room')"
    monkeypatch.setattr(ways, "python_command", lambda what: [sys.executable, "-c", program])
    with pytest.raises(child_process.CaptureFault, match="no room"):
        capture(write(GOOD), [call()], isolation=Isolation.REDUCED)
    assert escape_probe.prove(Isolation.BUBBLEWRAP).fault
