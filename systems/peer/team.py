"""A rank's side of all-reduces by hand on a GPU: what it knows, and the launches.

PyTorch is no dependency of the base install, so this module is imported in a rank's process only.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import torch
import torch.distributed as dist

from systems.peer import kernels
from systems.peer.kernels import PATIENCE, TEAM, Layout, PeerError, Shape
from systems.peer.loading import functions
from systems.peer.shared_memory import SharedMemory
from warplab.hardware.device import architecture_of, present

DTYPES = ("float32", "bfloat16", "float16")


class PeerTeam:
    """The kernels for one rank of a process group, on the current GPU; all ranks make one together.

    All ranks must make the same calls in the same order on one stream each. Calls may be captured in CUDA graphs.
    `way` says how the memory is shared. Raises PeerError on all ranks where it cannot be.
    """

    def __init__(self, rank: int, ranks: int, group: Any) -> None:
        if not 2 <= ranks <= kernels.MOST_RANKS:
            raise PeerError(f"{ranks} ranks: the kernels are for 2 to {kernels.MOST_RANKS}.")
        self.layout = Layout(ranks)
        self.rank = rank
        self._memory = SharedMemory(self.layout.nbytes, rank, ranks, group)
        self.way = self._memory.way
        self._state = cupy.zeros(self.layout.state_bytes // 4, np.uint32)
        self._team = np.zeros((), TEAM)
        team: Any = self._team
        team["rank"], team["blocks"] = rank, self.layout.blocks
        team["lines"], team["units"] = self.layout.lines, self.layout.units
        team["patience"], team["state"] = int(PATIENCE * 1e9), self._state.data.ptr
        team["memory"][:ranks] = self._memory.addresses
        self._kernels = self._load(ranks)
        cupy.cuda.Device().synchronize()
        dist.barrier(group=group)  # nobody sends before all memory is zero

    def one_shot(self, source: torch.Tensor, out: torch.Tensor, shape: Shape | None = None) -> None:
        """out = the sum of the ranks' `source`, at most 1 MiB of one of DTYPES; `out` may be `source`."""
        self._whole("one_shot", source, out, shape or kernels.one_shot_shape(self.layout, source.nbytes), 8)

    def two_shot(self, source: torch.Tensor, out: torch.Tensor, shape: Shape | None = None) -> None:
        """The same by two shots, at most 1 MiB for each rank that takes part."""
        self._whole("two_shot", source, out, shape or kernels.two_shot_shape(self.layout, source.nbytes), 16)

    def two_shot_ll(self, source: torch.Tensor, out: torch.Tensor, shape: Shape | None = None) -> None:
        """The same by two shots of LL lines, without a fence; at most 1 MiB for each rank as well."""
        self._whole("two_shot_ll", source, out, shape or kernels.two_shot_ll_shape(self.layout, source.nbytes), 8)

    def fused(
        self,
        source: torch.Tensor,
        residual: torch.Tensor,
        weight: torch.Tensor,
        hidden: torch.Tensor,
        out: torch.Tensor,
        epsilon: float,
    ) -> None:
        """hidden = the sum of the ranks' `source` + `residual`; out = its RMS norm by rows, times `weight`."""
        rows, width = source.shape
        shape = kernels.row_shape(self.layout, rows, width * source.element_size())
        arrays = (source, residual, weight, hidden, out)
        self._launch("fused", source.dtype, shape, self._team, arrays, (np.uint32(rows), np.uint32(width)), epsilon)

    def add_norm(
        self,
        source: torch.Tensor,
        residual: torch.Tensor,
        weight: torch.Tensor,
        hidden: torch.Tensor,
        out: torch.Tensor,
        epsilon: float,
    ) -> None:
        """The same without the all-reduce: a kernel that follows one."""
        rows, width = source.shape
        threads = kernels.row_shape(self.layout, 1, width * source.element_size()).threads
        arrays = (source, residual, weight, hidden, out)
        self._launch("add_norm", source.dtype, Shape(rows, threads), None, arrays, (np.uint32(width),), epsilon)

    def fault(self) -> str:
        """A sentence about the first block that waited in vain since the team was made; "" if none has."""
        return kernels.fault_in(self._state.get(), self.rank, self.layout.blocks)

    def _whole(self, what: str, source: torch.Tensor, out: torch.Tensor, shape: Shape, align: int) -> None:
        if out.shape != source.shape or out.dtype != source.dtype:
            raise PeerError(f"The sum of {list(source.shape)} {source.dtype} does not fit its output: give one alike.")
        if source.data_ptr() % align or out.data_ptr() % align:
            raise PeerError(f"An array does not begin at a multiple of {align} bytes: give whole arrays, no slices.")
        self._launch(what, source.dtype, shape, self._team, (source, out), (np.uint32(source.numel()),))

    def _launch(
        self, what: str, dtype: torch.dtype, shape: Shape, team: Any, arrays: tuple, numbers: tuple, epsilon: Any = None
    ) -> None:
        name = str(dtype).removeprefix("torch.")
        if name not in DTYPES or not all(a.is_contiguous() and a.dtype == dtype for a in arrays):
            raise PeerError(f"The kernels take contiguous arrays of one of {', '.join(DTYPES)}: not these ({name}).")
        arguments = [] if team is None else [team]
        arguments += [np.uint64(array.data_ptr()) for array in arrays]
        arguments += [*numbers, *([] if epsilon is None else [np.float32(epsilon)])]
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            self._kernels[what, name]((shape.blocks,), (shape.threads,), tuple(arguments))

    def _load(self, ranks: int) -> dict[tuple[str, str], Any]:
        device = present(torch.cuda.current_device())
        assert device is not None
        module = kernels.compiled(DTYPES, ranks, architecture_of(device))
        names = {(what, dtype): n for dtype in DTYPES for what, n in kernels.names(dtype, ranks).items()}
        loaded = functions(module, names.values())
        return {of: loaded[name] for of, name in names.items()}
