"""What this machine can grade on, and the words for it in a report."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

from autograder.records.status import Executor
from autograder.spec.lab import emulated_architecture
from warplab.errors import DeviceError
from warplab.hardware.toolkit import CUPY, refusal, remedy, toolkit
from warplab.plan.capture.escape_probe import strongest
from warplab.sandbox.isolation import Isolation

_PACKAGES = ("warplab", "numba", "numba-cuda", *CUPY, "cuda-core", "nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "numpy")

# A time that is measured beside other kernels is no grade, and a fault of one client may end the work of all.
SHARED_THROUGH_MPS = "The GPU is shared through MPS, where other processes' kernels run beside those that are timed"
LEAVE_MPS = "set CUDA_MPS_PIPE_DIRECTORY to an empty folder, have the MPS daemon stopped"


class ReducedIsolation(DeviceError):
    """Submissions of others are to be graded where their host code could read what the judge can read."""


@dataclass(frozen=True)
class Machine:
    """The device that grades: `architecture` is what plans are assembled for, `hardware` names it in reports.

    `isolation` is what keeps a submission's host code from the machine while it is captured. `instead` grades a
    submission that this GPU does not take, for who would rather have no time than no grade. `index` is the GPU's among
    those that CUDA can see.
    """

    device: Executor
    architecture: str
    hardware: str
    isolation: Isolation = field(default_factory=strongest)
    instead: Machine | None = None
    index: int = 0

    def after(self, refusal: str) -> Machine:
        """This machine for a submission that a GPU did not take, for the reason in the sentence `refusal`."""
        return replace(self, hardware=f"{self.hardware}: {refusal.rstrip('.')}")


def choose_machine(wanted: str, needs: str = "", own: bool = False, index: int = 0) -> Machine:
    """The machine for "auto", "gpu" or "emulator", and for a lab whose kernels need an architecture (`serves`); with
    the GPU of this index, where there are several.

    With "auto" the emulator stands by for one's `own` submissions that the GPU is too old or too small for. Of a class
    all are graded in one way, or who asks for too much would not be timed. Raises DeviceError if a GPU is wanted and
    there is none that serves.
    """
    if wanted == "emulator":
        return _emulator(needs)
    from warplab.hardware.device import architecture_of, present

    gpu = present(index)
    if gpu is None:
        why = "No usable GPU was found: run `autograder doctor`"
    elif refused := refusal(gpu.driver, gpu.compute_capability, toolkit()):
        why = f"The GPU cannot be used, for {refused}: {remedy(gpu.driver, gpu.compute_capability)}"
    elif gpu.mps:
        why = f"{SHARED_THROUGH_MPS}: {LEAVE_MPS}"
    elif not serves(architecture_of(gpu), needs):
        why = f"This lab's kernels need {needs}, which the {gpu.name} ({architecture_of(gpu)}) is not"
    else:
        name, stands_by = architecture_of(gpu), own and wanted == "auto"
        instead = _emulator(needs, f". The {gpu.name} ({name}) does not take this submission")
        found = Machine(Executor.GPU, name, f"{gpu.name}, driver {gpu.driver}", index=index)
        return replace(found, instead=instead) if stands_by and name != emulated_architecture(needs) else found
    if wanted == "gpu":
        raise DeviceError(f"{why}, or grade with --device emulator.")
    return _emulator(needs) if gpu is None else _emulator(needs, f". {why}")


def serves(architecture: str, needs: str) -> bool:
    """Whether a GPU of this architecture runs what `needs` names: "sm_80" is that or newer, "sm_90a" that one alone,
    for instructions with an "a" are dropped by the next generation; "" is any."""
    if not needs or needs.endswith("a"):
        return needs in ("", architecture)
    return _number(architecture) >= _number(needs)


def _number(architecture: str) -> int:
    return int(architecture.removeprefix("sm_").rstrip("a"))


def _emulator(needs: str, why: str = "") -> Machine:
    name = emulated_architecture(needs)
    return Machine(Executor.EMULATOR, name, f"emulator ({name}) on {platform.machine()}{why}")


def require_isolation(isolation: Isolation, source: Path, allow_reduced: bool = False) -> None:
    """Raise ReducedIsolation if the submission at `source`, which may be another person's, must not run here."""
    if isolation is Isolation.REDUCED and not allow_reduced:
        raise ReducedIsolation(
            f"{source} lies outside this checkout's labs and may be another person's, and this machine cannot keep "
            "it from reading your files: install bubblewrap (`autograder doctor` says more), or accept that with "
            "--allow-reduced-isolation."
        )


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a grade depends on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
