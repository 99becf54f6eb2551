"""Who races: the template's choices and torch.matmul, all on the same three arrays of the device."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import cupy
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, Kernel, ObjectCode, Stream

from autograder.spec.half_products import HALF_SMALLEST, HALF_UNIT, place
from autograder.spec.task import Family
from benchmarks.search.cublas import WORKSPACE, Operands
from systems.search.half_product import HalfChoice, Shape, boxes, source_of
from warplab.gpu.executor import checked
from warplab.gpu.raw_launch import RawLaunch
from warplab.hardware.chips import H200
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, Cubin, HostCall, Launch, Role
from warplab.ptx import tensor_map

_AT_ONCE = 3  # kernels in one file: a capture process has 40 s of a processor
_CAPTURED = 256, 256, 1024  # the kernels are the same for every shape
_UNIT = 2.0**-24


def compiled(choices: Sequence[HalfChoice], architecture: str, threads: int) -> dict[str, Cubin]:
    """The machine code of each kernel, by its name; so many compilers run side by side. Raises CompileError."""
    m, n, k = _CAPTURED
    arguments = (
        ArrayArgument("a", "float16", (m, k), Role.INPUT),
        ArrayArgument("b", "float16", (k, n), Role.INPUT),
        ArrayArgument("c", "float16", (m, n), Role.OUTPUT),
    )

    def make(some: Sequence[HalfChoice]) -> dict[str, Cubin]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "product.py"
            path.write_text(source_of(some, H200.sms, architecture), encoding="utf-8")
            calls = [HostCall(f"{choice.name}_product", arguments) for choice in some]
            plans = [assemble(plan, architecture) for plan in capture(path, calls, (architecture,), timeout=120)]
        return {c.name: next(iter(p.kernels.values())).cubins[architecture] for c, p in zip(some, plans, strict=True)}

    parts = [choices[begin : begin + _AT_ONCE] for begin in range(0, len(choices), _AT_ONCE)]
    with ThreadPoolExecutor(threads) as pool:
        return {name: cubin for made in pool.map(make, parts) for name, cubin in made.items()}


def load(cubins: Mapping[str, Cubin], choices: Sequence[HalfChoice]) -> dict[str, Kernel]:
    """The kernels on this device, by name, each allowed the shared memory that it needs."""
    kernels = {}
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    for choice in choices:
        kernel = ObjectCode.from_cubin(cubins[choice.name].image, name=choice.name).get_kernel(choice.name)
        checked(driver.cuKernelSetAttribute(attribute, choice.shared_bytes, kernel.handle, Device().device_id))
        kernels[choice.name] = kernel
    return kernels


class Arena:
    """a, b and c of one shape on the device, what c has to be, and a workspace for the library.

    PyTorch's current stream must be the one that candidates launch in.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        import torch

        m, n, k = self.shape = shape
        torch.manual_seed(seed)
        self.a, self.b = (torch.randn(size, device="cuda").half() for size in ((m, k), (k, n)))
        self.c = torch.empty((m, n), dtype=torch.float16, device="cuda")
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")
        self._true = self.a.double() @ self.b.double()
        sums = (k + 16) * _UNIT * (self.a.double().abs() @ self.b.double().abs())
        self._allowed = HALF_UNIT * (self._true.abs() + sums) + sums + HALF_SMALLEST / 2

    def operands(self) -> Operands:
        """The addresses."""
        return Operands(self.shape, *(array.data_ptr() for array in (self.a, self.b, self.c, self.workspace)))

    def is_right(self, candidate: Any) -> bool:
        """Whether a candidate's product, into a c of NaN, is as near to float64's as float32 sums in any order and one
        rounding are (autograder.spec.half_products.bound)."""
        self.c.fill_(float("nan"))
        candidate.launch()
        return bool(((self.c.double() - self._true).abs() <= self._allowed).all())

    def is_exact(self, candidate: Any, seed: int) -> bool:
        """Whether it multiplies whole numbers exactly, among them large ones that half-precision sums cannot carry, as
        the labs place them. a and b are afterwards what they were."""
        import torch

        kept = self.a.clone(), self.b.clone()
        for array in (self.a, self.b):
            array.copy_(torch.randint(-4, 5, array.shape, device="cuda"))
        values = {"a": cupy.asarray(self.a), "b": cupy.asarray(self.b)}  # the same memory
        place(cupy, Family.INTEGERS, values, Random(seed))
        self.c.fill_(float("nan"))
        candidate.launch()
        exact = bool((self.c == (self.a.double() @ self.b.double()).half()).all())
        for array, before in zip((self.a, self.b), kept, strict=True):
            array.copy_(before)
        return exact


class Ours:
    """A choice of the template as a candidate."""

    launches = 1

    def __init__(self, choice: HalfChoice, kernel: Kernel, arena: Arena, stream: Stream, sms: int) -> None:
        arrays = {name: cupy.asarray(array) for name, array in (("a", arena.a), ("b", arena.b), ("c", arena.c))}
        self._stream = stream
        maps = [tensor_map(arrays[name], box) for name, box in boxes(choice).items()]
        plain = [arrays["c"]] if maps else list(arrays.values())
        pointers = [np.asarray(np.uint64(array.data.ptr)) for array in plain]
        sizes = [np.asarray(np.int32(size)) for size in arena.shape]
        blocks = *choice.grid(arena.shape, sms), 1
        item = Launch(choice.name, blocks, (choice.threads, 1, 1), (), choice.shared_bytes)
        self._launch = RawLaunch(item, kernel, [*pointers, *sizes, *maps])

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        self._launch(self._stream)

    def check(self, turn: int) -> None:
        """Nothing to check: the first launch was compared."""


class Torch:
    """torch.matmul as a candidate, with PyTorch's own settings and in its current stream."""

    launches = 2  # at most: a product, and a sum of its parts

    def __init__(self, arena: Arena) -> None:
        import torch

        self._matmul, self._a, self._b, self._c = torch.matmul, arena.a, arena.b, arena.c

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        self._matmul(self._a, self._b, out=self._c)

    def check(self, turn: int) -> None:
        """Nothing to check."""
