"""Writes a schedule as an execution plan of MSCCL++, whose executor runs it on GPUs outside of this course.

The plan's form is what src/core/executor/execution_plan.cc of MSCCL++ 0.9.0 reads (github.com/microsoft/mscclpp, commit
1f5f065) and python/mscclpp/language writes. Each transfer is a put into a place of its own in the destination's scratch
buffer, and a copy or an addition from there once a signal has come: nobody writes where somebody may still read, and
additions have the schedule's order. That is one write and read more than a plan by hand would do, for any schedule.

No multi-GPU machine has run these plans yet: the tests carry them out op by op as the executor's source does.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from systems.network.collectives import Collective
from systems.network.schedules import Schedule, ScheduleError, check
from systems.network.schedules.interpret import RankStep, programs
from systems.network.schedules.model import Columns, expand

# Of src/core/include/execution_common.hpp.
MOST_OPERATIONS = 64  # of a thread block
MOST_CHANNELS = 16  # of a thread block
MOST_CHANNELS_AT_ONCE = 8  # of an operation
MOST_SEMAPHORES = 16  # of a GPU


class BufferType(StrEnum):
    """Whose memory: the collective's input, its output, or scratch."""

    INPUT = "i"
    OUTPUT = "o"
    SCRATCH = "s"


class ChannelType(StrEnum):
    """How a peer is reached: by loads and stores, by a proxy's port, by the switch."""

    MEMORY = "memory"
    PORT = "port"
    SWITCH = "switch"
    NONE = "none"


Index = Annotated[int, msgspec.Meta(ge=0)]


class Chunks(msgspec.Struct, frozen=True, omit_defaults=True):
    """Neighbouring chunks of a local buffer, by `type`, or of a remote one, by `buffer_id`."""

    index: Index
    size: Annotated[int, msgspec.Meta(ge=1)]
    type: BufferType | None = None
    buffer_id: Index | None = None


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of a thread block."""

    name: str
    src_buff: tuple[Chunks, ...] | None = None
    dst_buff: tuple[Chunks, ...] | None = None
    channel_ids: tuple[Index, ...] | None = None
    channel_type: ChannelType | None = None
    reduce_op: str | None = None
    semaphore_ids: tuple[Index, ...] | None = None


class BlockChannels(msgspec.Struct, frozen=True):
    """Channels of the GPU that a thread block uses, which its operations number from 0."""

    channel_type: ChannelType
    channel_ids: tuple[Index, ...]


class BlockBuffers(msgspec.Struct, frozen=True):
    """Remote buffers of the GPU that a thread block uses, which its operations number from 0."""

    access_channel_type: ChannelType
    remote_buffer_ids: tuple[Index, ...]


class ThreadBlock(msgspec.Struct, frozen=True):
    """A list of operations, done in order by all threads of a block."""

    id: Index
    ops: tuple[Operation, ...]
    channels: tuple[BlockChannels, ...]
    remote_buffer_refs: tuple[BlockBuffers, ...] = ()


class Channel(msgspec.Struct, frozen=True):
    """Channels of a GPU: one for each entry of `connected_to`."""

    channel_type: ChannelType
    connected_to: tuple[Index, ...]


class RemoteBuffer(msgspec.Struct, frozen=True):
    """A buffer of another GPU."""

    rank: Index
    type: BufferType
    access_channel_types: tuple[ChannelType, ...]


class Semaphore(msgspec.Struct, frozen=True):
    """What orders thread blocks of one GPU."""

    init_value: int


class Gpu(msgspec.Struct, frozen=True):
    """One rank's part of a plan."""

    id: Index
    input_chunks: Index
    output_chunks: Index
    scratch_chunks: Index
    threadblocks: tuple[ThreadBlock, ...]
    channels: tuple[Channel, ...]
    remote_buffers: tuple[RemoteBuffer, ...]
    semaphores: tuple[Semaphore, ...] = ()


class ExecutionPlan(msgspec.Struct, frozen=True):
    """A plan as a file."""

    name: str
    collective: str
    protocol: str
    inplace: bool
    gpus: tuple[Gpu, ...]
    reuse_resources: bool = False
    num_threads_per_block: int = 1024
    use_double_scratch_buffer: bool = False
    buffer_alignment: int = 16
    min_message_size: int = 0
    max_message_size: int = 2**64 - 1


def export(schedule: Schedule) -> ExecutionPlan:
    """An all-reduce in place as a plan. Raises ScheduleError for another collective, or one wrong or too large."""
    if schedule.collective is not Collective.ALL_REDUCE:
        raise ScheduleError(f"{schedule.name} is no all_reduce: only that is exported to MSCCL++, in place.")
    if finding := check(schedule):
        raise ScheduleError(finding.sentence)
    moves = expand(schedule)
    if (moves.step != moves.received).any():
        raise ScheduleError(f"{schedule.name} has transfers with a step of their own at the destination: an exported "
                            "one takes the same at both ends.")  # fmt: skip
    todo = programs(moves, schedule.ranks)
    places = _places(moves, schedule.ranks)
    gpus = tuple(_gpu(schedule, moves, rank, steps, places) for rank, steps in enumerate(todo))
    return ExecutionPlan(f"warplab {schedule.name}", "allreduce", "Simple", True, gpus)


def dumps(plan: ExecutionPlan) -> bytes:
    """The plan as JSON."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2)


def loads(data: bytes) -> ExecutionPlan:
    """A plan of the operations modelled here; other fields are dropped. Raises ScheduleError if it is none."""
    try:
        return msgspec.json.decode(data, type=ExecutionPlan)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ScheduleError(f"This is no execution plan of MSCCL++: {error}.") from None


def _places(moves: Columns, ranks: int) -> list[int]:
    """The chunk of its destination's scratch buffer that each transfer goes to."""
    used = [0] * ranks
    places = []
    for destination in moves.destination.tolist():
        places.append(used[destination])
        used[destination] += 1
    return places


def _gpu(schedule: Schedule, moves: Columns, rank: int, steps: list[RankStep], places: list[int]) -> Gpu:
    peers = sorted({int(moves.destination[i]) for step in steps for i in step.sends}
                   | {int(moves.source[i]) for step in steps for i in step.receives})  # fmt: skip
    if len(peers) > MOST_CHANNELS:
        raise ScheduleError(f"Rank {rank} of {schedule.name} has {len(peers)} peers: MSCCL++ has {MOST_CHANNELS} "
                            "channels a thread block.")  # fmt: skip
    number = {peer: index for index, peer in enumerate(peers)}
    groups = [_everybody(number)] + [_step(moves, step, number, places) for step in steps]
    blocks, semaphores = _thread_blocks(schedule, rank, groups)
    channels = BlockChannels(ChannelType.MEMORY, tuple(range(len(peers))))
    buffers = BlockBuffers(ChannelType.MEMORY, tuple(range(len(peers))))
    return Gpu(
        rank,
        schedule.chunks,
        schedule.chunks,
        sum(len(step.receives) for step in steps),
        tuple(ThreadBlock(index, tuple(ops), (channels,), (buffers,)) for index, ops in enumerate(blocks)),
        (Channel(ChannelType.MEMORY, tuple(peers)),),
        tuple(RemoteBuffer(peer, BufferType.SCRATCH, (ChannelType.MEMORY,)) for peer in peers),
        tuple(Semaphore(0) for _ in range(semaphores)),
    )


_SYNC = Operation("nop")  # __syncthreads


def _signals(name: str, channels: list[int]) -> list[Operation]:
    """Signals to peers or waits for them, as many at once as an operation takes."""
    parts = [channels[i : i + MOST_CHANNELS_AT_ONCE] for i in range(0, len(channels), MOST_CHANNELS_AT_ONCE)]
    return [Operation(name, channel_ids=tuple(part), channel_type=ChannelType.MEMORY) for part in parts]


def _everybody(number: dict[int, int]) -> list[Operation]:
    """Before anything is put: peers have begun, so they have read what the run before put into their scratch."""
    channels = list(number.values())
    return [*_signals("rlxsignal", channels), *_signals("rlxwait", channels), _SYNC]


def _step(moves: Columns, step: RankStep, number: dict[int, int], places: list[int]) -> list[Operation]:
    """Puts, then a signal to each peer that got one; then waits, and what came is taken in, in the records' order."""
    ops: list[Operation] = []
    for i in step.sends:
        mine = Chunks(int(moves.chunk[i]), 1, type=BufferType.INPUT)
        theirs = Chunks(places[i], 1, buffer_id=number[int(moves.destination[i])])
        ops.append(Operation("put", (mine,), (theirs,), channel_type=ChannelType.MEMORY))
    if step.sends:
        ops += [_SYNC, *_signals("signal", sorted({number[int(moves.destination[i])] for i in step.sends}))]
    if step.receives:
        ops += [*_signals("wait", sorted({number[int(moves.source[i])] for i in step.receives})), _SYNC]
    for i in step.receives:
        own = Chunks(int(moves.chunk[i]), 1, type=BufferType.INPUT)
        came = Chunks(places[i], 1, type=BufferType.SCRATCH)
        if moves.reduce[i]:
            ops.append(Operation("re", (own, came), (own,), reduce_op="sum"))
        else:
            ops.append(Operation("copy", (came,), (own,)))
    if step.receives:
        ops.append(_SYNC)
    return ops


def _thread_blocks(schedule: Schedule, rank: int, groups: list[list[Operation]]) -> tuple[list[list[Operation]], int]:
    """Steps shared out over as few thread blocks as hold them, each begun when the one before is through."""
    room = MOST_OPERATIONS - 4  # acquire and release, each with its synchronisation
    blocks: list[list[Operation]] = [[]]
    for group in groups:
        if len(group) > room:
            raise ScheduleError(f"Rank {rank} of {schedule.name} has {len(group)} operations in a step: MSCCL++ takes "
                                f"{MOST_OPERATIONS} a thread block.")  # fmt: skip
        if len(blocks[-1]) + len(group) > room:
            blocks.append([])
        blocks[-1] += group
    if len(blocks) - 1 > MOST_SEMAPHORES:
        raise ScheduleError(f"Rank {rank} of {schedule.name} needs {len(blocks)} thread blocks in a row: MSCCL++ has "
                            f"{MOST_SEMAPHORES} semaphores a GPU.")  # fmt: skip
    for index in range(1, len(blocks)):
        blocks[index - 1] += [_SYNC, Operation("sem_release", semaphore_ids=(index - 1,))]
        blocks[index][:0] = [Operation("sem_acquire", semaphore_ids=(index - 1,)), _SYNC]
    return blocks, len(blocks) - 1
