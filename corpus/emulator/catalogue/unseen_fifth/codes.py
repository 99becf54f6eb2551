"""Entries of kernels/unseen_fifth/codes.py."""

from __future__ import annotations

import hashlib
import zlib

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_fifth", "codes")
_WORD = 2**32 - 1
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def _turned(x: int, n: int) -> int:
    x &= _WORD
    return (x << n | x >> (32 - n)) & _WORD


def _xx_hash(data: bytes, seed: int) -> int:
    p1, p2, p3, p4, p5 = _PRIMES
    h, at = seed + p5, 0
    if len(data) >= 16:
        lanes = [seed + p1 + p2, seed + p2, seed, seed - p1]
        while len(data) - at >= 16:
            words = np.frombuffer(data[at : at + 16], np.uint32).tolist()
            lanes = [_turned(a + w * p2, 13) * p1 & _WORD for a, w in zip(lanes, words, strict=True)]
            at += 16
        h = sum(_turned(a, n) for a, n in zip(lanes, (1, 7, 12, 18), strict=True))
    h += len(data)
    while len(data) - at >= 4:
        h = _turned(h + int.from_bytes(data[at : at + 4], "little") * p3, 17) * p4
        at += 4
    for c in data[at:]:
        h = _turned(h + c * p5, 11) * p1
    h &= _WORD
    h = (h ^ h >> 15) * p2 & _WORD
    h = (h ^ h >> 13) * p3 & _WORD
    return h ^ h >> 16


def _xx_hashes(v: dict) -> dict:
    pairs = zip(v["words"], v["sizes"].tolist(), strict=True)
    return {"out": np.array([_xx_hash(row.tobytes()[:size], 2026) for row, size in pairs])}


def _crc_16(v: dict) -> dict:
    crc = np.full(v["frames"].shape[1], 0xFFFF)
    for row in v["frames"].astype(int):
        crc ^= row << 8
        for _ in range(8):
            crc = np.where(crc & 0x8000, crc << 1 ^ 0x1021, crc << 1) & 0xFFFF
    return {"out": crc}


def _xtea(v: dict) -> dict:
    k, out = v["key"].tolist(), []
    for i in range(len(v["text"])):
        a, b, total = i, 0x1234567, 0
        for _ in range(32):
            a = (a + (((b << 4 ^ b >> 5) + b) ^ (total + k[total & 3]))) & _WORD
            total = (total + 0x9E3779B9) & _WORD
            b = (b + (((a << 4 ^ a >> 5) + a) ^ (total + k[total >> 11 & 3]))) & _WORD
        out.append((a, b))
    return {"out": v["text"] ^ np.array(out, np.uint32)}


def _rc4(v: dict) -> dict:
    many, n = v["out"].shape
    out = np.zeros((many, n), int)
    for i, key in enumerate(v["keys"].tolist()):
        s, j = list(range(256)), 0
        for k in range(256):
            j = (j + s[k] + key[k % len(key)]) % 256
            s[k], s[j] = s[j], s[k]
        a = j = 0
        for k in range(many):
            a = (a + 1) % 256
            j = (j + s[a]) % 256
            s[a], s[j] = s[j], s[a]
            out[k, i] = s[(s[a] + s[j]) % 256]
    return {"out": out}


def _lines(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Addresses, every third of them spoilt."""
    rows = np.zeros(shape, dtype)
    for i, row in enumerate(rows):
        text = ".".join(str(k) for k in generator.integers(0, 256, 4))
        if i % 3 == 0:
            text = [text + ".7", text.replace(".", "..", 1), "x" + text[1:], "999" + text[3:], text[:4], "1" + text][
                i // 3 % 6
            ]
        row[: len(text)] = list(text.encode())
    return rows


def _addresses(v: dict) -> dict:
    out, fine = [], []
    for row in v["lines"]:
        parts = row.tobytes().split(b"\0")[0].split(b".")
        good = len(parts) == 4 and all(p.isdigit() and len(p) <= 3 and int(p) < 256 for p in parts)
        fine.append(good)
        out.append(int.from_bytes(bytes(map(int, parts)), "big") if good else 0)
    return {"out": np.array(out), "fine": np.array(fine, int)}


def _suffixes(v: dict) -> dict:
    ranks = []
    for row in v["texts"]:
        text = row.tobytes()
        places = {suffix: rank for rank, suffix in enumerate(sorted(text[k:] for k in range(len(text))))}
        ranks.append([places[text[k:]] for k in range(len(text))])
    return {"rank": np.array(ranks)}


def _mended(v: dict) -> dict:
    words = np.arange(128)
    bit = [words >> k & 1 for k in range(7)]
    proper = words[
        ((bit[0] ^ bit[2] ^ bit[4] ^ bit[6]) == 0)
        & ((bit[1] ^ bit[2] ^ bit[5] ^ bit[6]) == 0)
        & ((bit[3] ^ bit[4] ^ bit[5] ^ bit[6]) == 0)
    ]
    codes = v["codes"] & 127
    apart = np.array([[bin(c ^ p).count("1") for p in proper.tolist()] for c in codes.tolist()])
    right = proper[apart.argmin(1)]
    blocks = np.array_split((apart.min(1) > 0).astype(int), range(64, codes.size, 64))
    return {"nibbles": (right >> 2 & 1) | (right >> 3 & 14), "mended": np.array([b.sum() for b in blocks])}


def _field_product(a: np.ndarray, b: int) -> np.ndarray:
    a, total = a.astype(int), np.zeros(a.shape, int)
    while b:
        if b & 1:
            total ^= a
        a = np.where(a & 128, a << 1 ^ 0x11D, a << 1)
        b >>= 1
    return total


def _parities(v: dict) -> dict:
    out = []
    for row in v["factors"].tolist():
        total = np.zeros(v["data"].shape[1], int)
        for shard, factor in zip(v["data"], row, strict=True):
            total ^= _field_product(shard, factor)
        out.append(total)
    return {"out": np.array(out)}


def _blocks(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Messages of up to 55 bytes with MD5's padding, word by word."""
    rows = []
    for _ in range(shape[1]):
        size = int(generator.integers(0, 56))
        data = generator.bytes(size) + b"\x80" + bytes(55 - size) + (8 * size).to_bytes(8, "little")
        rows.append(np.frombuffer(data, dtype))
    return np.array(rows).T


def _md_5(v: dict) -> dict:
    out = []
    for block in np.ascontiguousarray(v["blocks"].T):
        data = block.tobytes()
        size = int.from_bytes(data[56:], "little") // 8
        digest = hashlib.md5(data[:size], usedforsecurity=False).digest()
        out.append(np.frombuffer(digest, np.uint32))
    return {"out": np.array(out, np.uint32)}


def _different(v: dict) -> dict:
    h = v["values"].astype(np.uint64) * 0x9E3779B1 & _WORD
    h ^= h >> 15
    h = h * 0x85EBCA77 & _WORD
    most = np.zeros(64, int)
    for bucket, rest in zip((h >> 26).tolist(), (h << 6 & _WORD | 1).tolist(), strict=True):
        most[bucket] = max(most[bucket], 33 - rest.bit_length())
    return {"most": most}


def _places(keys: np.ndarray) -> np.ndarray:
    """Where keys are counted in each of the four rows."""
    rows = np.arange(4, dtype=np.uint32)[:, None]
    return (keys * (2 * rows + 3) + rows * 17) % 61


def _sketched(v: dict) -> dict:
    asked, out = _places(v["queries"]), []
    for keys in v["keys"]:
        counts = [np.bincount(p, minlength=61)[a] for p, a in zip(_places(keys), asked, strict=True)]
        out.append(np.min(counts, 0))
    return {"out": np.array(out)}


ENTRIES: tuple[Entry, ...] = (
    _entry("adler_32", lambda v: {"out": np.array([zlib.adler32(row.tobytes()) for row in v["data"]])},
           read("data", "uint8", 5, 700), write("out", "uint32", 5)),
    _entry("xx_hash", _xx_hashes, read("words", "uint32", 150, 20), read("sizes", "int32", 150),
           write("out", "uint32", 150), sizes=draws.integers(0, 81)),
    _entry("crc_16", _crc_16, read("frames", "uint8", 24, 170), write("out", "uint16", 170)),
    _entry("xtea_counter", _xtea, read("text", "uint32", 300, 2), read("key", "uint32", 4),
           write("out", "uint32", 300, 2)),
    _entry("rc4", _rc4, read("keys", "uint8", 27, 7), write("out", "uint8", 40, 27)),
    _entry("to_hexadecimal",
           lambda v: {"out": np.frombuffer(v["data"].tobytes().hex().encode(), np.uint32).reshape(-1, 2)},
           read("data", "uint8", 250, 4), write("out", "uint32", 250, 2)),
    _entry("read_addresses", _addresses, read("lines", "uint8", 160, 20), write("out", "uint32", 160),
           write("fine", "uint8", 160), lines=_lines),
    _entry("suffix_ranks", _suffixes, read("texts", "uint8", 3, 75), write("rank", "uint8", 3, 75),
           texts=draws.integers(97, 100)),
    _entry("mend_hamming", _mended, read("codes", "uint8", 230), write("nibbles", "uint8", 230),
           write("mended", "uint32", 4)),
    _entry("parity_shards", _parities, read("data", "uint8", 6, 110), read("factors", "uint8", 3, 6),
           write("out", "uint8", 3, 110)),
    _entry("md_5", _md_5, read("blocks", "uint32", 16, 90), write("out", "uint32", 90, 4), blocks=_blocks),
    _entry("count_different", _different, read("values", "uint32", 1500), update("most", "int32", 64),
           most=draws.zeros),
    _entry("count_sketch", _sketched, read("keys", "uint32", 3, 260), read("queries", "uint32", 90),
           write("out", "int32", 3, 90), keys=draws.integers(0, 150), queries=draws.integers(0, 150)),
)  # fmt: skip
