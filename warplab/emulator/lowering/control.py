"""Emitters of branches, calls, barriers and the instructions by which the lanes of a warp exchange values."""

from __future__ import annotations

from warplab.emulator.core.state.layout import (
    BARRIER_AND,
    BARRIER_ARRIVE,
    BARRIER_OR,
    BARRIER_POPC,
    BARRIER_SYNC,
    CLUSTER_ARRIVE,
    CLUSTER_WAIT,
    FENCE_ASYNC,
    FENCE_MEMORY,
    GUARD,
    OP_ACTIVEMASK,
    OP_BARRIER,
    OP_BRANCH,
    OP_CLUSTER_BARRIER,
    OP_ELECT,
    OP_EXIT,
    OP_FENCE,
    OP_MATCH,
    OP_NOP,
    OP_REDUX,
    OP_SHUFFLE,
    OP_TRAP,
    OP_VOTE,
    OP_WARP_SYNC,
    REDUX_ABS,
    REDUX_ADD,
    REDUX_AND,
    REDUX_FLOAT,
    REDUX_MAX,
    REDUX_MIN,
    REDUX_NAN,
    REDUX_OR,
    REDUX_SIGNED,
    REDUX_UNSIGNED,
    REDUX_XOR,
    SHUFFLE_BUTTERFLY,
    SHUFFLE_DOWN,
    SHUFFLE_INDEX,
    SHUFFLE_UP,
    VOTE_ALL,
    VOTE_ANY,
    VOTE_BALLOT,
    VOTE_UNIFORM,
)
from warplab.emulator.lowering.lowering import Lowering, Unsupported
from warplab.emulator.lowering.strength import scope_of
from warplab.emulator.program import make_record
from warplab.isa.syntax import Immediate, Instruction, Operand, Pair, Symbol

MAX_TARGETS = 4096  # of an indexed branch: each takes two records


def jump_or_branch(lowering: Lowering, label: str) -> None:
    if lowering.current.guard >= 0:
        lowering.emit(make_record(OP_BRANCH)).target = label
    else:
        lowering.jump(label)


def branch(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    (target,) = instruction.operands
    if not isinstance(target, Symbol):
        raise Unsupported
    jump_or_branch(lowering, lowering.instance.prefix + target.name)


def indexed_branch(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """brx.idx as a chain of comparisons and branches; only the first step is counted."""
    index, table = instruction.operands
    if not isinstance(table, Symbol) or instruction.guard >= 0:
        raise Unsupported
    targets = lowering.instance.function.tables[table.name]
    if len(targets) > MAX_TARGETS:
        raise Unsupported
    value = lowering.source(index, "b32")
    for position, target in enumerate(targets):
        label = lowering.instance.prefix + target
        if position == len(targets) - 1:
            lowering.jump(label)
            return
        chosen = lowering.temporary(1)
        lowering.vector("setp.eq.i32", chosen, value, lowering.constant(32, position))
        record = lowering.emit(make_record(OP_BRANCH))
        record.fields[GUARD], record.target = chosen, label


def leave(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    if parts[0] == "ret" and len(lowering.calls) > 1:
        jump_or_branch(lowering, lowering.instance.prefix + "\x00return")
    else:
        lowering.emit(make_record(OP_EXIT))


def trap(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """brkpt does nothing where no debugger is attached."""
    lowering.emit(make_record(OP_TRAP if parts[0] == "trap" else OP_NOP))


# Barriers and fences

REDUCTIONS = {"popc": BARRIER_POPC, "and": BARRIER_AND, "or": BARRIER_OR}


def barrier(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    if "warp" in parts:
        mask = lowering.source(instruction.operands[0], "b32")
        lowering.emit(make_record(OP_WARP_SYNC, extra=(0, 0, mask)))
        return
    if "cluster" in parts:
        _cluster_barrier(lowering, parts)
        return
    aligned = parts[0] == "bar" or "aligned" in parts
    operands = list(instruction.operands)
    kind, place, predicate = BARRIER_SYNC, 0, 0
    if "arrive" in parts:
        kind = BARRIER_ARRIVE
    elif "red" in parts:
        kind = REDUCTIONS[next(p for p in parts if p in REDUCTIONS)]
        place = lowering.target(operands.pop(0), "u32" if kind == BARRIER_POPC else "pred")
        predicate = lowering.source(operands.pop(), "pred")
    elif "sync" not in parts:
        raise Unsupported
    number = lowering.source(operands[0], "b32")
    count = lowering.source(operands[1], "b32") if len(operands) > 1 else 0
    extra = (kind, 1 if len(operands) > 1 else 0, 1 if aligned else 0)
    lowering.emit(make_record(OP_BARRIER, place, number, count, predicate, extra=extra))


def fence(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """Memory is in program order here; what a fence does is to tell the sanitizer so."""
    if "proxy" in parts:
        lowering.emit(make_record(OP_FENCE, extra=(FENCE_ASYNC,)) if "async" in parts else make_record(OP_NOP))
        return
    if parts[0] == "membar" and "cta" not in parts or any(p in ("gpu", "sys") for p in parts):
        lowering.parallel = False  # blocks may talk to each other
    lowering.block_fences = True
    lowering.emit(make_record(OP_FENCE, extra=(FENCE_MEMORY, scope_of(parts))))


def _cluster_barrier(lowering: Lowering, parts: list[str]) -> None:
    aligned = 1 if "aligned" in parts else 0
    if "wait" in parts:
        lowering.emit(make_record(OP_CLUSTER_BARRIER, extra=(CLUSTER_WAIT, 1, aligned)))
    elif "arrive" in parts:
        orders = 0 if "relaxed" in parts else 1
        lowering.emit(make_record(OP_CLUSTER_BARRIER, extra=(CLUSTER_ARRIVE, orders, aligned)))
    else:
        raise Unsupported


def nothing(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    lowering.emit(make_record(OP_NOP))


def dependent_launch(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """Launches run one after the other here, so the one before has always finished."""
    if parts[1] not in ("wait", "launch_dependents"):
        raise Unsupported
    lowering.notes["griddepcontrol"] = "The emulator runs launches one after the other: griddepcontrol never waits."
    lowering.emit(make_record(OP_NOP))


def register_limit(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """setmaxnreg changes no result; a count that ptxas refuses is refused here too."""
    (count,) = instruction.operands
    if not isinstance(count, Immediate) or not 24 <= count.value <= 256 or count.value % 8:
        raise Unsupported
    lowering.emit(make_record(OP_NOP))


# Lanes of a warp

SHUFFLES = {"up": SHUFFLE_UP, "down": SHUFFLE_DOWN, "bfly": SHUFFLE_BUTTERFLY, "idx": SHUFFLE_INDEX}
VOTES = {"all": VOTE_ALL, "any": VOTE_ANY, "uni": VOTE_UNIFORM, "ballot": VOTE_BALLOT}
_REDUX_KINDS = {"u32": REDUX_UNSIGNED, "s32": REDUX_SIGNED, "b32": REDUX_UNSIGNED, "f32": REDUX_FLOAT}
REDUXES = {
    "add": REDUX_ADD, "min": REDUX_MIN, "max": REDUX_MAX, "and": REDUX_AND, "or": REDUX_OR, "xor": REDUX_XOR,
}  # fmt: skip


def _two(lowering: Lowering, operand: Operand, kind: str) -> tuple[int, int]:
    """d or d|p: the places of the value and of the predicate (0 for none)."""
    if isinstance(operand, Pair):
        return lowering.target(operand.first, kind), lowering.target(operand.second, "pred")
    return lowering.target(operand, kind), 0


def _members(lowering: Lowering, instruction: Instruction, position: int, parts: list[str]) -> int:
    """The row of the member mask; the old forms without .sync take the active lanes, marked by 0."""
    if "sync" not in parts:
        return 0
    return lowering.source(instruction.operands[position], "b32")


def shuffle(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands = instruction.operands
    place, predicate = _two(lowering, operands[0], "b32")
    sources = [lowering.source(o, "b32") for o in operands[1:4]]
    mode = next(SHUFFLES[p] for p in parts if p in SHUFFLES)
    extra = (mode, predicate, _members(lowering, instruction, 4, parts))
    lowering.emit(make_record(OP_SHUFFLE, place, *sources, extra=extra))


def vote(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands = instruction.operands
    mode = next(VOTES[p] for p in parts if p in VOTES)
    place = lowering.target(operands[0], "b32" if mode == VOTE_BALLOT else "pred")
    extra = (mode, 0, _members(lowering, instruction, 2, parts))
    lowering.emit(make_record(OP_VOTE, place, lowering.source(operands[1], "pred"), extra=extra))


def match(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands, kind = instruction.operands, parts[-1]
    place, predicate = _two(lowering, operands[0], "b32")
    extra = (
        1 if "all" in parts else 0,
        predicate,
        _members(lowering, instruction, 2, parts),
        8 if kind == "b64" else 4,
    )
    lowering.emit(make_record(OP_MATCH, place, lowering.source(operands[1], kind), extra=extra))


def redux(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands, kind = instruction.operands, parts[-1]
    mode = next((REDUXES[p] for p in parts if p in REDUXES), None)
    if mode is None or kind not in _REDUX_KINDS or kind == "f32" and mode not in (REDUX_MIN, REDUX_MAX):
        raise Unsupported
    values = _REDUX_KINDS[kind] | (REDUX_ABS if "abs" in parts else 0) | (REDUX_NAN if "NaN" in parts else 0)
    if kind != "f32" and values != _REDUX_KINDS[kind]:
        raise Unsupported
    extra = (mode, values, _members(lowering, instruction, 2, parts))
    lowering.emit(
        make_record(OP_REDUX, lowering.target(operands[0], kind), lowering.source(operands[1], kind), extra=extra)
    )


def active_mask(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    lowering.emit(make_record(OP_ACTIVEMASK, lowering.target(instruction.operands[0], "b32")))


def elect(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    place, predicate = _two(lowering, instruction.operands[0], "b32")
    mask = lowering.source(instruction.operands[1], "b32")
    lowering.emit(make_record(OP_ELECT, place, extra=(0, predicate, mask)))
