"""When each block of experts.cu does what: items as the kernel recorded them, put in time by what waits for what.

Blocks have clocks of their own on the emulator, so times of two blocks cannot be compared there. How long an item takes
once it has what it waits for is known, and so is what that is: a block begins each item when its item before and all of
these have ended. Signals take no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from systems.peer.experts import ROWS, TOKENS, Sizes

KINDS = ("send", "list rows", "gate and up", "down", "return", "add")  # items, as numbered in the source
_SEND, _LIST, _MIDDLE, _DOWN, _RETURN, _ADD = range(len(KINDS))
_Item = tuple[int, int, int]  # a rank, a kind, and the group of tokens, the expert or the tile


class Span(NamedTuple):
    """One item of a block, in the emulator's steps: when it is next, has what it waits for, and has ended."""

    kind: str
    begun: int
    ready: int
    ended: int


def spans(sizes: Sizes, chosen: np.ndarray, times: np.ndarray) -> list[list[list[Span]]]:
    """What each block of each rank does, from `times` [ranks, blocks, room, 4] of one call; `chosen` are its routes.

    Raises ValueError if a block filled its room: items may be missing.
    """
    if (times[:, :, -1, 3] > 0).any():
        raise ValueError(f"A block has {times.shape[2]} items or more: plan with more room.")
    tiles = [_Tiles(sizes, chosen, rank) for rank in range(sizes.ranks)]
    lists = [[[line for line in block.tolist() if line[3]] for block in rank] for rank in times]
    left: dict[_Item, int] = {}  # slices of an item that have not ended
    for rank, blocks in enumerate(lists):
        for kind, what in (_unpacked(line[0]) for block in blocks for line in block):
            left[rank, kind, what] = left.get((rank, kind, what), 0) + 1
    ended: dict[_Item, int] = {}
    found: list[list[list[Span]]] = [[[] for _ in blocks] for blocks in lists]
    going = True
    while going:
        going = False
        for rank, blocks in enumerate(lists):
            for number, block in enumerate(blocks):
                mine = found[rank][number]
                while len(mine) < len(block):
                    head, _, ready, end = block[len(mine)]
                    kind, what = _unpacked(head)
                    needed = set(_needed(sizes, tiles, rank, kind, what))
                    if any(left[item] for item in needed):
                        break
                    begun = mine[-1].ended if mine else 0
                    start = max([begun, *(ended[item] for item in needed)])
                    mine.append(Span(KINDS[kind], begun, start, start + end - ready))
                    left[rank, kind, what] -= 1
                    ended[rank, kind, what] = max(ended.get((rank, kind, what), 0), mine[-1].ended)
                    going = True
    return found


class _Tiles:
    """Which rows of all ranks' tokens each tile of a rank has."""

    def __init__(self, sizes: Sizes, chosen: np.ndarray, rank: int) -> None:
        self.of_tile: list[list[tuple[int, int]]] = []  # a rank and its token
        self.of_token: dict[tuple[int, int], set[int]] = {}
        order = [(rank + turn) % sizes.ranks for turn in range(sizes.ranks)]
        for expert in range(rank * sizes.own, (rank + 1) * sizes.own):
            rows = [(home, int(token)) for home in order for token in np.argwhere(chosen[home] == expert)[:, 0]]
            for first in range(0, len(rows), ROWS):
                for row in rows[first : first + ROWS]:
                    self.of_token.setdefault(row, set()).add(len(self.of_tile))
                self.of_tile.append(rows[first : first + ROWS])


def _unpacked(head: int) -> tuple[int, int]:
    return head & 255, head >> 8


def _needed(sizes: Sizes, tiles: list[_Tiles], rank: int, kind: int, what: int) -> Iterator[_Item]:
    """What an item waits for."""
    if kind == _MIDDLE:
        yield from ((rank, _LIST, expert) for expert in range(sizes.own))
        yield from ((home, _SEND, token // TOKENS) for home, token in tiles[rank].of_tile[what] if home != rank)
    elif kind == _DOWN:
        yield rank, _MIDDLE, what
    elif kind in (_RETURN, _ADD):
        home, group = divmod(what, sizes.groups) if kind == _RETURN else (rank, what)
        for token in range(group * TOKENS, min(sizes.tokens, (group + 1) * TOKENS)):
            yield from ((rank, _DOWN, tile) for tile in tiles[rank].of_token.get((home, token), ()))
        if kind == _ADD:
            yield from ((peer, _RETURN, rank * sizes.groups + group) for peer in range(sizes.ranks) if peer != rank)
