"""Entries of kernels/unseen_sixth/graphs.py."""

from __future__ import annotations

import itertools

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, write

_entry = maker("unseen_sixth", "graphs")


def _ways(v: dict) -> dict:
    """Lengths are changed by the two lowest bits of the thread's number."""
    starts, to, lengths = (v[name].tolist() for name in ("starts", "to", "lengths"))
    places, n = v["out"].shape
    out = np.full((places, n), 1 << 20)
    for i, begin in enumerate(v["begin"].tolist()):
        way = out[:, i]
        way[begin] = 0
        for _ in range(places):
            for a in range(places):
                for e in range(starts[a], starts[a + 1]):
                    way[to[e]] = min(way[to[e]], way[a] + (lengths[e] ^ (i & 3)))
        way[way > 1 << 19] = 1 << 20
    return {"out": out}


def _pairs(v: dict) -> dict:
    out = []
    for row in v["able"].tolist():
        reached = {0: 0}  # the most pairs that use just the tasks of a set
        for able in row:
            for tasks, pairs in list(reached.items()):
                for k in range(12):
                    if able >> k & ~tasks >> k & 1:
                        reached[tasks | 1 << k] = max(reached.get(tasks | 1 << k, 0), pairs + 1)
        out.append(max(reached.values()))
    return {"out": np.array(out)}


def _parts(v: dict) -> dict:
    edges = v["next"].astype(int)[:, :, None] >> np.arange(12) & 1
    reach = (edges + np.eye(12, dtype=int)) > 0
    for k in range(12):
        reach |= reach[:, :, k, None] & reach[:, k, None, :]
    both = reach & reach.transpose(0, 2, 1)
    return {"part": both.argmax(2)}


def _few_bits(shares: float) -> draws.Draw:
    def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        bits = generator.random((*shape, 12)) < shares
        return (bits << np.arange(12)).sum(-1).astype(dtype)

    return draw


def _groups(v: dict) -> dict:
    groups, needed = [], []
    for wires in v["wires"].transpose(1, 0, 2).tolist():
        own, used = list(range(24)), 0
        for e, (a, b) in enumerate(wires):
            if own[a] != own[b]:
                own = [own[a] if g == own[b] else g for g in own]
                used = e + 1
        groups.append(len(set(own)))
        needed.append(used)
    return {"groups": np.array(groups), "needed": np.array(needed)}


def _friends() -> tuple[list[int], list[int]]:
    """A graph of 150 with a dense middle, both ways of each edge."""
    g = np.random.default_rng(150)
    at = (g.random((600, 2)) ** 2 * 150).astype(int)
    pairs = {(int(a), int(b)) for a, b in at if a != b}
    pairs |= {(b, a) for a, b in pairs}
    starts = np.searchsorted(sorted(a for a, _ in pairs), np.arange(151))
    return starts.tolist(), [b for _, b in sorted(pairs)]


_STARTS, _TO = _friends()


def _cores(v: dict) -> dict:
    out = np.zeros(150, int)
    for level in range(1, 150):
        alive = np.ones(150, bool)
        while True:
            degree = [sum(bool(alive[b]) for b in _TO[_STARTS[k] : _STARTS[k + 1]]) for k in range(150)]
            fewer = alive & (np.array(degree) >= level)
            if (fewer == alive).all():
                break
            alive = fewer
        if not alive.any():
            break
        out[alive] = level
    return {"out": out}


def _assigned(v: dict) -> dict:
    orders = np.array(list(itertools.permutations(range(8))))
    return {"out": np.array([c[np.arange(8), orders].sum(1).min() for c in v["costs"].astype(int)])}


def _rounds(v: dict) -> dict:
    orders = np.array(list(itertools.permutations(range(1, v["far"].shape[1]))))
    orders = np.pad(orders, ((0, 0), (1, 1)))
    return {"out": np.array([d[orders[:, :-1], orders[:, 1:]].sum(1).min() for d in v["far"].astype(int)])}


def _moves(v: dict) -> dict:
    out = []
    for own, other in v["boards"].tolist():
        other &= ~own
        moves = 0
        for y, x in itertools.product(range(8), range(8)):
            if (own | other) >> (8 * y + x) & 1:
                continue
            for dy, dx in itertools.product((-1, 0, 1), (-1, 0, 1)):
                a, b, turned = y + dy, x + dx, 0
                while 0 <= a < 8 and 0 <= b < 8 and other >> (8 * a + b) & 1:
                    a, b, turned = a + dy, b + dx, turned + 1
                if turned and 0 <= a < 8 and 0 <= b < 8 and own >> (8 * a + b) & 1:
                    moves |= 1 << (8 * y + x)
        out.append(moves)
    return {"out": np.array(out, np.uint64)}


def _solved(v: dict) -> dict:
    def fits(cells: list[int], at: int, c: int) -> bool:
        y, x = divmod(at, 4)
        seen = {cells[4 * y + k] for k in range(4)} | {cells[4 * k + x] for k in range(4)}
        seen |= {cells[4 * (y // 2 * 2 + a) + x // 2 * 2 + b] for a in (0, 1) for b in (0, 1)}
        return c not in seen

    def fill(cells: list[int], at: int) -> None:
        if counts[0] == 9:
            return
        if at == 16:
            counts[0] += 1
        elif cells[at]:
            fill(cells, at + 1)
        else:
            for c in range(1, 5):
                if counts[0] < 9 and fits(cells, at, c):
                    counts[1] += 1
                    fill(cells[:at] + [c] + cells[at + 1 :], at + 1)

    ways, tries = [], []
    for row in v["givens"].tolist():
        counts = [0, 0]
        fill(row, 0)
        ways.append(counts[0])
        tries.append(counts[1])
    return {"ways": np.array(ways), "tries": np.array(tries)}


def _givens(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Parts of a filled square, in which one number in ten squares is wrong."""
    whole = np.array([1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1])
    rows = []
    for i in range(shape[0]):
        row = np.concatenate([[0], generator.permutation(4) + 1])[whole]
        row[generator.random(16) < generator.uniform(0.4, 0.75)] = 0
        if i % 10 == 3 and (row > 0).any():
            at = int(np.argmax(row > 0))
            others = set(range(1, 5)) - {int(row[at])}
            clear = [c for c in others if c not in row[at // 4 * 4 : at // 4 * 4 + 4] and c not in row[at % 4 :: 4]]
            y, x = at // 8 * 2, at % 4 // 2 * 2
            clear = [c for c in clear if c not in row.reshape(4, 4)[y : y + 2, x : x + 2]]
            row[at] = clear[0] if clear else row[at]
        rows.append(row)
    return np.array(rows, dtype)


def _cards(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Hands of a pack; half of them from few ranks, of one suit or in order."""
    rows = []
    for i in range(shape[0]):
        match i % 6:
            case 0:
                pack = np.arange(12)
            case 1:
                pack = 4 * np.arange(13) + i % 4
            case 2:
                ranks = (np.arange(5) + i) % 13
                pack = 4 * ranks + (i % 4 if i % 5 == 0 else generator.integers(0, 4, 5))
            case 3:
                pack = np.arange(8, 16)
            case _:
                pack = np.arange(52)
        rows.append(generator.choice(pack, 5, replace=False))
    return np.array(rows, dtype)


def _worths(v: dict) -> dict:
    out = []
    for row in v["cards"].tolist():
        ranks, suits = sorted(c // 4 for c in row), {c % 4 for c in row}
        counts = sorted((ranks.count(r) for r in set(ranks)), reverse=True)
        straight = counts[0] == 1 and (ranks[4] - ranks[0] == 4 or ranks == [0, 1, 2, 3, 12])
        flush = len(suits) == 1 and counts[0] == 1
        groups = {(4, 1): 7, (3, 2): 6, (3, 1, 1): 3, (2, 2, 1): 2, (2, 1, 1, 1): 1}
        out.append(groups.get(tuple(counts), 8 if straight and flush else 5 if flush else 4 if straight else 0))
    return {"out": np.array(out)}


def _earned(v: dict) -> dict:
    out = []
    for begin, end, worth in zip(*(v[k].T.tolist() for k in ("begin", "end", "worth")), strict=True):
        earned = [0] * 1000  # by each hour, with the work that ends until then
        for hour in range(1000):
            earned[hour] = earned[hour - 1] if hour else 0
            for b, e, w in zip(begin, end, worth, strict=True):
                if e == hour:
                    earned[hour] = max(earned[hour], earned[b] + w)
        out.append(earned[-1])
    return {"out": np.array(out)}


def _hours(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.sort(generator.integers(200, 1000, shape), 0).astype(dtype)


def _parted(v: dict) -> dict:
    out = []
    for row in v["numbers"].tolist():
        sums = {0}
        for a in row:
            sums |= {s + a for s in sums}
        out.append(min(abs(sum(row) - 2 * s) for s in sums))
    return {"nearest": np.array(out)}


def _down(v: dict) -> dict:
    out = []
    for walls in v["walls"].tolist():
        size = len(walls)
        ways = [[0] * (size + 1) for _ in range(size + 1)]
        for y, x in itertools.product(range(size), range(size)):
            if not walls[y][x]:
                ways[y + 1][x + 1] = 1 if x + y == 0 else ways[y][x + 1] + ways[y + 1][x]
        out.append(ways[size][size] % 65521)
    return {"out": np.array(out)}


def _walls(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return (generator.random(shape) < 0.08).astype(dtype)


ENTRIES: tuple[Entry, ...] = (
    _entry("dijkstra", _ways, read("starts", "int32", 13), read("to", "uint8", 40), read("lengths", "uint8", 40),
           read("begin", "int32", 85), write("out", "int32", 12, 85), starts=draws.row_starts(40),
           to=draws.integers(0, 12), lengths=draws.integers(1, 100), begin=draws.integers(0, 12)),
    _entry("most_pairs", _pairs, read("able", "uint16", 80, 12), write("out", "int32", 80), able=_few_bits(0.15)),
    _entry("strong_parts", _parts, read("next", "uint16", 90, 12), write("part", "uint8", 90, 12),
           next=_few_bits(0.12)),
    _entry("join_groups", _groups, read("wires", "uint8", 45, 75, 2), write("groups", "int32", 75),
           write("needed", "int32", 75), wires=draws.integers(0, 24)),
    _entry("cores", _cores, read("starts", "int32", 151), read("to", "int32", len(_TO)), write("out", "int32", 150),
           starts=draws.fixed(_STARTS), to=draws.fixed(_TO)),
    _entry("assign_jobs", _assigned, read("costs", "int32", 5, 8, 8), write("out", "int32", 5),
           costs=draws.integers(1, 1000)),
    _entry("round_trips", _rounds, read("far", "int16", 3, 8, 8), write("out", "int16", 3),
           far=draws.integers(1, 900)),
    _entry("open_moves", _moves, read("boards", "uint64", 120, 2), write("out", "uint64", 120)),
    _entry("little_sudoku", _solved, read("givens", "uint8", 70, 16), write("ways", "int32", 70),
           write("tries", "int32", 70), givens=_givens),
    _entry("hands", _worths, read("cards", "uint8", 420, 5), write("out", "uint8", 420), cards=_cards),
    _entry("best_jobs", _earned, read("begin", "int32", 24, 110), read("end", "int32", 24, 110),
           read("worth", "int32", 24, 110), write("out", "int32", 110), begin=draws.integers(0, 200), end=_hours,
           worth=draws.integers(1, 90)),
    _entry("equal_parts", _parted, read("numbers", "uint8", 150, 9), write("nearest", "int32", 150),
           numbers=draws.integers(0, 70)),
    _entry("grid_ways", _down, read("walls", "uint8", 4, 40, 40), write("out", "uint32", 4), walls=_walls),
)  # fmt: skip
