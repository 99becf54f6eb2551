"""Ways to run a block that keep what autograd saves in another form: on the host, or in eight bits.

Both are a pair of functions over flat storages, encode and decode, under torch's saved_tensors_hooks. A storage is
encoded once, however many saved tensors look at it, and decoded once for all that are wanted at the same time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from systems.training.gpt import Run
from systems.training.names import Names

E4M3_LARGEST = 448.0  # of torch.float8_e4m3fn


@dataclass(frozen=True)
class Form:
    """`encode` takes a flat tensor, all of a storage, and `decode` gives one of the same length, type and device."""

    encode: Callable[[Tensor], Any]
    decode: Callable[[Any], Tensor]


class Box:
    """One encoded storage, and what it was decoded to for as long as somebody uses that."""

    def __init__(self, form: Form, flat: Tensor) -> None:
        self.form = form
        self.code = form.encode(flat)
        self._decoded: weakref.ref[Tensor] | None = None

    def flat(self) -> Tensor:
        """The storage's values."""
        found = self._decoded() if self._decoded else None
        if found is None:
            found = self.form.decode(self.code)
            self._decoded = weakref.ref(found)
        return found


@dataclass(frozen=True)
class Saved:
    """A saved tensor as a view of a box."""

    box: Box
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


def kept_as(form: Form, names: Names, least: int, only: Collection[str] | None = None) -> Run:
    """Keep in another form whatever of a block has `least` values or more, or of it only what the operators `only`
    save. Parameters stay as they are. `names` must be entered around the forward pass."""

    def run(number: int, block: nn.Module, stream: Tensor) -> Tensor:
        parameters = {parameter.untyped_storage()._cdata for parameter in block.parameters()}
        boxes: dict[int, tuple[StorageWeakRef, Box]] = {}  # a weak reference keeps an address from being used again

        def pack(tensor: Tensor) -> Tensor | Saved:
            storage = tensor.untyped_storage()
            small = storage.nbytes() < least * tensor.element_size()
            if small or storage._cdata in parameters or (only is not None and names.current not in only):
                return tensor
            if storage._cdata not in boxes:
                flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage)
                boxes[storage._cdata] = StorageWeakRef(storage), Box(form, flat)
            box = boxes[storage._cdata][1]
            return Saved(box, tensor.shape, tensor.stride(), tensor.storage_offset())

        def unpack(saved: Tensor | Saved) -> Tensor:
            if isinstance(saved, Tensor):
                return saved
            flat = saved.box.flat()
            made = flat.as_strided(saved.size, saved.stride, saved.offset)
            made._flat = flat  # the box holds it weakly
            return made

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return block(stream)

    return run


class Host:
    """Offloading: `form` moves to the host and back, and `bytes` counts what went there.

    From a GPU it goes to pinned memory on the stream of the computation, so nothing overlaps. On a CPU the host is
    memory that torch does not know of: what is offloaded counts as gone.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.form = Form(self._encode, self._decode)

    def _encode(self, flat: Tensor) -> Any:
        self.bytes += flat.nbytes
        if flat.device.type == "cpu":
            return bytearray(flat.view(torch.uint8).numpy()), flat.dtype
        there = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
        return there.copy_(flat, non_blocking=True), flat.device

    def _decode(self, code: Any) -> Tensor:
        held, where = code
        if isinstance(held, bytearray):
            return torch.frombuffer(held, dtype=where).clone()
        return held.to(where, non_blocking=True)


def eight_bits(block: int | None) -> Form:
    """FP8 (e4m3) with a float32 scale for every `block` values that lie side by side, or one for all.

    The largest of a block becomes 448, the largest value of the format.
    """

    def encode(flat: Tensor) -> Any:
        padded = flat if block is None else torch.nn.functional.pad(flat, (0, -flat.numel() % block))
        rows = padded.view(1 if block is None else -1, padded.numel() if block is None else block)
        scale = rows.abs().amax(1, keepdim=True).float().clamp(min=1e-30) / E4M3_LARGEST
        return (rows / scale).to(torch.float8_e4m3fn), scale, flat.numel(), flat.dtype

    def decode(code: Any) -> Tensor:
        values, scale, length, dtype = code
        return (values.float() * scale).to(dtype).view(-1)[:length]

    return Form(encode, decode)


def errors(exact: dict[str, Tensor], found: dict[str, Tensor]) -> dict[str, float]:
    """By parameter: the norm of the difference of two gradients over the norm of the exact one."""
    return {
        name: float((found[name].double() - one.double()).norm() / one.double().norm()) for name, one in exact.items()
    }
