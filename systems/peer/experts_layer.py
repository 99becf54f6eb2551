"""A rank's side of the layer of experts on a GPU: its memory and launches.

PyTorch is no dependency of the base install, so this module is imported in a rank's process only.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import torch
import torch.distributed as dist

from systems.peer import experts
from systems.peer.experts import THREADS, Sizes
from systems.peer.kernels import PATIENCE, PeerError, fault_in
from systems.peer.loading import functions
from systems.peer.shared_memory import SharedMemory
from warplab.hardware.device import architecture_of, present

_OLDEST = (8, 0)  # the first with products of bfloat16


class ExpertsOverGpus:
    """The layer of experts.cu on one of several GPUs; all ranks make one together, of the same sizes.

    Ranks must make the same calls in the same order on one stream each, which may be captured in CUDA graphs, with
    nothing else running on their GPUs. `way` says how the memory is shared. Raises PeerError on all ranks where it
    cannot be shared.
    """

    def __init__(self, rank: int, ranks: int, group: Any, sizes: Sizes) -> None:
        if ranks != sizes.ranks:
            raise PeerError(f"{ranks} ranks make a layer for {sizes.ranks}: give all of them one `Sizes`.")
        self.rank, self.sizes = rank, sizes
        self._kernel = self._load()
        counts: list[Any] = [None] * ranks
        sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
        dist.all_gather_object(counts, sms, group=group)
        self.blocks = min(counts)  # one per SM: blocks wait for each other, so all have to be there
        self._memory = SharedMemory(sizes.memory, rank, ranks, group)
        self.way = self._memory.way
        self._addresses = cupy.asarray(np.array(self._memory.addresses, np.uint64))
        self._scratch = {name: cupy.zeros(count, dtype) for name, (dtype, count) in sizes.scratch.items()}
        self._state = cupy.zeros(2 * self.blocks, np.uint32)
        cupy.cuda.Device().synchronize()
        dist.barrier(group=group)  # nobody sends before all memory is zero

    def __call__(
        self,
        x: torch.Tensor,
        chosen: torch.Tensor,
        weight: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
        out: torch.Tensor,
    ) -> None:
        """out = the weighted sums of this rank's tokens `x` [tokens, width], bfloat16.

        `chosen` (int32) and `weight` (float32) [ranks, tokens, choices] are the routes of all ranks; gate_up [own
        experts, 2 hidden, width] and down [own experts, width, hidden], bfloat16, are this rank's experts. A token's
        choices are distinct and from 0 to experts - 1: nothing checks them.

        Raises PeerError for arrays of another shape or dtype, and for those that are not on a GPU.
        """
        size = self.sizes
        routes = (size.ranks, size.tokens, size.choices)
        asked = {
            "x": (x, torch.bfloat16, (size.tokens, size.width)),
            "chosen": (chosen, torch.int32, routes),
            "weight": (weight, torch.float32, routes),
            "gate_up": (gate_up, torch.bfloat16, (size.own, 2 * size.hidden, size.width)),
            "down": (down, torch.bfloat16, (size.own, size.width, size.hidden)),
            "out": (out, torch.bfloat16, (size.tokens, size.width)),
        }
        for name, (array, dtype, shape) in asked.items():
            if (
                not array.is_cuda
                or array.dtype != dtype
                or tuple(array.shape) != shape
                or not array.is_contiguous()
                or array.data_ptr() % 16
            ):
                raise PeerError(
                    f"{name}: give a contiguous {dtype} array {list(shape)} on the GPU, aligned to 16 bytes."
                )
        arguments = (
            size.numbers(), np.uint32(self.rank), np.uint32(1), np.uint32(size.tiles), np.uint64(PATIENCE * 1e9),
            self._state, *(np.uint64(array.data_ptr()) for array, _, _ in asked.values()), *self._scratch.values(),
            np.uint64(self._memory.addresses[self.rank]), self._addresses, np.uint64(0), np.uint32(0),
        )  # fmt: skip
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            self._kernel((self.blocks,), (THREADS,), arguments)

    def fault(self) -> str:
        """A sentence about the first block that waited in vain since the layer was made; "" if none has."""
        return fault_in(self._state.get(), self.rank, self.blocks)

    def _load(self) -> Any:
        device = present(torch.cuda.current_device())
        assert device is not None
        if device.compute_capability < _OLDEST:
            raise PeerError(f"{device.name} has no products of bfloat16: the layer needs compute capability 8.0.")
        return functions(experts.compiled(architecture_of(device)), [experts.NAME])[experts.NAME]
