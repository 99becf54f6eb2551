"""The interpreter's compiled parts: compiled once for an installation, kept on disk, loaded when first needed.

Compiling takes a minute or two, loading a fraction of a second. Parts are compiled side by side, in a process each;
`make venv` has all of them compiled ahead. What is kept lies in a folder whose name is a digest of the compiled core's
sources, of the compilers and of the processor: other ones find nothing, and compile anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from ctypes import CFUNCTYPE, c_int64
from enum import StrEnum
from functools import cache
from pathlib import Path

import llvmlite
import numba
from filelock import FileLock
from llvmlite import binding
from numba.core.ccallback import CFunc
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from warplab.emulator import core
from warplab.errors import WarplabError
from warplab.folders import COMPILED, cache_folder
from warplab.hardware.processors import usable_processors
from warplab.plan import cache as cache_of_files

_KEPT = 4  # folders of earlier versions that stay beside the newest
_loading = threading.RLock()  # or a launch's threads would each load a part, into some 30 MB of their own
_LONGEST_SECONDS = 1200.0  # to wait for another process that compiles the same, on a machine that is very busy


class Piece(StrEnum):
    """What is compiled by itself; what takes longest first, as that is the order in which they are compiled."""

    LOOP = "loop"  # warps, branches, memory, barriers: every kernel
    ARITHMETIC = "arithmetic"  # operations on rows of 32 lanes: every kernel
    BULK = "bulk"  # bulk and tensor copies
    WGMMA = "wgmma"  # a Hopper warpgroup's products


ALWAYS = (Piece.LOOP, Piece.ARITHMETIC)
_WORDS = {Piece.BULK: ".bulk", Piece.WGMMA: "wgmma."}  # in PTX that needs the part


def parts_for(texts: Iterable[str]) -> tuple[Piece, ...]:
    """The parts that kernels with these PTX texts need."""
    texts = list(texts)
    return (*ALWAYS, *(part for part, word in _WORDS.items() if any(word in text for text in texts)))


def loop() -> Callable[[int, int, int, int], int]:
    """`run_clusters` of core/blocks.py; other Python threads run meanwhile."""
    return CFUNCTYPE(c_int64, *[c_int64] * 4)(address(Piece.LOOP))


@cache
def vectors() -> int:
    """The address of the table of operations on rows."""
    return CFUNCTYPE(c_int64)(address(Piece.ARITHMETIC))()


def address(part: Piece) -> int:
    """The address of a part, compiled or loaded at its first use. Raises WarplabError if it cannot be compiled."""
    with _loading:
        return _loaded(part)


@cache
def _loaded(part: Piece) -> int:
    if not is_kept(part):
        compile_parts(parts=[part] if part not in ALWAYS else ALWAYS)
    kept = cache_of_files.read(*_kept_as(part))
    if kept is None:  # nothing can be kept here, or it is damaged
        return _function(part).address or 0
    name, _, code = kept.partition(b"\n")
    _linker().add_object_file(binding.ObjectFileRef.from_data(code))
    _linker().finalize_object()
    return _linker().get_function_address(name.decode())


@cache
def _linker() -> binding.ExecutionEngine:
    """What loads machine code into this process.

    Numba's own cache keeps LLVM's code beside it, for functions that are compiled later and call this one, and gets
    ready to compile them, which takes a second. Nothing but this module calls the parts.
    """
    rtsys.initialize(cpu_target.target_context)  # what the parts call of Numba's has a name now
    machine = binding.Target.from_default_triple().create_target_machine()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def is_kept(part: Piece) -> bool:
    """Whether a part lies compiled on disk, for this version, these compilers and this processor."""
    return folder().joinpath(f"{part}.o").is_file()


def _kept_as(part: Piece) -> tuple[str, str]:
    """What the cache knows a part by. It keeps the name of its function, a line, and an object file."""
    return f"{COMPILED}/{folder().name}", f"{part}.o"


def compile_parts(parts: Iterable[str] = tuple(Piece)) -> None:
    """Compile those of the parts that are not kept, side by side, and keep them; standard error is told meanwhile.

    Where nothing can be kept each process compiles for itself, at the first use. Raises WarplabError.
    """
    missing = [part for part in Piece if part in set(parts) and not is_kept(part)]
    if not missing or not _can_keep():
        return
    start = time.monotonic()
    _tell(f"Compiling the emulator, once for this version ({', '.join(missing)}): a minute or two ...")
    start_up = f"import sys; sys.path[:] = {sys.path!r}; from warplab.emulator.compiled import main; main()"
    command = [sys.executable, "-c", start_up]

    def compile_one(part: Piece) -> int:
        return subprocess.run([*command, part], stdout=subprocess.DEVNULL).returncode

    with ThreadPoolExecutor(usable_processors()) as beside:
        failed = [part for part, code in zip(missing, beside.map(compile_one, missing), strict=True) if code]
    if failed:
        raise WarplabError(f"The emulator's {', '.join(failed)} did not compile; the lines above say why.")
    _tell(f"The emulator is compiled ({time.monotonic() - start:.0f} s).")
    _forget_old_versions()


@cache
def folder() -> Path:
    """Where the compiled parts of this version are kept; it may not exist."""
    digest = hashlib.sha256(source_digest().encode())
    processor = cpu_target.target_context.codegen().magic_tuple()
    for fact in (numba.__version__, llvmlite.__version__, sys.version, *processor):
        digest.update(f"\0{fact}".encode())
    return cache_folder() / COMPILED / digest.hexdigest()[:24]


@cache
def source_digest() -> str:
    """Hex digest of what is compiled: every source of `warplab.emulator.core`, and compilation.py, which says how."""
    digest = hashlib.sha256()
    for path in [*sorted(Path(core.__path__[0]).rglob("*.py")), Path(__file__).with_name("compilation.py")]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _function(part: Piece) -> CFunc:
    """The part, compiled in this process, and kept if that can be."""
    from warplab.emulator import compilation  # which a process that finds all parts kept has no use for

    function = compilation.function_of(part)
    code = function._library._get_compiled_object()  # type: ignore[attr-defined]
    cache_of_files.write(*_kept_as(part), f"{function.native_name}\n".encode() + code)
    return function


def _can_keep() -> bool:
    try:
        folder().mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder(), os.W_OK)


def _forget_old_versions() -> None:
    """Remove what earlier versions kept, but for the latest few: checkouts of several may be in use."""
    with contextlib.suppress(OSError):
        versions = sorted(folder().parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in versions[_KEPT + 1 :]:
            shutil.rmtree(old, ignore_errors=True)


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main() -> None:
    """Compile and keep the parts that are named on the command line, in this process."""
    for part in sys.argv[1:]:
        with FileLock(folder() / f"{part}.lock", timeout=_LONGEST_SECONDS):
            if not is_kept(Piece(part)):
                _function(Piece(part))
