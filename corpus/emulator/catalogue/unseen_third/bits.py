"""Entries of kernels/unseen_third/bits.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_third", "bits")
_LONG = 2**64 - 1
_COUNTS = [0, 1, 2, 3, 5, 6]  # how many codes have 1, 2, ... bits; the last number is what is left
_SYMBOLS = np.random.default_rng(8).permutation(17)
_WORDS = ("abca", "bcab", "cc", "dada")
_TEXT = "Δx → 0, grün, 漢字と仮名, naïve; plain ASCII letters 🙂 and more… äöü ß 🚀🚀 end of a long line of words"


def _codes() -> list[str]:
    """Canonical codes as strings of bits, in the order of symbols."""
    codes, code = [], 0
    for length, count in enumerate(_COUNTS, 1):
        for _ in range(count):
            codes.append(f"{code:0{length}b}")
            code += 1
        code <<= 1
    return codes


def _streams() -> tuple[np.ndarray, np.ndarray]:
    """Streams of thirty codes each in words, the first bit lowest, and the symbols in them."""
    codes, generator = _codes(), np.random.default_rng(9)
    drawn = generator.integers(0, len(codes), (45, 30))
    bits = np.zeros((45, 192), bool)
    for row, indices in zip(bits, drawn, strict=True):
        text = "".join(codes[i] for i in indices)
        row[: len(text)] = [bit == "1" for bit in text]
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint32), _SYMBOLS[drawn]


def _gammas(v: dict) -> dict:
    rows, lengths = [], []
    for block in v["a"].reshape(-1, 128).tolist():
        text = "".join("0" * ((x + 1).bit_length() - 1) + f"{x + 1:b}" for x in block)
        bits = np.zeros(v["out"].shape[1] * 32, bool)
        bits[: len(text)] = [bit == "1" for bit in text]
        rows.append(np.packbits(bits, bitorder="little").view(np.uint32))
        lengths.append(len(text))
    return {"out": np.array(rows), "bits": np.array(lengths, np.int32)}


def _sip(message: bytes) -> int:
    """SipHash-2-4 with the key 0, 1, ..., 15 (Aumasson and Bernstein, 2012)."""
    low, high = 0x0706050403020100, 0x0F0E0D0C0B0A0908
    s = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]

    def turned(x: int, k: int) -> int:
        return (x << k | x >> 64 - k) & _LONG

    def rounds(count: int) -> None:
        for _ in range(count):
            for x, y, k in ((0, 1, 13), (2, 3, 16)):
                s[x] = (s[x] + s[y]) & _LONG
                s[y] = turned(s[y], k) ^ s[x]
            s[0] = turned(s[0], 32)
            for x, y, k in ((0, 3, 21), (2, 1, 17)):
                s[x] = (s[x] + s[y]) & _LONG
                s[y] = turned(s[y], k) ^ s[x]
            s[2] = turned(s[2], 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message)])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        s[3] ^= word
        rounds(2)
        s[0] ^= word
    s[2] ^= 0xFF
    rounds(4)
    return s[0] ^ s[1] ^ s[2] ^ s[3]


def _selected(v: dict) -> dict:
    ones = np.flatnonzero(np.unpackbits(v["bits"].view(np.uint8), bitorder="little"))
    return {"out": ones[v["queries"]]}


def _syndromes(v: dict) -> dict:
    powers = [1]
    for _ in range(254):
        x = powers[-1] << 1
        powers.append(x ^ 0x11D if x & 256 else x)

    def times(x: int, y: int) -> int:
        product = 0
        for bit in range(8):
            product ^= (x << bit) if y >> bit & 1 else 0
        for bit in range(14, 7, -1):
            product ^= 0x11D << bit - 8 if product >> bit & 1 else 0
        return product

    out = []
    for block in v["blocks"].tolist():
        row = []
        for s in range(v["out"].shape[1]):
            value = 0
            for byte in block:
                value = times(value, powers[s]) ^ byte
            row.append(value)
        out.append(row)
    return {"out": np.array(out)}


def _varints() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(4)
    numbers = (generator.integers(0, 2**32, 85) >> generator.integers(0, 32, 85)).astype(np.uint32)
    written = []
    for x in numbers.tolist():
        while x > 127:
            written.append(x & 127 | 128)
            x >>= 7
        written.append(x)
    return np.array(written), numbers


def _read_back(v: dict) -> dict:
    out = v["out"].copy()
    out[: _NUMBERS.size] = _NUMBERS
    return {"out": out, "count": np.array([_NUMBERS.size], np.int32)}


def _cards(v: dict) -> dict:
    n = v["out"].shape[1]
    hands = []
    for i in range(n):
        state, cards = (4321 + i * 0x9E3779B97F4A7C15) & _LONG, list(range(20))
        for k in range(19, 0, -1):
            while True:
                old, state = state, (state * 6364136223846793005 + 1442695040888963407) & _LONG
                mixed, turn = ((old >> 18 ^ old) >> 27) & 0xFFFFFFFF, old >> 59
                drawn = (mixed >> turn | mixed << (-turn & 31)) & 0xFFFFFFFF
                if drawn >= 2**32 % (k + 1):
                    break
            other = drawn % (k + 1)
            cards[k], cards[other] = cards[other], cards[k]
        hands.append(cards)
    return {"out": np.array(hands).T}


def _bit_products(v: dict) -> dict:
    a, b = (np.unpackbits(v[x].view(np.uint8), axis=1, bitorder="little").reshape(-1, 32, 32).astype(int) for x in "ab")
    return {"out": np.packbits((a @ b & 1).astype(bool), axis=2, bitorder="little").view(np.uint32)[..., 0]}


def _is_prime(x: int) -> bool:
    return x > 1 and all(x % d for d in range(2, int(x**0.5) + 1))


def _generations(v: dict) -> dict:
    cells = np.unpackbits(v["a"].view(np.uint8), axis=1, bitorder="little").astype(int)
    rule = np.array([110 >> k & 1 for k in range(8)])
    for _ in range(40):
        # The neighbour to the left is the next higher bit.
        cells = rule[4 * np.roll(cells, -1, 1) + 2 * cells + np.roll(cells, 1, 1)]
    return {"out": np.packbits(cells.astype(bool), axis=1, bitorder="little").view(np.uint32)}


def _lines() -> tuple[np.ndarray, np.ndarray, list[str]]:
    lines = [_TEXT, "", _TEXT[17:30], _TEXT[::-1]]
    whole = [line.encode() for line in lines]
    return np.frombuffer(b"".join(whole), np.uint8), np.cumsum([0, *(len(line) for line in whole)]), lines


def _points(v: dict) -> dict:
    out = v["out"].copy()
    for start, line in zip(v["starts"], _LINES, strict=False):
        out[start : start + len(line)] = [ord(letter) for letter in line]
    return {"out": out, "counts": np.array([len(line) for line in _LINES], np.int32)}


def _automaton() -> tuple[np.ndarray, np.ndarray]:
    """Moves between the beginnings of the words by each of four letters, and how many words end at each."""
    heads = sorted({word[:k] for word in _WORDS for k in range(len(word) + 1)}, key=lambda head: (len(head), head))

    def after(text: str) -> int:
        return next(heads.index(text[k:]) for k in range(len(text) + 1) if text[k:] in heads)

    moves = [[after(head + letter) for letter in "abcd"] for head in heads]
    return np.array(moves), np.array([sum(head.endswith(word) for word in _WORDS) for head in heads])


def _matches(v: dict) -> dict:
    lines = ["".join("abcd"[letter & 3] for letter in row) for row in v["text"]]
    return {"out": np.array([sum(line[k:].startswith(w) for w in _WORDS for k in range(len(line))) for line in lines])}


def _rolled(v: dict) -> dict:
    marks = np.zeros(v["marks"].size * 32, bool)
    text = v["text"].tolist()
    for at in range(len(text) - 7):
        value = 0
        for letter in text[at : at + 8]:
            value = value * 257 + letter
        marks[at] = value % 16 == 5
    return {"marks": np.packbits(marks, bitorder="little").view(np.uint32)}


def _crc(message: list[int]) -> int:
    check = _LONG
    for byte in message:
        check ^= byte
        for _ in range(8):
            check = check >> 1 ^ (0xC96C5795D7870F42 if check & 1 else 0)
    return check ^ _LONG


def _softmax(v: dict) -> dict:
    e = np.exp(v["a"].astype(np.float64))
    return {"out": e / e.sum(1, keepdims=True)}


def _branches(v: dict) -> dict:
    out = []
    for start in range(0, v["a"].size, 32):
        warp = v["a"][start : start + 32].tolist()
        threes, others = [x for x in warp if x % 3 == 0], [x for x in warp if x % 3]
        rank = 0
        for x in warp:
            out.append([len(others), sum(others)] if x % 3 else [rank, threes[0]])
            rank += x % 3 == 0
    return {"out": np.array(out)}


def _relaxed(v: dict) -> dict:
    now, other = v["a"].astype(np.float64), v["b"].astype(np.float64)
    for _ in range(5):
        other[1:-1] = (now[:-2] + now[2:]) / 2
        now, other = other, now
    return {"a": other, "b": now}


def _tiles(v: dict) -> dict:
    whole = np.pad(v["a"], (0, -v["a"].size % 8)).reshape(-1, 8)
    before = whole.cumsum(1) - whole
    most = np.maximum.accumulate(whole, 1)
    return {"before": before.ravel()[: v["a"].size], "most": most.ravel()[: v["a"].size]}


_STREAMS, _DECODED = _streams()
_BYTES, _NUMBERS = _varints()
_MOVES, _ENDS = _automaton()
_UTF8, _LINE_STARTS, _LINES = _lines()
_BITS = np.random.default_rng(6).integers(0, 2**32, 70) & np.where(np.arange(70) % 5, 2**32 - 1, 0)
_ONES = np.array([int(x).bit_count() for x in _BITS])

ENTRIES: tuple[Entry, ...] = (
    _entry("decode_prefix", lambda v: {"out": _DECODED.astype(np.uint8)}, read("streams", "uint32", 45, 6),
           read("counts", "uint8", 6), read("symbols", "uint8", 17), write("out", "uint8", 45, 30),
           streams=draws.fixed(_STREAMS), counts=draws.fixed(_COUNTS), symbols=draws.fixed(_SYMBOLS)),
    _entry("gamma_codes", _gammas, read("a", "uint16", 384), write("out", "uint32", 3, 70), write("bits", "int32", 3),
           a=draws.fixed(np.random.default_rng(1).integers(0, 2**16, 384) >> np.arange(384) % 15)),
    _entry("sip_hash", lambda v: {"out": np.array([_sip(row.tobytes()) for row in v["messages"]], np.uint64)},
           read("messages", "uint64", 75, 4), write("out", "uint64", 75)),
    _entry("select_bits", _selected, read("bits", "uint32", 70), read("before", "int32", 70),
           read("queries", "int32", 110), write("out", "int32", 110), bits=draws.fixed(_BITS),
           before=draws.fixed(np.cumsum(_ONES) - _ONES), queries=draws.integers(0, int(_ONES.sum()))),
    _entry("syndromes", _syndromes, read("blocks", "uint8", 3, 60), write("out", "uint8", 3, 16)),
    _entry("read_varints", _read_back, read("data", "uint8", _BYTES.size), write("out", "uint32", 256),
           write("count", "int32", 1), data=draws.fixed(_BYTES)),
    _entry("shuffle_cards", _cards, write("out", "uint8", 20, 75)),
    _entry("bit_products", _bit_products, read("a", "uint32", 5, 32), read("b", "uint32", 5, 32),
           write("out", "uint32", 5, 32)),
    _entry("find_primes", lambda v: {"out": np.array([_is_prime(x) for x in v["a"].tolist()], np.uint8)},
           read("a", "uint32", 100), write("out", "uint8", 100), a=draws.fixed(
           np.r_[np.arange(40), 2047, 25326001, 3215031751, 4294967291, 2147483647, np.arange(999_983, 1_000_038)])),
    _entry("rule_110", _generations, read("a", "uint32", 3, 32), write("out", "uint32", 3, 32)),
    _entry("code_points", _points, read("text", "uint8", _UTF8.size), read("starts", "int32", 5),
           write("out", "uint32", _UTF8.size), write("counts", "int32", 4), text=draws.fixed(_UTF8),
           starts=draws.fixed(_LINE_STARTS)),
    _entry("run_automaton", _matches, read("text", "uint8", 50, 90), read("moves", "uint8", *_MOVES.shape),
           read("ends", "uint8", _ENDS.size), write("out", "int32", 50), moves=draws.fixed(_MOVES),
           ends=draws.fixed(_ENDS)),
    _entry("rolling_hashes", _rolled, read("text", "uint8", 700), update("marks", "uint32", 22), marks=draws.zeros),
    _entry("crc_64", lambda v: {"out": np.array([_crc(m[:n]) for m, n in zip(v["messages"].tolist(), v["lengths"],
           strict=True)], np.uint64)}, read("messages", "uint8", 75, 40), read("lengths", "int32", 75),
           write("out", "uint64", 75), lengths=draws.integers(0, 41)),
    _entry("tile_softmax", _softmax, read("a", "float32", 10, 39), write("out", "float32", 10, 39), tolerance=1e-5,
           approximate=Approximate(16, "approximate functions", 1e-6)),
    _entry("branch_ranks", _branches, read("a", "int32", 173), write("out", "int32", 173, 2),
           a=draws.integers(0, 1000)),
    _entry("tile_sums", _tiles, read("a", "int32", 101), write("before", "int32", 101), write("most", "int32", 101),
           a=draws.integers(0, 1000)),
    _entry("relax_line", _relaxed, update("a", "float32", 301), update("b", "float32", 301)),
)  # fmt: skip
