"""What collectives cost in the alpha-beta model: messages in a row times alpha, bytes through a port times beta.

    time = messages x alpha + volume x size / bandwidth

`alpha` is the latency of one message in seconds, `bandwidth` that of one rank's port in bytes/s, each direction at
once, `size` as in `collectives`. docs/networks.md derives each row. Reduction arithmetic costs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, log2, sqrt

from systems.network.collectives import Collective, bus_factor
from systems.network.links import NetworkError


class Algorithm(StrEnum):
    """A way to do a collective."""

    RING = "ring"
    TREE = "tree"  # binomial; all-reduce is a reduce and a broadcast
    PIPELINED_RING = "pipelined_ring"  # a chain for broadcast and reduce
    PIPELINED_TREE = "pipelined_tree"  # double binary
    ONE_SHOT = "one_shot"
    TWO_SHOT = "two_shot"
    HALVING_DOUBLING = "halving_doubling"
    PAIRWISE = "pairwise"
    BRUCK = "bruck"
    SWITCH = "switch"  # a switch reduces what a rank asks for, and replicates what it stores: NVLink SHARP
    SHARP = "sharp"  # a tree of network switches reduces on the way up and replicates on the way down
    DIRECT = "direct"


@dataclass(frozen=True)
class Cost:
    """Messages in a row on the longest way, and the bytes through the busiest port as a share of the size."""

    messages: float
    volume: float

    def time(self, size: float, alpha: float, bandwidth: float) -> float:
        """Seconds for `size` bytes."""
        return self.messages * alpha + self.volume * size / bandwidth

    def half_size(self, alpha: float, bandwidth: float) -> float:
        """The size at which both terms are equal: half of the bandwidth is reached (n-half), bytes."""
        return self.messages * alpha * bandwidth / self.volume if self.volume else 0.0


Formula = Callable[[int], Cost]


def _log(n: int) -> int:
    return ceil(log2(n))


def _ring_once(n: int) -> Cost:
    return Cost(n - 1, (n - 1) / n)


def _direct_once(n: int) -> Cost:
    return Cost(1, (n - 1) / n)


def _recursive_once(n: int) -> Cost:
    _power_of_two(n)
    return Cost(_log(n), (n - 1) / n)


def _folded(n: int) -> Cost:
    """Halving and doubling among the largest power of two, the ranks beyond it folded onto others before and after."""
    core = 1 << (n.bit_length() - 1)
    inner = Cost(2 * log2(core), 2 * (core - 1) / core)
    return inner if core == n else Cost(inner.messages + 2, inner.volume + 2)


def _switch_reduce(n: int) -> Cost:
    """Each port sends all of its data up once, and its own share again for all; it gets its share, then all."""
    return Cost(2, (n + 1) / n)


_FORMULAS: dict[tuple[Collective, Algorithm], Formula] = {
    (Collective.ALL_REDUCE, Algorithm.RING): lambda n: Cost(2 * (n - 1), 2 * (n - 1) / n),
    (Collective.ALL_REDUCE, Algorithm.TREE): lambda n: Cost(2 * _log(n), 2 * _log(n)),
    (Collective.ALL_REDUCE, Algorithm.ONE_SHOT): lambda n: Cost(1, n - 1),
    (Collective.ALL_REDUCE, Algorithm.TWO_SHOT): lambda n: Cost(2, 2 * (n - 1) / n),
    (Collective.ALL_REDUCE, Algorithm.HALVING_DOUBLING): _folded,
    (Collective.ALL_REDUCE, Algorithm.SWITCH): _switch_reduce,
    (Collective.ALL_REDUCE, Algorithm.SHARP): lambda n: Cost(2, 1),  # everybody's data up once, the sum down once
    (Collective.ALL_GATHER, Algorithm.RING): _ring_once,
    (Collective.ALL_GATHER, Algorithm.ONE_SHOT): _direct_once,
    (Collective.ALL_GATHER, Algorithm.HALVING_DOUBLING): _recursive_once,
    (Collective.ALL_GATHER, Algorithm.SWITCH): lambda n: Cost(1, (n - 1) / n),  # no switch spares what each gets
    (Collective.REDUCE_SCATTER, Algorithm.RING): _ring_once,
    (Collective.REDUCE_SCATTER, Algorithm.ONE_SHOT): _direct_once,
    (Collective.REDUCE_SCATTER, Algorithm.HALVING_DOUBLING): _recursive_once,
    (Collective.REDUCE_SCATTER, Algorithm.SWITCH): lambda n: Cost(1, (n - 1) / n),
    (Collective.ALL_TO_ALL, Algorithm.DIRECT): _direct_once,
    (Collective.ALL_TO_ALL, Algorithm.PAIRWISE): _ring_once,
    (Collective.ALL_TO_ALL, Algorithm.BRUCK): lambda n: Cost(_log(n), _bruck_blocks(n) / n),
    (Collective.BROADCAST, Algorithm.RING): lambda n: Cost(n - 1, n - 1),
    (Collective.BROADCAST, Algorithm.TREE): lambda n: Cost(_log(n), _log(n)),
    (Collective.BROADCAST, Algorithm.ONE_SHOT): lambda n: Cost(1, n - 1),
    (Collective.BROADCAST, Algorithm.TWO_SHOT): lambda n: Cost(2, 2 * (n - 1) / n),  # scatter, all-gather
    (Collective.BROADCAST, Algorithm.SWITCH): lambda n: Cost(1, 1),
    (Collective.REDUCE, Algorithm.RING): lambda n: Cost(n - 1, n - 1),
    (Collective.REDUCE, Algorithm.TREE): lambda n: Cost(_log(n), _log(n)),
    (Collective.REDUCE, Algorithm.ONE_SHOT): lambda n: Cost(1, n - 1),
    (Collective.REDUCE, Algorithm.TWO_SHOT): lambda n: Cost(2, 2 * (n - 1) / n),  # reduce-scatter, gather
    (Collective.REDUCE, Algorithm.SWITCH): lambda n: Cost(1, 1),
    (Collective.SEND_RECV, Algorithm.DIRECT): lambda n: Cost(1, 1),
}


def _bruck_blocks(n: int) -> int:
    """Blocks that a rank sends in all: in round k those whose distance has bit k."""
    return sum(distance.bit_count() for distance in range(n))


def cost(collective: Collective, algorithm: Algorithm, ranks: int) -> Cost:
    """The cost of a collective. Raises NetworkError for one that the algorithm does not do, or too few ranks."""
    if ranks < 2:
        raise NetworkError(f"A collective of {ranks} ranks moves nothing: it needs two or more.")
    formula = _FORMULAS.get((collective, algorithm))
    if formula is None:
        raise NetworkError(f"{algorithm} does no {collective}: it takes {', '.join(algorithms(collective))}.")
    return formula(ranks)


def algorithms(collective: Collective) -> tuple[Algorithm, ...]:
    """Those that `cost` knows for a collective."""
    return tuple(algorithm for kind, algorithm in _FORMULAS if kind is collective)


def least(collective: Collective, ranks: int) -> Cost:
    """What no exchange of messages can do with less of, each term for itself: only switches that reduce go below."""
    return Cost(1 if collective is Collective.SEND_RECV else _log(ranks), bus_factor(collective, ranks))


@dataclass(frozen=True)
class Pipeline:
    """A collective cut into pieces that follow each other: `depth` beats until the first is through, one more each.

    A beat costs alpha and `volume` x size / pieces through the busiest port.
    """

    depth: int
    volume: float

    def time(self, size: float, alpha: float, bandwidth: float, pieces: int) -> float:
        """Seconds with the size cut into `pieces`."""
        return (self.depth + pieces - 1) * (alpha + self.volume * size / pieces / bandwidth)

    def best_pieces(self, size: float, alpha: float, bandwidth: float) -> int:
        """The number of pieces that makes `time` least, by the zero of its derivative and its two neighbours."""
        exact = sqrt((self.depth - 1) * self.volume * size / bandwidth / alpha) if alpha else size
        near = (max(1, int(exact)), int(exact) + 1)
        return min(near, key=lambda pieces: self.time(size, alpha, bandwidth, pieces))


def pipeline(collective: Collective, algorithm: Algorithm, ranks: int) -> Pipeline:
    """The pipelined form of broadcast, reduce and all-reduce, along a chain or over two binary trees.

    Over the two trees of Sanders, Speck and Traeff (Parallel Computing 35, 2009) each rank is an inner vertex in one
    and a leaf in the other, so that a port carries size once for broadcast or reduce and twice for all-reduce.
    """
    deep = _log(ranks)  # both trees hang below a root with one child
    known = {
        (Collective.BROADCAST, Algorithm.PIPELINED_RING): Pipeline(ranks - 1, 1),
        (Collective.REDUCE, Algorithm.PIPELINED_RING): Pipeline(ranks - 1, 1),
        (Collective.ALL_REDUCE, Algorithm.PIPELINED_RING): Pipeline(2 * (ranks - 1), 1),
        (Collective.BROADCAST, Algorithm.PIPELINED_TREE): Pipeline(deep, 1),
        (Collective.REDUCE, Algorithm.PIPELINED_TREE): Pipeline(deep, 1),
        (Collective.ALL_REDUCE, Algorithm.PIPELINED_TREE): Pipeline(2 * deep, 2),
    }
    if (collective, algorithm) not in known:
        raise NetworkError(f"{collective} has no pipelined form with {algorithm}.")
    return known[collective, algorithm]


@dataclass(frozen=True)
class Level:
    """One level of a hierarchy: `ranks` that exchange messages at `alpha` seconds and `bandwidth` bytes/s a rank."""

    ranks: int
    alpha: float
    bandwidth: float


def hierarchical(
    collective: Collective, size: float, node: Level, network: Level, inner: Algorithm | None = None,
    outer: Algorithm | None = None,
) -> float:  # fmt: skip
    """Seconds of a collective in two levels: inside nodes of `node.ranks`, and across `network.ranks` nodes.

    All-reduce scatters in the node, all-reduces each share across nodes along its rail, gathers in the node: a NIC sees
    1/node.ranks of the size. All-gather and reduce-scatter do the two in order; all-to-all sorts by rail in the node,
    then each GPU sends whole blocks to its peer of each node. `inner` and `outer` choose the algorithms of the levels.
    `network.bandwidth` is what one GPU has of its node's NICs.
    """
    share = size / node.ranks

    def inside(kind: Collective, amount: float) -> float:
        choice = inner or (Algorithm.DIRECT if kind is Collective.ALL_TO_ALL else Algorithm.ONE_SHOT)
        return cost(kind, choice, node.ranks).time(amount, node.alpha, node.bandwidth)

    def across(kind: Collective, amount: float) -> float:
        choice = outer or (Algorithm.DIRECT if kind is Collective.ALL_TO_ALL else Algorithm.RING)
        return cost(kind, choice, network.ranks).time(amount, network.alpha, network.bandwidth)

    if collective is Collective.ALL_REDUCE:
        return (
            inside(Collective.REDUCE_SCATTER, size)
            + across(Collective.ALL_REDUCE, share)
            + inside(Collective.ALL_GATHER, size)
        )
    if collective in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER):
        return inside(collective, size) + across(collective, share)
    if collective is Collective.ALL_TO_ALL:
        return inside(collective, size) + across(collective, size)
    raise NetworkError(f"{collective} has no hierarchical form here: take all_reduce, all_gather, reduce_scatter or "
                       "all_to_all.")  # fmt: skip


def node_cap(
    collective: Collective, ranks: int, per_node: int, port: float, nics: int, nic: float
) -> tuple[float, float]:
    """The most that algbw (size / time) can be, bytes/s: by naive sums, and by what each level has to carry.

    A naive sum takes each GPU's NVLink port and NIC as if both carried the collective together. In truth a GPU's port
    carries the share of the node's level and the node's NICs all that crosses: for all-reduce and its two halves a
    node is one rank with `nics` x `nic` bytes/s, for all-to-all each of its GPUs sends (ranks - per_node) / ranks of
    its size out over a share of the NICs. The lower one is the cap.
    """
    nodes = ranks // per_node
    naive = (port + nics * nic / per_node) / bus_factor(collective, ranks)
    inside = port / bus_factor(collective, per_node) if per_node > 1 else float("inf")
    if nodes < 2:
        return naive, inside
    if collective is Collective.ALL_TO_ALL:
        inside = port * ranks / (per_node - 1) if per_node > 1 else float("inf")
        return naive, min(inside, nics * nic / per_node * ranks / (ranks - per_node))
    return naive, min(inside, nics * nic / bus_factor(collective, nodes))


def _power_of_two(n: int) -> None:
    if n & (n - 1):
        raise NetworkError(f"Recursive halving and doubling needs a power of two, not {n} ranks: use a ring.")
