"""What every SM does in one step: lists of instructions, made on the host, plain data to the kernel.

Pages of every operation go to the SMs that have had the fewest so far: one that attends, or has a page more of this
product, has less of the next. An instruction waits until a counter has reached what
all instructions together that make its inputs add to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from enum import IntEnum
from heapq import heapify, heapreplace

import numpy as np

from systems.megakernel.shapes import ROWS, Shape

MOST_PAGES = 64  # of one instruction


class Op(IntEnum):
    """As in interpreter.cu."""

    STOP = 0
    EMBED = 1
    QKV = 2
    ATTEND = 3
    OUT = 4
    GATE_UP = 5
    DOWN = 6
    LOGITS = 7


LAYER = (Op.QKV, Op.ATTEND, Op.OUT, Op.GATE_UP, Op.DOWN)  # what a layer does, each after all of the one before
MATRIX = {Op.QKV: "qkv", Op.OUT: "out", Op.GATE_UP: "gate_up", Op.DOWN: "down", Op.LOGITS: "embedding"}


@dataclass(frozen=True)
class Instruction:
    """One line of an SM's list, in the order of the kernel's fields.

    `page` and `pages` are of the weights or, of ATTEND, of the cache; `row` is the first output, of ATTEND the number
    of its page of keys among those of the layer, of EMBED the first row of the embedding. `wait` and `bump` are
    counters, -1 for none; the instruction begins when counter `wait` is at `target` or above, and adds one to `bump`.
    """

    op: Op
    layer: int = 0
    page: int = 0
    pages: int = 0
    row: int = 0
    wait: int = -1
    target: int = 0
    bump: int = -1


Schedule = list[list[Instruction]]  # of each SM


def counters(shape: Shape) -> int:
    """How many counters a step uses: one for the embedding, one for each operation of each layer."""
    return 1 + len(LAYER) * shape.layers


def schedule(shape: Shape, sms: int, position: int) -> Schedule:
    """The lists of `sms` SMs for the step at a position, which reads the pages of the cache up to it."""
    lists: Schedule = [[] for _ in range(sms)]
    lists[0].append(Instruction(Op.EMBED, row=shape.first_row("embedding"), bump=0))
    loads = [0] * sms
    before = 1  # instructions that the last operation had
    for number, (layer, op) in enumerate(stages(shape)):
        make = attention(shape, position, layer, loads) if op is Op.ATTEND else product(shape, op, layer, loads)
        pieces = list(make)
        bump = -1 if op is Op.LOGITS else number + 1
        for sm, row, page, pages in pieces:
            lists[sm].append(Instruction(op, layer, page, pages, row, number, before, bump))
        before = len(pieces)
    return lists


def stages(shape: Shape) -> Iterator[tuple[int, Op]]:
    """Layer and operation of all that follows the embedding, in order."""
    for layer in range(shape.layers):
        for op in LAYER:
            yield layer, op
    yield shape.layers, Op.LOGITS


Piece = tuple[int, int, int, int]  # SM, row, first page, pages


def dealt(loads: list[int], units: int, pages: int) -> list[int]:
    """Units of so many pages, each to the SM with the fewest pages so far; how many each SM got. `loads` grow."""
    heap = [(load, sm) for sm, load in enumerate(loads)]
    heapify(heap)
    got = [0] * len(loads)
    for _ in range(units):
        load, sm = heap[0]
        got[sm] += 1
        heapreplace(heap, (load + pages, sm))
    for load, sm in heap:
        loads[sm] = load
    return got


def product(shape: Shape, op: Op, layer: int, loads: list[int]) -> Iterator[Piece]:
    """A product's pages, one run of them for each SM, in instructions of MOST_PAGES at most."""
    matrix = MATRIX[op]
    begin, pages = shape.first_row(matrix, layer) // ROWS, shape.rows(matrix) // ROWS
    rows = 1 if op is Op.DOWN else ROWS  # outputs that a page makes
    done = 0
    for sm, share in enumerate(dealt(loads, pages, 1)):
        end = done + share
        while done < end:
            taken = min(end - done, MOST_PAGES)
            yield sm, done * rows, begin + done, taken
            done += taken


def attention(shape: Shape, position: int, layer: int, loads: list[int]) -> Iterator[Piece]:
    """A page of keys and one of values for each KV head and each page up to the position."""
    parts = position // shape.positions + 1
    number = 0
    for sm, share in enumerate(dealt(loads, parts * shape.kv_heads, 2)):
        for _ in range(share):
            row = number // parts * shape.blocks + number % parts
            yield sm, row, 2 * (layer * shape.kv_heads * shape.blocks + row), 2
            number += 1


def encoded(lists: Schedule) -> np.ndarray:
    """int32 of [SM][line][8], each list ended by STOP."""
    length = max(len(each) for each in lists) + 1
    words = np.zeros((len(lists), length, 8), np.int32)
    for sm, each in enumerate(lists):
        for line, instruction in enumerate(each):
            words[sm, line] = astuple(instruction)
    return words
