"""The interpreter's compiled parts: taken from the wheel, or compiled once for an installation and kept on disk.

Loading takes a fraction of a second, compiling up to a minute. Parts are compiled side by side, in a process each, and
share the helpers that they have in common; `make venv` has all of them compiled ahead. What is kept of a part lies in a
folder whose name is a digest of the sources that it is compiled from, of the compilers and of the processor: a changed
line compiles its part anew, but not those of its helpers that do not depend on the line.
"""

from __future__ import annotations

import contextlib
import gc
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

from filelock import FileLock, Timeout
from llvmlite import binding
from numba.core.ccallback import CFunc
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from warplab.emulator import core_digest
from warplab.emulator.helpers import FOLDER as HELPERS
from warplab.emulator.helpers import Helpers
from warplab.emulator.objects import packaged
from warplab.errors import WarplabError
from warplab.files import write_whole
from warplab.folders import COMPILED, cache_folder
from warplab.hardware.processors import usable_processors
from warplab.interrupts import ends_threads, waits_for
from warplab.plan import cache as cache_of_files
from warplab.progress import Progress

_KEPT_HELPERS = 5000  # files, of some 10 KB; a version has 700
_KEPT = 16  # folders of parts that stay beside those that are compiled: checkouts of several versions may be in use
_loading = threading.RLock()  # or a launch's threads would each load a part, into some 30 MB of their own
_LONGEST_SECONDS = 1200.0  # to wait for another process that compiles the same, on a machine that is very busy


class Piece(StrEnum):
    """What is compiled by itself, in the order in which it is compiled.

    What takes longest is first. What shares helpers with it comes next, in the process beside it: each helper is
    compiled by the one that needs it first.
    """

    LOOP = "loop"  # warps, branches, memory, barriers: every kernel
    BULK = "bulk"  # bulk and tensor copies
    WGMMA = "wgmma"  # a Hopper warpgroup's products
    TCGEN05 = "tcgen05"  # Blackwell's tensor memory and tensor core
    ARITHMETIC = "arithmetic"  # operations on rows of 32 lanes: every kernel


# The modules of the functions that are compiled (compilation.SOURCES)
ROOTS = {
    Piece.LOOP: "warplab.emulator.core.blocks",
    Piece.ARITHMETIC: "warplab.emulator.core.alu.dispatch",
    Piece.BULK: "warplab.emulator.core.asynchronous.bulk_entry",
    Piece.WGMMA: "warplab.emulator.core.tensor.products_entry",
    Piece.TCGEN05: "warplab.emulator.core.tensor_memory.tensor_entry",
}
ALWAYS = (Piece.LOOP, Piece.ARITHMETIC)
# What a part takes in units of _yardstick
_YARDSTICKS = {Piece.LOOP: 1300, Piece.BULK: 450, Piece.WGMMA: 300, Piece.TCGEN05: 400, Piece.ARITHMETIC: 550}
_WORDS = {Piece.BULK: ".bulk", Piece.WGMMA: "wgmma.", Piece.TCGEN05: "tcgen05."}  # in PTX that needs the part


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
    found = packaged(part, source_digest(part)) or _kept(part)
    if found is None:
        compile_parts(parts=[part] if part not in ALWAYS else ALWAYS)
        found = _kept(part)
    if found is None:  # nothing can be kept here
        return _function(part).address or 0
    name, code = found
    _linker().add_object_file(binding.ObjectFileRef.from_data(code))
    _linker().finalize_object()
    return _linker().get_function_address(name)


def _kept(part: Piece) -> tuple[str, bytes] | None:
    """The name of a part's function and its object file, if they are kept whole on this machine."""
    kept = cache_of_files.read(*_kept_as(part))
    if kept is None:
        return None
    name, _, code = kept.partition(b"\n")
    return name.decode(), code


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
    """Whether a part lies compiled on disk for this processor, in the wheel or in the user's cache."""
    return packaged(part, source_digest(part)) is not None or folder(part).joinpath(f"{part}.o").is_file()


def _kept_as(part: Piece) -> tuple[str, str]:
    """What the cache knows a part by. It keeps the name of its function, a line, and an object file."""
    return f"{COMPILED}/{folder(part).name}", f"{part}.o"


def compile_parts(parts: Iterable[str] = tuple(Piece), quiet: bool = False) -> None:
    """Compile those of the parts that are not kept, side by side, and keep them; says so meanwhile unless `quiet`.

    Where nothing can be kept each process compiles for itself, at the first use. Raises WarplabError.
    """
    missing = [part for part in Piece if part in set(parts) and not is_kept(part)]
    if not missing or not all(_can_keep(part) for part in missing):
        return
    start = time.monotonic()
    expected = [_expected(part) for part in missing]
    about = max(*expected, sum(expected) / min(usable_processors(), len(Piece)), 1.0)
    progress = Progress(quiet)
    progress.begin(f"Compiling the emulator, once for this version: at most about {about:.0f} s ...", about)
    start_up = f"import sys; sys.path[:] = {sys.path!r}; from warplab.emulator.compiled import main; main()"
    command = [sys.executable, "-c", start_up]

    def compile_one(part: Piece) -> int:
        with subprocess.Popen([*command, part], stdout=subprocess.DEVNULL) as compiler, waits_for(compiler.kill):
            code = compiler.wait()
        progress.line(f"  {part}: {'not compiled' if code else 'ready'} after {time.monotonic() - start:.0f} s")
        return code

    words = "The emulator is not compiled"
    try:
        with ThreadPoolExecutor(usable_processors()) as beside, ends_threads():
            failed = [part for part, code in zip(missing, beside.map(compile_one, missing), strict=True) if code]
        if failed:
            raise WarplabError(f"The emulator's {', '.join(failed)} did not compile; the lines above say why.")
        words = "The emulator is compiled"
    finally:
        progress.end(f"{words} ({time.monotonic() - start:.0f} s).")
    _forget_old_versions()


def _expected(part: Piece) -> float:
    """Seconds that a part takes when all its helpers are compiled: as here the last time, or by a yardstick."""
    return _seconds(part) or _YARDSTICKS[part] * _yardstick()


def _seconds(part: Piece) -> float:
    """How long this machine took to compile a part; 0 if that is not known."""
    try:
        return float(_seconds_file(part).read_text())
    except (OSError, ValueError):
        return 0.0


def _seconds_file(part: Piece) -> Path:
    return cache_folder() / COMPILED / f"{part}.seconds"


@cache
def _yardstick() -> float:
    """Seconds that some Python takes here, as most of compiling is Python."""
    start = time.perf_counter()
    for _ in range(2_000_000):
        pass
    return time.perf_counter() - start


@cache
def folder(part: Piece) -> Path:
    """Where a compiled part of this version is kept; it may not exist."""
    return cache_folder() / COMPILED / core_digest.key_here(source_digest(part))


@cache
def source_digest(part: Piece) -> str:
    """Hex digest of what a part is compiled from."""
    return core_digest.source_digest(ROOTS[part])


def _function(part: Piece) -> CFunc:
    """The part, compiled in this process, and kept if that can be."""
    from warplab.emulator import compilation  # which a process that finds all parts kept has no use for

    start = time.monotonic()
    function = compilation.function_of(part, Helpers())
    seconds = time.monotonic() - start
    code = function._library._get_compiled_object()  # type: ignore[attr-defined]
    cache_of_files.write(*_kept_as(part), f"{function.native_name}\n".encode() + code)
    with contextlib.suppress(OSError):  # it falls slowly, as most helpers may have been kept
        write_whole(_seconds_file(part), f"{max(seconds, 0.7 * _seconds(part)):.1f}\n")
    return function


def _can_keep(part: Piece) -> bool:
    try:
        folder(part).mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder(part), os.W_OK)


def _forget_old_versions() -> None:
    """Remove what earlier versions kept, but for the latest few."""
    helpers = cache_folder() / HELPERS
    with contextlib.suppress(OSError):
        for old in sorted(helpers.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT_HELPERS:]:
            old.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        kept = [path for path in (cache_folder() / COMPILED).iterdir() if path.is_dir() and path != helpers]
        versions = sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True)
        for old in versions[_KEPT + len(Piece) :]:
            shutil.rmtree(old, ignore_errors=True)


def main() -> None:
    """Compile and keep the parts that are named on the command line, in this process."""
    gc.disable()  # next to nothing of what a compiler keeps is garbage
    for part in map(Piece, sys.argv[1:]):
        lock = FileLock(folder(part) / f"{part}.lock", timeout=_LONGEST_SECONDS)  # the system frees it if we are killed
        try:
            lock.acquire(timeout=0)
        except Timeout:
            print(f"  {part}: another process compiles it, which is waited for", file=sys.stderr, flush=True)
            lock.acquire()
        with lock:
            if not is_kept(part):
                _function(part)
        lock.release(force=True)
