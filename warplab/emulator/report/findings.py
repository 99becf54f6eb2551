"""Fault records of the interpreter to `Finding`s: one clear sentence each, with line, thread, array and index."""

from __future__ import annotations

from math import prod

import numpy as np

from warplab.emulator.core.state.layout import (
    ARRIVAL_SHIFT,
    CLUSTER_BARRIER,
    COPY_COMMIT,
    COPY_WAIT_GROUP,
    F_ADDRESS,
    F_BLOCK_X,
    F_BLOCK_Y,
    F_BLOCK_Z,
    F_BYTES,
    F_COUNT,
    F_EXTRA,
    F_KIND,
    F_LANE,
    F_OTHER,
    F_PC,
    F_SPACE,
    F_WARP,
    F_WRITE,
    FAULT_ARRIVALS,
    FAULT_BOX,
    FAULT_BULK_SIZE,
    FAULT_CLUSTER_BARRIER,
    FAULT_DEADLOCK,
    FAULT_DIVERGENT_BARRIER,
    FAULT_DIVERGENT_WARP_SYNC,
    FAULT_ENDLESS,
    FAULT_GLOBAL_RACE,
    FAULT_HANDED_OVER,
    FAULT_IN_FLIGHT,
    FAULT_LEFT,
    FAULT_MBARRIER,
    FAULT_MISALIGNED,
    FAULT_NO_FENCE,
    FAULT_NOT_CONSTANT,
    FAULT_NULL,
    FAULT_ONE_STORE,
    FAULT_OPERAND,
    FAULT_OTHER_LANE,
    FAULT_OUT_OF_BOUNDS,
    FAULT_OWN_LANE,
    FAULT_PEER,
    FAULT_PENDING,
    FAULT_PROXY,
    FAULT_RACE,
    FAULT_READ_ONLY,
    FAULT_SAME_VALUE,
    FAULT_SOURCE,
    FAULT_SOURCE_CHANGED,
    FAULT_SPLITS,
    FAULT_TENSOR_MAP,
    FAULT_TENSOR_ORDER,
    FAULT_TENSOR_PLACE,
    FAULT_TENSOR_RULE,
    FAULT_TENSOR_UNWRITTEN,
    FAULT_TRAP,
    FAULT_UNINITIALISED,
    FAULT_UNSUPPORTED,
    FAULT_WARPGROUP,
    IMM,
    OFFSET_MASK,
    OP,
    OP_BULK,
    OP_COPY,
    OP_COPY_GROUP,
    OP_TENSOR_CORE,
    OP_WGMMA_GROUP,
    OTHER_BLOCK,
    SAME_WARP,
    SPACE_SHARED,
    TRAP_ASSERTION,
    TRAP_CALL,
    TRAP_CLUSTER,
    TRAP_STACK,
    WARPGROUP_DIFFERS,
    WARPGROUP_MISSING,
    WARPGROUP_SKIPS,
    WARPGROUP_WARPS,
    WGMMA_COMMIT,
    WGMMA_WAIT,
)
from warplab.emulator.lowering.calls import STACK_BYTES
from warplab.emulator.memory import AddressSpace
from warplab.emulator.program import Program
from warplab.emulator.report.gaps import feature_of, opcode_of
from warplab.emulator.report.places import Place, Places
from warplab.emulator.report.races import is_initialisation, race_sentence, same_value_note
from warplab.emulator.report.spelling import spelling
from warplab.emulator.report.surroundings import Surroundings
from warplab.emulator.report.tensor_memory import TENSOR_FAULTS, is_advisory, tensor_sentence
from warplab.plan.execution import Extent, Finding, FindingKind
from warplab.plan.model import Launch, Plan

LONGEST_TEXT = 300  # characters of an instruction in a message
KINDS = {
    FAULT_OUT_OF_BOUNDS: FindingKind.OUT_OF_BOUNDS,
    FAULT_MISALIGNED: FindingKind.MISALIGNED,
    FAULT_NULL: FindingKind.NULL_POINTER,
    FAULT_UNINITIALISED: FindingKind.UNINITIALISED,
    FAULT_RACE: FindingKind.RACE,
    FAULT_DIVERGENT_BARRIER: FindingKind.DIVERGENT_BARRIER,
    FAULT_DEADLOCK: FindingKind.DEADLOCK,
    FAULT_ENDLESS: FindingKind.ENDLESS,
    FAULT_TRAP: FindingKind.TRAP,
    FAULT_UNSUPPORTED: FindingKind.UNSUPPORTED,
    FAULT_READ_ONLY: FindingKind.OUT_OF_BOUNDS,
    FAULT_DIVERGENT_WARP_SYNC: FindingKind.DIVERGENT_BARRIER,
    FAULT_SPLITS: FindingKind.UNSUPPORTED,
    FAULT_PENDING: FindingKind.RACE,
    FAULT_MBARRIER: FindingKind.UNINITIALISED,
    FAULT_ARRIVALS: FindingKind.DIVERGENT_BARRIER,
    FAULT_PEER: FindingKind.RACE,
    FAULT_PROXY: FindingKind.RACE,
    FAULT_CLUSTER_BARRIER: FindingKind.DIVERGENT_BARRIER,
    FAULT_IN_FLIGHT: FindingKind.RACE,
    FAULT_NO_FENCE: FindingKind.RACE,
    FAULT_OPERAND: FindingKind.RACE,
    FAULT_WARPGROUP: FindingKind.DIVERGENT_BARRIER,
    FAULT_SOURCE: FindingKind.RACE,
    FAULT_LEFT: FindingKind.RACE,
    FAULT_BULK_SIZE: FindingKind.MISALIGNED,
    FAULT_BOX: FindingKind.MISALIGNED,
    FAULT_TENSOR_MAP: FindingKind.TRAP,
    FAULT_GLOBAL_RACE: FindingKind.RACE,
    FAULT_HANDED_OVER: FindingKind.RACE,
    FAULT_ONE_STORE: FindingKind.RACE,
    FAULT_OWN_LANE: FindingKind.DIVERGENT_BARRIER,
    FAULT_OTHER_LANE: FindingKind.UNINITIALISED,
    FAULT_SOURCE_CHANGED: FindingKind.RACE,
    FAULT_NOT_CONSTANT: FindingKind.RACE,
    FAULT_TENSOR_PLACE: FindingKind.OUT_OF_BOUNDS,
    FAULT_TENSOR_ORDER: FindingKind.RACE,
    FAULT_TENSOR_UNWRITTEN: FindingKind.UNINITIALISED,
    FAULT_TENSOR_RULE: FindingKind.TRAP,
}


def _warps(numbers: list[int]) -> str:
    """Some warps of a block in words."""
    head, last = ", ".join(map(str, numbers[:-1])), str(numbers[-1])
    return f"warps {head} and {last}" if head else f"warp {last}"


class Explainer:
    """Turns the fault records of one launch into findings."""

    def __init__(self, program: Program, space: AddressSpace, launch: Launch, plan: Plan) -> None:
        self.program = program
        self.space = space
        self.launch = launch
        self.kernel = launch.kernel
        self.words = spelling(plan.kernels[launch.kernel].language)
        self.code = Surroundings(program)
        self.places = Places(program, space, launch, plan)

    def explain(self, record: np.ndarray) -> Finding:
        """One record (int64 [F_FIELDS]) as a finding."""
        fault, pc = int(record[F_KIND]), int(record[F_PC])
        place = self._place(record)
        thread = self._thread(record)
        block = (int(record[F_BLOCK_X]), int(record[F_BLOCK_Y]), int(record[F_BLOCK_Z]))
        sentence = self._sentence(fault, record, place)
        where = f" (thread {thread} of block {block})"
        text = f"{self._line(pc)}{sentence}"
        index = place.index if place else None
        return Finding(
            kind=FindingKind.ADVISORY if is_advisory(fault, record) else KINDS[fault],
            message=text[:-1] + where + "." if text.endswith(".") else text + where + ".",
            kernel=self.kernel,
            line=int(self.program.outermost[pc]),
            block=block,
            thread=thread,
            array=place.name if place else "",
            index=index,
            count=int(record[F_COUNT]),
            extent=self._extent(fault, record),
        )

    def _extent(self, fault: int, record: np.ndarray) -> Extent:
        """The threads among which an order is missing."""
        if fault == FAULT_DIVERGENT_WARP_SYNC:
            return Extent.WARP
        if fault not in (FAULT_RACE, FAULT_GLOBAL_RACE):
            return Extent.NOWHERE
        extra = int(record[F_EXTRA])
        if fault == FAULT_GLOBAL_RACE and is_initialisation(record, self.launch):
            return Extent.LAUNCH
        if fault == FAULT_GLOBAL_RACE and extra & OTHER_BLOCK:
            return Extent.GRID
        if extra & SAME_WARP:
            return Extent.WARP
        if extra & OTHER_BLOCK:
            return Extent.CLUSTER
        return Extent.SHARED if fault == FAULT_RACE else Extent.BLOCK

    def notes(self, records: list[np.ndarray]) -> dict[str, str]:
        """What of the records is no fault, but worth a word."""
        lines = self.program.lines
        return {
            f"same value at {self._line(int(r[F_PC]))}": same_value_note(r, str(self._place(r)), lines, self.launch)
            for r in records
            if r[F_KIND] == FAULT_SAME_VALUE
        }

    def _line(self, pc: int) -> str:
        line = self._where(pc)
        return f"{line[0].upper()}{line[1:]} " if line else f"Kernel {self.kernel} "

    def _where(self, pc: int) -> str:
        """An instruction's line in words: that of the kernel's own, then that of the function it calls; "": unknown."""
        if pc < 0:
            return ""
        line, own = int(self.program.lines[pc]), int(self.program.outermost[pc])
        if line == own:
            return f"line {own}" if own else ""
        return f"line {own} (through line {line})"

    def _text(self, record: np.ndarray) -> str:
        """The instruction, or as much of it as a sentence can hold."""
        return " ".join(self.program.texts[int(record[F_PC])][:LONGEST_TEXT].split())

    def _thread(self, record: np.ndarray) -> tuple[int, int, int]:
        return self._thread_at(int(record[F_WARP]), int(record[F_LANE]))

    def _thread_at(self, warp: int, lane: int) -> tuple[int, int, int]:
        width, height, _ = self.launch.block
        linear = warp * 32 + lane
        return linear % width, linear // width % height, linear // (width * height)

    def _place(self, record: np.ndarray) -> Place | None:
        fault, address, size = int(record[F_KIND]), int(record[F_ADDRESS]), int(record[F_BYTES])
        memory_faults = (
            FAULT_OUT_OF_BOUNDS, FAULT_MISALIGNED, FAULT_NULL, FAULT_UNINITIALISED, FAULT_RACE, FAULT_READ_ONLY,
            FAULT_PENDING, FAULT_MBARRIER, FAULT_ARRIVALS, FAULT_PEER, FAULT_OPERAND,
            FAULT_PROXY, FAULT_SOURCE, FAULT_LEFT, FAULT_TENSOR_MAP, FAULT_GLOBAL_RACE, FAULT_SAME_VALUE,
            FAULT_HANDED_OVER, FAULT_ONE_STORE, FAULT_NOT_CONSTANT, FAULT_SOURCE_CHANGED,
        )  # fmt: skip
        if fault not in memory_faults:
            return None
        return self.places.at(int(record[F_SPACE]), address, size)

    def _is_dynamic(self, record: np.ndarray) -> bool:
        """Does a fault lie in, or beyond, the shared memory whose size the launch gives?"""
        where = int(record[F_ADDRESS]) & OFFSET_MASK
        dynamic = int(record[F_SPACE]) == SPACE_SHARED and int(record[F_ADDRESS]) >= 0 and self.program.dynamic_shared
        return bool(dynamic) and where >= self.program.dynamic_start

    def _sentence(self, fault: int, record: np.ndarray, place: Place | None) -> str:
        size = int(record[F_BYTES])
        verb = "writes" if record[F_WRITE] else "reads"
        if fault == FAULT_OUT_OF_BOUNDS:
            if place is not None and place.shape is not None:
                return f"{verb} {place}, but {place.name} has shape {place.shape}."
            if self._is_dynamic(record):
                given = self.launch.shared_bytes or "no"
                return (
                    f"{verb} {place} ({size} bytes), but the launch gives the kernel {given} bytes of dynamic shared "
                    "memory: give it as many as it uses."
                )
            return f"{verb} {place} ({size} bytes), which lies outside every array."
        if fault == FAULT_MISALIGNED:
            return f"{verb} {size} bytes of {place} at an address that is not a multiple of {size}."
        if fault == FAULT_NULL:
            return f"{verb} {size} bytes through a null pointer."
        if fault == FAULT_READ_ONLY:
            return f"writes {place}, which is constant memory."
        if fault == FAULT_UNINITIALISED:
            return f"reads {place}, which nothing has written yet."
        if fault == FAULT_RACE:
            return self._race(record, place)
        if fault == FAULT_ONE_STORE:
            return self._one_store(record, place)
        if fault == FAULT_HANDED_OVER:
            return self._handed_over(record, place)
        if fault == FAULT_GLOBAL_RACE:
            only_stores = self.code.only_stores(int(record[F_PC]))
            return race_sentence(
                record, str(place), self.program.lines, self.launch, self.words, only_stores, self.code.signals()
            )
        if fault == FAULT_NOT_CONSTANT:
            writer = self._where(int(record[F_OTHER])) or "another instruction"
            return (
                f"reads {place} by ld.global.nc, which is for constants, but {writer} has written it in this launch: "
                "it may find the old value. Read it without __ldg(), and drop const or __restrict__ from its pointer."
            )
        if fault == FAULT_MBARRIER:
            return f"uses {place} as an mbarrier, but no {self.words.mbarrier_init} has made it one."
        if fault == FAULT_ARRIVALS:
            return (
                f"arrives at the mbarrier {place} more often in a phase than its count allows. Let it wait for the "
                "phase before it arrives in the next, or raise the count."
            )
        if fault == FAULT_PENDING:
            return self._pending(record, place)
        if fault == FAULT_PROXY:
            line = self._where(int(record[F_OTHER]))
            who = f"{line} wrote" if line else "was written"
            return f"reads {place} asynchronously, which {who} with no {self.words.proxy_fence} in between."
        if fault in (FAULT_SOURCE, FAULT_LEFT, FAULT_BULK_SIZE, FAULT_BOX, FAULT_TENSOR_MAP):
            return self._bulk(fault, record, place)
        if fault == FAULT_SOURCE_CHANGED:
            return (
                f"copies {place} asynchronously, and the source was written while the copy was in flight. Wait for the "
                "copy before any thread writes what it reads."
            )
        if fault == FAULT_PEER:
            return self._peer_sentence(record, place)
        if fault in (FAULT_IN_FLIGHT, FAULT_NO_FENCE, FAULT_OPERAND, FAULT_WARPGROUP):
            return self._product_sentence(fault, record, place)
        if fault in TENSOR_FAULTS:
            return tensor_sentence(fault, record, self._where(int(record[F_OTHER])))
        return self._control_sentence(fault, record)

    def _race(self, record: np.ndarray, place: Place | None) -> str:
        """Names a barrier only where one fixes it: what one line does to an element may have to be atomic instead."""
        pcs = int(record[F_PC]), int(record[F_OTHER])
        verb = "writes" if record[F_WRITE] else "reads"
        other = "writes" if int(record[F_EXTRA]) & 1 else "reads"
        line, same = self._where(pcs[1]), self._where(pcs[0]) == self._where(pcs[1])
        if int(record[F_EXTRA]) & SAME_WARP:
            who, barrier = "another thread of the same warp", self.words.warp_barrier
            need = "with no barrier of the warp between them"
        elif int(record[F_EXTRA]) & OTHER_BLOCK:
            who, barrier = "another block of the cluster", self.words.cluster_barrier
            need = "with no barrier of the cluster between them"
        else:
            who, barrier, need = "another warp", self.words.block_barrier, "with no barrier between them"
        if self.code.is_bulk_store(pcs[1]) and not int(record[F_EXTRA]) & 1:
            return (
                f"{verb} {place}, which the bulk copy{f' of {line}' if line else ''} may still be reading for all that "
                "this thread has been told: the thread that started the copy has to wait for its bulk group "
                f"({self.words.bulk_wait}) before it lets others write there."
            )
        if any(int(self.program.code[pc, OP]) == OP_BULK and not self.code.is_bulk_store(pc) for pc in pcs):
            need = (
                "and nothing orders the two: a copy may start only when all have read what it overwrites, and is read "
                "when its mbarrier has been waited for"
            )
        elif same and line and verb == other:
            need = "and nothing orders the two: let one thread write it, or each an element of its own"
        elif same and line and self.code.comes_back(*pcs):
            need += f": put {barrier} after {line}, before the loop comes back to it"
        elif same and line:
            need += f": put {barrier} between the read and the write, or update it by {self.words.atomic}"
        elif line:
            between = self.code.between(*pcs)
            copied = int(self.program.code[pcs[1], OP]) == OP_COPY
            if copied and not self.code.waits_for_copies():
                need = f"and no thread waits for the copy: {self._copy_wait()}"
            elif copied and between.startswith("after"):  # a copy that no wait covers comes after the barrier
                need += f": put {barrier} {between}, or {self._copy_wait()}"
            elif product := self.code.overtaken(pcs, between):
                need = (
                    f"and nothing waits for the product: put tcgen05.commit behind {self._where(product[0])} and wait "
                    f"for its mbarrier before {self._where(product[1])}"
                )
            else:
                need += f": put {barrier} {between}"
        elif int(record[F_EXTRA]) & SAME_WARP:
            need += f": put {barrier} between the two"
        return f"{verb} {place} that {f'{line} {other} in {who}' if line else f'{who} {other}'}, {need}."

    def _one_store(self, record: np.ndarray, place: Place | None) -> str:
        other = self._thread_at(int(record[F_WARP]), int(record[F_EXTRA]))
        return (
            f"writes {place}, and so does thread {other} by the same store, with another value: which of the two stays "
            "is undefined. Let one thread write it, or give each thread an element of its own."
        )

    def _handed_over(self, record: np.ndarray, place: Place | None) -> str:
        verb = "writes" if record[F_WRITE] else "reads"
        other = "writes" if int(record[F_EXTRA]) & 1 else "reads"
        line, arrival = self._where(int(record[F_OTHER])), self._where(int(record[F_EXTRA]) >> ARRIVAL_SHIFT)
        who = f"{line} {other} in another warp" if line else f"another warp {other}"
        return (
            f"{verb} {place} that {who}. The arrival{f' of {arrival}' if arrival else ''} at an mbarrier speaks for "
            f"its own thread alone, not for the rest of that warp: put {self.words.warp_barrier} before it."
        )

    def _pending(self, record: np.ndarray, place: Place | None) -> str:
        verb = "writes" if record[F_WRITE] else "reads"
        line = self._where(int(record[F_OTHER]))
        copy = f"the asynchronous copy of {line}" if line else "an asynchronous copy"
        if int(self.program.code[int(record[F_OTHER]), OP]) != OP_COPY:
            return f"{verb} {place}, which {copy} may still be writing: its mbarrier has to be waited for first."
        return f"{verb} {place}, which {copy} may still be writing: {self._copy_wait()}."

    def _bulk(self, fault: int, record: np.ndarray, place: Place | None) -> str:
        text = self._text(record)
        if fault == FAULT_BULK_SIZE:
            return f"copies {int(record[F_BYTES])} bytes in bulk, which has to be a multiple of 16: {text}"
        if fault == FAULT_BOX:
            return (
                f"copies a box that starts at element {int(record[F_ADDRESS])} of a row: that has to be a multiple of "
                "16 bytes, and a store may not start before the tensor along any dimension."
            )
        if fault == FAULT_TENSOR_MAP and ("tile::gather4" in text or "tile::scatter4" in text):
            return (
                f"uses {place} as a tensor map, but four rows need one of two dimensions with a box of one row: {text}"
            )
        if fault == FAULT_TENSOR_MAP:
            return f"uses {place} as a tensor map, but there is none with as many dimensions as: {text}"
        if fault == FAULT_LEFT:
            verb = "written" if record[F_WRITE] else "read"
            wait = "on its mbarrier" if record[F_WRITE] else f"for its bulk group ({self.words.bulk_wait})"
            return f"copies in bulk, but the block may end before {place} is {verb}: wait {wait} first."
        line = self._where(int(record[F_OTHER]))
        if int(self.program.code[int(record[F_OTHER]), OP]) == OP_TENSOR_CORE:
            return (
                f"writes {place}, which the tensor core may still be reading for {line or 'an earlier product'}: put "
                "tcgen05.commit behind that and wait for its mbarrier before this line."
            )
        copy = f"the bulk copy of {line}" if line else "a bulk copy"
        return (
            f"writes {place}, which {copy} may still be reading: the thread that started the copy has to wait for its "
            f"bulk group ({self.words.bulk_wait}) first."
        )

    def _peer_sentence(self, record: np.ndarray, place: Place | None) -> str:
        verb = "writes" if record[F_WRITE] else "uses"
        if record[F_EXTRA]:
            return f"{verb} {place}, but nothing keeps that block from ending before: it has to wait for this access."
        return f"{verb} {place}, but that block may not have started yet: put {self.words.cluster_barrier} before."

    def _product_sentence(self, fault: int, record: np.ndarray, place: Place | None) -> str:
        """What a kernel does wrong with wgmma."""
        other = int(record[F_OTHER])
        line = self._where(other)
        if fault == FAULT_IN_FLIGHT:
            product = f"the wgmma of {line}" if line else "a wgmma"
            verb = "writes" if record[F_WRITE] else "reads"
            return f"{verb} a register that {product} still uses: {self._product_wait()}."
        if fault == FAULT_NO_FENCE and other < 0:
            return f"issues the kernel's first wgmma without {self.words.product_fence} before it."
        if fault == FAULT_NO_FENCE:
            who = line or "other code"
            return f"issues a wgmma on registers that {who} wrote, with no {self.words.product_fence} between them."
        if fault == FAULT_OPERAND:
            who = line or "another access"
            wait = self.words.product_wait
            return (
                f"multiplies {place}, which {who} overwrote before {wait} had waited for the product: "
                f"{self._product_wait()}."
            )
        return self._warpgroup_sentence(record, line)

    def _product_wait(self) -> str:
        """What to do about products that nothing has waited for: a wait leaves out what was not committed."""
        commit, wait = self.words.product_commit, self.words.product_wait
        if not self.code.has(OP_WGMMA_GROUP, WGMMA_WAIT):
            return f"put {wait} before"
        if not self.code.has(OP_WGMMA_GROUP, WGMMA_COMMIT):
            return f"put {commit} after the products, because {wait} waits for committed ones only"
        return f"put {wait} before, with fewer groups left in flight, or {commit} after the products"

    def _copy_wait(self) -> str:
        """What the thread that started a copy with cp.async has to do about it."""
        commit, wait = self.words.copy_commit, self.words.copy_wait
        waits = self.code.has(OP_COPY_GROUP, COPY_WAIT_GROUP)
        if waits and not self.code.has(OP_COPY_GROUP, COPY_COMMIT):
            return f"put {commit} behind the copies, because {wait} waits for committed ones only"
        if waits:
            return f"let each thread commit its copies ({commit}), and leave fewer groups in flight ({wait})"
        return f"put {wait} and then {self.words.block_barrier} before"

    @staticmethod
    def _warpgroup_sentence(record: np.ndarray, line: str) -> str:
        reason = int(record[F_EXTRA])
        if reason == WARPGROUP_MISSING:
            return "needs a warpgroup of four whole warps, but the block does not have 128 threads for it."
        if reason == WARPGROUP_DIFFERS:
            other = f"that of {line}" if line else "another one"
            return f"issues a wgmma while another warp of its warpgroup issues {other}, or one of other matrices."
        if reason == WARPGROUP_SKIPS:
            there = int(record[F_ADDRESS])
            first = int(record[F_WARP]) // WARPGROUP_WARPS * WARPGROUP_WARPS
            warps = range(first, first + WARPGROUP_WARPS)
            waits, late = (_warps([w for w in warps if there >> (w - first) & 1 == here]) for here in (1, 0))
            return (
                "issues a wgmma that not all four warps of the warpgroup execute: on the hardware "
                f"{waits} would wait there for {late} without end."
            )
        return "issues a wgmma for which the threads of a warp give different matrix descriptors."

    def _control_sentence(self, fault: int, record: np.ndarray) -> str:
        text = self._text(record)
        if fault == FAULT_DIVERGENT_BARRIER:
            missing = bin(int(record[F_EXTRA])).count("1")
            return f"is a barrier that {missing} threads of the same warp do not reach together with the others."
        if fault == FAULT_DIVERGENT_WARP_SYNC and ".aligned" in text:
            missing = bin(int(record[F_EXTRA])).count("1")
            return f"has to be executed by all threads of a warp together, but {missing} do not take part: {text}"
        if fault == FAULT_DIVERGENT_WARP_SYNC:
            missing = bin(int(record[F_EXTRA])).count("1")
            return f"waits for {missing} threads of its warp that its mask names but that run elsewhere."
        if fault == FAULT_OWN_LANE:
            members = int(record[F_EXTRA]) & 0xFFFFFFFF
            return (
                f"names lanes by the mask 0x{members:08x}, which lacks this thread's lane {int(record[F_LANE])}: the "
                "result is undefined. Let only the lanes of the mask execute it, or name all that do."
            )
        if fault == FAULT_OTHER_LANE:
            return (
                f"shuffles a value from lane {int(record[F_EXTRA])}, which takes no part in the shuffle, and the "
                "results depend on that undefined value. Let that lane execute the shuffle and name it in the mask, or "
                "do not use the value."
            )
        if fault == FAULT_DEADLOCK and record[F_EXTRA] < 0:
            return self._mbarrier_wait(record)
        if fault == FAULT_CLUSTER_BARRIER and record[F_EXTRA]:
            return (
                "waits at the cluster's barrier without having arrived there. Let every thread arrive first, and then "
                f"wait ({self.words.cluster_barrier})."
            )
        if fault == FAULT_CLUSTER_BARRIER:
            return "arrives at the cluster's barrier a second time without having waited there."
        if fault == FAULT_DEADLOCK and record[F_EXTRA] == CLUSTER_BARRIER:
            return "waits at the cluster's barrier for threads that never arrive there."
        if fault == FAULT_DEADLOCK:
            return f"waits at barrier {int(record[F_EXTRA])} for warps that never get there."
        if fault == FAULT_ENDLESS:
            return (
                "was still running when the kernel had used up its instruction budget: it looks like an endless loop."
            )
        if fault == FAULT_TRAP:
            return self._trap_sentence(record)
        if fault == FAULT_SPLITS:
            return "diverges into more groups of threads than the emulator follows."
        if target := int(self.program.code[int(record[F_PC]), IMM]):
            return f"needs sm_{target}, which has {opcode_of(text)}: compile the kernel for that target or a later one."
        return f"needs {feature_of(text)}."

    def _mbarrier_wait(self, record: np.ndarray) -> str:
        arrivals, bytes_ = int(record[F_OTHER]), int(record[F_BYTES])
        if arrivals < 0:
            return "waits for a phase of an mbarrier that never ends: arrivals or bytes are missing."
        lacking = [f"{arrivals} arrival{'s' * (arrivals > 1)}"] if arrivals else []
        lacking += [f"{bytes_} of the bytes that it expects"] if bytes_ > 0 else []
        if bytes_ < 0:
            lacking.append(f"an expectation of {-bytes_} bytes that have come")
        what = " and ".join(lacking) or "nothing, but the parity that is waited for is of another phase"
        place = self.places.at(SPACE_SHARED, int(record[F_ADDRESS]), 8)
        if bytes_ < 0:
            cure = f"a thread announce the bytes of its copies ({self.words.mbarrier_expect})"
        elif bytes_ > 0:
            cure = "it expect as many bytes as its copies carry"
        elif arrivals:
            cure = f"as many threads arrive there as {self.words.mbarrier_init} names, or wait for the other parity"
        else:
            cure = "it wait for the other parity"
        return f"waits for a phase of the mbarrier {place} that never ends: it lacks {what}. Let {cure}."

    def _trap_sentence(self, record: np.ndarray) -> str:
        reason = int(record[F_EXTRA])
        if reason == TRAP_ASSERTION:
            message = self.space.read_string(int(record[F_ADDRESS]))
            return f"fails the assertion `{message}`." if message else "fails an assertion."
        if reason == TRAP_STACK:
            return f"calls itself so often that {STACK_BYTES // 1024} KiB of stack a thread are not enough."
        if reason == TRAP_CALL:
            return "calls through a pointer that holds the address of no function with these parameters."
        if reason == TRAP_CLUSTER:
            blocks = prod(self.launch.cluster)
            cluster = "one block" if blocks == 1 else f"{blocks} blocks"
            return f"asks for the shared memory of a block that its cluster of {cluster} does not have."
        if not self.launch.cooperative and self.code.has_grid_barrier():
            return "stopped the kernel by a trap: all blocks can wait for each other in a cooperative launch only."
        return "stopped the kernel by a trap."


def modified_input(name: str, kernel: str, line: int) -> Finding:
    """An input buffer came back changed."""
    where = f"Line {line} writes" if line else f"Kernel {kernel} writes"
    return Finding(FindingKind.INPUT_MODIFIED, f"{where} to {name}, which is an input.", kernel, line, array=name)
