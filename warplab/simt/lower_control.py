"""Handlers for branches, calls, barriers and the instructions by which the lanes of a warp exchange values."""

from __future__ import annotations

from warplab.simt.layout import (
    BARRIER_AND,
    BARRIER_ARRIVE,
    BARRIER_OR,
    BARRIER_POPC,
    BARRIER_SYNC,
    GUARD,
    GUARD_XOR,
    OP_ACTIVEMASK,
    OP_BARRIER,
    OP_BRANCH,
    OP_ELECT,
    OP_EXIT,
    OP_LOAD,
    OP_MATCH,
    OP_NOP,
    OP_PRINT,
    OP_REDUX,
    OP_SHUFFLE,
    OP_STORE,
    OP_TRAP,
    OP_VOTE,
    OP_WARP_SYNC,
    REDUX_ADD,
    REDUX_AND,
    REDUX_MAX,
    REDUX_MIN,
    REDUX_OR,
    REDUX_XOR,
    SHUFFLE_BUTTERFLY,
    SHUFFLE_DOWN,
    SHUFFLE_INDEX,
    SHUFFLE_UP,
    SPACE_PARAM,
    VOTE_ALL,
    VOTE_ANY,
    VOTE_BALLOT,
    VOTE_UNIFORM,
)
from warplab.simt.lower import Instance, Lowering, Unsupported, handles
from warplab.simt.program import make_record
from warplab.simt.ptx import Group, Instruction, Operand, Pair, Symbol


def _jump_or_branch(lowering: Lowering, label: str) -> None:
    if lowering.current.guard >= 0:
        lowering.emit(make_record(OP_BRANCH)).target = label
    else:
        lowering.jump(label)


@handles("bra")
def branch(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    (target,) = instruction.operands
    if not isinstance(target, Symbol):
        raise Unsupported
    _jump_or_branch(lowering, lowering.instance.prefix + target.name)


@handles("brx")
def indexed_branch(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """brx.idx as a chain of comparisons and branches; only the first step is counted."""
    index, table = instruction.operands
    if not isinstance(table, Symbol) or instruction.guard >= 0:
        raise Unsupported
    targets = lowering.instance.function.tables[table.name]
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


@handles("ret", "exit")
def leave(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    if parts[0] == "ret" and len(lowering.calls) > 1:
        _jump_or_branch(lowering, lowering.instance.prefix + "\x00return")
    else:
        lowering.emit(make_record(OP_EXIT))


@handles("trap", "brkpt")
def trap(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    lowering.emit(make_record(OP_TRAP if parts[0] == "trap" else OP_NOP))


@handles("call")
def call(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    groups = [o for o in instruction.operands if isinstance(o, Group)]
    names = [o for o in instruction.operands if isinstance(o, Symbol)]
    if not names or any(not isinstance(i, Symbol) for g in groups for i in g.items):
        raise Unsupported
    position = instruction.operands.index(names[0])
    results = groups[0].items if position > 0 and groups else ()
    arguments = groups[-1].items if len(groups) > (position > 0) else ()
    skip = lowering.new_label()
    if instruction.guard >= 0:
        record = lowering.emit(make_record(OP_BRANCH))
        record.fields[GUARD_XOR] ^= -1
        record.target = skip
        lowering.current = Instruction(instruction.opcode, (), line=instruction.line, text=instruction.text)
    if names[0].name == "vprintf":
        _print(lowering, arguments, results)
    elif names[0].name == "__assertfail":
        lowering.emit(make_record(OP_TRAP))
    else:
        _inline(lowering, names[0].name, arguments, results)
    lowering.set_label(skip)


def _inline(lowering: Lowering, name: str, arguments: tuple[Operand, ...], results: tuple[Operand, ...]) -> None:
    function = lowering.module.functions.get(name)
    if function is None or not function.defined or name in lowering.calls:
        raise Unsupported
    lowering.copies += 1
    caller = lowering.instance
    instance = Instance(lowering, function, f"{lowering.copies}/", lowering.current.line or caller.line)
    formals = zip(function.parameters + function.results, arguments + results, strict=True)
    for formal, actual in formals:
        assert isinstance(actual, Symbol)
        variable = lowering.variable(actual.name)
        if variable is None:
            raise Unsupported
        instance.locals[formal.name] = lowering.local_place(variable)
    current = lowering.current
    lowering.calls.append(name)
    lowering.walk(instance)
    lowering.calls.pop()
    lowering.set_label(instance.prefix + "\x00return")
    lowering.current = current


def _print(lowering: Lowering, arguments: tuple[Operand, ...], results: tuple[Operand, ...]) -> None:
    rows = []
    for argument in arguments:
        row = lowering.temporary(64)
        lowering.emit(make_record(OP_LOAD, row, lowering.symbol(_symbol(argument), 64), extra=(SPACE_PARAM, 8, 1, 8)))
        rows.append(row)
    lowering.emit(make_record(OP_PRINT, 0, *rows))
    for result in results:
        place = lowering.symbol(_symbol(result), 64)
        lowering.emit(make_record(OP_STORE, 0, place, lowering.constant(32, 0), extra=(SPACE_PARAM, 4, 1, 4)))


def _symbol(operand: Operand) -> Symbol:
    assert isinstance(operand, Symbol)
    return operand


# Barriers and fences

REDUCTIONS = {"popc": BARRIER_POPC, "and": BARRIER_AND, "or": BARRIER_OR}


@handles("bar", "barrier")
def barrier(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    if "warp" in parts:
        mask = lowering.source(instruction.operands[0], "b32")
        lowering.emit(make_record(OP_WARP_SYNC, extra=(0, 0, mask)))
        return
    if "cluster" in parts:
        raise Unsupported
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


@handles("membar", "fence")
def fence(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    if "cta" not in parts:
        lowering.parallel = False
    lowering.emit(make_record(OP_NOP))


@handles("nanosleep", "pmevent", "griddepcontrol", "nop", "setmaxnreg")
def nothing(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    lowering.emit(make_record(OP_NOP))


# Lanes of a warp

SHUFFLES = {"up": SHUFFLE_UP, "down": SHUFFLE_DOWN, "bfly": SHUFFLE_BUTTERFLY, "idx": SHUFFLE_INDEX}
VOTES = {"all": VOTE_ALL, "any": VOTE_ANY, "uni": VOTE_UNIFORM, "ballot": VOTE_BALLOT}
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


@handles("shfl")
def shuffle(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands = instruction.operands
    place, predicate = _two(lowering, operands[0], "b32")
    sources = [lowering.source(o, "b32") for o in operands[1:4]]
    mode = next(SHUFFLES[p] for p in parts if p in SHUFFLES)
    extra = (mode, predicate, _members(lowering, instruction, 4, parts))
    lowering.emit(make_record(OP_SHUFFLE, place, *sources, extra=extra))


@handles("vote")
def vote(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands = instruction.operands
    mode = next(VOTES[p] for p in parts if p in VOTES)
    place = lowering.target(operands[0], "b32" if mode == VOTE_BALLOT else "pred")
    extra = (mode, 0, _members(lowering, instruction, 2, parts))
    lowering.emit(make_record(OP_VOTE, place, lowering.source(operands[1], "pred"), extra=extra))


@handles("match")
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


@handles("redux")
def redux(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    operands, kind = instruction.operands, parts[-1]
    if kind not in ("u32", "s32", "b32"):
        raise Unsupported
    mode = next(REDUXES[p] for p in parts if p in REDUXES)
    extra = (mode, 1 if kind == "s32" else 0, _members(lowering, instruction, 2, parts))
    lowering.emit(
        make_record(OP_REDUX, lowering.target(operands[0], kind), lowering.source(operands[1], kind), extra=extra)
    )


@handles("activemask")
def active_mask(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    lowering.emit(make_record(OP_ACTIVEMASK, lowering.target(instruction.operands[0], "b32")))


@handles("elect")
def elect(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    place, predicate = _two(lowering, instruction.operands[0], "b32")
    mask = lowering.source(instruction.operands[1], "b32")
    lowering.emit(make_record(OP_ELECT, place, extra=(0, predicate, mask)))
