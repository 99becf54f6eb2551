"""One rank of the sharded layers: checks small ones, and times large ones, whole, without traffic, and traffic alone.

Started by benchmarks.collectives, a process a GPU. Rank 0 prints a line of JSON for each size: seconds by way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.distributed as dist

from benchmarks.collectives_rank import join, to_the_end
from benchmarks.sharded.records import TRAFFIC, WHOLE, WORK
from systems.network.execution.calls import Clock
from systems.peer.ranks import Call, Ranks
from systems.sharded import expert_layer, tensor_layer
from systems.sharded.exchange import Exchange
from systems.sharded.planned import DEEPSEEK, EXPERT, EXPERTS, LLAMA, TENSOR
from systems.sharded.truth import check, choices

TOKENS = (64, 256, 1024, 2048, 4096, 8192)
CALLS = 5  # in a graph: each takes a millisecond or more, beside which its start is nothing

Found = tuple[str, int, dict[str, Call]]


class Layers:
    """The measurements of one rank."""

    def __init__(self, rank: int, ranks: int, device: torch.device) -> None:
        self._rank, self._ranks, self._device = rank, ranks, device

    def work(self) -> Iterator[Callable[[], Found]]:
        """What makes each measurement ready; the weights of one kind of layer at a time."""
        for prepare in (self._tensor, self._expert):
            make = prepare()
            yield from (partial(make, tokens) for tokens in TOKENS)

    def _draw(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.bfloat16, device=self._device).mul_(scale)

    def _tensor(self) -> Callable[[int], Found]:
        model = tensor_layer.share(LLAMA, self._ranks)
        drawn = {name: self._draw(*of, scale=LLAMA.hidden**-0.5) for name, of in tensor_layer.shapes(model).items()}
        weights = {name: w.requires_grad_() for name, w in tensor_layer.shard(drawn, 0, 1).items()}
        drawn.clear()

        def make(tokens: int) -> Found:
            x, by = self._draw(tokens, LLAMA.hidden).requires_grad_(), self._draw(tokens, LLAMA.hidden)
            part = torch.zeros_like(by)  # sums of sums of anything else would overflow

            def layer(exchange: Exchange) -> None:
                out = tensor_layer.forward(model, x, weights, exchange)
                torch.autograd.grad(out, [x, *weights.values()], by)

            def traffic() -> None:
                for _ in range(4):
                    dist.all_reduce(part)

            return TENSOR, tokens, _ways(layer, traffic)

        return make

    def _expert(self) -> Callable[[int], Found]:
        own, hidden, width = EXPERTS.count // self._ranks, DEEPSEEK.hidden, EXPERTS.width
        weights = {
            "gate_up": self._draw(own, hidden, 2 * width, scale=hidden**-0.5).requires_grad_(),
            "down": self._draw(own, width, hidden, scale=width**-0.5).requires_grad_(),
        }

        def make(tokens: int) -> Found:
            chosen = [choices(one, tokens, EXPERTS.count, EXPERTS.active) for one in range(self._ranks)]
            routing = expert_layer.route(chosen, self._rank, EXPERTS.count, self._device)
            x, by = self._draw(tokens, hidden).requires_grad_(), self._draw(tokens, hidden)
            share = torch.full((tokens, EXPERTS.active), 1 / EXPERTS.active, dtype=torch.bfloat16, device=self._device)
            leaving, coming = self._draw(sum(routing.sent), hidden), self._draw(sum(routing.received), hidden)

            def layer(exchange: Exchange) -> None:
                out = expert_layer.forward(x, share, weights, routing, exchange)
                torch.autograd.grad(out, [x, *weights.values()], by)

            def traffic() -> None:
                for _ in range(2):
                    Exchange().swap(leaving, routing.sent, routing.received)
                    Exchange().swap(coming, routing.received, routing.sent)

            return EXPERT, tokens, _ways(layer, traffic)

        return make


def _ways(layer: Callable[[Exchange], None], traffic: Call) -> dict[str, Call]:
    return {WHOLE: partial(layer, Exchange()), WORK: partial(layer, Exchange(silent=True)), TRAFFIC: traffic}


def main() -> None:
    """Measure as the JSON on the command line says."""
    job = json.loads(sys.argv[1])
    rank, ranks = job["rank"], job["ranks"]
    device, group = join(job)
    check(rank, ranks, device, Exchange())
    together = Ranks(rank, ranks, Clock(device, group), group, lambda: "")
    for ready in together.while_time(Layers(rank, ranks, device).work(), job["until"], "sharded layers"):
        name, tokens, ways = ready()
        took = together.in_turns(ways, job["samples"], CALLS)
        if rank == 0:
            print(json.dumps({"name": name, "tokens": tokens, "calls": CALLS, "ways": took}), flush=True)
    dist.barrier(group=group)


if __name__ == "__main__":
    to_the_end(main)
