"""Carries chunks over torch.distributed: Gloo between processors, NCCL between GPUs.

PyTorch is no dependency of the base install or of the tests (its CUDA build alone is larger than all the rest), so this
module is imported in a rank's process, and only where the backend asks for it.

Numbers and sizes of messages go over Gloo ahead of the data, on either backend: a peer that would send the wrong size
is found out before a receive of the wrong size is posted, which neither library survives.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from systems.network.execution.outcome import Backend, PeerError, Receive, Send, Verdict, check_header

_STARTUP = timedelta(seconds=60)


def join(backend: Backend, rank: int, ranks: int, rendezvous: str) -> tuple[torch.device, Any]:
    """This rank's device, and the group of all ranks for data over NCCL, None over Gloo, which is the default group.

    Connections are made now, with the patience of a start. Raises RuntimeError if they cannot be, ValueError for fewer
    GPUs than ranks.
    """
    torch.set_num_threads(1)
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(name, "lo")  # all ranks are on this machine
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks, timeout=_STARTUP)
    if backend is not Backend.NCCL:
        dist.barrier()
        return torch.device("cpu"), None
    if torch.cuda.device_count() < ranks:
        raise ValueError(f"{ranks} ranks need a GPU each, and PyTorch sees {torch.cuda.device_count()}")
    os.environ["NCCL_NVLS_ENABLE"] = "0"  # NCCL would set up multicast over NVLink, which not every machine lets
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    group = dist.new_group(backend="nccl", timeout=_STARTUP)
    dist.all_reduce(torch.zeros(1, device=device), group=group)  # NCCL connects when it is first used
    torch.cuda.synchronize(device)
    dist.barrier()
    return device, group


class Distributed:
    """A process group of all ranks, which meet at a file. Raises RuntimeError if it cannot be made."""

    def __init__(self, backend: Backend, rank: int, ranks: int, rendezvous: str, patience: float) -> None:
        self._patience = timedelta(seconds=patience)
        self._device, self._data = join(backend, rank, ranks, rendezvous)

    def exchange(self, sends: list[Send], receives: list[Receive]) -> None:
        """Send and receive all. Raises PeerError for a peer that is gone, silent too long, or sends something else."""
        gloo = self._data is None
        data = [torch.from_numpy(np.ascontiguousarray(send.data)).to(self._device) for send in sends]
        headers = [torch.tensor([send.transfer, send.data.nbytes]) for send in sends]
        works: list[tuple[Any, int]] = []
        for send, header, one in zip(sends, headers, data, strict=True):
            works.append((self._begun(dist.isend, header, send.peer), send.peer))
            if gloo:  # a message right behind its header: a peer may take the next one in a later step
                works.append((self._begun(dist.isend, one, send.peer), send.peer))
        rooms = [torch.from_numpy(receive.into).to(self._device) for receive in receives]
        for receive, room in zip(receives, rooms, strict=True):
            found = torch.zeros(2, dtype=torch.int64)
            self._wait([(self._begun(dist.irecv, found, receive.peer), receive.peer)])
            check_header(receive.peer, receive, int(found[0]), int(found[1]))
            if gloo:  # a tensor on the processor shares the memory of its array
                self._wait([(self._begun(dist.irecv, room, receive.peer), receive.peer)])
        if not gloo:
            self._exchange_on_gpus(sends, data, receives, rooms)
        self._wait(works)

    def _exchange_on_gpus(
        self, sends: list[Send], data: list[torch.Tensor], receives: list[Receive], rooms: list[torch.Tensor]
    ) -> None:
        group = self._data
        operations = [dist.P2POp(dist.isend, one, send.peer, group) for one, send in zip(data, sends, strict=True)]
        operations += [dist.P2POp(dist.irecv, room, one.peer, group) for room, one in zip(rooms, receives, strict=True)]
        for work in dist.batch_isend_irecv(operations) if operations else []:
            work.wait()
        torch.cuda.synchronize(self._device)
        for room, receive in zip(rooms, receives, strict=True):
            receive.into[...] = room.cpu().numpy()

    def _begun(self, operation: Callable[[torch.Tensor, int], Any], tensor: torch.Tensor, peer: int) -> Any:
        try:
            return operation(tensor, peer)
        except RuntimeError as error:  # of a peer that Gloo knows to be gone
            raise self._fault(error, peer) from None

    def _wait(self, works: list[tuple[Any, int]]) -> None:
        for work, peer in works:
            try:
                work.wait(self._patience)
            except RuntimeError as error:
                raise self._fault(error, peer) from None

    def _fault(self, error: RuntimeError, peer: int) -> PeerError:
        words = str(error).lower()
        if "timed out" in words or "timeout" in words:
            return PeerError(Verdict.HUNG, peer, f"was silent for {self._patience.total_seconds():g} s")
        return PeerError(Verdict.DIED, peer, "closed its connection")

    def close(self) -> None:
        dist.destroy_process_group()
