"""Entries of kernels/unseen_sixth/sciences.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_sixth", "sciences")
_WIDE = Approximate(16, "approximate functions", 1e-12)


def _reacted(v: dict) -> dict:
    out, used = [], []
    for i, (a, b, c, d) in enumerate(v["start"].tolist()):
        state, k = i * 77 + 5, 0
        while k < 60 and a * b + 5 * c:
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            r = (state >> 33) % (a * b + 5 * c)
            if r < a * b:
                a, b, c = a - 1, b - 1, c + 1
            elif r < a * b + 3 * c:
                a, b, c = a + 1, b + 1, c - 1
            else:
                c, d = c - 1, d + 1
            k += 1
        out.append((a, b, c, d))
        used.append(k)
    return {"out": np.array(out), "used": np.array(used)}


def _torsions(v: dict) -> dict:
    p = v["atoms"].astype(np.longdouble)[v["quads"]]
    a, b, c = (p[:, k + 1] - p[:, k] for k in range(3))
    axis = b / np.sqrt((b * b).sum(1))[:, None]
    # Both arms seen along the axis.
    x, y = (arm - (arm * axis).sum(1)[:, None] * axis for arm in (-a, c))
    return {"out": np.arctan2((np.cross(axis, x) * y).sum(1), (x * y).sum(1))}


def _quads(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.array([generator.choice(60, 4, replace=False) for _ in range(shape[0])], dtype)


def _acid(v: dict) -> dict:
    out, halvings = [], []
    for acid, base in v["amounts"].tolist():
        low, high, k = 1e-14, 1.0, 0
        while high - low > 1e-9 * low and k < 200:
            middle = np.sqrt(low * high) if high > 2 * low else 0.5 * (low + high)
            charge = middle + base - 1e-14 / middle - acid * 1.8e-5 / (1.8e-5 + middle)
            low, high = (low, middle) if charge > 0 else (middle, high)
            k += 1
        out.append(low)
        halvings.append(k)
    return {"out": np.array(out, np.longdouble), "halvings": np.array(halvings)}


def _loans(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    columns = (generator.integers(1000, 400_000, shape[0]), generator.integers(1, 150, shape[0]))
    return np.column_stack([*columns, generator.integers(500, 60_000, shape[0])]).astype(dtype)


def _repaid(v: dict) -> dict:
    months, paid = [], []
    for left, rate, pay in v["loans"].tolist():
        month = total = 0
        while left > 0 and month < 120:
            interest = (left * rate + 6000) // 12000
            if interest >= pay:
                month, total = -1, 0
                break
            total += min(left + interest, pay)
            left = max(left + interest - pay, 0)
            month += 1
        months.append(month)
        paid.append(total)
    return {"months": np.array(months), "paid": np.array(paid)}


def _trades(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    many = generator.integers(-40, 35, shape[:2])
    return np.stack([np.where(many == 0, -1, many), generator.integers(50, 150, shape[:2])], -1).astype(dtype)


def _gained(v: dict) -> dict:
    gains, lacking = [], []
    for trades in v["trades"].transpose(1, 0, 2).tolist():
        lots: list[list[int]] = []
        gain = short = 0
        for many, price in trades:
            if many > 0:
                if len(lots) < 8:
                    lots.append([many, price])
                continue
            sell = -many
            while sell and lots:
                part = min(sell, lots[0][0])
                gain += part * (price - lots[0][1])
                sell -= part
                lots[0][0] -= part
                if not lots[0][0]:
                    lots.pop(0)
            short += sell
        gains.append(gain)
        lacking.append(short)
    return {"gains": np.array(gains), "short_of": np.array(lacking)}


def _cars(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    share = np.linspace(0.1, 0.6, shape[0])[:, None]
    return np.where(generator.random(shape) < share, generator.integers(0, 6, shape), -1).astype(dtype)


def _driven(v: dict) -> dict:
    out, moved = [], []
    for block, road in enumerate(v["cells"].tolist()):
        size, way = len(road), 0
        for step in range(10):
            after = [-1] * size
            for k in [k for k in range(size) if road[k] >= 0]:
                ahead = next(d for d in range(1, size + 1) if road[(k + d) % size] >= 0)
                speed = min(road[k] + 1, 5, ahead - 1)
                r = (block * 1009 + step * 131 + k) * 2654435761 % 2**32
                speed -= speed > 0 and r >> 24 < 64
                after[(k + speed) % size] = speed
                way += speed
            road = after
        out.append(road)
        moved.append(way)
    return {"out": np.array(out), "moved": np.array(moved)}


def _measured(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    z = np.cumsum(np.cumsum(generator.normal(0, 0.1, shape), 0), 0) + generator.normal(0, 0.8, shape)
    return np.where(generator.random(shape) < 0.2, np.nan, z).astype(dtype)


def _tracked(v: dict) -> dict:
    out, noise, change = [], np.longdouble(0.7), np.longdouble(0.01)
    f = np.array([[1, 1], [0, 1]], np.longdouble)
    for row in v["measured"].T.astype(np.longdouble):
        s, p = np.zeros(2, np.longdouble), 10 * np.eye(2, dtype=np.longdouble)
        for z in row:
            s, p = f @ s, f @ p @ f.T + change * np.eye(2, dtype=np.longdouble)
            if not np.isnan(z):
                gain = p[:, 0] / (p[0, 0] + noise)
                s, p = s + gain * (z - s[0]), p - np.outer(gain, p[0])
        out.append(s)
    return {"out": np.array(out)}


def _integrals(v: dict) -> dict:
    """The integral is known: arctan and powers of x + 1."""
    a = v["factors"].astype(np.longdouble)
    three = np.sqrt(np.longdouble(3))
    power = 2 * three**5 / 5 - 2 * three**3 / 3 - (np.longdouble(2) / 5 - np.longdouble(2) / 3)
    levels = []
    for f in v["factors"].tolist():
        x = np.linspace(0, 2, 513)
        y = 1 / (1 + f * x * x) + x * np.sqrt(x + 1)
        rows = [[(y[0] + y[-1])]]
        level = 1
        while level < 10:
            part = y[:: 512 >> level]
            row = [2 / 2**level * (part[1:-1].sum() + (part[0] + part[-1]) / 2)]
            for k, before in enumerate(rows[-1], 1):
                row.append(row[-1] + (row[-1] - before) / (4.0**k - 1))
            rows.append(row)
            if abs(row[-1] - rows[-2][-1]) < 1e-11:
                break
            level += 1
        levels.append(level)
    return {"out": np.arctan(2 * np.sqrt(a)) / np.sqrt(a) + power, "levels": np.array(levels)}


def _adapted(v: dict) -> dict:
    def f(x: float) -> float:
        return abs(x - 0.3) * x

    def part(a: float, b: float, depth: int) -> tuple[float, int]:
        m = (a + b) / 2
        left, right = (a + m) / 2, (m + b) / 2
        whole = (b - a) / 6 * (f(a) + 4 * f(m) + f(b))
        halves = (b - a) / 12 * (f(a) + 4 * f(left) + 2 * f(m) + 4 * f(right) + f(b))
        if abs(whole - halves) < 1e-7 or depth > 17:
            return halves, 1
        (x, i), (y, j) = part(a, m, depth + 1), part(m, b, depth)
        return x + y, i + j

    sums, counts = zip(*(part(a, b, 0) for a, b in v["ranges"].tolist()), strict=True)
    return {"out": np.array(sums, np.longdouble), "parts": np.array(counts)}


def _bessel(v: dict) -> dict:
    """J_n(x) as the mean of cos(n t - x sin t) over a turn, which sums of few points give exactly."""
    t = np.arange(200, dtype=np.longdouble) * (2 * np.arctan2(np.longdouble(0), np.longdouble(-1)) / 200)
    x = v["x"].astype(np.longdouble)[:, None]
    return {"out": np.array([np.cos(n * t - x * np.sin(t)).mean(1) for n in range(len(v["out"]))])}


def _ballots(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    liked = generator.normal(0, 0.6, (shape[0], 1, 8)) + generator.gumbel(size=(*shape, 8))
    orders = np.argsort(-liked, axis=-1)
    return (orders << 4 * np.arange(8)).sum(-1).astype(dtype)


def _elected(v: dict) -> dict:
    winners, rounds = [], []
    for row in v["ballots"].tolist():
        orders = [[b >> 4 * k & 7 for k in range(8)] for b in row]
        left, count = set(range(8)), 0
        while True:
            count += 1
            votes = [next(c for c in order if c in left) for order in orders]
            firsts = {c: votes.count(c) for c in sorted(left)}
            best = max(firsts, key=lambda c: (firsts[c], -c))
            if 2 * firsts[best] > len(row) or len(left) == 2:
                break
            left.remove(min(firsts, key=lambda c: (firsts[c], c)))
        winners.append(best)
        rounds.append(count)
    return {"winner": np.array(winners), "rounds": np.array(rounds)}


def _likely(v: dict) -> dict:
    """Probabilities in units of the power of two that leaves them in [0.5, 1), or 1 for no signs."""
    moves = v["moves"].astype(np.longdouble).reshape(3, 3)
    shows = v["shows"].astype(np.longdouble).reshape(3, 4)
    out, powers = [], []
    for row in v["signs"].tolist():
        s, power = np.array([1, 0, 0], np.longdouble), 0
        for sign in row:
            if sign > 3:
                break
            s = s @ moves * shows[:, sign]
            while s.sum() < 0.5:
                s, power = 2 * s, power - 1
        out.append(s.sum())
        powers.append(power)
    return {"out": np.array(out), "powers": np.array(powers)}


def _rows_of_one(width: int) -> draws.Draw:
    def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        rows = generator.uniform(0.1, 1, (shape[0] // width, width))
        return (rows / rows.sum(1)[:, None]).astype(dtype)

    return draw


def _signs(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Signs 0 to 3, and seldom a 9 that ends the row."""
    return np.where(generator.random(shape) < 0.02, 9, generator.integers(0, 4, shape)).astype(dtype)


ENTRIES: tuple[Entry, ...] = (
    _entry("react_by_chance", _reacted, read("start", "int32", 90, 4), write("out", "int32", 90, 4),
           write("used", "int32", 90), start=draws.integers(0, 14)),
    _entry("torsions", _torsions, read("atoms", "float64", 60, 3), read("quads", "int32", 170, 4),
           write("out", "float64", 170), quads=_quads, tolerance=1e-12, approximate=_WIDE),
    _entry("acidity", _acid, read("amounts", "float64", 75, 2), write("out", "float64", 75),
           write("halvings", "int32", 75), amounts=draws.uniform(0.001, 0.2), tolerance=1e-8),
    _entry("repay", _repaid, read("loans", "int32", 120, 3), write("months", "int32", 120),
           write("paid", "int64", 120), loans=_loans),
    _entry("lot_gains", _gained, read("trades", "int16", 30, 110, 2), write("gains", "int32", 110),
           write("short_of", "int32", 110), trades=_trades),
    _entry("ring_road", _driven, read("cells", "int8", 4, 150), write("out", "int8", 4, 150),
           update("moved", "int32", 4), cells=_cars, moved=draws.zeros),
    _entry("track", _tracked, read("measured", "float64", 30, 130), write("out", "float64", 130, 2),
           measured=_measured, tolerance=1e-12),
    _entry("romberg", _integrals, read("factors", "float64", 70), write("out", "float64", 70),
           write("levels", "int32", 70), factors=draws.uniform(0.1, 9), tolerance=1e-11),
    _entry("adaptive", _adapted, read("ranges", "float32", 80, 2), write("out", "float64", 80),
           write("parts", "int32", 80), ranges=draws.uniform(-1, 2), tolerance=1e-12),
    _entry("bessel", _bessel, read("x", "float64", 90), write("out", "float64", 4, 90), x=draws.uniform(-8, 8),
           tolerance=1e-12),
    _entry("ranked_votes", _elected, read("ballots", "uint32", 5, 170), write("winner", "int32", 5),
           write("rounds", "int32", 5), ballots=_ballots),
    _entry("hidden_states", _likely, read("signs", "uint8", 120, 40), read("moves", "float64", 9),
           read("shows", "float64", 12), write("out", "float64", 120), write("powers", "int32", 120), signs=_signs,
           moves=_rows_of_one(3), shows=_rows_of_one(4), tolerance=1e-13),
)  # fmt: skip
