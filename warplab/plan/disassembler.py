"""Machine code as text, by nvdisasm: what the assembler made of each line of PTX. Needs no GPU.

nvdisasm is a tool of CUDA's that may be missing; whoever asks then gets nothing, and counts what the PTX says.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warplab.hardware.processors import usable_processors
from warplab.isa.machine_code import MachineCode, read
from warplab.plan import cache
from warplab.plan.assembler import run_bounded

CACHE_KIND = "machine-code-1"
_SECONDS = 60.0  # the largest kernels of the course take one, of a machine that is not busy
_LARGEST = 2 << 20  # bytes of an image, ten times what the course has
_MOST = 64 << 20  # bytes of text
_KEPT = 32  # images: a plan's, for as long as it is judged


@functools.cache
def nvdisasm() -> str | None:
    """The path of nvdisasm: of the nvidia-cuda-nvdisasm package, else of PATH, else of CUDA_HOME."""
    name = "nvdisasm.exe" if sys.platform == "win32" else "nvdisasm"
    for folder in sys.path:
        packaged = Path(folder, "nvidia", "cu13", "bin", name)
        if packaged.is_file() and os.access(packaged, os.X_OK):
            return str(packaged)
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    found = shutil.which("nvdisasm") or (shutil.which("nvdisasm", path=str(Path(home, "bin"))) if home else None)
    return os.path.abspath(found) if found else None  # it runs in another folder


def read_ahead(images: Iterable[bytes]) -> None:
    """Disassemble cubins side by side, for whoever asks for them next: half a second each, the first time."""
    with ThreadPoolExecutor(usable_processors()) as beside:
        list(beside.map(disassembled, images))


@functools.lru_cache(_KEPT)
def disassembled(image: bytes) -> MachineCode | None:
    """The machine code of a cubin, or None if there is no nvdisasm, or it cannot read this one, or that is too large.

    What was read before, by this user, comes from a cache.
    """
    if len(image) > _LARGEST:
        return None
    key = hashlib.sha256(image).hexdigest()
    kept = cache.read(CACHE_KIND, key)
    if kept is not None:
        return read(kept.decode("utf-8", "replace"))
    tool = nvdisasm()
    if tool is None:
        return None
    with tempfile.TemporaryDirectory(prefix="warplab-nvdisasm-") as folder:
        source = Path(folder, "kernel.cubin")
        source.write_bytes(image)
        done = run_bounded([tool, "-gp", "-c", "-ndf", str(source)], folder, _SECONDS, _MOST)
    if not done.succeeded:
        return None
    cache.write(CACHE_KIND, key, done.text.encode())
    return read(done.text)
