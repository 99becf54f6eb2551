"""The worker that reads a stranger's bytes: what it is shown of this machine, and what must be ready before it starts.

What it needs compiled (the emulator, CuPy's kernels for a lab's inputs) is compiled before, by a worker that has never
seen a submission, and kept; the confined one may read the first and gets copies of the second. Where kernels run on a
GPU, a process of its own holds that: both get ready side by side, and what reads and emulates is not shown the GPU.
"""

from __future__ import annotations

import glob
import hashlib
import os
import platform
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import autograder
import systems
from autograder.judge import started_ahead
from autograder.judge.turns import Turns
from autograder.records.machine import Machine
from autograder.records.status import Executor
from autograder.spec.lab import labs_folder
from warplab.folders import CEILINGS, COMPILED, TRUSTED, cache_folder
from warplab.hardware import ceilings
from warplab.hardware.device import count, present
from warplab.hardware.toolkit import CUPY
from warplab.interrupts import ends_threads
from warplab.plan import cache as kept
from warplab.plan.assemble import CACHE_KIND as CUBINS
from warplab.plan.disassembler import CACHE_KIND as MACHINE_CODE
from warplab.progress import in_notebook
from warplab.sandbox.isolation import Isolation, root, weakest
from warplab.worker.process import Sandbox, Worker, WorkerError, WorkerFault

GPU_STAGE = "autograder.worker.gpu_stage:"  # how the names of what runs beside the GPU begin
WARM_UP = "autograder.worker.emulator_stage:warm_up"
WARM_UP_GPU = f"{GPU_STAGE}warm_up"
_CALIBRATE = f"{GPU_STAGE}calibrate_once"
WARM_UP_SECONDS = 600.0  # compiling the emulator's loop, once per installation, on a slow machine
# Bytes, of the worker and its assembler together: where it emulates, a reference takes 0.7 GiB; beside a GPU it checks
# large cases.
MEMORY = 2 << 30
GPU_MEMORY = 32 << 30
ADDRESSES = 16 << 30  # of each process: PyTorch, which lab 15's worker imports, reserves more than it uses

_MISSING = "autograder.worker.emulator_stage:missing_parts"
_COMPILE = "warplab.emulator.compiled:compile_parts"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NOTED = "warm"  # kind of file in the cache: that CuPy's kernels of a lab were compiled
# What CUDA's driver opens beside its devices, seen on Hopper machines with driver 580 (strace).
_GPU_FILES: tuple[str, ...] = ("/sys/devices/system", "/sys/bus/pci", "/sys/devices/pci*", "/proc/devices")
_GPU_FILES += ("/proc/driver/nvidia", "/proc/sys/vm", "/proc/cpuinfo", "/proc/meminfo")
_GPU_FILES += ("/usr/share/nvidia", "/etc/nvidia")
# What BLAS and Numba compute for: the compiled emulator of an image is found on other processors of a kind.
_INHERITED: tuple[str, ...] = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
# And by how many threads: Dask gives each of the processes that grade a class one, or they get in each other's way.
_INHERITED += ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# A judge kept out of MPS keeps its worker out too, also where the sandbox shows the daemon's pipes.
_INHERITED += ("CUDA_MPS_PIPE_DIRECTORY",)
_GPU_DEVICES: tuple[str, ...] = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_GPU_DEVICES += ("/dev/nvidia-caps/*", "/dev/dxg")  # the last for Windows Subsystem for Linux


class ConfinedWorker:
    """Workers in the strongest sandbox that holds here; for one submission, if that is another person's.

    With `own`, for submissions of who runs the judge: what is assembled, and read of that, is kept for the next time.
    """

    def __init__(self, machine: Machine, own: bool) -> None:
        self._machine, self._own = machine, own
        self._workers: dict[bool, Worker] = {}  # those used so far, by whether they hold the GPU
        self._making = threading.Lock()

    def __enter__(self) -> ConfinedWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def isolation(self) -> Isolation | None:
        """What the weakest of them is kept in; None before the first has started."""
        found = [worker.isolation for worker in self._all() if worker.isolation is not None]
        return weakest(*found) if found else None

    def kept_in(self, gpu: bool) -> Sandbox:
        """What the process that reads and emulates, or the one that holds the GPU, is kept in; asked again when what
        it gets copies of has changed."""
        reduced = self._machine.isolation is Isolation.REDUCED
        return sandbox(self._own, reduced, gpu, _visible(self._machine.index))

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        """As Worker.call; what is to be warm is compiled first, where nothing of a submission is."""
        if target.startswith(GPU_STAGE):
            return self.call_on_gpu(target, timeout=timeout, **payload)
        if target == WARM_UP:
            self._compile_missing(self._worker(False).call(_MISSING, timeout=timeout, **payload))
        return self._worker(False).call(target, timeout=timeout, **payload)

    def call_on_gpu(self, target: str, *, timeout: float, **payload: Any) -> Any:
        """As `call`, of the process that holds the GPU, whatever is called."""
        if self._machine.device is not Executor.GPU:
            raise WorkerError(WorkerFault.NOT_STARTED, "this worker was made for a machine without a GPU")
        if target != WARM_UP_GPU:
            return self._worker(True).call(target, timeout=timeout, **payload)
        if _compile_for_gpu(payload["task"], self._machine.index):
            self._worker(True).close()  # it has the copies from before
            self._workers[True] = Worker(self.kept_in(gpu=True))
        return None

    def start(self) -> None:
        """Start the processes now, side by side, rather than at the first call. Raises WorkerError."""
        kinds = (False, True) if self._machine.device is Executor.GPU else (False,)
        with ThreadPoolExecutor(2) as beside, ends_threads():
            for started in [beside.submit(self._worker(gpu).start) for gpu in kinds]:
                started.result()

    def close(self) -> None:
        """End the processes, at once, with all that they left; harmless when there are none."""
        for worker in self._all():
            worker.close()

    def _all(self) -> list[Worker]:
        return list(self._workers.values())

    def _worker(self, gpu: bool) -> Worker:
        """The process that holds the GPU, or the one that reads; whoever asks first may wait for one that is started
        ahead, so that is not done before."""
        with self._making:
            if gpu not in self._workers:
                self._workers[gpu] = (started_ahead.taken if self._own else Worker)(self.kept_in(gpu))
            return self._workers[gpu]

    def _compile_missing(self, parts: object) -> None:
        """Have a trusted worker compile parts of the emulator that the confined one did not find."""
        if not parts or not isinstance(parts, list):
            return
        self._worker(False).close()  # it may hold memory that the compilers need
        # a notebook shows red what this process says, and has a bar of its own
        _trusted(_COMPILE, parts=[str(part) for part in parts], quiet=in_notebook())


def start_ahead(gpu: bool) -> None:
    """Start what a submission of who runs the judge will need, before it is known which: what reads and emulates, and
    with `gpu` what holds the first GPU, if there is one."""
    started_ahead.begin(False, lambda: sandbox(True, False, False, None), _MISSING, WARM_UP_SECONDS)
    if gpu:
        first = f"{GPU_STAGE}make_context"
        started_ahead.begin(
            True, lambda: sandbox(True, False, True, _visible(0)) if present() else None, first, WARM_UP_SECONDS
        )


def _trusted(target: str, visible: str | None = None, **payload: Any) -> None:
    """Have a worker that has seen nothing of a submission compile, with the GPUs `visible` to it. Raises WorkerError:
    a fault of this machine."""
    try:
        with Worker(environment={} if visible is None else {_VISIBLE: visible}) as worker:
            worker.call(target, timeout=WARM_UP_SECONDS, **payload)
    except WorkerError as error:
        raise WorkerError(WorkerFault.NOT_STARTED, str(error), error.kind) from error


def _visible(index: int) -> str | None:
    """What makes CUDA see one of several GPUs alone. Where it sees one it sees that as it is asked to now."""
    gpu = present(index) if count() > 1 else None
    return gpu.uuid if gpu else os.environ.get(_VISIBLE)


def sandbox(own: bool, reduced: bool, gpu: bool, visible: str | None) -> Sandbox:
    """What a worker is kept in that holds the GPU (which one, `visible` tells CUDA), or that reads and emulates."""
    readable = [str(Path(package.__path__[0])) for package in (autograder, systems)]
    readable += [str(labs_folder().resolve()), "/bin/sh"]  # it starts the assembler
    environment = [(name, os.environ[name]) for name in _INHERITED if name in os.environ]
    environment += [("WARPLAB_CACHE", str(cache_folder())), ("WARPLAB_LABS", str(labs_folder().resolve()))]
    made = (CUBINS, MACHINE_CODE) if own else ()
    shown = (COMPILED, CEILINGS, TRUSTED)
    for kind in (*shown, *made):
        with suppress(OSError):  # then nothing is kept there
            (cache_folder() / kind).mkdir(parents=True, exist_ok=True)
    readable += [str(cache_folder() / kind) for kind in shown]
    writable = [str(cache_folder() / kind) for kind in made]
    copies = []
    if gpu:
        cupy = os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache")
        copies += [(cupy, "cupy", "CUPY_CACHE_DIR")] if os.path.isdir(cupy) else []
    seen = visible if gpu else ""
    environment += [(_VISIBLE, seen)] if seen is not None else []
    return Sandbox(
        isolations=(Isolation.REDUCED,) if reduced else tuple(Isolation),
        packages=("autograder", "systems"),
        readable=tuple(readable) + (_existing(_GPU_FILES) if gpu else ()),
        writable=(*writable, *(("/proc/self",) if gpu else ())),  # the driver gives its threads names
        devices=_existing(_GPU_DEVICES) if gpu else (),
        environment=tuple(environment),
        copies=tuple(copies),
        memory=GPU_MEMORY if gpu else MEMORY,
        address_space=None if gpu else ADDRESSES,  # CUDA's driver reserves more addresses than any machine has memory
        gpu=gpu,
    )


def _compile_for_gpu(task: str, index: int = 0) -> bool:
    """Have CuPy's kernels for a lab's inputs compiled; whether they had not been before. Raises WorkerError.

    Once for all who grade on this machine: whoever needs the same meanwhile waits for it."""
    gpu, visible = present(index), _visible(index)
    card = (gpu.uuid, gpu.driver) if gpu else ()
    about = (*card, *_installation("warplab/gpu", "autograder"))
    key = kept.key_of(WARM_UP_GPU, (Path(task) / "task.py").read_bytes(), *about)
    if kept.read(_NOTED, key) is not None:
        return False
    with _alone(lambda: Turns(cache_folder() / "turns" / key)):
        if kept.read(_NOTED, key) is None:
            if gpu and not ceilings.load(gpu.uuid, gpu.driver):
                with _alone(lambda: Turns.on([gpu])):
                    _trusted(_CALIBRATE, visible)
            _trusted(WARM_UP_GPU, visible, task=task)
            kept.write(_NOTED, key, b"")
    return True


def _alone(turns: Callable[[], Turns]) -> AbstractContextManager[None]:
    """The turn of one who measures; where no files can be kept nobody waits for anybody."""
    try:
        return turns().measuring()
    except OSError:
        return nullcontext()


@cache
def _installation(*packages: str) -> tuple[str, ...]:
    """What decides whether compiled code can be used again: sources, compilers, the processor."""
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted((root() / package).glob("**/*.py")):
            digest.update(path.read_bytes())
    versions = []
    for name in (*CUPY, "numpy"):
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


def _existing(patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(path for pattern in patterns for path in glob.glob(pattern)))
