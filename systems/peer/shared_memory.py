"""Memory of each rank that all of them can write to.

PyTorch is no dependency of the base install, so this module is imported in a rank's process only.
"""

from __future__ import annotations

import os
from typing import Any

import cupy
import torch
import torch.distributed as dist

from systems.peer.kernels import PeerError

_runtime = cupy.cuda.runtime


class SharedMemory:
    """So many bytes on each rank's current GPU, zeros; all ranks of a group make it together, and keep it.

    `way` says how it is shared, `addresses` where each rank's lies as this one sees it. Raises PeerError on all ranks
    where GPUs cannot write to each other's memory.
    """

    def __init__(self, nbytes: int, rank: int, ranks: int, group: Any) -> None:
        self.nbytes = nbytes
        self._rank, self._ranks, self._group = rank, ranks, group
        self._kept: list[Any] = []
        self.way, self.addresses = self._share()

    def _share(self) -> tuple[str, list[int]]:
        """How memory is shared, and each rank's address of it here. The first way that works for all ranks counts."""
        said = []
        for name, share in (("CUDA IPC", self._by_ipc), ("torch's symmetric memory", self._by_torch)):
            addresses, problem = share()
            problems: list[Any] = [None] * self._ranks
            dist.all_gather_object(problems, problem, group=self._group)
            if not any(problems):
                return name, addresses
            said.append(f"{name}: {next(filter(None, problems))}")
        raise PeerError(f"The GPUs cannot write to each other's memory here ({'; '.join(said)[:600]}).")

    def _by_ipc(self) -> tuple[list[int], str]:
        problem, handle, addresses = "", b"", [0] * self._ranks
        try:
            memory = _runtime.malloc(self.nbytes)  # an allocation of its own, as handles are of whole ones
            _runtime.memset(memory, 0, self.nbytes)
            addresses[self._rank] = memory
            handle = bytes(_runtime.ipcGetMemHandle(memory))
        except _runtime.CUDARuntimeError as error:
            problem = str(error)
        handles: list[Any] = [None] * self._ranks
        dist.all_gather_object(handles, handle, group=self._group)
        for peer, given in enumerate(handles):
            if peer == self._rank or problem:
                continue
            if not given:
                return addresses, f"rank {peer} has no handle"
            try:
                addresses[peer] = _runtime.ipcOpenMemHandle(given)
            except _runtime.CUDARuntimeError as error:
                problem = str(error)
        return addresses, problem

    def _by_torch(self) -> tuple[list[int], str]:
        """Memory whose handles are file descriptors. Multicast stays off, which needs no rights that a guest lacks."""
        os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
        try:
            import torch.distributed._symmetric_memory as symmetric

            memory = symmetric.empty(self.nbytes, dtype=torch.uint8, device=torch.device("cuda"))
            memory.zero_()
            torch.cuda.synchronize()
            handle = symmetric.rendezvous(memory, dist.group.WORLD)
            self._kept += [memory, handle]
            return [int(address) for address in handle.buffer_ptrs], ""
        except (RuntimeError, ImportError, AttributeError) as error:
            return [], " ".join(str(error).split())[:300] or type(error).__name__
