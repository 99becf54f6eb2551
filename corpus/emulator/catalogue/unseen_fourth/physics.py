"""Entries of kernels/unseen_fourth/physics.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_fourth", "physics")
_RANDOM = np.random.default_rng(45)

_CELL_OF = np.sort(_RANDOM.integers(0, 64, 220))
_PLACES = (np.stack([_CELL_OF % 8, _CELL_OF // 8], 1) + _RANDOM.uniform(0.01, 0.99, (220, 2))) / 8


def _density(v: dict) -> dict:
    p = v["places"].astype(np.float64)
    square = ((p[:, None] - p) ** 2).sum(-1)
    return {"density": 100 * (np.maximum(1 / 64 - square, 0) ** 3).sum(1)}


_NODE = np.dtype(
    [(name, np.float32) for name in ("x", "y", "mass", "width")] + [("next", np.int32), ("child", np.int32)]
)
_BODIES = _RANDOM.uniform(0, 1, (150, 2)).astype(np.float32)


def _gravity_tree() -> np.ndarray:
    """Squares of at most one body in depth-first order, all bodies of mass one."""
    nodes: list[list] = []

    def add(own: np.ndarray, corner: np.ndarray, width: float) -> None:
        at = len(nodes)
        nodes.append([*own.mean(0), len(own), width, -1, at + 1 if len(own) > 1 else -1])
        if len(own) > 1:
            half = width / 2
            for j in (0, 1):
                for i in (0, 1):
                    low = corner + half * np.array([i, j])
                    inside = own[((own >= low) & (own < low + half)).all(1)]
                    if len(inside):
                        add(inside, low, half)
        nodes[at][4] = len(nodes)

    add(_BODIES.astype(np.float64), np.zeros(2), 1.0)
    for node in nodes:
        node[4] = -1 if node[4] == len(nodes) else node[4]
    return np.array([tuple(node) for node in nodes], _NODE)


_TREE = _gravity_tree()


def _pulls(v: dict) -> dict:
    tree, out = v["nodes"].view(_NODE)[:, 0], []
    for p in v["bodies"].astype(np.float64):
        waiting, total = [0], np.zeros(2)
        while waiting:
            c = tree[waiting.pop()]
            d = np.array([c["x"], c["y"]], np.float64) - p
            square = float(d @ d)
            if c["child"] < 0 or float(c["width"]) ** 2 < 2.25 * square:
                total += c["mass"] * d / (square + 0.01) ** 1.5
                continue
            child, end = c["child"], c["next"] if c["next"] >= 0 else len(tree)
            while 0 <= child < end:
                waiting.append(child)
                child = tree[child]["next"]
        out.append(total)
    return {"pull": np.array(out)}


def _water(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    a = generator.uniform(-0.5, 0.5, shape)
    a[..., 0] += 2
    return a


def _watered(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    h, u, w, _ = np.moveaxis(a, -1, 0)
    along = np.stack([u, u * u / h + 4.905 * h * h, w * u / h, 0 * h], -1)
    down = np.stack([w, u * w / h, w * w / h + 4.905 * h * h, 0 * h], -1)
    around = sum(np.roll(a, s, axis) for axis in (0, 1) for s in (1, -1))
    change = np.roll(along, -1, 1) - np.roll(along, 1, 1) + np.roll(down, -1, 0) - np.roll(down, 1, 0)
    out = 0.25 * around - float(np.float32(0.02)) * change
    out[..., 3] = 0
    return {"out": out}


def _pulled(v: dict) -> dict:
    p = v["knots"].astype(np.float64)
    for _ in range(5):
        d = np.diff(p, axis=1)
        away = np.sqrt((d * d).sum(-1, keepdims=True))
        part = d * (0.25 * (away - 0.5) / away)
        forth, back = part.copy(), part.copy()
        back[:, 0] *= 2  # the first knot stays, and the second takes all of the move
        p[:, 1:] -= back
        p[:, 1:-1] += forth[:, 1:]
    return {"knots": p}


def _grids(v: dict) -> dict:
    a, n = v["fine"].astype(np.float64), len(v["coarse"])
    weights = np.zeros((n, 2 * n + 1))
    for i in range(n):
        weights[i, 2 * i : 2 * i + 3] = 1, 2, 1
    coarse = weights @ a @ weights.T / 16
    return {"coarse": coarse, "fine": a + weights.T @ coarse @ weights / 4}


def _noise(v: dict) -> dict:
    order = v["order"].astype(int)
    slopes = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1], [1, 0], [-1, 0], [0, 1], [0, -1]])
    total = np.zeros(v["out"].shape)
    for octave in range(3):
        y, x = np.indices(total.shape) * 0.15625 * 2**octave
        i, j = x.astype(int), y.astype(int)
        u, w = x - i, y - j
        a, b = (6 * t**5 - 15 * t**4 + 10 * t**3 for t in (u, w))
        for q, down in ((0, 1 - b), (1, b)):
            for p, across in ((0, 1 - a), (1, a)):
                g = slopes[order[(order[(i + p) % 256] + j + q) % 256] % 8]
                total += 0.5**octave * across * down * (g[..., 0] * (u - p) + g[..., 1] * (w - q))
    return {"out": total}


_CORNERS = _RANDOM.integers(0, 900, (60, 2))
_LEAVES = np.concatenate([_CORNERS, _CORNERS + _RANDOM.integers(5, 80, (60, 2))], 1)


def _box_tree() -> tuple[np.ndarray, np.ndarray]:
    """A tree over the leaves' boxes: each node's box, and its two children or -1."""
    boxes: list[np.ndarray] = []
    children: list[tuple[int, int]] = []

    def add(own: np.ndarray, axis: int) -> int:
        at = len(boxes)
        boxes.append(np.r_[own[:, :2].min(0), own[:, 2:].max(0)])
        children.append((-1, -1))
        if len(own) > 1:
            own = own[np.argsort(own[:, axis])]
            middle = len(own) // 2
            children[at] = add(own[:middle], 1 - axis), add(own[middle:], 1 - axis)
        return at

    add(_LEAVES, 0)
    return np.array(boxes), np.array(children)


_BOXES, _CHILDREN = _box_tree()


def _queries(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    corners = generator.integers(-20, 950, (shape[0], 2))
    return np.concatenate([corners, corners + generator.integers(0, 120, corners.shape)], 1)


def _met(v: dict) -> dict:
    q = v["queries"].astype(int)[:, None]
    apart = (_LEAVES[:, :2] > q[..., 2:]) | (_LEAVES[:, 2:] < q[..., :2])
    return {"hits": (~apart.any(-1)).sum(1)}


def _fallen(v: dict) -> dict:
    out, rounds = [], []
    for heap in v["heaps"].astype(int):
        count = 0
        while (heap > 3).any():
            falls = np.pad(heap // 4, 1)
            heap = heap % 4 + falls[:-2, 1:-1] + falls[2:, 1:-1] + falls[1:-1, :-2] + falls[1:-1, 2:]
            count += 1
        out.append(heap)
        rounds.append(count)
    return {"out": np.array(out), "rounds": np.array(rounds)}


def _directions() -> np.ndarray:
    """Of van der Corput's sequence and of the polynomial x + 1."""
    second = [1 << 31]
    for _ in range(31):
        second.append(second[-1] ^ second[-1] >> 1)
    return np.array([[1 << 31 - k for k in range(32)], second], np.uint32)


def _sequence(v: dict) -> dict:
    points, state = [], [0, 0]
    for i in range(len(v["points"])):
        if i:
            bit = (i & -i).bit_length() - 1  # Gray's codes of i - 1 and i differ in it
            state = [s ^ int(d[bit]) for s, d in zip(state, v["directions"], strict=True)]
        points.append(list(state))
    under = sum(x * x >> 32 >= y for x, y in points)
    return {"points": np.array(points, np.uint32), "under": np.array([under], np.uint32)}


def _option(v: dict) -> dict:
    j, dt, rate, out = np.arange(1, 39), 0.05, 0.02, []
    s = 0.09 * j * j
    change = np.zeros((40, 40))
    change[j, j - 1], change[j, j], change[j, j + 1] = (s - rate * j) / 4, -(s + rate) / 2, (s + rate * j) / 4
    before, after = np.eye(40) + dt * change, np.eye(40) - dt * change
    before[0] = before[39] = 0
    for strike in v["strikes"]:
        value = np.maximum(5.0 * np.arange(40) - strike, 0)
        for step in range(1, 11):
            known = before @ value
            known[39] = 195 - strike * np.exp(-rate * dt * step)
            value = np.linalg.solve(after, known)
        out.append(value[20])
    return {"out": np.array(out, np.longdouble)}


def _stepped(v: dict) -> dict:
    out, taken = [], []
    for mu in v["stiffness"].astype(np.longdouble):

        def slope(y: np.ndarray, mu: np.longdouble = mu) -> np.ndarray:
            return np.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

        y, t, h, steps = np.array([2, 0], np.longdouble), np.longdouble(0), np.longdouble(0.0625), 0
        while t < 4:
            last = h >= 4 - t
            h = 4 - t if last else h
            a = slope(y)
            b = slope(y + h / 2 * a)
            c = slope(y + 3 * h / 4 * b)
            new = y + h / 9 * (2 * a + 3 * b + 4 * c)
            d = slope(new)
            error = np.abs(h * (-5 * a / 72 + b / 12 + c / 9 - d / 8)).max()
            steps += 1
            if error <= 1e-3:
                t, y = np.longdouble(4) if last else t + h, new
            h = h / 2 if error > 1e-3 else h * 2 if error < 1e-4 else h
        out.append(y)
        taken.append(steps)
    return {"out": np.array(out), "taken": np.array(taken)}


_TONES = np.arange(48) + 1


def _tone_power(v: dict) -> dict:
    a = v["samples"] / 32768
    turns = np.exp(-2j * np.pi / 200 * np.outer(np.arange(200), _TONES))
    return {"power": np.abs(a @ turns) ** 2}


ENTRIES: tuple[Entry, ...] = (
    _entry("fluid_density", _density, read("places", "float32", 220, 2), read("starts", "int32", 65),
           write("density", "float32", 220), tolerance=1e-5, places=draws.fixed(_PLACES),
           starts=draws.fixed(np.searchsorted(_CELL_OF, np.arange(65)))),
    _entry("tree_gravity", _pulls, read("nodes", "int32", len(_TREE), 6), read("bodies", "float32", 150, 2),
           write("pull", "float32", 150, 2), tolerance=1e-5, bodies=draws.fixed(_BODIES),
           nodes=draws.fixed(_TREE.view(np.int32).reshape(-1, 6))),
    _entry("shallow_water", _watered, read("a", "float32", 18, 45, 4), write("out", "float32", 18, 45, 4), a=_water),
    _entry("pull_rope", _pulled, update("knots", "float32", 5, 50, 3), tolerance=1e-5),
    _entry("two_grids", _grids, update("fine", "float32", 31, 31), write("coarse", "float32", 15, 15)),
    _entry("noise", _noise, read("order", "uint8", 256), write("out", "float32", 23, 37), order=draws.permutation),
    _entry("count_hits", _met, read("boxes", "int16", 119, 4), read("children", "int16", 119, 2),
           read("queries", "int16", 170, 4), write("hits", "int32", 170), boxes=draws.fixed(_BOXES),
           children=draws.fixed(_CHILDREN), queries=_queries),
    _entry("sandpile", _fallen, read("heaps", "int32", 3, 16, 16), write("out", "int32", 3, 16, 16),
           write("rounds", "int32", 3), heaps=draws.integers(0, 8)),
    _entry("sobol", _sequence, read("directions", "uint32", 2, 32), write("points", "uint32", 450, 2),
           update("under", "uint32", 1), directions=draws.fixed(_directions()), under=draws.zeros),
    _entry("crank_nicolson", _option, read("strikes", "float64", 6), write("out", "float64", 6), tolerance=1e-10,
           strikes=draws.uniform(80, 120)),
    _entry("adaptive_steps", _stepped, read("stiffness", "float64", 60), write("out", "float64", 60, 2),
           write("taken", "int32", 60), tolerance=1e-9, stiffness=draws.uniform(0.2, 5)),
    _entry("tones", _tone_power, read("samples", "int16", 4, 200), read("cosines", "float32", 48),
           write("power", "float32", 4, 48), tolerance=1e-4, cosines=draws.fixed(2 * np.cos(2 * np.pi / 200 * _TONES))),
)  # fmt: skip
