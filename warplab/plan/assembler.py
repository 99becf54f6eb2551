"""Runs the assembler on one PTX text, bounded: in a folder, an environment and a process group of its own. The
disassembler (`disassembler.py`) runs in the same way.

PTX is a stranger's. ptxas has no directive that reads or writes a file (.file only names one), and what it prints goes
to a file, so that nothing which it does grows in the judge's memory.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warplab.errors import PlanError

FLAGS = ("-O3", "--generate-line-info")
# The kernels of the course take a second and 89 MiB at most, their machine code 280 KiB.
_MEMORY = 4 << 30  # bytes of address space
_FILE = 16 << 20  # bytes of machine code, and of what is printed
_LOG = 4 << 20  # bytes of what is printed that are read
_KEPT = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "SYSTEMROOT")  # of the environment

# nvJitLink reads options only as a library call, so it runs in a process of its own, like ptxas.
_JITLINK = """
import sys
from cuda.bindings import nvjitlink as j
arch, source, target = sys.argv[1:]
ptx = open(source, "rb").read()
options = ["-arch=" + arch, "-O3", "-lineinfo", "-verbose"]
handle = j.create(len(options), options)
failed = False
try:
    j.add_data(handle, j.InputType.PTX, ptx, len(ptx), source)
    j.complete(handle)
except j.nvJitLinkError:
    failed = True
for size, log in ((j.get_info_log_size, j.get_info_log), (j.get_error_log_size, j.get_error_log)):
    text = bytearray(size(handle))
    log(handle, text)
    sys.stdout.write(text.rstrip(b"\\0 ").decode("utf-8", "replace") + "\\n")
if failed:
    sys.exit(1)
image = bytearray(j.get_linked_cubin_size(handle))
j.get_linked_cubin(handle, image)
open(target, "wb").write(image)
"""


@dataclass(frozen=True)
class Assembled:
    """What the assembler left: machine code (empty if it failed), what it printed, and how long it took in seconds."""

    image: bytes
    log: str
    seconds: float
    timed_out: bool = False


def run(ptx: str, architecture: str, seconds: float) -> Assembled:
    """Assemble one text for an architecture such as "sm_90a", in at most `seconds`."""
    with tempfile.TemporaryDirectory(prefix="warplab-ptxas-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8", newline="")
        done = run_bounded(_command(architecture, source, target), folder, seconds, _LOG)
        image = target.read_bytes() if done.succeeded and target.exists() else b""
        return Assembled(image, done.text, done.seconds, done.timed_out)


@dataclass(frozen=True)
class Finished:
    """A process that has ended: what it printed, in how many seconds."""

    text: str
    seconds: float
    succeeded: bool
    timed_out: bool


def run_bounded(command: list[str], folder: str, seconds: float, most: int) -> Finished:
    """Run a tool in a folder, in at most `seconds`, and keep `most` bytes of what it prints."""
    printed = Path(folder, "log.txt")
    start = time.monotonic()
    timed_out = False
    with open(printed, "wb") as log:
        process = subprocess.Popen(
            [*_bounded(seconds), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"TMPDIR": folder},
            process_group=0 if os.name == "posix" else None,
        )

        def stop() -> None:
            nonlocal timed_out
            timed_out = process.poll() is None
            _end(process)

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            process.wait()  # with a limit Python would look for the end every 50 ms
        finally:
            timer.cancel()
            _end(process)
    elapsed = time.monotonic() - start
    with open(printed, "rb") as said:
        text = said.read(most).decode("utf-8", "replace")
    return Finished(text, elapsed, process.returncode == 0, timed_out)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it may have started."""
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def _bounded(seconds: float) -> list[str]:
    """What starts the assembler with bounded memory, files and processor time: PTX can be made to unroll for ever."""
    if os.name != "posix":
        return []
    # POSIX counts files in blocks of 512 bytes. A core of the assembler would be of no use to anybody.
    limits = f"ulimit -c 0; ulimit -t {int(seconds) + 5}; ulimit -f {_FILE >> 9}; ulimit -v {_MEMORY >> 10}"
    return ["/bin/sh", "-c", f'{limits}; exec "$@"', "sh"]


# Finding the assembler


@functools.cache
def _ptxas() -> str | None:
    """The path of ptxas: of the nvidia-cuda-nvcc wheel, conda or CUDA_HOME, else of PATH."""
    found = _of_the_packages() or shutil.which("ptxas")
    return os.path.abspath(found) if found else None  # it runs in another folder


def _of_the_packages() -> str | None:
    """The ptxas that belongs to the installed compilers: another toolkit's may make what this driver does not load."""
    try:
        from cuda import pathfinder
    except ImportError:  # the extra `cuda` is not installed
        return None
    with suppress(Exception):  # an installation that pathfinder cannot read, or a pathfinder that knows no ptxas
        if found := pathfinder.find_nvidia_binary_utility("ptxas"):
            return found
    with suppress(Exception):  # Colab's knows where the headers are, and the assembler lies beside them
        beside = Path(pathfinder.find_nvidia_header_directory("nvcc") or "").parent / "bin" / "ptxas"
        if beside.is_file():
            return str(beside)
    return None


def _command(architecture: str, source: Path, target: Path) -> list[str]:
    ptxas = _ptxas()
    if ptxas:
        return [ptxas, "-v", *FLAGS, f"-arch={architecture}", str(source), "-o", str(target)]
    return [sys.executable, "-I", "-c", _JITLINK, architecture, str(source), str(target)]


@functools.cache
def version() -> str:
    """What identifies the assembler in the cache. Raises PlanError if there is none: no fault of the submission."""
    ptxas = _ptxas()
    if ptxas:
        done = subprocess.run([ptxas, "--version"], capture_output=True, text=True, timeout=60, check=False)
        return f"ptxas {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else os.path.getmtime(ptxas)}"
    try:
        from cuda.bindings import nvjitlink

        major, minor = nvjitlink.version()
    except Exception:  # the bindings raise their own errors when the library is missing
        raise PlanError(
            "There is no ptxas and no nvJitLink here: install the nvidia-cuda-nvcc package or set CUDA_HOME."
        ) from None
    return f"nvjitlink {major}.{minor}"
