"""PTX module and entry name to a `Program`: lower, link, place registers, pack into arrays."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from warplab.emulator.core.state.layout import (
    DST,
    OP_LOAD,
    OP_STORE,
    RECORD_WORDS,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
    X1,
    X2,
    X4,
    X5,
    X6,
    X7,
)
from warplab.emulator.lowering.assembled.kernel import Assembled, branch_targets
from warplab.emulator.lowering.assembled.meetings import let_lanes_meet
from warplab.emulator.lowering.assembled.probes import add_probes
from warplab.emulator.lowering.assembled.rounds import group_rounds
from warplab.emulator.lowering.flow import link
from warplab.emulator.lowering.hazards.tensor_loads import guard_loaded_registers
from warplab.emulator.lowering.hazards.wgmma import guard_registers
from warplab.emulator.lowering.instructions.table import TABLE
from warplab.emulator.lowering.lowering import PER_BLOCK_SPECIALS, Lowering
from warplab.emulator.lowering.passes.contraction import contract
from warplab.emulator.lowering.passes.exposed import mark_exposed
from warplab.emulator.lowering.passes.speculation import watch_speculated
from warplab.emulator.lowering.passes.written import access_widths, written_names
from warplab.emulator.lowering.registers import allocate
from warplab.emulator.program import ROWS_BASE, Program, Record
from warplab.isa.machine_code import MachineCode, MachineInstruction
from warplab.isa.parser import parse
from warplab.isa.syntax import Module
from warplab.plan.disassembler import disassembled

_KEPT = 16  # texts and kernels: a plan's, for as long as it is judged
_decoding = threading.Lock()  # decoding changes the parsed module


def decoded(text: str, entry: str, source_name: str, image: bytes = b"") -> tuple[Module, Program]:
    """A PTX text, parsed, and one kernel of it, decoded; what was asked for lately is kept.

    `image` is what the assembler made of the text; with it counters follow the machine code.

    A case of a lab runs in milliseconds, and reading its kernel again each time would take longer. Nothing that runs
    changes either. Raises PlanError as parse and decode do.
    """
    with _decoding, _collecting_nothing():
        return _parsed(text, source_name), _decoded(text, entry, source_name, image)


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """Within, nobody looks for garbage: what is decoded are many small objects that stay, and to look at them again and
    again takes a quarter of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@lru_cache(_KEPT)
def _parsed(text: str, source_name: str) -> Module:
    module = parse(text, source_name)
    for function in module.functions.values():
        contract(function)
        watch_speculated(function, TABLE)
        mark_exposed(function, TABLE)
    return module


@lru_cache(_KEPT)
def _decoded(text: str, entry: str, source_name: str, image: bytes) -> Program:
    return decode(_parsed(text, source_name), entry, disassembled(image) if image else None)


# Fields that may hold a frame offset of a row. Control records use X fields for small codes, all far below ROWS_BASE.
_ROW_FIELDS = (DST, SRC_A, SRC_B, SRC_C, X0, X1, X2, X4, X5, X6)


def _understood(step: Callable[[], None]) -> bool:
    """Take a step on machine code. False if that is other than the rules know: then the PTX is counted."""
    try:
        step()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False
    return True


def decode(module: Module, entry: str, machine: MachineCode | None = None) -> Program:
    """Decode one kernel of a module that is parsed and past `passes`, with its machine code if that is known.

    Raises PlanError if it is not there or is far too long.
    """
    lowering = Lowering(module, entry, TABLE)
    lowering.lower()
    guard_registers(lowering)
    guard_loaded_registers(lowering)
    own: list[MachineInstruction] = []
    if machine and entry in machine:
        others = {f.name for f in module.functions.values() if f.entry and f.name != entry}
        own = [i for name, instructions in machine.items() if name not in others for i in instructions]
        _understood(lambda: let_lanes_meet(lowering, own))
        _understood(lambda: group_rounds(lowering, own))
        own = own if _understood(lambda: add_probes(lowering, own)) else []
    records = link(lowering.records, lowering.labels)
    assembled = Assembled(records, own, lowering.bank, branch_targets(records)) if own else None
    if assembled and not _understood(assembled.compare):
        assembled = None
        for record in records:
            if record.op in (OP_LOAD, OP_STORE):
                record.fields[X7] = 0
    predicates_end = -(-lowering.frame.predicates // 64) * 64
    places, frame_bytes = allocate(records, lowering.frame, predicates_end)
    for record in records:
        for field in _ROW_FIELDS:
            if record.fields[field] >= ROWS_BASE:
                record.fields[field] = places[record.fields[field]]
    code = np.array([r.fields for r in records], dtype=np.int32).reshape(len(records), RECORD_WORDS)
    specials = tuple(
        (PER_BLOCK_SPECIALS[name], places[place]) for name, place in lowering.specials.items() if place in places
    )
    return Program(
        entry=entry,
        code=np.ascontiguousarray(code),
        lines=np.array([r.line for r in records], dtype=np.int32),
        outermost=np.array([r.outermost for r in records], dtype=np.int32),
        counted=np.array([r.counted for r in records]),
        texts=tuple(r.text for r in records),
        kinds=tuple(r.kind for r in records),
        constants=lowering.bank.offsets,
        constant_bytes=lowering.bank.used,
        frame_bytes=frame_bytes,
        local_bytes=-(-lowering.local_bytes // 16) * 16,
        shared_symbols=lowering.shared_symbols,
        static_shared=lowering.shared_bytes,
        dynamic_shared=tuple(lowering.dynamic_shared),
        dynamic_start=-(-lowering.shared_bytes // lowering.dynamic_align) * lowering.dynamic_align,
        specials=specials,
        parallel=lowering.parallel and not (lowering.block_fences and lowering.shared_atomics),
        writes=written_names(module, entry, TABLE),
        widths=access_widths(module, entry),
        terms=tuple(assembled.terms) if assembled else None,
        shares=assembled.shares if assembled else {},
        of_ptx=_of_ptx(records),
        elected=frozenset(assembled.elected) if assembled else frozenset(),
        notes=lowering.notes,
    )


def _of_ptx(records: Sequence[Record]) -> dict[int, tuple[int, ...]]:
    """The counted records of each line of the PTX."""
    found: dict[int, tuple[int, ...]] = {}
    for number, record in enumerate(records):
        for place in record.places if record.counted else ():
            found[place] = (*found.get(place, ()), number)
    return found
