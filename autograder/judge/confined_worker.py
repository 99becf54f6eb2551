"""The worker that reads a stranger's bytes: what it is shown of this machine, and what must be ready before it starts.

What it needs compiled (the emulator, CuPy's kernels for a lab's inputs) is compiled before, by a worker that has never
seen a submission, and kept; the confined one gets copies.
"""

from __future__ import annotations

import glob
import hashlib
import os
import platform
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import autograder
from autograder.records.machine import Machine
from autograder.records.status import Device
from autograder.spec.lab import labs_folder
from warplab.plan import cache as kept
from warplab.plan.assemble import CACHE_KIND as CUBINS
from warplab.sandbox.isolation import Isolation, root
from warplab.worker.process import Sandbox, Worker, WorkerError, WorkerFault

WARM_UP = "autograder.worker.emulator_stage:warm_up"
WARM_UP_GPU = "autograder.worker.gpu_stage:warm_up"
WARM_UP_SECONDS = 600.0  # compiling the emulator's loop, once per installation, on a slow machine
MEMORY = 16 << 30  # bytes, of the worker and its assembler together

_CEILINGS = "ceilings"  # the folder of warplab.hardware.ceilings in the cache
# What CUDA's driver opens beside its devices, seen on Hopper machines with driver 580 (strace).
_GPU_FILES: tuple[str, ...] = ("/sys/devices/system", "/sys/bus/pci", "/sys/devices/pci*", "/proc/devices")
_GPU_FILES += ("/proc/driver/nvidia", "/proc/sys/vm", "/proc/cpuinfo", "/proc/meminfo")
_GPU_FILES += ("/usr/share/nvidia", "/etc/nvidia")
_GPU_DEVICES: tuple[str, ...] = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_GPU_DEVICES += ("/dev/nvidia-caps/*", "/dev/dxg")  # the last for Windows Subsystem for Linux


class ConfinedWorker(Worker):
    """A Worker in the strongest sandbox that holds here; for one submission, if that is another person's.

    With `own`, for submissions of who runs the judge: what is assembled is then kept for the next time.
    """

    def __init__(self, machine: Machine, own: bool) -> None:
        super().__init__(sandbox(machine, own))
        self._machine, self._own = machine, own

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        """As Worker.call; what is to be warm is compiled first, where nothing of a submission is."""
        if target in (WARM_UP, WARM_UP_GPU) and compile_ahead(target, payload):
            self.close()  # it has the copies from before, or none
            self._sandbox = sandbox(self._machine, self._own)
        return super().call(target, timeout=timeout, **payload)


def sandbox(machine: Machine, own: bool) -> Sandbox:
    """What a worker for this machine's device is kept in."""
    gpu = machine.device is Device.GPU
    readable = [str(Path(autograder.__path__[0])), str(labs_folder().resolve()), "/bin/sh"]  # it starts the assembler
    environment = [(name, os.environ[name]) for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if name in os.environ]
    copies = [(folder, f"numba/{_numba_name()}", "NUMBA_CACHE_DIR") for folder in _compiled_folders()]
    writable: list[str] = []
    if own:
        (kept.folder() / CUBINS).mkdir(parents=True, exist_ok=True)
        writable = [str(kept.folder() / CUBINS)]
        readable.append(str(kept.folder() / _CEILINGS))
        environment.append(("WARPLAB_CACHE", str(kept.folder())))
    elif (kept.folder() / _CEILINGS).is_dir():
        copies.append((str(kept.folder() / _CEILINGS), f"warplab/{_CEILINGS}", "WARPLAB_CACHE"))
    if gpu:
        cupy = os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache")
        copies += [(cupy, "cupy", "CUPY_CACHE_DIR")] if os.path.isdir(cupy) else []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") if gpu else ""
    environment += [("CUDA_VISIBLE_DEVICES", visible)] if visible is not None else []
    return Sandbox(
        isolations=(Isolation.REDUCED,) if machine.isolation is Isolation.REDUCED else tuple(Isolation),
        packages=("autograder",),
        readable=tuple(readable) + (_existing(_GPU_FILES) if gpu else ()),
        writable=(*writable, *(("/proc/self",) if gpu else ())),  # the driver gives its threads names
        devices=_existing(_GPU_DEVICES) if gpu else (),
        environment=tuple(environment),
        copies=tuple(copies),
        memory=MEMORY if not gpu else 2 * MEMORY,
        address_space=None if gpu else MEMORY,  # CUDA's driver reserves more addresses than any machine has memory
        gpu=gpu,
    )


def compile_ahead(target: str, payload: dict[str, Any]) -> bool:
    """Have a trusted worker compile what `target` will need; whether it had not been compiled before.

    Raises WorkerError if that fails: a fault of this machine.
    """
    keys = _keys(target, payload)
    gone = target == WARM_UP and not _compiled_folders()
    missing = {name: key for name, key in keys.items() if gone or kept.read("compiled", key) is None}
    if not missing:
        return False
    parts = {"parts": [name for name in missing if name]} if target == WARM_UP else payload
    try:
        with Worker() as trusted:
            trusted.call(target, timeout=WARM_UP_SECONDS, **parts)
    except WorkerError as error:
        raise WorkerError(WorkerFault.NOT_STARTED, str(error), error.kind) from error
    for key in missing.values():
        kept.write("compiled", key, b"")
    return True


def _keys(target: str, payload: dict[str, Any]) -> dict[str, str]:
    """Names of what is needed and the keys under which it is noted that it was compiled."""
    if target == WARM_UP:
        known = (str(root()), *_installation("warplab/simt"))  # what is compiled lies beside the sources
        return {part: kept.key_of(target, part, *known) for part in ("", *payload.get("parts", ()))}
    task = (Path(payload["task"]) / "task.py").read_bytes()
    return {payload["task"]: kept.key_of(target, task, *_installation("warplab/gpu", "autograder"))}


@cache
def _installation(*packages: str) -> tuple[str, ...]:
    """What decides whether compiled code can be used again: sources, compilers, the processor."""
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted((root() / package).glob("**/*.py")):
            digest.update(path.read_bytes())
    versions = []
    for name in ("numba", "llvmlite", "cupy-cuda13x", "numpy"):
        try:
            versions.append(metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
    processor = platform.processor()
    try:
        flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    except OSError:
        flags = ""
    return digest.hexdigest(), *versions, platform.python_version(), processor, flags


def _compiled_folders() -> Sequence[str]:
    """Where Numba may keep the compiled emulator (numba.core.caching), those of the folders that exist."""
    simt = root() / "warplab" / "simt"
    places = [simt / "__pycache__", Path(os.path.expanduser("~/.cache/numba")) / _numba_name()]
    if os.environ.get("XDG_CACHE_HOME"):
        places.append(Path(os.environ["XDG_CACHE_HOME"]) / "numba" / _numba_name())
    if os.environ.get("NUMBA_CACHE_DIR"):
        places.append(Path(os.environ["NUMBA_CACHE_DIR"]) / _numba_name())
    return [str(place) for place in places if any(place.glob("*.nbi"))]


def _numba_name() -> str:
    """What Numba calls the folder of the emulator's compiled code in a cache of many: numba.core.caching."""
    simt = str(root() / "warplab" / "simt")
    return f"simt_{hashlib.sha1(simt.encode()).hexdigest()}"


def _existing(patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(path for pattern in patterns for path in glob.glob(pattern)))
