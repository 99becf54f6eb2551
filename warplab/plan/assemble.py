"""Makes machine code of a plan's PTX, on the trusted side and at known flags: ptxas, else nvJitLink.

The figures that come with it (registers, spills, stack, shared memory) are the assembler's own, so a submission
cannot forge them. Nothing is linked: PTX that calls what it does not contain is refused.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from warplab.errors import CompileError, PlanError
from warplab.plan import cache
from warplab.plan.limits import limits_of
from warplab.plan.model import Cubin, Kernel, Plan
from warplab.plan.ptx_entry import externals, line_of

FLAGS = ("-O3", "--generate-line-info")
CACHE_KIND = "cubin-2"  # of the cache; a new number when what is kept changes
_TIMEOUT = 180.0  # seconds
_MEMORY = 16 << 30  # bytes of address space

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

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)\s*$")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(.*)$")
_LINKED = re.compile(r"^info\s*: Function properties for '([^']+)'")
_LINKED_SHARED = re.compile(r"^info\s*: used \d+ registers.*?(\d+) bytes smem")
_SHARED = re.compile(r"(\d+) bytes smem")
_CUMULATIVE = re.compile(r"(\d+) bytes cumulative stack size")
_PRINTF = re.compile(r"\.extern\s+(\.func\s*\(\s*\.param\s+\.b32\s+([\w$]+)\s*\)\s*)vprintf(\s*\([^)]*\)\s*);")
_ERROR = re.compile(r"^ptxas (?:.*?, line (\d+); )?(?:error|fatal)\s*: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Figures:
    """What the assembler reports of one kernel; bytes per thread, shared memory per block."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    static_shared: int


def assemble(plan: Plan, architecture: str) -> Plan:
    """The plan with a cubin of each kernel for an architecture such as "sm_90a".

    What was assembled before, by this user and this assembler, comes from a cache. Raises CompileError, with the line
    of the submission where it is known, if the PTX does not assemble or needs a library; PlanError if the plan has no
    code for the architecture.
    """
    limits_of(architecture)
    kernels = {}
    for key, kernel in plan.kernels.items():
        if architecture not in kernel.ptx:
            raise PlanError(
                f"The plan's kernel '{kernel.name}' has code for {', '.join(kernel.ptx)} but not for {architecture}: "
                "capture it for this architecture."
            )
        cubin = _cubin(kernel, architecture, plan.source_name)
        kernels[key] = replace(kernel, cubins={**kernel.cubins, architecture: cubin})
    return replace(plan, kernels=kernels)


def _cubin(kernel: Kernel, architecture: str, source_name: str) -> Cubin:
    ptx = kernel.ptx[architecture]
    if missing := externals(ptx):
        raise CompileError(
            f"The kernel '{kernel.name}' calls {', '.join(missing[:3])}, which is in a library; nothing is linked to a "
            "submission, so write it in the kernel's source.",
            kernel.line or None,
        )
    key = cache.key_of(_assembler_version(), " ".join(FLAGS), architecture, ptx)
    kept = cache.read(CACHE_KIND, key)
    if kept is None:
        image, figures = _assemble_text(ptx, architecture, kernel, source_name)
        head = json.dumps({name: asdict(f) for name, f in figures.items()})
        cache.write(CACHE_KIND, key, head.encode() + b"\n" + image)
    else:
        head_bytes, _, image = kept.partition(b"\n")
        figures = {name: Figures(**f) for name, f in json.loads(head_bytes).items()}
    if kernel.entry not in figures:
        raise CompileError(f"The PTX of '{kernel.name}' has no entry {kernel.entry}.", kernel.line or None)
    return Cubin(image, **asdict(figures[kernel.entry]))


def _assemble_text(
    ptx: str, architecture: str, kernel: Kernel, source_name: str
) -> tuple[bytes, Mapping[str, Figures]]:
    with tempfile.TemporaryDirectory(prefix="warplab-ptxas-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(without_printing(ptx), encoding="utf-8")
        try:
            done = subprocess.run(
                [*_bounded(), *_command(architecture, source, target)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CompileError(
                f"The kernel '{kernel.name}' takes more than {_TIMEOUT:.0f} s to assemble: unroll less.", kernel.line
            ) from None
        log = done.stdout.decode("utf-8", "replace")
        if done.returncode != 0 or not target.exists():
            raise _failure(log, ptx, kernel, architecture, source_name)
        return target.read_bytes(), parse_figures(log, limits_of(architecture).reserved_shared)


def without_printing(ptx: str) -> str:
    """The module with a printf that prints nothing; lines keep their numbers.

    The driver formats what kernels print on the host, in the process that judges: `%2000000000d` costs it seconds and
    gigabytes a launch. Nobody reads it there; the emulator keeps what is printed, for the learner.
    """
    silent, found = _PRINTF.subn(r"\1_warplab_silence\3 { st.param.b32 [\2], 0; ret; }", ptx)
    return re.sub(r"\bvprintf\b", "_warplab_silence", silent) if found else ptx


def _bounded() -> list[str]:
    """What starts the assembler with bounded memory: PTX is a stranger's, and can be made to unroll without end."""
    return ["/bin/sh", "-c", f'ulimit -v {_MEMORY >> 10}; exec "$@"', "sh"] if os.name == "posix" else []


def parse_figures(log: str, reserved_shared: int) -> dict[str, Figures]:
    """The figures of each entry in what `ptxas -v` or nvJitLink's `-verbose` prints, by symbol.

    nvJitLink knows a kernel's shared memory only after its own linking, and then counts in what the system reserves.
    """
    stacks: dict[str, tuple[int, int, int]] = {}
    figures: dict[str, Figures] = {}
    entry = described = ""
    for line in log.splitlines():
        if m := _LINKED.search(line):
            entry = m.group(1)
        elif (m := _LINKED_SHARED.search(line)) and entry in figures:
            figures[entry] = replace(figures[entry], static_shared=max(0, int(m.group(1)) - reserved_shared))
        elif m := _ENTRY.search(line):
            entry = m.group(1)
        elif m := _PROPERTIES.search(line):
            described = m.group(1).strip("'")
        elif m := _STACK.search(line):
            stacks[described] = (int(m.group(1)), int(m.group(2)), int(m.group(3)))
        elif (m := _USED.search(line)) and entry:
            stack, stores, loads = stacks.get(entry, (0, 0, 0))
            shared = _SHARED.search(m.group(2))
            whole = _CUMULATIVE.search(m.group(2))
            figures[entry] = Figures(
                int(m.group(1)),
                stores,
                loads,
                max(stack, int(whole.group(1))) if whole else stack,
                int(shared.group(1)) if shared else 0,
            )
    return figures


def _failure(log: str, ptx: str, kernel: Kernel, architecture: str, source_name: str) -> CompileError:
    m = _ERROR.search(log)
    if m is None:
        said = " ".join(log.split())[-300:] or "it ended without a word"
        return CompileError(f"The assembler failed on '{kernel.name}': {said}.", kernel.line or None)
    line = line_of(ptx, int(m.group(1)), source_name) if m.group(1) else None
    words = m.group(2).strip().rstrip(".")
    if "too much shared data" in words:
        words += ": use smaller shared arrays, or dynamic shared memory"
    return CompileError(
        f"The kernel '{kernel.name}' does not assemble for {architecture}: {words}.", line or kernel.line or None
    )


# Finding the assembler


@functools.cache
def _ptxas() -> str | None:
    """The path of ptxas: of the nvidia-cuda-nvcc wheel, conda or CUDA_HOME, else of PATH."""
    try:
        from cuda import pathfinder

        found = pathfinder.find_nvidia_binary_utility("ptxas")
    except Exception:  # an installation that pathfinder cannot read
        found = None
    return found or shutil.which("ptxas")


def _command(architecture: str, source: Path, target: Path) -> list[str]:
    ptxas = _ptxas()
    if ptxas:
        return [ptxas, "-v", *FLAGS, f"-arch={architecture}", str(source), "-o", str(target)]
    return [sys.executable, "-c", _JITLINK, architecture, str(source), str(target)]


@functools.cache
def _assembler_version() -> str:
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
