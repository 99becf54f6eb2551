"""Says what this machine can do, and how to fix what it cannot."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.judge.confined_worker import WARM_UP, WARM_UP_SECONDS, ConfinedWorker
from autograder.records.machine import LEAVE_MPS, SHARED_THROUGH_MPS, choose_machine, serves
from autograder.spec.lab import CHECKOUT, find_lab, kernel_labs, known_labs, labs_folder
from warplab.errors import WarplabError
from warplab.gpu import sanitizer
from warplab.hardware.toolkit import CUPY, LEAST_DRIVER, installed, refusal, remedy, toolkit
from warplab.plan import cache
from warplab.plan.assemble import assemble
from warplab.plan.capture.escape_probe import ATTEMPTS, Proof, prove
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE, ArrayArgument, HostCall, Language, Role
from warplab.sandbox.isolation import Isolation
from warplab.worker.process import WorkerError

_REINSTALL = "Run `make venv`, or `pip install -c constraints.txt -c constraints-cu13.txt -e .[course,cu13]`."
# distributions (one of them), module to import, what is lost without it, whether grading needs it
_PACKAGES: tuple[tuple[str | tuple[str, ...], str, str, bool], ...] = (
    ("numpy", "numpy", "everything", True),
    ("numba", "numba", "the emulator", True),
    ("numba-cuda", "numba.cuda", "kernels in Numba CUDA", True),
    (CUPY, "cupy", "kernels in CUDA C++", True),
    ("cuda-bindings", "cuda.bindings.nvrtc", "compiling CUDA C++", True),
    ("cuda-core", "cuda.core", "running on a GPU", False),
    ("rich", "rich", "this output", True),
    ("matplotlib", "matplotlib", "figures in HTML reports", True),
    ("jupyterlab", "", "the notebooks", False),
    ("torch", "", "notebook 14, 20 points of lab 15, and comparing kernels with it by hand (`make torch`)", False),
)
_LEAST_DISK = 1 << 30
_PROBES = {
    Language.NUMBA: """
from numba import cuda

@cuda.jit
def kernel(x):
    x[cuda.threadIdx.x] = 1

def probe(x):
    kernel[1, 32](x)
""",
    Language.CUDA_CPP: """
import cupy

kernel = cupy.RawKernel('extern "C" __global__ void kernel(float* x) { x[threadIdx.x] = 1; }', "kernel")

def probe(x):
    kernel((1,), (32,), (x,))
""",
}


class State(StrEnum):
    """How a check went."""

    GOOD = "good"
    LIMITED = "limited"  # something optional is missing
    BROKEN = "broken"  # grading does not work


@dataclass(frozen=True)
class Check:
    """One thing that was examined; `remedy` says what to do where it is not good."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def examine() -> list[Check]:
    """Examine this machine. Takes a few seconds; a minute if the emulator has to be compiled first."""
    checks = [_python(), *(_package(*row) for row in _PACKAGES), _toolkit(), *_folders(), _labs(), _gpu()]
    if known_labs():
        checks.append(_where_labs_run())
    checks += [_sanitizer(), _isolation()]
    if can_grade(checks):
        checks += [_compiler(language, source) for language, source in _PROBES.items()]
        checks.append(_emulator())
    return checks


def can_grade(checks: Sequence[Check]) -> bool:
    """Whether submissions can be graded here."""
    return all(check.state is not State.BROKEN for check in checks)


def show(checks: Sequence[Check], console: Console) -> None:
    """Print the checks, then what this machine can do."""
    table = Table(box=None, pad_edge=False)
    for column in ("", "what", "found"):
        table.add_column(column)
    colours = {State.GOOD: "green", State.LIMITED: "yellow", State.BROKEN: "red"}
    for check in checks:
        table.add_row(Text(check.state, colours[check.state]), Text(check.name), Text(check.detail))
    console.print(table)
    for check in checks:
        if check.remedy and check.state is not State.GOOD:
            console.print(Text(f"{check.name}: {check.remedy}", colours[check.state]))
    console.print(Text(_summary(checks), "bold"))


def _summary(checks: Sequence[Check]) -> str:
    if not can_grade(checks):
        return "This machine cannot grade yet."
    gpu = next(check for check in checks if check.name == "GPU")
    if gpu.state is State.GOOD:
        labs = next((check.detail for check in checks if check.name == "labs on the GPU"), "")
        if "emulator" in labs:
            return f"This machine grades correctness, safety and traffic, and efficiency on its GPU: {labs}."
        return "This machine grades everything: correctness, safety, traffic, and efficiency on its GPU."
    return "This machine grades correctness, safety and traffic on the emulator; efficiency needs a GPU."


def _python() -> Check:
    version = f"{platform.python_version()} in {sys.prefix}"
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check("Python", State.GOOD, version)
    return Check("Python", State.BROKEN, version, "Install Python 3.11, 3.12 or 3.13 and run `make venv` with it.")


def _package(names: str | tuple[str, ...], module: str, purpose: str, needed: bool) -> Check:
    distribution = names if isinstance(names, str) else installed(names)
    missing = State.BROKEN if needed else State.LIMITED
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        remedy = _REINSTALL if needed else f"Install it for {purpose}."
        return Check(distribution, missing, f"not installed: needed for {purpose}", remedy)
    try:
        if module:
            importlib.import_module(module)
    except Exception as error:  # a broken package raises whatever it likes
        words = (str(error).splitlines() or [""])[0]
        return Check(distribution, missing, f"{version} does not import: {type(error).__name__}: {words}", _REINSTALL)
    return Check(distribution, State.GOOD, version)


def _compiler(language: Language, source: str) -> Check:
    """Compile a one-line kernel the way a submission is compiled."""
    name = f"compiling {language}"
    array = ArrayArgument("x", "float32", (32,), Role.OUTPUT)
    try:
        with tempfile.TemporaryDirectory() as folder:
            submission = Path(folder) / "submission.py"
            submission.write_text(source, encoding="utf-8")
            (plan,) = capture(submission, [HostCall("probe", (array,))], architectures=(EMULATED_ARCHITECTURE,))
        assemble(plan, EMULATED_ARCHITECTURE)
    except WarplabError as error:
        return Check(name, State.BROKEN, f"fails: {error}", _REINSTALL)
    made_with = ", ".join(f"{tool} {version}" for tool, version in plan.versions.items())
    return Check(name, State.GOOD, made_with or "works")


def _folders() -> list[Check]:
    places = (
        ("cache", cache.folder(), "Set WARPLAB_CACHE"),
        ("temporary files", Path(tempfile.gettempdir()), "Set TMPDIR"),
    )
    checks = []
    for name, folder, variable in places:
        nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
        remedy = f"{variable} to a folder that can be written to and has room."
        if not os.access(nearest, os.W_OK):
            checks.append(Check(name, State.BROKEN, f"{folder} cannot be written to", remedy))
            continue
        free = shutil.disk_usage(nearest).free
        state = State.GOOD if free >= _LEAST_DISK else State.LIMITED
        checks.append(Check(name, state, f"{folder}, {free / 1e9:.1f} GB free", remedy))
    return checks


def _labs() -> Check:
    labs = known_labs()
    if labs:
        return Check("labs", State.GOOD, f"{len(labs)} in {labs_folder()}")
    return Check("labs", State.BROKEN, f"none in {labs_folder()}", "Run from a checkout, or set WARPLAB_LABS.")


def _toolkit() -> Check:
    """Which CUDA the installed compilers are of, and which drivers load what they make."""
    major = toolkit()
    if major is None:
        return Check("CUDA toolkit", State.BROKEN, "none: neither cupy-cuda13x nor cupy-cuda12x", _REINSTALL)
    return Check("CUDA toolkit", State.GOOD, f"CUDA {major}, for drivers from {LEAST_DRIVER[major]} on")


def _numbers(labs: Sequence[str]) -> str:
    """Each number once: two labs may have the same."""
    return ", ".join(dict.fromkeys(labs))


def _where_labs_run() -> Check:
    """What the driver, the toolkit and the architecture of the GPU mean for each lab of kernels."""
    from warplab.hardware.device import architecture_of, present

    names, gpu = kernel_labs(), present()
    if gpu is None or gpu.mps or refusal(gpu.driver, gpu.compute_capability, toolkit()):
        words = f"all {len(names)} of kernels on the emulator, without efficiency"
        return Check("labs on the GPU", State.LIMITED, words, "" if gpu is None else "See the row of the GPU.")
    card = architecture_of(gpu)
    elsewhere: dict[str, list[str]] = {}
    on_the_gpu = []
    for lab in map(find_lab, names):
        if serves(card, lab.needs):
            on_the_gpu.append(lab.name[:2])
        elif serves(card, lab.oldest):
            on_the_gpu.append(f"{lab.name[:2]} in its form for {lab.form}")
        else:
            elsewhere.setdefault(lab.needs, []).append(lab.name[:2])
    words = f"{_numbers(on_the_gpu)} on this GPU ({card})"
    words += "".join(f"; {_numbers(ones)} on the emulator (needs {needs})" for needs, ones in elsewhere.items())
    return Check("labs on the GPU", State.GOOD, words)


def _gpu() -> Check:
    from warplab.hardware.device import present

    gpu = present()
    if gpu is not None:
        memory = f"{gpu.memory / 2**30:.0f} GiB"
        found = f"{gpu.name}, {gpu.sms} SMs, {memory}, driver {gpu.driver}, CUDA {gpu.cuda}"
        if refused := refusal(gpu.driver, gpu.compute_capability, toolkit()):
            words = remedy(gpu.driver, gpu.compute_capability)
            what_to_do = f"{words[0].upper()}{words[1:]}."
            return Check("GPU", State.LIMITED, f"{found}, but {refused}: the emulator grades", what_to_do)
        if gpu.mps:
            what_to_do = f"{LEAVE_MPS[0].upper()}{LEAVE_MPS[1:]}, or let the emulator grade."
            return Check("GPU", State.LIMITED, f"{found}. {SHARED_THROUGH_MPS}", what_to_do)
        return Check("GPU", State.GOOD, found)
    driver = shutil.which("nvidia-smi")
    what_to_do = (
        "nvidia-smi is installed, so a driver may be broken or hide its GPUs: run it, and look at CUDA_VISIBLE_DEVICES."
        if driver
        else "Nothing to fix: the emulator grades all but efficiency."
    )
    return Check("GPU", State.LIMITED, "none that CUDA can use", what_to_do)


def _sanitizer() -> Check:
    path = sanitizer.find()
    if path:
        return Check("compute-sanitizer", State.GOOD, f"{path}: `autograder grade --second-opinion` asks it too")
    remedy = "Only `--second-opinion` needs it; it comes with CUDA's toolkit."
    return Check("compute-sanitizer", State.LIMITED, "not found", remedy)


def _isolation() -> Check:
    """Try to break out of every isolation that there is, in the order in which they are preferred."""
    private = [folder for folder in (CHECKOUT / "solutions", CHECKOUT / "autograder") if folder.is_dir()]
    said: list[str] = []
    for way in Isolation:
        proof = prove(way, private, thorough=True)
        if proof.holds:
            tried = f"{way}: none of {len(ATTEMPTS)} attempts to break out succeeded"
            return Check("isolation", State.GOOD, "; ".join([tried, *said]))
        said.append(_escaped(proof))
    remedy = (
        "Install bubblewrap 0.7 or later and allow it user namespaces, or use a kernel with Landlock (Linux 5.13) and "
        "seccomp. Your own submissions can be graded as it is; do not grade other people's here."
    )
    return Check("isolation", State.LIMITED, "; ".join(said), remedy)


def _escaped(proof: Proof) -> str:
    if proof.fault:
        return f"{proof.isolation} does not work here: {proof.fault.rstrip('.')}"
    return f"{proof.isolation}: a submission could {', '.join(ATTEMPTS[name] for name in proof.escapes)}"


def _emulator() -> Check:
    try:
        with ConfinedWorker(choose_machine("emulator"), own=False) as worker:
            answer = worker.call(WARM_UP, timeout=WARM_UP_SECONDS, parts=[])
            kept_in = worker.isolation
    except WorkerError as error:
        return Check("emulator", State.BROKEN, f"does not run: {error}", _REINSTALL)
    return Check("emulator", State.GOOD, f"compiled, ready in {answer['seconds']:.1f} s, kept in: {kept_in}")
