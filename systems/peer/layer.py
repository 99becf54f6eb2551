"""A rank's side of the row-parallel layer on a GPU: its memory, tensor maps and launches.

PyTorch is no dependency of the base install, so this module is imported in a rank's process only.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import torch
import torch.distributed as dist

from systems.peer import row_parallel
from systems.peer.kernels import PATIENCE, PeerError, fault_in
from systems.peer.loading import functions
from systems.peer.row_parallel import BOX_A, BOX_B, BOX_C, PAIR, RANKS, THREADS, WIDTHS, Room, Size
from systems.peer.shared_memory import SharedMemory
from warplab.gpu.tensor_map_driver import encode
from warplab.hardware.device import architecture_of, present


class RowParallel:
    """C = A0 B0 + A1 B1 on both of two ranks, for up to `m` rows and `n` columns of C; both ranks make one together.

    Ranks must make the same calls in the same order on one stream each, which may be captured in CUDA graphs. The GPU
    has to be a Hopper, with nothing else running on it. `way` says how the memory is shared, and `out` is where C comes
    to lie. Raises PeerError on both ranks where it cannot be shared, or where there are not two of them.
    """

    def __init__(self, rank: int, ranks: int, group: Any, m: int, n: int) -> None:
        if ranks != RANKS:
            raise PeerError(f"{ranks} ranks: the row-parallel layer is for {RANKS}.")
        self.rank, self._room = rank, Room(m, n)
        self._kernels = self._load()
        counts: list[Any] = [None] * ranks
        sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
        dist.all_gather_object(counts, sms, group=group)
        self.blocks = min(counts)  # one an SM, on both: they wait for each other, so all have to be there
        self._memory = SharedMemory(self._room.nbytes, rank, ranks, group)
        self.way = self._memory.way
        memory = cupy.cuda.UnownedMemory(self._memory.addresses[rank] + self._room.out, 2 * m * n, self._memory)
        words = cupy.ndarray((m * n,), np.int16, cupy.cuda.MemoryPointer(memory, 0))
        self.out = torch.as_tensor(words, device="cuda").view(torch.bfloat16)
        self._state = cupy.zeros(2 * self.blocks, np.uint32)
        self._pair = np.zeros((), PAIR)
        pair: Any = self._pair
        pair["rank"], pair["most"], pair["slots"] = rank, self._room.most, self._room.slots
        pair["patience"], pair["state"] = int(PATIENCE * 1e9), self._state.data.ptr
        pair["memory"] = self._memory.addresses
        cupy.cuda.Device().synchronize()
        dist.barrier(group=group)  # nobody sends before all memory is zero

    def __call__(self, a: torch.Tensor, b: torch.Tensor, width: int = 0) -> torch.Tensor:
        """C (m x n) of this rank's `a` (m x k) and `b` (k x n), contiguous bfloat16.

        `width` is the columns of a tile, one of WIDTHS; 0: as `Size.width` says. C lies in the shared memory, and this
        rank's next call overwrites it.

        Raises PeerError for arrays that the kernel cannot take.
        """
        if not all(x.dtype == torch.bfloat16 and x.dim() == 2 and x.is_contiguous() for x in (a, b)):
            raise PeerError("The layer takes contiguous matrices of bfloat16: not these.")
        if a.shape[1] != b.shape[0]:
            raise PeerError(f"A of {list(a.shape)} and B of {list(b.shape)} have no product.")
        if a.data_ptr() % 16 or b.data_ptr() % 16:
            raise PeerError("A matrix does not begin at a multiple of 16 bytes: give whole arrays, no slices.")
        size = Size(a.shape[0], b.shape[1], a.shape[1])
        self._room.holds(size)
        width = width or size.width(self.blocks)
        m, n, k = size.m, size.n, size.k
        maps = [
            encode(row_parallel.tensor_map("a", 0, m, k, BOX_A), a.data_ptr()),
            encode(row_parallel.tensor_map("b", 0, k, n, BOX_B), b.data_ptr()),
            *(
                encode(row_parallel.tensor_map("c", 0, m, n, BOX_C), self._memory.addresses[rank] + self._room.out)
                for rank in (self.rank, 1 - self.rank)
            ),
        ]
        arguments = (self._pair, *maps, np.int32(m), np.int32(n), np.int32(k))
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            shared = row_parallel.shared_bytes(width)
            self._kernels[width]((self.blocks,), (THREADS,), arguments, shared_mem=shared)
        return self.out[: m * n].view(m, n)

    def fault(self) -> str:
        """A sentence about the first block that waited in vain since the layer was made; "" if none has."""
        return fault_in(self._state.get(), self.rank, self.blocks)

    def _load(self) -> dict[int, Any]:
        device = present(torch.cuda.current_device())
        assert device is not None
        if device.compute_capability[0] != 9:
            raise PeerError(f"The layer needs Hopper's tensor cores: this is an {device.name}.")
        module = row_parallel.compiled(architecture_of(device))
        loaded = functions(module, map(row_parallel.name, WIDTHS))
        found = {width: loaded[row_parallel.name(width)] for width in WIDTHS}
        for width, kernel in found.items():
            kernel.max_dynamic_shared_size_bytes = row_parallel.shared_bytes(width)
        return found
