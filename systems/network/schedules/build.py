"""Schedules of well-known algorithms: rings, trees, halving and doubling, direct exchanges, hierarchies."""

from __future__ import annotations

from collections.abc import Sequence

from systems.network.collectives import Collective
from systems.network.schedules.model import Op, Phase, Schedule, ScheduleError, Transfer

COPY, REDUCE = Op.COPY, Op.REDUCE


def ring(collective: Collective, ranks: int, orders: Sequence[Sequence[int]] | None = None) -> Schedule:
    """All-reduce, all-gather or reduce-scatter around one ring, or all-reduce around several at once (channels).

    Each of `orders` lists all ranks in the order of one ring; each ring carries its share of the data.
    """
    orders = orders or [range(ranks)]
    if any(sorted(order) != list(range(ranks)) for order in orders):
        raise ScheduleError(f"A ring of {ranks} ranks must visit each of them once.")
    if collective is not Collective.ALL_REDUCE and [list(order) for order in orders] != [list(range(ranks))]:
        raise ScheduleError(f"{collective} goes around one ring in the order of the ranks, which own the chunks.")
    rings = len(orders)

    def around(first: int, op: Op) -> Phase:
        """In each repeat the rank at place p sends chunk p + first, one less the next time."""
        moves = tuple(
            Transfer(0, order[place], order[(place + 1) % ranks], (place + first) % ranks * rings + number, op)
            for number, order in enumerate(orders)
            for place in range(ranks)
        )
        return Phase(moves, ranks - 1, -rings)

    phases = {
        Collective.REDUCE_SCATTER: (around(-1, REDUCE),),
        Collective.ALL_GATHER: (around(0, COPY),),
        Collective.ALL_REDUCE: (around(-1, REDUCE), around(0, COPY)),
    }.get(collective)
    if phases is None:
        raise ScheduleError(f"There is no ring here for {collective}: take all_reduce, all_gather or reduce_scatter.")
    return Schedule(f"ring {collective}", collective, ranks, ranks * rings, phases)


def node_rings(nodes: int, per_node: int) -> list[list[int]]:
    """A ring for each GPU of a node: ring c enters each node at its GPU c and passes all of them: each NIC has one."""
    return [
        [node * per_node + (start + hop) % per_node for node in range(nodes) for hop in range(per_node)]
        for start in range(per_node)
    ]


def one_shot(collective: Collective, ranks: int) -> Schedule:
    """Everybody sends to everybody at once: all of it for all-reduce, each one's share for the others."""
    return _all_at_once(collective, ranks, f"one-shot {collective}")


def two_shot_all_reduce(ranks: int) -> Schedule:
    """A direct reduce-scatter, then a direct all-gather."""
    kind = Collective.ALL_REDUCE
    return Schedule(f"two-shot {kind}", kind, ranks, ranks, (_scatter(ranks), _gather(ranks)))


def halving_doubling(collective: Collective, ranks: int) -> Schedule:
    """All-reduce, all-gather or reduce-scatter with partners at distances that halve, then double. A power of two.

    Rank r exchanges halves of what it is still responsible for with r xor distance, so that it ends with chunk r.
    """
    if ranks & (ranks - 1):
        raise ScheduleError(f"Halving and doubling needs a power of two, not {ranks} ranks: take a ring.")
    distances = [1 << bit for bit in range(ranks.bit_length() - 1)]

    def exchange(distance: int, op: Op) -> Phase:
        moves = []
        for rank in range(ranks):
            partner = rank ^ distance
            low = (partner if op is REDUCE else rank) // distance * distance
            moves += [Transfer(0, rank, partner, chunk, op) for chunk in range(low, low + distance)]
        return Phase(tuple(moves))

    halving = tuple(exchange(distance, REDUCE) for distance in reversed(distances))
    doubling = tuple(exchange(distance, COPY) for distance in distances)
    phases = {
        Collective.REDUCE_SCATTER: halving,
        Collective.ALL_GATHER: doubling,
        Collective.ALL_REDUCE: halving + doubling,
    }.get(collective)
    if phases is None:
        raise ScheduleError(f"Halving and doubling does no {collective}.")
    return Schedule(f"halving-doubling {collective}", collective, ranks, ranks, phases)


def binomial(collective: Collective, ranks: int, root: int = 0) -> Schedule:
    """Broadcast or reduce along a binomial tree: the ranks that have it double in each step."""
    moves = []
    depth = (ranks - 1).bit_length()
    for step in range(depth):
        for place in range(1 << step):
            if place + (1 << step) < ranks:
                near, far = (root + place) % ranks, (root + place + (1 << step)) % ranks
                if collective is Collective.BROADCAST:
                    moves.append(Transfer(step, near, far, 0))
                else:
                    moves.append(Transfer(depth - 1 - step, far, near, 0, REDUCE))
    if collective not in (Collective.BROADCAST, Collective.REDUCE):
        raise ScheduleError(f"A binomial tree does no {collective}: take broadcast or reduce.")
    return Schedule(f"binomial {collective}", collective, ranks, 1, (Phase(tuple(moves)),), root)


def chain(collective: Collective, ranks: int, pieces: int, root: int = 0) -> Schedule:
    """Broadcast or reduce along a chain, cut into pieces that follow each other."""
    if collective not in (Collective.BROADCAST, Collective.REDUCE):
        raise ScheduleError(f"A chain does no {collective}: take broadcast or reduce.")
    moves = []
    for place in range(ranks - 1):
        near, far = (root + place) % ranks, (root + place + 1) % ranks
        for piece in range(pieces):
            if collective is Collective.BROADCAST:
                moves.append(Transfer(place + piece, near, far, piece))
            else:
                moves.append(Transfer(ranks - 2 - place + piece, far, near, piece, REDUCE))
    return Schedule(f"chain {collective}, {pieces} pieces", collective, ranks, pieces, (Phase(tuple(moves)),), root)


def binary_tree(ranks: int) -> list[int]:
    """The parent of each rank, -1 for rank 0, which has one child: the lowest bit is the height, leaves are odd."""
    parents = [-1]
    for rank in range(1, ranks):
        bit = rank & -rank
        above = (rank ^ bit) | bit << 1
        parents.append(above if above < ranks else rank ^ bit)
    return parents


def second_tree(ranks: int) -> list[int]:
    """The same tree on ranks renamed so that its leaves are even: mirrored for an even number, else shifted."""
    place = [ranks - 1 - r if ranks % 2 == 0 else (r - 1) % ranks for r in range(ranks)]
    rank_at = {at: rank for rank, at in enumerate(place)}
    first = binary_tree(ranks)
    return [-1 if first[at] < 0 else rank_at[first[at]] for at in place]


def double_tree_all_reduce(ranks: int, pieces: int = 1) -> Schedule:
    """All-reduce over two binary trees, half of the data each, every half cut into `pieces` that follow each other."""
    moves = []
    for number, parents in enumerate((binary_tree(ranks), second_tree(ranks))):
        height, depth = _heights(parents), _depths(parents)
        top = max(height)
        for rank, parent in enumerate(parents):
            if parent < 0:
                continue
            for piece in range(pieces):
                chunk = number * pieces + piece
                moves.append(Transfer(height[rank] + piece, rank, parent, chunk, REDUCE))
                moves.append(Transfer(top + depth[parent] + piece, parent, rank, chunk))
    kind = Collective.ALL_REDUCE
    return Schedule(f"double tree {kind}, {pieces} pieces", kind, ranks, 2 * pieces, (Phase(tuple(moves)),))


def hierarchical_all_reduce(nodes: int, per_node: int = 8) -> Schedule:
    """Scatter-reduce in each node, a ring across nodes for each rail, gather in each node."""
    ranks, chunks = nodes * per_node, nodes * per_node

    def inside(gather: bool) -> Phase:
        """Chunk b * per_node + i is GPU i's to care for."""
        return Phase(tuple(
            Transfer(0, node * per_node + one, node * per_node + other,
                     block * per_node + (one if gather else other), COPY if gather else REDUCE)
            for node in range(nodes) for one in range(per_node) for other in range(per_node) if one != other
            for block in range(nodes)
        ))  # fmt: skip

    def across(first: int, op: Op) -> Phase:
        moves = tuple(
            Transfer(0, node * per_node + gpu, (node + 1) % nodes * per_node + gpu,
                     (node + first) % nodes * per_node + gpu, op)
            for gpu in range(per_node) for node in range(nodes)
        )  # fmt: skip
        return Phase(moves, nodes - 1, -per_node)

    phases: list[Phase] = [inside(False)] if per_node > 1 else []
    if nodes > 1:
        phases += [across(-1, REDUCE), across(0, COPY)]
    if per_node > 1:
        phases.append(inside(True))
    kind = Collective.ALL_REDUCE
    return Schedule(f"hierarchical {kind}, nodes of {per_node}", kind, ranks, chunks, tuple(phases))


def all_to_all(ranks: int, pairwise: bool = False) -> Schedule:
    """Every rank to every other: all at once, or one partner a step, which is r + s in step s."""
    moves = tuple(
        Transfer(hop - 1 if pairwise else 0, rank, (rank + hop) % ranks, rank * ranks + (rank + hop) % ranks)
        for hop in range(1, ranks)
        for rank in range(ranks)
    )
    kind = Collective.ALL_TO_ALL
    return Schedule(f"{'pairwise' if pairwise else 'direct'} {kind}", kind, ranks, ranks * ranks, (Phase(moves),))


def hierarchical_all_to_all(nodes: int, per_node: int = 8) -> Schedule:
    """In each node, what is meant for a GPU i goes to GPU i; then it crosses along the rail, to all nodes at once."""
    ranks, first, second = nodes * per_node, [], []
    for source in range(ranks):
        for destination in range(ranks):
            chunk = source * ranks + destination
            relay = source // per_node * per_node + destination % per_node
            if relay != source:
                first.append(Transfer(0, source, relay, chunk))
            if relay != destination:
                second.append(Transfer(0, relay, destination, chunk))
    phases = tuple(Phase(tuple(moves)) for moves in (first, second) if moves)
    kind = Collective.ALL_TO_ALL
    return Schedule(f"hierarchical {kind}, nodes of {per_node}", kind, ranks, ranks * ranks, phases)


def _all_at_once(collective: Collective, ranks: int, name: str) -> Schedule:
    if collective is Collective.ALL_REDUCE:
        pairs = ((one, other) for one in range(ranks) for other in range(ranks) if one != other)
        moves = tuple(Transfer(0, one, other, 0, REDUCE) for one, other in pairs)
        return Schedule(name, collective, ranks, 1, (Phase(moves),))
    phases = {Collective.REDUCE_SCATTER: _scatter(ranks), Collective.ALL_GATHER: _gather(ranks)}
    if collective not in phases:
        raise ScheduleError(f"There is no one-shot {collective} here: take all_reduce, all_gather or reduce_scatter.")
    return Schedule(name, collective, ranks, ranks, (phases[collective],))


def _scatter(ranks: int) -> Phase:
    pairs = ((one, other) for one in range(ranks) for other in range(ranks) if one != other)
    return Phase(tuple(Transfer(0, one, other, other, REDUCE) for one, other in pairs))


def _gather(ranks: int) -> Phase:
    pairs = ((one, other) for one in range(ranks) for other in range(ranks) if one != other)
    return Phase(tuple(Transfer(0, one, other, one) for one, other in pairs))


def _heights(parents: list[int]) -> list[int]:
    """Edges from each vertex down to its deepest leaf."""
    heights = [0] * len(parents)
    for rank in range(len(parents)):
        at, height = rank, 0
        while parents[at] >= 0:
            at, height = parents[at], height + 1
            heights[at] = max(heights[at], height)
    return heights


def _depths(parents: list[int]) -> list[int]:
    """Edges from each vertex up to the root."""
    depths = []
    for rank in range(len(parents)):
        at, depth = rank, 0
        while parents[at] >= 0:
            at, depth = parents[at], depth + 1
        depths.append(depth)
    return depths
