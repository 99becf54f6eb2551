"""Entries of kernels/unseen_fourth/codes.py."""

from __future__ import annotations

from functools import cache

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, write

_entry = maker("unseen_fourth", "codes")
_PRIME = 998244353


def _matches(v: dict) -> dict:
    text, found = v["text"].tobytes(), []
    for here in range(len(text)):
        best = 0, 0
        for d in range(1, min(64, here) + 1):
            k = 0
            while k < 32 and here + k < len(text) and text[here + k] == text[here + k - d]:
                k += 1
            best = (k, d) if k > best[0] else best
        found.append(best)
    return {"found": np.array(found)}


_LENGTHS = [2, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8, 8]


def _canonical() -> list[tuple[int, int]]:
    """Codes and their lengths in order of the symbols."""
    codes, code = [], 0
    for i, length in enumerate(_LENGTHS):
        code = code << length - _LENGTHS[i - 1] if i else 0
        codes.append((code, length))
        code += 1
    return codes


def _packed(v: dict) -> dict:
    words, bits = [], []
    for begin in range(0, v["text"].size, 256):
        row = v["text"][begin : begin + 256]
        stream = "".join(f"{code:0{length}b}" for code, length in v["codes"][row].tolist())
        bits.append(len(stream))
        stream = stream.ljust(32 * 64, "0")
        words.append([int(stream[k : k + 32], 2) for k in range(0, 32 * 40, 32)])
    return {"words": np.array(words), "bits": np.array(bits)}


def _symbols(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return generator.choice(12, shape, p=np.array([2.0**-n for n in _LENGTHS]) / sum(2.0**-n for n in _LENGTHS))


def _records(v: dict) -> dict:
    fields, lines = [], []
    for begin, end in zip(v["starts"], v["starts"][1:], strict=False):
        outside = v["text"][begin:end].tobytes().split(b'"')[::2]
        lines.append(sum(part.count(b"\n") for part in outside))
        fields.append(lines[-1] + 1 + sum(part.count(b",") for part in outside))
    return {"fields": np.array(fields), "lines": np.array(lines)}


def _nested(v: dict) -> dict:
    deepest = []
    for text in v["texts"].T:
        stack, most, right, string, skip = [], 0, True, False, False
        for c in map(chr, text):
            if skip:
                skip = False
            elif string:
                skip, string = c == "\\", c != '"'
            elif c == '"':
                string = True
            elif c in "[{":
                stack.append(c)
                most = max(most, len(stack))
            elif c in "]}":
                right = right and bool(stack) and stack.pop() + c in ("[]", "{}")
        deepest.append(most if right and not stack and not string and most <= 12 else -1)
    return {"deepest": np.array(deepest)}


def _texts(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A column a text: most are nested rightly, some are not."""
    columns = []
    for _ in range(shape[1]):
        text, closers = "", ""
        while len(text) + len(closers) < shape[0] - 6:
            what = generator.integers(0, 6)
            if what < 2 and len(closers) < 12:
                text, closers = text + "[{"[what], "]}"[what] + closers
            elif what < 4 and closers:
                text, closers = text + closers[0], closers[1:]
            else:
                text += ("7", '"]\\"["', ",")[generator.integers(0, 3)]
        text = (text + closers).ljust(shape[0])
        if generator.random() < 0.2:
            at = generator.integers(0, len(text))
            text = text[:at] + "}" + text[at + 1 :]
        columns.append(np.frombuffer(text[: shape[0]].encode(), np.uint8))
    return np.stack(columns, 1)


@cache
def _curve(order: int) -> np.ndarray:
    """The places of Hilbert's curve from the lower left corner to the lower right one, from four smaller curves."""
    if order == 0:
        return np.zeros((1, 2), int)
    half, small = 2 ** (order - 1), _curve(order - 1)
    turned = small[:, ::-1]
    last = np.stack([2 * half - 1 - small[:, 1], half - 1 - small[:, 0]], 1)
    return np.concatenate([turned, small + [0, half], small + [half, half], last])


def _hilbert(v: dict) -> dict:
    curve = _curve(8)
    where = np.zeros((256, 256), int)
    where[curve[:, 0], curve[:, 1]] = np.arange(65536)
    return {"along": where[v["points"][:, 0], v["points"][:, 1]], "back": curve[v["places"]]}


_ROOT = pow(3, (_PRIME - 1) // 256, _PRIME)


def _transformed(v: dict) -> dict:
    k = np.arange(256)
    powers = np.array([pow(_ROOT, i, _PRIME) for i in range(256)])[np.outer(k, k) % 256]
    out = np.zeros(v["a"].shape, np.int64)
    for i in range(256):
        out = (out + v["a"][:, i : i + 1].astype(np.int64) * powers[i]) % _PRIME
    return {"out": out}


def _times(a: int, b: int) -> int:
    """In the field of 256 elements."""
    result = 0
    while b:
        result ^= a if b & 1 else 0
        a = a << 1 ^ (0x11B if a & 128 else 0)
        b >>= 1
    return result


def _box() -> list[int]:
    inverse = [0] + [next(b for b in range(256) if _times(a, b) == 1) for a in range(1, 256)]
    box = []
    for x in inverse:
        turned = [(x << k | x >> 8 - k) & 255 for k in range(5)]
        box.append(int(np.bitwise_xor.reduce(turned)) ^ 0x63)
    return box


_BOX = _box()


def _round_keys() -> np.ndarray:
    """Of the key 0, 1, ..., 15: a row of sixteen bytes a round."""
    words, constant = [list(range(4 * k, 4 * k + 4)) for k in range(4)], 1
    for k in range(4, 44):
        word = words[-1]
        if k % 4 == 0:
            word = [_BOX[b] for b in word[1:] + word[:1]]
            word[0] ^= constant
            constant = _times(constant, 2)
        words.append([a ^ b for a, b in zip(word, words[k - 4], strict=True)])
    return np.array(words, np.uint8).reshape(11, 16)


_KEYS = _round_keys()


def _encrypted(v: dict) -> dict:
    times = np.array([[_times(a, b) for b in range(256)] for a in range(4)], np.uint8)
    state = v["text"].view(np.uint8).reshape(-1, 16) ^ _KEYS[0]
    for round_ in range(1, 11):
        state = np.array(_BOX, np.uint8)[state].reshape(-1, 4, 4)  # column, row
        for row in range(4):
            state[:, :, row] = np.roll(state[:, :, row], -row, 1)
        if round_ < 10:
            a, b, c, d = (np.roll(state, -k, 2) for k in range(4))
            state = times[2][a] ^ times[3][b] ^ c ^ d
        state = state.reshape(-1, 16) ^ _KEYS[round_]
    return {"out": np.ascontiguousarray(state).view(np.uint32)}


def _folded(v: dict) -> dict:
    pairs = []
    for strand in v["strands"].tolist():

        @cache
        def most(i: int, j: int, strand: list = strand) -> int:
            if j - i < 4:
                return 0
            ways = [most(i, j - 1)]
            for k in range(i, j - 3):
                if strand[k] + strand[j] == 3:
                    ways.append((most(i, k - 1) if k > i else 0) + most(k + 1, j - 1) + 1)
            return max(ways)

        pairs.append(most(0, len(strand) - 1))
    return {"pairs": np.array(pairs)}


def _boards(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Both sides' fields after four to seven moves; who is to move is first."""
    boards = []
    for _ in range(shape[0]):
        fields = generator.permutation(9)[: generator.integers(4, 8)]
        sides = [int(sum(1 << f for f in fields[k::2])) for k in (0, 1)]
        boards.append(sides if len(fields) % 2 == 0 else sides[::-1])
    return np.array(boards)


@cache
def _outcome(mine: int, theirs: int) -> int:
    rows = [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {0, 3, 6}, {1, 4, 7}, {2, 5, 8}, {0, 4, 8}, {2, 4, 6}]
    if any(all(theirs >> f & 1 for f in row) for row in rows):
        return -1
    free = [f for f in range(9) if not (mine | theirs) >> f & 1]
    return max((-_outcome(theirs, mine | 1 << f) for f in free), default=0)


# The greatest common divisor of the input and 840: a, b -> b, a % b until b is zero.
_PROGRAM = [
    (2, 0),  # 0: input
    (1, 840),  # 1: 840
    (3, 0),  # 2: copy the top
    (9, 9),  # 3: to 9 if it is zero
    (3, 0),  # 4: a b b
    (10, 2),  # 5: b b a
    (10, 1),  # 6: b a b
    (7, 0),  # 7: b a%b
    (8, 2),  # 8: again
    (11, 0),  # 9: drop the zero
    (1, 3),  # 10
    (5, 0),  # 11: thrice
    (1, 1),  # 12
    (6, 0),  # 13: less one
    (0, 0),  # 14
]


def _ran(v: dict) -> dict:
    taken = []
    for a in v["inputs"].tolist():
        b, rounds = 840, 0
        while b:
            a, b, rounds = b, a % b, rounds + 1
        taken.append(2 + 7 * rounds + 2 + 6)
    return {"out": 3 * np.gcd(v["inputs"], 840).astype(np.int64) - 1, "taken": np.array(taken)}


def _dates(v: dict) -> dict:
    days = v["days"].astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    years = months.astype("datetime64[Y]").astype(int) + 1970
    month, day = months.astype(int) % 12 + 1, (days - months.astype("datetime64[D]")).astype(int) + 1
    return {"years": years, "dates": np.stack([month, day], 1)}


ENTRIES: tuple[Entry, ...] = (
    _entry("longest_matches", _matches, read("text", "uint8", 450), write("found", "uint8", 450, 2),
           text=draws.integers(97, 100)),
    _entry("pack_codes", _packed, read("text", "uint8", 1000), read("codes", "uint16", 12, 2),
           write("words", "uint32", 4, 40), write("bits", "int32", 4), text=_symbols, codes=draws.fixed(_canonical())),
    _entry("split_records", _records, read("text", "uint8", 900), read("starts", "int32", 12),
           write("fields", "int32", 11), write("lines", "int32", 11), starts=draws.row_starts(900),
           text=lambda g, shape, dtype: g.choice(np.frombuffer(b'abcdefg,,\n"', np.uint8), shape)),
    _entry("check_nesting", _nested, read("texts", "uint8", 60, 90), write("deepest", "int8", 90), texts=_texts),
    _entry("hilbert", _hilbert, read("points", "uint8", 240, 2), write("along", "uint16", 240),
           read("places", "uint16", 240), write("back", "uint8", 240, 2)),
    _entry("whole_transform", _transformed, read("a", "uint32", 3, 256), read("powers", "uint32", 128),
           write("out", "uint32", 3, 256), a=draws.integers(0, _PRIME),
           powers=draws.fixed([pow(_ROOT, k, _PRIME) * 2**32 % _PRIME for k in range(128)])),
    _entry("encrypt", _encrypted, read("text", "uint32", 100, 4), read("keys", "uint32", 44),
           read("boxes", "uint8", 256), write("out", "uint32", 100, 4), keys=draws.fixed(_KEYS.view(np.uint32).ravel()),
           boxes=draws.fixed(_BOX)),
    _entry("fold_strands", _folded, read("strands", "uint8", 4, 38), write("pairs", "int32", 4),
           strands=draws.integers(0, 4)),
    _entry("best_play", lambda v: {"out": np.array([_outcome(*b) for b in v["boards"].tolist()])},
           read("boards", "uint16", 50, 2), write("out", "int8", 50), boards=_boards),
    _entry("stack_machine", _ran, read("program", "int32", 32, 2), read("inputs", "int32", 110),
           write("out", "int32", 110), write("taken", "int32", 110), inputs=draws.integers(1, 5000),
           program=draws.fixed(_PROGRAM + [(0, 0)] * (32 - len(_PROGRAM)))),
    _entry("calendar", _dates, read("days", "int32", 170), write("years", "int16", 170),
           write("dates", "uint8", 170, 2), days=draws.integers(-200000, 200000)),
)  # fmt: skip
