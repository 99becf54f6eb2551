"""Entries of kernels/unseen_sixth/text.py."""

from __future__ import annotations

import base64
import csv
import re

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, write

_entry = maker("unseen_sixth", "text")
_LETTERS = "abcd"


def _texts(rows: np.ndarray) -> list[str]:
    """Rows of bytes up to the first zero."""
    return [row.tobytes().split(b"\0")[0].decode("latin-1") for row in rows]


def _rows(texts: list[str], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    out = np.zeros(shape, dtype)
    for row, text in zip(out, texts, strict=True):
        row[: len(text)] = list(text.encode())
    return out


def _packed_streams() -> tuple[list[int], list[int]]:
    """Streams whose copies reach only what was written; at most 120 bytes each."""
    g, data, starts = np.random.default_rng(85), [], [0]
    for _ in range(50):
        size = 0
        for _ in range(int(g.integers(0, 6))):
            literals, copied = int(g.integers(1, 9)), int(g.integers(0, 11))
            data += [literals << 4 | copied, *g.integers(65, 91, literals).tolist()]
            size += literals
            if copied:
                data.append(int(g.integers(1, size + 1)))
                size += copied + 2
        starts.append(len(data))
    return data, starts


_PACKED, _STARTS = _packed_streams()


def _unpacked(v: dict) -> dict:
    data, starts = v["packed"].tolist(), v["starts"].tolist()
    out, sizes = np.zeros(v["out"].shape, int), []
    for i in range(len(out)):
        part, made = data[starts[i] : starts[i + 1]], []
        while part:
            token = part.pop(0)
            made += part[: token >> 4]
            part = part[token >> 4 :]
            if token & 15:
                back = part.pop(0)
                for _ in range((token & 15) + 2):
                    made.append(made[-back])
        out[i, : len(made)] = made
        sizes.append(len(made))
    return {"out": out, "sizes": np.array(sizes)}


def _to_front(v: dict) -> dict:
    out = []
    for row in v["text"].tolist():
        letters = list(range(97, 129))
        places = []
        for c in row:
            places.append(letters.index(c))
            letters.insert(0, letters.pop(places[-1]))
        out.append(places)
    return {"out": np.array(out)}


def _lines(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Lines of fields of which some are quoted; one in eleven ends within a quote."""
    texts = []
    for i in range(shape[0]):
        parts = []
        for _ in range(int(generator.integers(1, 6))):
            word = "".join(generator.choice(list("xyz 7"), int(generator.integers(0, 7))))
            kind = generator.integers(0, 3)
            parts.append(word if kind else f'"{word},""{word[:2]}"')
        text = ",".join(parts)[:46]
        if text.count('"') % 2:
            text += '"'
        texts.append(text + (',"open, so' if i % 11 == 0 else ""))
    return _rows(texts, shape, dtype)


def _fields(v: dict) -> dict:
    counts, longest, closed = [], [], []
    for text in _texts(v["lines"]):
        fields = next(csv.reader([text]), [""]) or [""]
        counts.append(len(fields))
        longest.append(max(map(len, fields)))
        closed.append(text.count('"') % 2 == 0)
    return {"fields": np.array(counts), "longest": np.array(longest), "closed": np.array(closed, int)}


def _decimal_words(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    texts = []
    for i in range(shape[0]):
        digits = str(generator.integers(0, 10 ** int(generator.integers(1, 13))))
        at = int(generator.integers(1, len(digits) + 1))
        text = digits[:at] + ("." + digits[at:] if i % 3 else digits[at:])
        text += ("", "e-3", "e+4", "e2", "e-10")[i % 5]
        texts.append("-" * (i % 4 == 1) + text)
    return _rows(texts, shape, dtype)


def _formula(generator: np.random.Generator, depth: int) -> str:
    if depth == 0 or generator.random() < 0.2:
        return str(generator.integers(0, 10))
    a, b = _formula(generator, depth - 1), _formula(generator, depth - 1)
    text = a + str(generator.choice(list("+-*"))) + b
    return f"({text})" if generator.random() < 0.4 else text


def _formula_lines(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return _rows([_formula(generator, 3) for _ in range(shape[1])], shape[::-1], dtype).T


_GLOBS = ("*", "a*", "*b?", "?a*c", "*ab*cd*", "abc", "a*b*c*d", "??")


def _glob_names(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    sizes = generator.integers(0, shape[1] + 1, shape[0])
    return _rows(["".join(generator.choice(list(_LETTERS), n)) for n in sizes], shape, dtype)


def _globbed(v: dict) -> dict:
    names = _texts(v["names"])
    out = []
    for glob in _GLOBS:
        pattern = re.compile(glob.replace("*", ".*").replace("?", "."))
        out.append([pattern.fullmatch(name) is not None for name in names])
    return {"out": np.array(out, int)}


def _words(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    sizes = generator.integers(1, shape[1] + 1, shape[0])
    return _rows(["".join(map(chr, generator.integers(97, 123, n))) for n in sizes], shape, dtype)


def _sounds(v: dict) -> dict:
    groups = {c: str(k) for k, g in enumerate(("bfpv", "cgjkqsxz", "dt", "l", "mn", "r"), 1) for c in g}
    out = []
    for name in _texts(v["names"]):
        heard = [groups.get(c, "-") for c in name[0] + re.sub("[hw]", "", name[1:])]
        kept = [b for a, b in zip(heard, heard[1:], strict=False) if b != a and b != "-"]
        out.append(list((name[0].upper() + "".join(kept) + "000")[:4].encode()))
    return {"out": np.array(out)}


def _romans(v: dict) -> dict:
    units = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
    texts = []
    for n in v["numbers"].tolist():
        text = ""
        for place, letters in enumerate(("IVX", "XLC", "CDM", "M??")):
            text = units[n // 10**place % 10].translate(str.maketrans("IVX", letters)) + text
        texts.append(text)
    return {"out": _rows(texts, v["out"].shape, np.dtype(np.uint8)).astype(int)}


def _cards(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Numbers of which three in four are right."""
    rows = generator.integers(0, 10, shape)
    twice = 2 * rows[:, ::2]
    rest = rows[:, 1::2].sum(1) - rows[:, -1] + (twice - 9 * (twice > 9)).sum(1)
    rows[:, -1] = np.where(np.arange(shape[0]) % 4 == 0, rows[:, -1], -rest % 10)
    return rows.astype(dtype)


def _checked(v: dict) -> dict:
    good = []
    for row in v["digits"].tolist():
        doubled = [sum(divmod(2 * d, 10)) if k % 2 == 0 else d for k, d in enumerate(row)]
        good.append(sum(doubled) % 10 == 0)
    words = np.array(good, int).reshape(-1, 4) @ (1 << 8 * np.arange(4, dtype=np.int64))
    return {"good": words}


_DICTIONARY = ("a", "ab", "abba", "bad", "cab", "dab", "daddab", "c", "cc", "acca", "bbbb", "dcba")


def _tree() -> tuple[list[list[int]], list[int]]:
    child, word = [[-1] * 4], [-1]
    for number, text in enumerate(_DICTIONARY):
        node = 0
        for c in text:
            k = _LETTERS.index(c)
            if child[node][k] < 0:
                child[node][k] = len(child)
                child.append([-1] * 4)
                word.append(-1)
            node = child[node][k]
        word[node] = number
    return child, word


_CHILD, _WORD = _tree()


def _prefixes(v: dict) -> dict:
    out = []
    for text in _texts(v["texts"]):
        fits = [(len(w), k) for k, w in enumerate(_DICTIONARY) if text.startswith(w)]
        out.append(max(fits)[1] if fits else -1)
    return {"out": np.array(out)}


def _words_with_zeros(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    keep = generator.random((*shape[:-1], 1)) < 0.8
    return (generator.integers(0, 256, shape) * keep).astype(dtype)


def _base_85(v: dict) -> dict:
    texts = [base64.a85encode(block.tobytes()).decode() for block in v["data"]]
    out = _rows(texts, v["out"].shape, np.dtype(np.uint8)).astype(int)
    return {"out": out, "sizes": np.array([len(t) for t in texts])}


ENTRIES: tuple[Entry, ...] = (
    _entry("unpack_copies", _unpacked, read("packed", "uint8", len(_PACKED)), read("starts", "int32", 51),
           write("out", "uint8", 50, 120), write("sizes", "int32", 50), packed=draws.fixed(_PACKED),
           starts=draws.fixed(_STARTS)),
    _entry("move_to_front", _to_front, read("text", "uint8", 75, 30), write("out", "uint8", 75, 30),
           text=draws.integers(97, 110)),
    _entry("count_fields", _fields, read("lines", "uint8", 170, 60), write("fields", "int32", 170),
           write("longest", "int32", 170), write("closed", "uint8", 170), lines=_lines),
    _entry("read_decimals", lambda v: {"out": np.array([float(t) for t in _texts(v["words"])])},
           read("words", "uint8", 200, 20), write("out", "float64", 200), words=_decimal_words),
    _entry("formulas", lambda v: {"out": np.array([eval(t) for t in _texts(np.ascontiguousarray(v["lines"].T))])},
           read("lines", "uint8", 40, 110), write("out", "int32", 110), lines=_formula_lines),
    _entry("match_globs", _globbed, read("patterns", "uint8", 8, 8), read("names", "uint8", 150, 11),
           write("out", "uint8", 8, 150), names=_glob_names,
           patterns=draws.fixed(_rows(list(_GLOBS), (8, 8), np.dtype(np.uint8)))),
    _entry("soundex", _sounds, read("names", "uint8", 180, 12), write("out", "uint8", 180, 4), names=_words),
    _entry("to_roman", _romans, read("numbers", "uint16", 230), write("out", "uint8", 230, 16),
           numbers=draws.integers(1, 4000)),
    _entry("card_digits", _checked, read("digits", "uint8", 76, 16), write("good", "uint32", 19), digits=_cards),
    _entry("longest_prefix", _prefixes, read("child", "int16", len(_CHILD), 4), read("word", "int16", len(_WORD)),
           read("texts", "uint8", 260, 9), write("out", "int32", 260), child=draws.fixed(_CHILD),
           word=draws.fixed(_WORD), texts=draws.integers(97, 101)),
    _entry("to_base_85", _base_85, read("data", "uint8", 5, 29, 4), write("out", "uint8", 5, 160),
           write("sizes", "int32", 5), data=_words_with_zeros),
)  # fmt: skip
