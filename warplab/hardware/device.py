"""The GPU that is present, if any, as the driver describes it.

Nothing here raises because there is no GPU, no driver or no CUDA package: then there is simply none present. Nothing
creates a CUDA context, so a process that asks can still start workers that use the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from warplab.hardware.chips import find_chip
from warplab.hardware.records import Chip

# Architectures with instructions of their own (wgmma, tcgen05), for which code is compiled with the "a" suffix.
_ACCELERATED = {(9, 0), (10, 0), (10, 3), (12, 0), (12, 1)}


@dataclass(frozen=True)
class Device:
    """One GPU. Sizes in bytes, clocks in Hz; `chip` is its datasheet, if the whole of a known chip is visible."""

    index: int  # among the devices visible to CUDA
    name: str
    uuid: str  # as nvidia-smi prints it
    compute_capability: tuple[int, int]
    sms: int
    sm_clock: float  # the largest
    memory_clock: float  # the largest
    memory: int
    l2: int
    shared_per_sm: int
    shared_per_block: int  # with opt-in
    driver: str  # "580.95.05"
    cuda: str  # the newest CUDA version that the driver knows, "13.0"
    chip: Chip | None
    mps: bool = False  # contexts of this process would be clients of the Multi-Process Service


def architecture(compute_capability: tuple[int, int]) -> str:
    """The name of the architecture to compile for: (9, 0) is "sm_90a", (8, 0) is "sm_80"."""
    major, minor = compute_capability
    return f"sm_{major}{minor}{'a' if compute_capability in _ACCELERATED else ''}"


def architecture_of(device: Device) -> str:
    """The name of the architecture to compile for on a device, with the instructions only it has: "sm_90a"."""
    return architecture(device.compute_capability)


@cache
def count() -> int:
    """How many GPUs CUDA can see (CUDA_VISIBLE_DEVICES applies); 0 without a GPU, a driver or the CUDA packages."""
    driver = _initialised_driver()
    if driver is None:
        return 0
    error, number = driver.cuDeviceGetCount()
    return 0 if int(error) else int(number)


@cache
def present(index: int = 0) -> Device | None:
    """The GPU number `index` of those that CUDA can see, or None. The answer is kept: devices do not come and go."""
    if index >= count():
        return None
    driver = _initialised_driver()
    try:
        return _describe(driver, index)
    except RuntimeError:  # a GPU that has fallen off the bus answers nothing: it cannot be used
        return None


def all_present() -> list[Device]:
    """Every GPU that CUDA can see."""
    return [device for index in range(count()) if (device := present(index)) is not None]


def alike() -> list[Device]:
    """The first GPU and those that are as it is: what is timed on one may be compared with what is on another."""
    devices = all_present()
    return [device for device in devices if _kind(device) == _kind(devices[0])]


def _kind(device: Device) -> tuple[str, int, int]:
    return device.name, device.sms, device.memory


def _initialised_driver() -> Any:
    """The driver API's module after cuInit, or None where that does not work."""
    try:
        from cuda.bindings import driver

        (error,) = driver.cuInit(0)
    except (ImportError, RuntimeError, OSError):
        return None
    return None if int(error) else driver


def _describe(driver: Any, index: int) -> Device:
    def checked(answer: tuple) -> Any:
        error, value = answer
        if int(error):
            raise RuntimeError(f"the CUDA driver answered {error!r}")
        return value

    handle = checked(driver.cuDeviceGet(index))

    def attribute(name: str) -> int:
        enum = driver.CUdevice_attribute
        return int(checked(driver.cuDeviceGetAttribute(getattr(enum, f"CU_DEVICE_ATTRIBUTE_{name}"), handle)))

    name = checked(driver.cuDeviceGetName(256, handle)).split(b"\0")[0].decode()
    raw = bytes(checked(driver.cuDeviceGetUuid(handle)).bytes).hex()
    version = checked(driver.cuDriverGetVersion())
    sms = attribute("MULTIPROCESSOR_COUNT")
    chip = find_chip(name)
    uuid = f"GPU-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"
    return Device(
        index=index,
        name=name,
        uuid=uuid,
        compute_capability=(attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
        sms=sms,
        sm_clock=attribute("CLOCK_RATE") * 1e3,
        memory_clock=attribute("MEMORY_CLOCK_RATE") * 1e3,
        memory=int(checked(driver.cuDeviceTotalMem(handle))),
        l2=attribute("L2_CACHE_SIZE"),
        shared_per_sm=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        shared_per_block=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        driver=_driver_version(),
        cuda=f"{version // 1000}.{version % 1000 // 10}",
        # A slice of a GPU (MIG) keeps the name and has fewer SMs: the datasheet's peaks are not its own.
        chip=chip if chip is not None and chip.sms == sms else None,
        mps=_through_mps(driver, handle),
    )


def _through_mps(driver: Any, handle: Any) -> bool:
    """Whether this process would be a client of MPS; False for a driver before CUDA 12.3, which cannot say."""
    attribute = getattr(driver.CUdevice_attribute, "CU_DEVICE_ATTRIBUTE_MPS_ENABLED", None)
    if attribute is None:  # the bindings are older
        return False
    error, enabled = driver.cuDeviceGetAttribute(attribute, handle)
    return not int(error) and bool(enabled)


def _driver_version() -> str:
    """The driver's version from NVML; "unknown" where NVML is missing, as in some containers."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            version = pynvml.nvmlSystemGetDriverVersion()
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # NVML has an exception class for each way to be absent, and ImportError comes first
        return "unknown"
    return version.decode() if isinstance(version, bytes) else str(version)
