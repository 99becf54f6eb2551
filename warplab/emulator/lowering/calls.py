"""Calls. A device function is lowered once more for each place that calls it, so that a call costs nothing.

Two kinds of call need more. A call through a pointer becomes a choice among the functions whose address is taken
somewhere and whose parameters fit. A recursive function is lowered once and calls itself by a jump: what the caller
still needs goes to a stack in the thread's local memory, with the number of the place to return to. A return is a
choice among those places, so that calls and returns are ordinary branches that reconverge like all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warplab.emulator.core.state.layout import (
    GUARD,
    GUARD_XOR,
    OP_BRANCH,
    OP_LOAD,
    OP_PRINT,
    OP_STORE,
    OP_TRAP,
    SPACE_PARAM,
    SRC_A,
    SRC_B,
    TRAP_ASSERTION,
    TRAP_CALL,
    TRAP_STACK,
)
from warplab.emulator.lowering.heap import allocate
from warplab.emulator.lowering.lowering import Instance, LocalPlace, Lowering, StackFrame, Unsupported
from warplab.emulator.lowering.passes.liveness import live_after
from warplab.emulator.program import Record, make_record
from warplab.isa.syntax import TYPE_BITS, Function, Group, Instruction, Module, Operand, Register, Symbol, Variable

STACK_BYTES = 16 * 1024  # a thread, for recursion; a GPU starts out with 1 KiB
_RETURN_BYTES = 8  # a frame starts with the number of the place to return to


def call(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    groups = [o for o in instruction.operands if isinstance(o, Group)]
    callees: list[Register | Symbol] = [o for o in instruction.operands if isinstance(o, Register)]
    callees += [o for o in instruction.operands if isinstance(o, Symbol)]
    if not callees or any(not isinstance(i, Symbol) for g in groups for i in g.items):
        raise Unsupported
    callee = callees[0]
    position = instruction.operands.index(callee)
    results = groups[0].items if position > 0 and groups else ()
    arguments = groups[-1].items if len(groups) > (position > 0) else ()
    skip = lowering.new_label()
    if instruction.guard >= 0:
        record = lowering.emit(make_record(OP_BRANCH))
        record.fields[GUARD_XOR] ^= -1
        record.target = skip
        lowering.current = replace(instruction, operands=(), guard=-1)
    if isinstance(callee, Register):
        _call_pointer(lowering, lowering.source(callee, "b64"), arguments, results)
    elif callee.name == "vprintf":
        _print(lowering, arguments, results)
    elif callee.name in ("malloc", "free") and not lowering.module.functions[callee.name].defined:
        allocate(lowering, callee.name, _argument_rows(lowering, arguments), [_symbol(r) for r in results])
    elif callee.name in ("__assertfail", "__assert_fail"):
        _assertion(lowering, arguments)
    else:
        _call(lowering, callee.name, arguments, results)
    lowering.set_label(skip)


def _call(lowering: Lowering, name: str, arguments: tuple[Operand, ...], results: tuple[Operand, ...]) -> None:
    function = lowering.module.functions.get(name)
    if function is None or not function.defined:
        raise Unsupported
    if len(arguments) != len(function.parameters) or len(results) != len(function.results):
        raise Unsupported
    if name not in lowering.recursive:
        lowering.recursive[name] = _reaches_itself(lowering.module, name)
    if lowering.recursive[name]:
        _call_recursive(lowering, function, arguments, results)
    else:
        _inline(lowering, function, arguments, results)


def _new_instance(lowering: Lowering, function: Function) -> Instance:
    lowering.copies += 1
    return Instance(lowering, function, f"{lowering.copies}/", lowering.instance.stack)


def _walk(lowering: Lowering, instance: Instance) -> None:
    current = lowering.current
    lowering.calls.append(instance.function.name)
    lowering.walk(instance)
    lowering.calls.pop()
    lowering.current = current
    lowering.set_label(instance.prefix + "\x00return")


def _inline(
    lowering: Lowering, function: Function, arguments: tuple[Operand, ...], results: tuple[Operand, ...]
) -> None:
    instance = _new_instance(lowering, function)
    formals = zip(function.parameters + function.results, arguments + results, strict=True)
    for formal, actual in formals:
        instance.locals[formal.name] = lowering.local_place(_variable(lowering, actual))
    _walk(lowering, instance)


def _variable(lowering: Lowering, operand: Operand) -> Variable:
    variable = lowering.variable(_symbol(operand).name)
    if variable is None:
        raise Unsupported
    return variable


def _symbol(operand: Operand) -> Symbol:
    assert isinstance(operand, Symbol)
    return operand


# Pointers


def _addresses_taken(module: Module) -> set[str]:
    """Functions whose address is a value somewhere: in an instruction or in a variable's initialiser."""
    taken = {name for variable in module.variables.values() for _, name, _ in variable.pointers}
    for function in module.functions.values():
        for item in function.body:
            if isinstance(item, Instruction) and not item.opcode.startswith(("call", "bra", "brx")):
                taken |= {o.name for o in item.operands if isinstance(o, Symbol)}
    return taken & module.functions.keys()


def _call_pointer(
    lowering: Lowering, pointer: int, arguments: tuple[Operand, ...], results: tuple[Operand, ...]
) -> None:
    wanted = [_variable(lowering, a).size for a in arguments], [_variable(lowering, r).size for r in results]
    done = lowering.new_label()
    for name in sorted(_addresses_taken(lowering.module)):
        function = lowering.module.functions[name]
        sizes = [p.size for p in function.parameters], [r.size for r in function.results]
        if function.entry or not function.defined or sizes != wanted:
            continue
        other = lowering.new_label()
        differs = lowering.temporary(1)
        lowering.vector("setp.ne.i64", differs, pointer, lowering.constant(64, lowering.functions[name]))
        _branch_if(lowering, differs, other)
        _call(lowering, name, arguments, results)
        lowering.jump(done)
        lowering.set_label(other)
    lowering.emit(make_record(OP_TRAP, extra=(TRAP_CALL,)))
    lowering.set_label(done)


def _branch_if(lowering: Lowering, predicate: int, label: str) -> None:
    record = lowering.emit(make_record(OP_BRANCH))
    record.fields[GUARD], record.target = predicate, label


# Recursion


def _callees(module: Module, function: Function) -> set[str]:
    called: set[str] = set()
    for item in function.body:
        if isinstance(item, Instruction) and item.opcode.startswith("call"):
            if any(isinstance(o, Register) for o in item.operands):
                called |= _addresses_taken(module)
            else:
                called |= {o.name for o in item.operands if isinstance(o, Symbol)}
    return called & module.functions.keys()


def _reaches_itself(module: Module, name: str) -> bool:
    """May a call of the function lead to another call of it?"""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for callee in _callees(module, module.functions[waiting.pop()]):
            if callee == name:
                return True
            if callee not in seen:
                seen.add(callee)
                waiting.append(callee)
    return False


class _Recursive(Instance):
    """The one copy of a recursive function, and the places that its returns may go to."""

    def __init__(self, lowering: Lowering, function: Function, prefix: str) -> None:
        super().__init__(lowering, function, prefix)
        self.frame = StackFrame(lowering.temporary(64), _RETURN_BYTES)
        self.stack = self.frame
        self.entry = lowering.new_label()
        self.sites: list[str] = []
        self.sizes: list[
            tuple[Record, int]
        ] = []  # SRC_B is to be the frame's size, known only at the end, plus a number


def _stack_pointer(lowering: Lowering) -> int:
    """The row of the stack pointer."""
    if not lowering.stack_pointer:
        lowering.stack_pointer = lowering.temporary(64)
        lowering.at_end.append(_reserve_stack)
    return lowering.stack_pointer


def _reserve_stack(lowering: Lowering) -> None:
    """The stack lies behind all local variables, whose size is known only now."""
    start = -(-lowering.local_bytes // 16) * 16
    lowering.local_bytes = start + STACK_BYTES
    for record in lowering.stack_starts:
        record.fields[SRC_A] = lowering.constant(64, start)
    for record in lowering.stack_ends:
        record.fields[SRC_B] = lowering.constant(64, lowering.local_bytes)


def _call_recursive(
    lowering: Lowering, function: Function, arguments: tuple[Operand, ...], results: tuple[Operand, ...]
) -> None:
    active = [i for i in lowering.chain if isinstance(i, _Recursive)]
    known = next((i for i in active if i.function is function), None)
    pointer = _stack_pointer(lowering)
    if known is None:
        if not active:
            lowering.vector("mov.i64", pointer, 0)
            lowering.stack_starts.append(lowering.records[-1])
        lowering.copies += 1
        callee = _Recursive(lowering, function, f"{lowering.copies}/")
        _check_room(lowering, callee, 0)
        site = _enter(lowering, callee, arguments)
        lowering.set_label(callee.entry)
        _walk(lowering, callee)
        _return(lowering, callee)
        lowering.set_label(site)
        _take_results(lowering, callee, results, [])
        return
    saved = _needed(lowering, known)
    _check_room(lowering, known, _saved_bytes(saved))
    _save(lowering, saved)
    site = _enter(lowering, known, arguments)
    lowering.jump(known.entry)
    lowering.set_label(site)
    _take_results(lowering, known, results, saved)


def _formal_place(lowering: Lowering, callee: _Recursive, variable: Variable) -> LocalPlace:
    outer, lowering.instance = lowering.instance, callee
    place = lowering.local_place(variable)
    lowering.instance = outer
    return place


def _enter(lowering: Lowering, callee: _Recursive, arguments: tuple[Operand, ...]) -> str:
    """Make a new frame at the stack pointer: the place to return to, and the arguments. Returns that place's label."""
    pointer = _stack_pointer(lowering)
    base = lowering.temporary(64)
    lowering.vector("mov.i64", base, pointer)
    number = lowering.constant(64, len(callee.sites))
    lowering.emit(make_record(OP_STORE, 0, base, number, extra=(SPACE_PARAM, 8, 1, 8)))
    for formal, actual in zip(callee.function.parameters, arguments, strict=True):
        source = lowering.symbol(_symbol(actual), 64)
        offset = _formal_place(lowering, callee, formal).offset
        for place, row, size in _load_parts(lowering, source, 0, formal):
            _store(lowering, base, offset + place, row, size)
    # The arguments may lie in the caller's frame, whose address is in the same row in a recursive call.
    lowering.vector("mov.i64", callee.frame.base, base)
    lowering.vector("add.i64", pointer, base, 0)
    callee.sizes.append((lowering.records[-1], 0))
    callee.sites.append(lowering.new_label())
    return callee.sites[-1]


def _return(lowering: Lowering, callee: _Recursive) -> None:
    """Where all returns of a recursive function meet: drop the frame and go to where the call came from."""
    size = -(-callee.frame.used // 16) * 16
    for record, more in callee.sizes:
        record.fields[SRC_B] = lowering.constant(64, size + more)
    lowering.vector("mov.i64", _stack_pointer(lowering), callee.frame.base)
    number = lowering.temporary(64)
    lowering.emit(make_record(OP_LOAD, number, callee.frame.base, extra=(SPACE_PARAM, 8, 1, 8)))
    for position, site in enumerate(callee.sites[1:], 1):
        chosen = lowering.temporary(1)
        lowering.vector("setp.eq.i64", chosen, number, lowering.constant(64, position))
        _branch_if(lowering, chosen, site)
    # The first place follows the function's body.


def _take_results(
    lowering: Lowering, callee: _Recursive, results: tuple[Operand, ...], saved: list[tuple[int, int]]
) -> None:
    """After a return: read the results from the frame that was dropped, restore registers, store the results."""
    taken = []
    for formal, actual in zip(callee.function.results, results, strict=True):
        place = _formal_place(lowering, callee, formal)
        for part in _load_parts(lowering, callee.frame.base, place.offset, formal):
            taken.append((actual, part))
    _restore(lowering, saved)
    for actual, (offset, row, size) in taken:
        _store(lowering, lowering.symbol(_symbol(actual), 64), offset, row, size)


def _load_parts(lowering: Lowering, base: int, offset: int, variable: Variable) -> Iterator[tuple[int, int, int]]:
    """Load a variable in the largest parts that its alignment allows: (place in the variable, row, bytes) of each."""
    place = 0
    while place < variable.size:
        size = next(s for s in (8, 4, 2, 1) if s <= max(variable.align, 1) and s <= variable.size - place)
        row = lowering.temporary(max(8 * size, 16))
        extra = (SPACE_PARAM, size, 1, max(size, 2))
        lowering.emit(make_record(OP_LOAD, row, base, imm=offset + place, extra=extra))
        yield place, row, size
        place += size


def _store(lowering: Lowering, base: int, offset: int, row: int, size: int) -> None:
    lowering.emit(make_record(OP_STORE, 0, base, row, imm=offset, extra=(SPACE_PARAM, size, 1, max(size, 2))))


def _check_room(lowering: Lowering, callee: _Recursive, saved: int) -> None:
    """Trap if the stack has no room for a frame and the registers saved before it."""
    end, full = lowering.temporary(64), lowering.temporary(1)
    lowering.vector("add.i64", end, _stack_pointer(lowering), 0)
    callee.sizes.append((lowering.records[-1], saved))
    lowering.vector("setp.gt.u64", full, end, 0)
    lowering.stack_ends.append(lowering.records[-1])
    lowering.emit(make_record(OP_TRAP, extra=(TRAP_STACK,))).fields[GUARD] = full


def _needed(lowering: Lowering, callee: _Recursive) -> list[tuple[int, int]]:
    """What the callers on the way from `callee` to here still need after a call: rows and their widths."""
    saved: list[tuple[int, int]] = []
    for instance in lowering.chain[lowering.chain.index(callee) :]:
        if isinstance(instance, _Recursive):
            saved.append((instance.frame.base, 64))
        name = instance.function.name
        if name not in lowering.live:
            lowering.live[name] = live_after(instance.function, lowering.table)
        live = lowering.live[name][instance.position]
        for index in (i for i in range(live.bit_length()) if live >> i & 1):
            width = TYPE_BITS[instance.function.registers[index]]
            if width == 128:
                raise Unsupported
            saved.append((instance.place(index), width if width == 1 else max(width, 16)))
    return saved


def _save(lowering: Lowering, saved: list[tuple[int, int]]) -> None:
    """Push registers."""
    pointer = _stack_pointer(lowering)
    for position, (place, width) in enumerate(saved):
        if width == 1:
            row = lowering.temporary(32)
            lowering.vector("selp.i32", row, lowering.constant(32, 1), lowering.constant(32, 0), extra=(place,))
            place, width = row, 32
        _store(lowering, pointer, 8 * position, place, width // 8)
    lowering.vector("add.i64", pointer, pointer, lowering.constant(64, _saved_bytes(saved)))


def _saved_bytes(saved: list[tuple[int, int]]) -> int:
    return -(-8 * len(saved) // 16) * 16


def _restore(lowering: Lowering, saved: list[tuple[int, int]]) -> None:
    if not saved:
        return
    pointer = _stack_pointer(lowering)
    lowering.vector("sub.i64", pointer, pointer, lowering.constant(64, _saved_bytes(saved)))
    for position, (place, width) in enumerate(saved):
        row = lowering.temporary(32) if width == 1 else place
        size = max(width // 8, 4) if width == 1 else width // 8
        lowering.emit(make_record(OP_LOAD, row, pointer, imm=8 * position, extra=(SPACE_PARAM, size, 1, size)))
        if width == 1:
            lowering.vector("setp.ne.i32", place, row, lowering.constant(32, 0))


# Functions of the device runtime


def _argument_rows(lowering: Lowering, arguments: tuple[Operand, ...]) -> list[int]:
    """64-bit arguments, loaded."""
    rows = []
    for argument in arguments:
        row = lowering.temporary(64)
        lowering.emit(make_record(OP_LOAD, row, lowering.symbol(_symbol(argument), 64), extra=(SPACE_PARAM, 8, 1, 8)))
        rows.append(row)
    return rows


def _print(lowering: Lowering, arguments: tuple[Operand, ...], results: tuple[Operand, ...]) -> None:
    lowering.emit(make_record(OP_PRINT, 0, *_argument_rows(lowering, arguments)))
    for result in results:
        place = lowering.symbol(_symbol(result), 64)
        lowering.emit(make_record(OP_STORE, 0, place, lowering.constant(32, 0), extra=(SPACE_PARAM, 4, 1, 4)))


def _assertion(lowering: Lowering, arguments: tuple[Operand, ...]) -> None:
    """__assertfail(message, file, line, function, size of a character): the message is what a reader needs."""
    (message,) = _argument_rows(lowering, arguments[:1])
    lowering.emit(make_record(OP_TRAP, 0, message, extra=(TRAP_ASSERTION,)))
