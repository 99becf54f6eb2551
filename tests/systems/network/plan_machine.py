"""Carries out an execution plan of MSCCL++ op by op, as its src/core/include/execution_kernel.hpp does, on numbers.

Thread blocks take turns at random, a few operations at a time; a wait that nobody answers is a deadlock. Reading what
was never written is an error.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any


def run(plan: dict[str, Any], inputs: list[list[float]], seed: int) -> list[list[float]]:
    """The input buffers in the end; `plan` is the decoded JSON, `inputs` one number a chunk for each GPU."""
    gpus = plan["gpus"]
    memory = [{"i": list(own), "s": [None] * gpu["scratch_chunks"]} for own, gpu in zip(inputs, gpus, strict=True)]
    arrived: Counter[tuple[int, int, int]] = Counter()  # signals by receiver, sender and which of their channels
    semaphores = [[entry["init_value"] for entry in gpu["semaphores"]] for gpu in gpus]
    at = {(gpu["id"], block["id"]): 0 for gpu in gpus for block in gpu["threadblocks"]}
    order = random.Random(seed)

    def channel(gpu: dict[str, Any], block: dict[str, Any], number: int) -> tuple[int, int]:
        """The peer of a block's channel, and which of the channels to that peer it is."""
        flat = [peer for entry in gpu["channels"] for peer in entry["connected_to"]]
        mine = [one for entry in block["channels"] for one in entry["channel_ids"]][number]
        return flat[mine], flat[:mine].count(flat[mine])

    def local(gpu: int, chunks: dict[str, Any]) -> float:
        assert chunks["size"] == 1
        value = memory[gpu][chunks["type"]][chunks["index"]]
        assert value is not None, "read before it was written"
        return value

    def can(gpu: dict[str, Any], block: dict[str, Any], op: dict[str, Any]) -> bool:
        if op["name"] in ("wait", "rlxwait"):
            ways = [channel(gpu, block, number) for number in op["channel_ids"]]
            return all(arrived[gpu["id"], peer, which] for peer, which in ways)
        if op["name"] == "sem_acquire":
            return all(semaphores[gpu["id"]][number] > 0 for number in op["semaphore_ids"])
        return True

    def do(gpu: dict[str, Any], block: dict[str, Any], op: dict[str, Any]) -> None:
        me, name = gpu["id"], op["name"]
        if name == "put":
            buffers = [one for entry in block["remote_buffer_refs"] for one in entry["remote_buffer_ids"]]
            for source, target in zip(op["src_buff"], op["dst_buff"], strict=True):
                remote = gpu["remote_buffers"][buffers[target["buffer_id"]]]
                memory[remote["rank"]][remote["type"]][target["index"]] = local(me, source)
        elif name in ("signal", "rlxsignal"):
            for number in op["channel_ids"]:
                peer, which = channel(gpu, block, number)
                arrived[peer, me, which] += 1
        elif name in ("wait", "rlxwait"):
            for number in op["channel_ids"]:
                peer, which = channel(gpu, block, number)
                arrived[me, peer, which] -= 1
        elif name == "copy":
            memory[me][op["dst_buff"][0]["type"]][op["dst_buff"][0]["index"]] = local(me, op["src_buff"][0])
        elif name == "re":
            assert op["reduce_op"] == "sum"
            total = sum(local(me, chunks) for chunks in op["src_buff"])
            memory[me][op["dst_buff"][0]["type"]][op["dst_buff"][0]["index"]] = total
        elif name == "sem_release":
            for number in op["semaphore_ids"]:
                semaphores[me][number] += 1
        elif name == "sem_acquire":
            for number in op["semaphore_ids"]:
                semaphores[me][number] -= 1
        else:
            assert name == "nop", name

    unfinished = [(gpu, block) for gpu in gpus for block in gpu["threadblocks"]]
    while unfinished:
        order.shuffle(unfinished)
        moved = False
        for gpu, block in list(unfinished):
            key = gpu["id"], block["id"]
            for _ in range(order.randint(1, 9)):
                if not can(gpu, block, block["ops"][at[key]]):
                    break
                do(gpu, block, block["ops"][at[key]])
                at[key] += 1
                moved = True
                if at[key] == len(block["ops"]):
                    unfinished.remove((gpu, block))
                    break
        assert moved, "deadlock"
    assert not +arrived, "signals that nobody waited for"
    return [one["i"] for one in memory]
