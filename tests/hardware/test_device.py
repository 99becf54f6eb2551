"""Detection must never raise, and must not claim a chip that is only there in part."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from warplab.hardware import architecture, architecture_of, present
from warplab.hardware import device as device_module
from warplab.hardware.chips import H200
from warplab.hardware.device import alike


class FakeDriver:
    """The driver API's answers for one GPU, shaped as cuda.bindings gives them."""

    class CUdevice_attribute:
        def __getattr__(self, name: str) -> str:
            return name

    def __init__(self, sms: int) -> None:
        self.CUdevice_attribute = FakeDriver.CUdevice_attribute()
        self.attributes = {
            "MULTIPROCESSOR_COUNT": sms,
            "COMPUTE_CAPABILITY_MAJOR": 9,
            "COMPUTE_CAPABILITY_MINOR": 0,
            "CLOCK_RATE": 1_980_000,
            "MEMORY_CLOCK_RATE": 3_201_000,
            "L2_CACHE_SIZE": 60 * 2**20,
            "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 * 1024,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 * 1024,
            "MPS_ENABLED": 0,
        }

    def cuDeviceGet(self, index: int) -> tuple:
        return 0, index

    def cuDeviceGetName(self, length: int, handle: int) -> tuple:
        return 0, b"NVIDIA H200".ljust(length, b"\0")

    def cuDeviceGetUuid(self, handle: int) -> tuple:
        return 0, SimpleNamespace(bytes=bytes(range(16)))

    def cuDriverGetVersion(self) -> tuple:
        return 0, 13010

    def cuDeviceTotalMem(self, handle: int) -> tuple:
        return 0, 150_000_000_000

    def cuDeviceGetAttribute(self, attribute: str, handle: int) -> tuple:
        return 0, self.attributes[attribute.removeprefix("CU_DEVICE_ATTRIBUTE_")]


def test_a_whole_h200_is_described_with_its_datasheet() -> None:
    device = device_module._describe(FakeDriver(sms=132), 0)
    assert device.chip is H200
    assert device.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (device.name, device.cuda, device.sm_clock) == ("NVIDIA H200", "13.1", 1.98e9)
    assert architecture_of(device) == "sm_90a"


def test_a_slice_of_a_gpu_has_no_datasheet() -> None:
    assert device_module._describe(FakeDriver(sms=16), 0).chip is None


@pytest.mark.parametrize(("answer", "shared"), [((0, 1), True), ((0, 0), False), ((1, None), False), ((1, 1), False)])
def test_a_client_of_mps_is_known_where_the_driver_can_say(
    monkeypatch: pytest.MonkeyPatch, answer: tuple, shared: bool
) -> None:
    driver = FakeDriver(sms=132)
    others = driver.cuDeviceGetAttribute
    monkeypatch.setattr(
        driver,
        "cuDeviceGetAttribute",
        lambda name, handle: answer if name.endswith("MPS_ENABLED") else others(name, handle),
        raising=False,
    )
    assert device_module._describe(driver, 0).mps is shared


def test_a_lost_gpu_is_not_present(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(sms=132)
    monkeypatch.setattr(driver, "cuDeviceTotalMem", lambda handle: (46, 0), raising=False)
    monkeypatch.setattr(device_module, "_initialised_driver", lambda: driver)
    monkeypatch.setattr(device_module, "count", lambda: 1)
    assert present.__wrapped__() is None


@pytest.mark.parametrize(
    ("capability", "name"),
    [((7, 0), "sm_70"), ((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a")],
)
def test_architecture(capability: tuple[int, int], name: str) -> None:
    assert architecture(capability) == name


@pytest.mark.processes
def test_nothing_is_present_when_no_gpu_is_visible() -> None:
    code = "from warplab.hardware import count, present; assert (count(), present()) == (0, None)"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.processes
def test_importing_costs_no_cuda_import() -> None:
    code = "import sys, warplab.hardware; assert not {'cuda', 'pynvml', 'cupy', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_gpus_of_the_first_ones_kind_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [("H200", 132, 141), ("H200", 132, 141), ("H200", 16, 18), ("T4", 40, 16), ("H200", 132, 141)]
    gpus = [SimpleNamespace(index=i, name=n, sms=s, memory=m) for i, (n, s, m) in enumerate(kinds)]
    monkeypatch.setattr(device_module, "count", lambda: len(gpus))
    monkeypatch.setattr(device_module, "present", lambda index: gpus[index] if index != 1 else None)  # it is lost
    assert [device.index for device in alike()] == [0, 4]
    monkeypatch.setattr(device_module, "count", lambda: 0)
    assert alike() == []


@pytest.mark.gpu
def test_the_gpu_present_is_as_its_datasheet_says() -> None:
    device = present()
    assert device is not None and device.driver != "unknown"
    if device.chip is not None:
        chip = device.chip
        assert device.compute_capability == chip.compute_capability
        assert (device.shared_per_sm, device.shared_per_block) == (chip.shared_per_sm, chip.shared_per_block)
        assert device.l2 == pytest.approx(chip.l2, rel=0.01)
        assert device.sm_clock == pytest.approx(chip.boost_clock, rel=0.01)
        assert device.memory == pytest.approx(chip.memory, rel=0.08)
