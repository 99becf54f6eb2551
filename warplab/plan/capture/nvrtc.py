"""Compiles CUDA C++ to PTX with NVRTC, which needs no driver, the way CuPy does it."""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warplab.errors import CompileError
from warplab.plan.capture.c_headers import headers

# CuPy's own defaults for RawKernel and RawModule: subnormals flushed, functions without __host__ are device functions.
_DEFAULTS = ("-ftz=true", "--device-as-default-execution-space", "-lineinfo")
_STANDARD = "-std=c++17"
_ARCHITECTURE = re.compile(r"-(?:arch|-gpu-architecture)(?:=.*)?")
_STANDARD_OPTION = re.compile(r"-{1,2}std(?:=.*)?")
_REGISTERS = re.compile(r"-{1,2}maxrregcount(?:=(\d+))?")
_DROPPED = re.compile(r"-{1,2}(?:lineinfo|generate-line-info)")
# Code that its compilers leave as it is written, product by product and sum by sum.
_UNOPTIMISED = re.compile(r"-G|--device-debug|-{1,2}Ofast-compile=max")
_OPTIMISED = re.compile(r"-{1,2}dopt(?:=on)?")
# One source is all there is to link, so it needs no linker.
_RELOCATABLE = re.compile(r"-{1,2}(?:dc|device-c)|-{1,2}(?:rdc|relocatable-device-code)=(?:true|false)")
_REFUSED = re.compile(r"-{1,2}(?:dlto|dlink-time-opt|gen-opt-lto)")
_ASSEMBLER = re.compile(r"-{1,2}(?:Xptxas|ptxas-options)(?:=(.*))?")
_NO_CODE = re.compile(r"(?:-{1,2}(?:v|verbose|warn-spills|warn-lmem-usage|O3|opt-level=3)(?:,|$))+")
_MANAGED = re.compile(r"\.attribute\s*\(\s*\.managed\s*\)\s*")
# What a debugger reads. ptxas does not optimise a module with it, and lines are in .loc, with names in .debug_str.
_FOR_DEBUGGERS = re.compile(
    r"^\s*\.section\s+\.debug_(?!str\b)\w+\s*\{.*?^\s*\}\n?|(?<=^\.target )(\S+), debug$", re.M | re.S
)
_DIAGNOSTIC = re.compile(r"^(.*?)\((\d{1,9})\): (?:catastrophic )?error(?: #\S+)?: (.*)$", re.MULTILINE)

_AT_THE_END = re.compile(r"^(At end of source: error.*)\n(.*?)\((\d{1,9})\): note", re.MULTILINE)
_MOST_OF_THE_LOG = 2000  # characters

_NO_HEADER = re.compile(r'cannot open source file "([^"]*)"')
_WITHOUT = {"curand_kernel.h": "install the package nvidia-curand, which has it"}

_HOST_SIDE = re.compile(r"cub::Device[A-Z]|/cub/device/|thrust::|/thrust/")
_NO_HOST_SIDE = (
    "Thrust and what is device-wide in CUB are host code of C++, which launches kernels of its own and is not "
    "recorded: include cub/cub.cuh and call cub::BlockReduce and its like in a kernel of yours"
)


class CppError(CompileError):
    """The compiler's first error, with the file and the line that it is about."""

    def __init__(self, message: str, line: int, file: str, original: str = "") -> None:
        super().__init__(message, line)
        self.file = file
        self.original = original  # all that the compiler said, or its beginning


@dataclass(frozen=True)
class Module:
    """PTX of a CUDA C++ source and, for each name expression, the symbol that it became."""

    ptx: str
    lowered: dict[str, str]
    max_registers: int | None  # of -maxrregcount, which PTX made by NVRTC does not carry


def compile_cpp(
    code: str, file: str, options: Sequence[str], name_expressions: Sequence[str], architecture: str
) -> Module:
    """PTX for one architecture such as "sm_90a". `file` is what lines are reported for until a #line says otherwise.

    Raises CompileError: a CppError for a mistake in the source.
    """
    from cuda.bindings import nvrtc

    cleaned, registers = _clean(options)
    flags = [*cleaned, f"-arch={architecture.replace('sm_', 'compute_')}", *_include_flags()]
    with _compiled(code, file, flags, name_expressions) as program:
        ptx = _room(_checked(nvrtc, nvrtc.nvrtcGetPTXSize(program)))
        _checked(nvrtc, nvrtc.nvrtcGetPTX(program, ptx))
        lowered = {
            e: _checked(nvrtc, nvrtc.nvrtcGetLoweredName(program, e.encode())).decode() for e in name_expressions
        }
    # Only the host sees that a variable is managed; to kernels it is one in global memory.
    text = _MANAGED.sub("", ptx.rstrip(b"\0 ").decode())
    return Module(_FOR_DEBUGGERS.sub(r"\1", text), lowered, registers)


def unoptimised(options: Sequence[str]) -> tuple[str, ...]:
    """The options with which a source is compiled as it is written, dead stores and unused loads included."""
    return (*(option for option in options if not _OPTIMISED.fullmatch(option)), "-G")


def compile_lto(code: str, file: str, include: Sequence[Path], architecture: str) -> bytes:
    """Device functions as LTO-IR, to be linked with a kernel by `nvjitlink`. Raises CompileError."""
    from cuda.bindings import nvrtc

    folders = [f"-I{folder}" for folder in include]
    flags = ["-dlto", "-rdc=true", f"-arch={architecture}", _STANDARD, *folders, *_include_flags()]
    with _compiled(code, file, flags, ()) as program:
        size = _checked(nvrtc, nvrtc.nvrtcGetLTOIRSize(program))
        ir = _room(size)
        _checked(nvrtc, nvrtc.nvrtcGetLTOIR(program, ir))
    return ir[:size]


@contextlib.contextmanager
def _compiled(code: str, file: str, flags: Sequence[str], name_expressions: Sequence[str]) -> Iterator[Any]:
    """The program of a source that compiles; CompileError otherwise."""
    from cuda.bindings import nvrtc

    known = headers()
    texts, names = [text.encode() for text in known.values()], [name.encode() for name in known]
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(code.encode(), file.encode(), len(names), texts, names))
    try:
        for expression in name_expressions:
            _checked(nvrtc, nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags])
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _diagnosis(_log(nvrtc, program), status.name)
        yield program
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def version() -> str:
    """NVRTC's version, such as "13.0"."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


def _room(size: int) -> bytes:
    """A fresh object of at least `size` bytes, which the bindings fill in place.

    One byte more, because Python keeps one object for all bytes of length 1, which must not be written to.
    """
    return bytes(size + 2)


def _checked(nvrtc: Any, result: tuple) -> Any:
    status, *values = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"the CUDA C++ compiler failed ({status.name})")
    return values[0] if values else None


def _log(nvrtc: Any, program: Any) -> str:
    size = _checked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
    log = _room(size)
    _checked(nvrtc, nvrtc.nvrtcGetProgramLog(program, log))
    return log.rstrip(b"\0 ").decode("utf-8", "replace")


def _diagnosis(log: str, status: str) -> CompileError:
    m = _DIAGNOSTIC.search(log)
    if m is None and (end := _AT_THE_END.search(log)):
        return CppError(end.group(1), int(end.group(3)), end.group(2), log[:_MOST_OF_THE_LOG].strip())
    if m is None:
        return CompileError(" ".join(log.split())[:300] or status)
    if _HOST_SIDE.search(log):
        inside = "/include/" in m.group(1)
        return CompileError(_NO_HOST_SIDE) if inside else CppError(_NO_HOST_SIDE, int(m.group(2)), m.group(1))
    words = m.group(3).strip()
    if (missing := _NO_HEADER.search(words)) and "/include/" not in m.group(1):
        words += f" ({_WITHOUT.get(missing.group(1), 'put the text of headers of your own into the source')})"
    if "device-side kernel launch" in words:
        words = "a kernel launches a kernel (dynamic parallelism), which a plan cannot hold: launch it from the host"
    if '"CUtensorMap" is undefined' in words:
        words += " (#include <cuda.h>, and declare the parameter const __grid_constant__ CUtensorMap)"
    return CppError(words, int(m.group(2)), m.group(1), log[:_MOST_OF_THE_LOG].strip())


def _clean(options: Sequence[str]) -> tuple[list[str], int | None]:
    """The submission's options without the ones that the judge decides: architecture, lines, linking."""
    kept: list[str] = []
    registers: int | None = None
    literal = False
    pending = iter(options)
    for option in pending:
        if _ARCHITECTURE.fullmatch(option):
            if "=" not in option:
                next(pending, None)
        elif m := _REGISTERS.fullmatch(option):
            registers = int(m.group(1) or next(pending, "0")) or None
        elif m := _ASSEMBLER.fullmatch(option):
            wanted = m.group(1) or next(pending, "")
            if not _NO_CODE.fullmatch(wanted):
                raise CompileError(
                    f"the assembler's option {wanted} is not carried out: leave it out, or limit registers with "
                    "-maxrregcount=32"
                )
        elif _REFUSED.fullmatch(option):
            raise CompileError(
                f"the option {option} makes code for a linker, which CuPy does not load: leave it out, and keep all "
                "device code in one source"
            )
        elif _UNOPTIMISED.fullmatch(option):
            literal = True
            kept.append(option)
        elif not _DROPPED.fullmatch(option) and not _RELOCATABLE.fullmatch(option):
            kept.append(option)
    if literal and not any(_OPTIMISED.fullmatch(o) for o in kept):
        kept.append("-fmad=false")
    standard = [] if any(_STANDARD_OPTION.fullmatch(o) for o in kept) else [_STANDARD]
    return [*kept, *_DEFAULTS, *standard], registers


@functools.cache
def _include_flags() -> tuple[str, ...]:
    """Where CUDA's headers (cuda_fp16.h, mma.h), libcu++ and CuPy's are, as far as they are installed.

    Those that mma.h includes come with nvcc, which has a folder of its own in CUDA 12's packages.
    """
    from cuda import pathfinder

    folders: list[Path] = []
    for library in ("cudart", "cccl", "nvcc", "curand"):
        try:
            located = pathfinder.locate_nvidia_header_directory(library)
        except Exception:  # an installation that pathfinder cannot read is one without these headers
            located = None
        if located is not None:
            folders.append(Path(located.abs_path))
    # A toolkit installed beside Python's packages may have what they lack, such as mma.h's crt/mma.h; it is asked last.
    folders += [folder.parent for folder in folders if folder.name == "cccl"]
    # CuPy itself is not imported: in a capture another module stands in for it.
    cupy = importlib.machinery.PathFinder.find_spec("cupy")
    if cupy is not None and cupy.origin:
        folders.append(Path(cupy.origin).parent / "_core" / "include")
    return tuple(f"-I{f}" for f in dict.fromkeys(folders) if f.is_dir())
