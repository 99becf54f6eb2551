"""What the ranks of a sharded layer exchange, forward and backward, and the same layer without any of it.

PyTorch is no dependency of the base install, so this module is imported in a rank's process only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist


class Exchange:
    """Collectives over all ranks. `silent` leaves them out, so that what is left can be timed: results are wrong.

    What others would have sent is then rows of this rank's own, the same in each call: power and clocks depend on what
    is multiplied, and memory that nobody has written may be zeros.
    """

    def __init__(self, silent: bool = False) -> None:
        self._silent = silent
        self._instead: dict[int, torch.Tensor] = {}

    def sum(self, part: torch.Tensor) -> None:
        """The sum of all ranks' parts, in place."""
        if not self._silent:
            dist.all_reduce(part)

    def swap(self, rows: torch.Tensor, sent: Sequence[int], received: Sequence[int]) -> torch.Tensor:
        """All-to-all: the first `sent[0]` rows to rank 0, and so on; `received[r]` rows come from rank r."""
        count = sum(received)
        if self._silent:
            if count not in self._instead:  # in the first call, before anything is timed
                self._instead[count] = rows[torch.arange(count, device=rows.device) % len(rows)].detach()
            return self._instead[count].view_as(self._instead[count])
        out = rows.new_empty(count, *rows.shape[1:])
        dist.all_to_all_single(out, rows, list(received), list(sent))
        return out

    def copied(self, x: torch.Tensor) -> torch.Tensor:
        """x, which all ranks have; its gradient is the sum of theirs (f of Shoeybi et al. 2019, section 3)."""
        return _Copied.apply(x, self)

    def summed(self, part: torch.Tensor) -> torch.Tensor:
        """The sum of all parts, whose gradient goes to each (g of the same)."""
        return _Summed.apply(part, self)

    def swapped(self, rows: torch.Tensor, sent: Sequence[int], received: Sequence[int]) -> torch.Tensor:
        """`swap`, whose gradients go back the same way."""
        return _Swapped.apply(rows, self, sent, received)


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor, exchange: Exchange) -> torch.Tensor:
        context.exchange = exchange
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        context.exchange.sum(gradients[0])
        return gradients[0], None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, part: torch.Tensor, exchange: Exchange) -> torch.Tensor:
        context.mark_dirty(part)
        exchange.sum(part)
        return part

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        return gradients[0], None


class _Swapped(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, rows: torch.Tensor, exchange: Exchange, sent: Sequence[int], received: Sequence[int]
    ) -> torch.Tensor:
        context.back = exchange, received, sent
        return exchange.swap(rows, sent, received)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        exchange, sent, received = context.back
        return exchange.swap(gradients[0].contiguous(), sent, received), None, None, None
