"""Entries of kernels/unseen_sixth/tables.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_sixth", "tables")


def _different(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return generator.choice(400, shape, replace=False).astype(dtype)


def _joined(v: dict) -> dict:
    prices = dict(zip(v["keys"].tolist(), v["prices"].tolist(), strict=True))
    out = np.array([[prices.get(k, 0.0) for k in row] for row in v["asked"].tolist()], np.float32)
    lost = [sum(k not in prices for k in row) for row in v["asked"].tolist()]
    return {"out": out, "missing": np.array(lost)}


def _merged(v: dict) -> dict:
    size, n = v["first"].shape
    begins, ends, counts = np.full((size, n), -1), np.full((size, n), -1), []
    for i in range(n):
        made: list[list[int]] = []
        for a, b in zip(v["first"][:, i].tolist(), v["last"][:, i].tolist(), strict=True):
            if made and a <= made[-1][1]:
                made[-1][1] = max(made[-1][1], b)
            else:
                made.append([a, b])
        begins[: len(made), i], ends[: len(made), i] = np.array(made).T
        counts.append(len(made))
    return {"begins": begins, "ends": ends, "counts": np.array(counts)}


def _sorted(high: int) -> draws.Draw:
    def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.sort(generator.integers(0, high, shape), 0).astype(dtype)

    return draw


def _later(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Ends of intervals that begin at `_steps`: half of them at once, half up to 59 later."""
    first = np.arange(shape[0])[:, None] * 25
    return (first + generator.integers(0, 60, shape) * generator.integers(0, 2, shape)).astype(dtype)


def _steps(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.broadcast_to(np.arange(shape[0])[:, None] * 25, shape).astype(dtype)


def _calls(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    first = generator.integers(0, 255, shape[:2])
    last = np.minimum(first + generator.integers(1, 50, shape[:2]), 255)
    return np.stack([first, last], -1).astype(dtype)


def _busy(v: dict) -> dict:
    out = []
    for calls in v["calls"].astype(int):
        hours = np.arange(256)[:, None]
        running = ((calls[:, 0] <= hours) & (hours < calls[:, 1])).sum(1)
        out.append((running.max(), running.argmax()))
    return {"out": np.array(out)}


def _indexed(v: dict) -> dict:
    kind, age = v["kinds"], v["ages"]
    young, old = age < 30, (age >= 65) & (age != 255)
    found = np.isin(kind, (0, 2)) & young | (kind == 1) & ~young & ~old | (kind == 3) & old
    words = np.zeros(-(-found.size // 32) * 32, bool)
    words[: found.size] = found
    words = words.reshape(-1, 32)
    bits = (words << np.arange(32, dtype=np.int64)).sum(1)
    return {"bitmaps": bits, "counts": np.array([found.sum(), words.sum(1).max(), (words.sum(1) == 0).sum()])}


def _sales(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    columns = [generator.integers(0, high, shape[0]) for high in (7, 12, 90_000, 90_000)]
    return np.column_stack(columns).astype(dtype)


def _pivoted(v: dict) -> dict:
    sums, counts = np.zeros(91, np.uint64), np.zeros(91, int)
    for town, month, price, many in v["sales"].tolist():
        sums[town * 13 + month] += np.uint64(price * many)
        counts[town * 13 + month] += 1
    return {"sums": sums, "counts": counts}


def _quoted(v: dict) -> dict:
    out, starts = [], v["starts"].tolist()
    for symbol, time in v["trades"].tolist():
        rows = range(starts[symbol], starts[symbol + 1])
        before = [k for k in rows if v["times"][k] <= time]
        fresh = before and time - v["times"][before[-1]] <= 40
        out.append(v["quotes"][before[-1]] if fresh else -1.0)
    return {"out": np.array(out)}


_QUOTES = np.sort(np.random.default_rng(7).integers(0, 9, 300) * 1000 + np.random.default_rng(8).integers(0, 999, 300))


def _skip_list() -> tuple[list[int], list[list[int]]]:
    """A head and 120 sorted keys, each in as many lanes as chance says."""
    g = np.random.default_rng(120)
    keys = [-1, *np.sort(g.choice(1000, 120, replace=False)).tolist()]
    height = [5, *np.minimum(g.geometric(0.5, 120), 5).tolist()]
    next_ = []
    for k in range(121):
        later = [[j for j in range(k + 1, 121) if height[j] > level] for level in range(5)]
        next_.append([later[level][0] if later[level] and level < height[k] else -1 for level in range(5)])
    return keys, next_


_KEYS, _NEXT = _skip_list()


def _skipped(v: dict) -> dict:
    found, steps = [], []
    for key in v["asked"].tolist():
        node, count, level = 0, 0, 4
        while level >= 0:
            to = _NEXT[node][level]
            if to >= 0 and _KEYS[to] <= key:
                node, count = to, count + 1
            elif _KEYS[node] == key:
                break
            else:
                level -= 1
        found.append(_KEYS.index(key) if key in _KEYS else -1)
        steps.append(count)
    return {"found": np.array(found), "steps": np.array(steps)}


_SORTED = np.sort(np.random.default_rng(511).choice(5000, 511, replace=False))


def _wide_nodes() -> np.ndarray:
    """The sorted keys in nodes of seven, level by level; an eighth key is not used."""
    nodes = np.zeros((73, 8), int)

    def fill(node: int, low: int, high: int, depth: int) -> None:
        step = (high - low + 1) // 8
        nodes[node, :7] = _SORTED[low + step - 1 : high : step]
        for child in range(8) if depth else ():
            fill(8 * node + 1 + child, low + child * step, low + child * step + step - 1, depth - 1)

    fill(0, 0, 511, 2)
    return nodes.reshape(146, 4)


def _traces(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Addresses that jump now and then and mostly go on nearby."""
    jumps = generator.integers(-300, 300, shape) + (generator.random(shape) < 0.1) * generator.integers(0, 9000, shape)
    return (np.cumsum(jumps, 0) % 16384).astype(dtype)


def _cached(v: dict) -> dict:
    hits, written = [], []
    for trace in v["traces"].T.tolist():
        sets: list[list[list[int]]] = [[] for _ in range(8)]
        count = back = 0
        for access in trace:
            line = (access >> 7) + 1
            ways = sets[line & 7]
            known = next((w for w in ways if w[0] == line), None)
            if known:
                ways.remove(known)
                count += 1
            ways.insert(0, [line, access & 1 | (known[1] if known else 0)])
            if len(ways) > 4:
                back += ways.pop()[1]
        hits.append(count)
        written.append(back)
    return {"hits": np.array(hits), "written_back": np.array(written)}


def _visits(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.cumsum(generator.exponential(1300, shape).astype(int)).astype(dtype)


def _sessions(v: dict) -> dict:
    times, users = v["times"].astype(int), v["users"].astype(int)
    first = (np.diff(users) != 0) | (np.diff(times) > 1800)
    return {"number": np.concatenate([[0], np.cumsum(first)])}


def _hooded(v: dict) -> dict:
    size, n = v["keys"].shape
    table, farthest = np.zeros((32, n), int), []
    for i, keys in enumerate(v["keys"].T.tolist()):
        own, most = [0] * 32, 0

        def away(key: int, at: int) -> int:
            return (at - (key * 40503 >> 11)) % 32

        for key in keys:
            if key in own:
                continue
            at = (key * 40503 >> 11) % 32
            while own[at]:
                if away(own[at], at) < away(key, at):
                    own[at], key = key, own[at]
                    most = max(most, away(own[at], at))
                at = (at + 1) % 32
            own[at] = key
            most = max(most, away(key, at))
        table[:, i] = own
        farthest.append(most)
    return {"table": table, "farthest": np.array(farthest)}


def _united(v: dict) -> dict:
    out, sizes = np.full(v["out"].shape, -1), []
    for i in range(out.shape[1]):
        both = sorted({*v["a"][:, i].tolist(), *v["b"][:, i].tolist()})
        out[: len(both), i] = both
        sizes.append(len(both))
    return {"out": out, "sizes": np.array(sizes)}


def _customers(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.stack([generator.integers(0, 12, shape[:2]), generator.integers(1, 50, shape[:2])], -1).astype(dtype)


def _queued(v: dict) -> dict:
    waited, closed = [], []
    for i, customers in enumerate(v["customers"].transpose(1, 0, 2).tolist()):
        desks, now, total = [0] * (2 + i % 4), 0, 0
        for pause, work in customers:
            now += pause
            # The first desk that is free is taken, but desks 0 and 1 are compared before it is asked.
            desk = 0
            for d in range(1, len(desks)):
                desk = d if desks[d] < desks[desk] else desk
                if desks[desk] <= now:
                    break
            wait = max(desks[desk] - now, 0)
            if wait <= 60:
                total += wait
                desks[desk] = now + wait + work
        waited.append(total)
        closed.append(max(desks))
    return {"waited": np.array(waited), "closed": np.array(closed)}


ENTRIES: tuple[Entry, ...] = (
    _entry("join_by_hash", _joined, read("keys", "int32", 170), read("prices", "float32", 170),
           read("asked", "int32", 3, 200), write("out", "float32", 3, 200), write("missing", "int32", 3),
           keys=_different, asked=draws.integers(0, 400)),
    _entry("merge_intervals", _merged, read("first", "int32", 20, 110), read("last", "int32", 20, 110),
           write("begins", "int32", 20, 110), write("ends", "int32", 20, 110), write("counts", "int32", 110),
           first=_steps, last=_later),
    _entry("busiest", _busy, read("calls", "int16", 4, 330, 2), write("out", "int32", 4, 2), calls=_calls),
    _entry("bit_index", _indexed, read("kinds", "uint8", 630), read("ages", "uint8", 630),
           write("bitmaps", "uint32", 20), update("counts", "int32", 3), kinds=draws.integers(0, 12),
           ages=draws.integers(0, 90), counts=draws.zeros),
    _entry("pivot", _pivoted, read("sales", "int32", 700, 4), update("sums", "uint64", 91),
           update("counts", "int32", 91), sales=_sales, sums=draws.zeros, counts=draws.zeros),
    _entry("last_quotes", _quoted, read("starts", "int32", 10), read("times", "int32", 300),
           read("quotes", "float64", 300), read("trades", "int32", 280, 2), write("out", "float64", 280),
           starts=draws.fixed(np.searchsorted(_QUOTES // 1000, np.arange(10))), times=draws.fixed(_QUOTES % 1000),
           trades=lambda g, shape, dtype: np.column_stack([g.integers(0, 9, 280), g.integers(0, 1000, 280)])),
    _entry("skip_list", _skipped, read("keys", "int32", 121), read("next", "int16", 121, 5),
           read("asked", "int32", 180), write("found", "int32", 180), write("steps", "int32", 180),
           keys=draws.fixed(_KEYS), next=draws.fixed(_NEXT), asked=draws.integers(0, 1000)),
    _entry("wide_nodes", lambda v: {"place": np.searchsorted(_SORTED, v["asked"])}, read("nodes", "int32", 146, 4),
           read("asked", "int32", 350), write("place", "int32", 350), nodes=draws.fixed(_wide_nodes()),
           asked=draws.integers(0, 5000)),
    _entry("cache_hits", _cached, read("traces", "uint32", 90, 80), write("hits", "int32", 80),
           write("written_back", "int32", 80), traces=_traces),
    _entry("sessions", _sessions, read("times", "int32", 450), read("users", "uint8", 450),
           write("number", "int32", 450), times=_visits,
           users=lambda g, shape, dtype: np.sort(g.integers(0, 30, shape)).astype(dtype)),
    _entry("robin_hood", _hooded, read("keys", "uint16", 24, 80), write("table", "uint16", 32, 80),
           write("farthest", "int32", 80), keys=draws.integers(1, 300)),
    _entry("unite", _united, read("a", "int16", 14, 90), read("b", "int16", 19, 90), write("out", "int16", 33, 90),
           write("sizes", "int32", 90), a=_sorted(50), b=_sorted(70)),
    _entry("queues", _queued, read("customers", "int16", 40, 130, 2), write("waited", "int32", 130),
           write("closed", "int32", 130), customers=_customers),
)  # fmt: skip
