"""Launches that Numba cannot make by itself: kernels with more than 48 KB of dynamic shared memory."""

from __future__ import annotations

from typing import Any

LIMIT = 48 * 1024  # bytes that every kernel may have without asking (CUDA C++ Programming Guide, "Shared Memory")


class LargeShared:
    """A kernel that is allowed what shared memory it is launched with; made by `large_shared`."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.__doc__ = kernel.__doc__

    def __getitem__(self, config: Any) -> Any:
        launcher = self.kernel[config]
        bytes_wanted = config[3] if len(config) > 3 else 0
        if bytes_wanted <= LIMIT or not hasattr(launcher, "sharedmem"):  # the latter while a submission is captured
            return launcher

        def launch(*arguments: Any) -> None:
            types = tuple(self.kernel.typeof_pyval(argument) for argument in arguments)
            _allow(self.kernel.compile(types), bytes_wanted)
            launcher(*arguments)

        return launch


def large_shared(kernel: Any) -> LargeShared:
    """Decorate a `cuda.jit` kernel so that `kernel[grid, block, 0, bytes](...)` may ask for more than 48 KB.

    The judge and the emulator need no permission; a launch by Numba itself does. An SM of a GPU of compute capability
    9.0 has 227 KB for a block (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
    """
    return LargeShared(kernel)


def _allow(compiled: Any, size: int) -> None:
    from cuda.bindings import driver

    function = compiled.library.get_cufunc()
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (status,) = driver.cuKernelSetAttribute(attribute, size, function.handle, function.device.id)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise ValueError(f"A block cannot have {size} bytes of dynamic shared memory on this GPU ({status.name}).")
