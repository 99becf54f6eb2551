"""Exported plans: of the form that MSCCL++ loads, within its limits, and right when carried out op by op."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from systems.network import mscclpp
from systems.network.collectives import Collective
from systems.network.schedules import Op, Phase, Schedule, ScheduleError, Transfer, build
from tests.systems.network import plan_machine

AR = Collective.ALL_REDUCE
EXPORTED = [
    build.ring(AR, 2),
    build.ring(AR, 8),
    build.one_shot(AR, 8),
    build.two_shot_all_reduce(8),
    build.halving_doubling(AR, 8),
    build.hierarchical_all_reduce(2, 4),
    build.double_tree_all_reduce(8, 3),
    build.double_tree_all_reduce(5, 2),
]
INDEX = {"type": "integer", "minimum": 0, "maximum": 255}
CHANNEL = {"enum": ["memory", "port", "switch", "none"]}
# What execution_plan.cc of MSCCL++ 0.9.0 looks up, field by field (`obj["..."]` must be there, `contains` may), and the
# sizes of execution_common.hpp.
LOCAL = {"required": ["type", "index", "size"], "properties": {"type": {"enum": ["i", "o", "s"]}}}
REMOTE = {"required": ["buffer_id", "index", "size"], "properties": {"buffer_id": INDEX}}
NAMES = ["nop", "put", "signal", "wait", "rlxsignal", "rlxwait", "copy", "re", "sem_acquire", "sem_release"]
OPERATION = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"enum": NAMES},
        "channel_type": CHANNEL,
        "channel_ids": {"type": "array", "items": INDEX, "maxItems": 8},
        "src_buff": {"type": "array", "items": {"anyOf": [LOCAL, REMOTE]}},
        "dst_buff": {"type": "array", "items": {"anyOf": [LOCAL, REMOTE]}},
        "semaphore_ids": {"type": "array", "items": INDEX},
        "reduce_op": {"enum": ["sum"]},
    },
    "additionalProperties": False,
}  # fmt: skip
BLOCK = {
    "type": "object",
    "required": ["id", "ops", "channels"],
    "properties": {
        "id": INDEX,
        "ops": {"type": "array", "items": OPERATION, "maxItems": 64},
        "channels": {
            "type": "array",
            "items": {
                "required": ["channel_type", "channel_ids"],
                "properties": {
                    "channel_type": CHANNEL,
                    "channel_ids": {"type": "array", "items": INDEX, "maxItems": 16},
                },
            },
        },
        "remote_buffer_refs": {
            "type": "array",
            "items": {
                "required": ["access_channel_type", "remote_buffer_ids"],
                "properties": {"access_channel_type": CHANNEL, "remote_buffer_ids": {"type": "array", "maxItems": 16}},
            },
        },
    },
}
GPU = {
    "type": "object",
    "required": ["id", "input_chunks", "output_chunks", "scratch_chunks", "threadblocks", "channels", "remote_buffers"],
    "properties": {
        "threadblocks": {"type": "array", "items": BLOCK},
        "channels": {"items": {"required": ["channel_type", "connected_to"], "properties": {"channel_type": CHANNEL}}},
        "remote_buffers": {"items": {"required": ["rank", "type", "access_channel_types"]}},
        "semaphores": {"items": {"required": ["init_value"]}, "maxItems": 16},
    },
}
PLAN = {
    "type": "object",
    "required": ["name", "collective", "protocol", "inplace", "gpus"],
    "properties": {"protocol": {"enum": ["Simple", "LL"]}, "inplace": {"type": "boolean"}, "gpus": {"items": GPU}},
}


def exported(schedule: Schedule) -> dict[str, Any]:
    return json.loads(mscclpp.dumps(mscclpp.export(schedule)))


@pytest.mark.parametrize("schedule", EXPORTED, ids=lambda s: f"{s.name} of {s.ranks}")
def test_plans_are_of_the_form_that_is_loaded(schedule: Schedule) -> None:
    plan = exported(schedule)
    jsonschema.validate(plan, PLAN)
    for rank, gpu in enumerate(plan["gpus"]):
        assert gpu["id"] == rank  # the loader takes the entry with the rank's number, and compares
        peers = gpu["channels"][0]["connected_to"]
        for block in gpu["threadblocks"]:
            for op in block["ops"]:
                assert all(number < len(peers) for number in op.get("channel_ids", []))
        for peer in peers:  # both ends make as many channels to each other
            assert plan["gpus"][peer]["channels"][0]["connected_to"].count(rank) == peers.count(peer)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("schedule", EXPORTED, ids=lambda s: f"{s.name} of {s.ranks}")
def test_plans_reduce_what_they_are_given_in_any_order_of_threads(schedule: Schedule, seed: int) -> None:
    inputs = [
        [float((rank + 1) ** 2 * (chunk + 1)) for chunk in range(schedule.chunks)] for rank in range(schedule.ranks)
    ]
    sums = [sum(column) for column in zip(*inputs, strict=True)]
    assert plan_machine.run(exported(schedule), inputs, seed) == [sums] * schedule.ranks


def test_a_plan_is_read_back() -> None:
    plan = mscclpp.export(build.ring(AR, 4))
    assert mscclpp.loads(mscclpp.dumps(plan)) == plan
    with pytest.raises(ScheduleError, match="no execution plan of MSCCL"):
        mscclpp.loads(b'{"name": "a"}')


def test_long_schedules_are_shared_out_over_thread_blocks() -> None:
    blocks = exported(build.ring(AR, 8))["gpus"][0]["threadblocks"]
    assert len(blocks) == 2 and all(len(block["ops"]) <= 64 for block in blocks)


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        (build.all_to_all(4), "is no all_reduce"),
        (build.one_shot(AR, 32), "has 31 peers"),
        (build.ring(AR, 96), "thread blocks in a row"),
        (Schedule("wrong", AR, 2, 1, (Phase((Transfer(0, 0, 1, 0, Op.REDUCE),)),)), "Rank 0 ends without"),
        (
            Schedule(
                "late", AR, 2, 1,
                (Phase((Transfer(0, 0, 1, 0, Op.REDUCE, 1), Transfer(2, 1, 0, 0))),),
            ),
            "a step of their own at the destination",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_said(schedule: Schedule, says: str) -> None:
    with pytest.raises(ScheduleError, match=says):
        mscclpp.export(schedule)
