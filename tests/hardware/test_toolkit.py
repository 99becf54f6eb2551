"""Which drivers load what which toolkit compiles, and what is said where they do not."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace

import pytest

from autograder.records.machine import choose_machine, serves
from autograder.records.status import Executor
from autograder.spec.lab import CHECKOUT, find_any, known_labs
from warplab.errors import DeviceError
from warplab.hardware import device
from warplab.hardware.toolkit import LEAST_CAPABILITY, LEAST_DRIVER, installed, refusal, remedy

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(
    ("driver", "major", "refused"),
    [
        ("580.65.06", 13, False),  # the oldest of the 13 series: release notes of CUDA 13.0, table of drivers
        ("580.159.04", 13, False),
        ("575.57.08", 13, True),
        ("550.54.15", 13, True),  # what Colab had
        ("550.54.15", 12, False),
        ("525.60.13", 12, False),
        ("470.256.02", 12, True),
        ("470.256.02", None, False),  # no toolkit of ours: nothing is known
        ("unknown", 13, False),  # a container without NVML
    ],
)
def test_a_driver_loads_what_toolkits_of_its_time_compile(driver: str, major: int | None, refused: bool) -> None:
    words = refusal(driver, (7, 5), major)
    assert bool(words) is refused
    assert not refused or (driver in words and LEAST_DRIVER[major or 0] in words)


@pytest.mark.parametrize(
    ("capability", "major", "driver", "refused", "to_do"),
    [
        ((7, 0), 13, "580.65.06", "sm_75 and newer, not for sm_70", "remove .venv and run `make venv`"),  # V100
        ((7, 0), 12, "580.65.06", "", ""),
        ((6, 1), 12, "550.54.15", "sm_70 and newer, not for sm_61", "use a GPU of sm_70 or newer"),
        ((7, 5), 13, "550.54.15", "driver 550.54.15", "remove .venv and run `make venv`"),
        ((7, 5), 13, "470.57.02", "driver 470.57.02", "renew the driver, from 525.60.13 on"),
        ((7, 5), 12, "470.57.02", "driver 470.57.02", "renew the driver, from 525.60.13 on"),
    ],
)
def test_what_is_refused_is_said_with_what_helps(
    capability: tuple[int, int], major: int, driver: str, refused: str, to_do: str
) -> None:
    words = refusal(driver, capability, major)
    assert refused in words and bool(words) is bool(refused)
    assert not refused or to_do in remedy(driver, capability)


@pytest.mark.processes
def test_an_old_driver_leaves_the_emulator_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(name="Tesla T4", driver="470.57.02", compute_capability=(7, 5), mps=False)
    monkeypatch.setattr(device, "present", lambda index=0: gpu)
    monkeypatch.setattr("autograder.records.machine.toolkit", lambda: 13)
    machine = choose_machine("auto")
    assert machine.device is Executor.EMULATOR and "driver 470.57.02" in machine.hardware
    with pytest.raises(DeviceError, match=r"470\.57\.02.*renew the driver.*--device emulator"):
        choose_machine("gpu")
    monkeypatch.setattr("autograder.records.machine.toolkit", lambda: None)
    assert choose_machine("gpu").device is Executor.GPU


def test_every_toolkit_that_installs_has_its_least_driver() -> None:
    extras = PROJECT["optional-dependencies"]
    majors = {int(name[2:]) for name in extras if name.startswith("cu") and name[2:].isdigit()}
    assert majors == set(LEAST_DRIVER) == set(LEAST_CAPABILITY)


def test_the_distribution_that_is_there_is_named() -> None:
    assert installed(("no-such-package", "numpy")) == "numpy"
    assert installed(("no-such-package", "nor-this")) == "no-such-package"


@pytest.mark.parametrize(
    ("architecture", "served"),
    [
        ("sm_75", {"", "sm_75"}),  # T4
        ("sm_80", {"", "sm_75", "sm_80"}),  # A100
        ("sm_89", {"", "sm_75", "sm_80"}),  # L4, RTX 4090
        ("sm_90a", {"", "sm_75", "sm_80", "sm_90", "sm_90a"}),
        ("sm_100a", {"", "sm_75", "sm_80", "sm_90"}),  # wgmma is Hopper's alone: PTX ISA, "wgmma.mma_async", Target ISA
        ("sm_120a", {"", "sm_75", "sm_80", "sm_90"}),
    ],
)
def test_hoppers_own_instructions_run_on_hopper_alone(architecture: str, served: set[str]) -> None:
    assert {needs for needs in ("", "sm_75", "sm_80", "sm_90", "sm_90a") if serves(architecture, needs)} == served


@pytest.mark.parametrize(
    ("needs", "name"), [("", "sm_90a"), ("sm_80", "sm_90a"), ("sm_90a", "sm_90a"), ("sm_100a", "sm_100a")]
)
def test_the_emulator_is_what_a_labs_kernels_need(needs: str, name: str) -> None:
    machine = choose_machine("emulator", needs)
    assert machine.architecture == name and f"emulator ({name})" in machine.hardware


@pytest.mark.processes
def test_a_lab_that_a_gpu_cannot_run_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(name="NVIDIA L4", driver="580.65.06", compute_capability=(8, 9), mps=False)
    monkeypatch.setattr(device, "present", lambda index=0: gpu)
    monkeypatch.setattr("autograder.records.machine.toolkit", lambda: 13)
    chosen = {name: choose_machine("auto", find_any(name).needs) for name in known_labs()}
    emulated = {name for name, machine in chosen.items() if machine.device is Executor.EMULATOR}
    hopper = {"08_hopper_hgemm", "09_fp8_gemm", "10_index_shuffle", "11_grouped_gemm", "11_k_grouped_gemm"}
    assert emulated == {*hopper, "19_blackwell_gemm"}
    assert "need sm_90a, which the NVIDIA L4 (sm_89) is not" in chosen["08_hopper_hgemm"].hardware
    with pytest.raises(DeviceError, match="need sm_90a"):
        choose_machine("gpu", "sm_90a")
    own = choose_machine("auto", "sm_80", own=True)
    assert own.device is Executor.GPU and own.instead is not None and own.instead.device is Executor.EMULATOR
    assert (
        "The NVIDIA L4 (sm_89) does not take this submission: It is too large"
        in own.instead.after("It is too large.").hardware
    )
    assert choose_machine("gpu", own=True).instead is None and choose_machine("auto").instead is None
