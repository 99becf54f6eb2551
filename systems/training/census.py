"""Counts what a step does to memory on any machine: every operator's new storages, and which of them still live.

Hooks see what autograd saves. They do not see what a checkpoint keeps by itself, nor what a step makes and drops
between two operators. A census does: it stands below autograd and everything else, where each operator ends up, and
holds weak references to the storages that came out. It is the same on every run, and on a CPU stands in for the
allocator of a GPU, without its rounding up and its fragments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from systems.training.flops import flops_of, register
from systems.training.names import Names


@dataclass(frozen=True)
class Call:
    """One operator that made a tensor: torch's name for it, that of the module that ran it (its path, "" outside of
    all), bytes of new storages, bytes alive once they are there, bytes read and written, FLOP."""

    operator: str
    module: str
    made: int
    live: int
    moved: int
    flops: int


class Census(TorchDispatchMode):
    """While entered, counts. `known` are tensors that are there anyway: their storages are never counted."""

    def __init__(self, known: Iterable[Tensor], names: Names | None = None) -> None:
        super().__init__()
        register()
        self._known = {tensor.untyped_storage()._cdata for tensor in known}
        self._names = names
        # A storage's address is not used again while a weak reference to it is held, so it can be the key.
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.calls: list[Call] = []

    @property
    def live(self) -> int:
        """Bytes of the storages that were made and still live."""
        self._alive = {key: (weak, size) for key, (weak, size) in self._alive.items() if not weak.expired()}
        return sum(size for _, size in self._alive.values())

    @property
    def peak(self) -> int:
        """The most that was alive at any time."""
        return max((call.live for call in self.calls), default=0)

    @property
    def flops(self) -> int:
        """FLOP so far."""
        return sum(call.flops for call in self.calls)

    def __torch_dispatch__(self, operator: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        result = operator(*arguments, **options)
        made = 0
        tensors = [one for one in tree_leaves(result) if isinstance(one, Tensor)]
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._known and storage._cdata not in self._alive:
                self._alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
                made += storage.nbytes()
        read = [one for one in tree_leaves((arguments, options)) if isinstance(one, Tensor)] if made else []
        moved = sum(one.numel() * one.element_size() for one in (*read, *tensors)) if made else 0
        module = self._names.path if self._names else ""
        if made:
            flops = flops_of(operator, arguments, options, result)
            self.calls.append(Call(str(operator), module, made, self.live, moved, flops))
        return result
