"""What the random programs are made of: PTX instructions with their meaning on whole numbers, written from the PTX ISA.

A value is the bit pattern of a register: h 16, r 32, d 64 bits, p a predicate. Nothing here knows the emulator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from corpus.emulator import softfloat as sf
from corpus.emulator.softfloat import BF16, F16, F32, F64, TF32, Format

WIDTHS = {"h": 16, "r": 32, "d": 64, "p": 1}
CLASS = {16: "h", 32: "r", 64: "d"}
Meaning = Callable[..., object]


@dataclass(frozen=True)
class Operation:
    """An instruction: `text` with {0}, {1}, ... for targets and then sources; the classes of each; what it computes.

    `meaning(*sources)` gives the target's bits, or a tuple of them. `kinds` says what sources hold, one a source, for
    a generator that prefers registers with such values. With `lanes` the meaning takes and gives lists over a warp.
    """

    text: str
    targets: str
    sources: str
    meaning: Meaning
    kinds: tuple[str, ...]
    gives: str
    family: str
    lanes: bool = False


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> width - 1 & 1 else value


def _held(source: str, kind: str) -> str:
    """What a source holds: a value of the operation's kind if it is as wide, else a count."""
    if source == "p" or kind == "p":
        return source if source == "p" else kind
    width = 32 if kind.endswith("x2") else int(kind.lstrip("bfi"))
    return kind if WIDTHS[source] == width else f"i{WIDTHS[source]}"


def _simple(family: str, opcode: str, target: str, sources: str, meaning: Meaning, kind: str, gives: str = "", tail=""):
    operands = ", ".join(f"{{{n}}}" for n in range(1 + len(sources)))
    kinds = tuple(_held(s, kind) for s in sources)
    return Operation(f"{opcode} {operands}{tail};", target, sources, meaning, kinds, gives or kind, family)


def _typed(width: int, letter: str) -> Callable[[int], int]:
    return (lambda x: signed(x, width)) if letter == "s" else (lambda x: x)


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# Places and lengths of bit fields are bytes; what larger ones mean is open.
_BYTES = "and.b32 %first, {2}, 255; and.b32 %second, {3}, 255; "


def integers() -> Iterator[Operation]:
    """Arithmetic and logic of 16, 32 and 64 bits."""
    for width in (16, 32, 64):
        c = CLASS[width]
        for letter in "us":
            t, kind = _typed(width, letter), f"i{width}"
            name = f"{letter}{width}"
            make = partial(_simple, "integer", kind=kind)
            yield make(f"add.{name}", c, c * 2, lambda a, b: a + b)
            yield make(f"sub.{name}", c, c * 2, lambda a, b: a - b)
            yield make(f"mul.lo.{name}", c, c * 2, lambda a, b: a * b)
            yield make(f"mul.hi.{name}", c, c * 2, lambda a, b, t=t, w=width: t(a) * t(b) >> w)
            yield make(f"mad.lo.{name}", c, c * 3, lambda a, b, d: a * b + d)
            yield make(f"mad.hi.{name}", c, c * 3, lambda a, b, d, t=t, w=width: (t(a) * t(b) >> w) + d)
            yield make(f"min.{name}", c, c * 2, lambda a, b, t=t: min(t(a), t(b)))
            yield make(f"max.{name}", c, c * 2, lambda a, b, t=t: max(t(a), t(b)))
            yield make(f"sad.{name}", c, c * 3, lambda a, b, d, t=t: d + abs(t(a) - t(b)))
            yield make(f"shr.{name}", c, c + "r", lambda a, n, t=t, w=width: t(a) >> min(n, w))
            text = f"or.b{width} {{0}}, {{2}}, 1; "
            for op, formula in (("div", _quotient), ("rem", lambda x, y: x - y * _quotient(x, y))):
                yield Operation(
                    f"{text}{op}.{name} {{0}}, {{1}}, {{0}};", c, c * 2,
                    lambda a, b, t=t, f=formula: f(t(a), t(b | 1)), (kind, kind), kind, "integer",
                )  # fmt: skip
            if width < 64:
                wide = CLASS[2 * width]
                yield _simple("integer", f"mul.wide.{name}", wide, c * 2, lambda a, b, t=t: t(a) * t(b), kind,
                              f"i{2 * width}")  # fmt: skip
                yield _simple("integer", f"mad.wide.{name}", wide, c * 2 + wide, lambda a, b, d, t=t: t(a) * t(b) + d,
                              kind, f"i{2 * width}")  # fmt: skip
            if width > 16:
                yield Operation(
                    _BYTES + f"bfe.{name} {{0}}, {{1}}, %first, %second;", c, c + "rr",
                    lambda a, p, n, w=width, s=letter: _extract(a, p, n, w, s == "s"), (kind, "i32", "i32"), kind,
                    "integer",
                )  # fmt: skip
                yield _simple("integer", f"bfind.{name}", "r", c, lambda a, w=width, s=letter: _leading(a, w, s), kind)
                yield _simple("integer", f"bfind.shiftamt.{name}", "r", c,
                              lambda a, w=width, s=letter: _shift_amount(a, w, s), kind)  # fmt: skip
        kind, make = f"i{width}", partial(_simple, "integer", kind=f"i{width}")
        # ptxas takes the negative of any number to be exact, and the size to be positive: not of the least number.
        text = f"max.s{width} {{0}}, {{1}}, -{(1 << width - 1) - 1}; "
        signs: tuple[tuple[str, Callable[[int], int]], ...] = (("neg", operator.neg), ("abs", abs))
        for op, sign in signs:
            yield Operation(
                f"{text}{op}.s{width} {{0}}, {{0}};", c, c,
                lambda a, w=width, f=sign: f(max(signed(a, w), 1 - (1 << w - 1))), (kind,), kind, "integer",
            )  # fmt: skip
        yield make(f"not.b{width}", c, c, lambda a: ~a)
        yield make(f"cnot.b{width}", c, c, lambda a: int(a == 0))
        yield make(f"and.b{width}", c, c * 2, lambda a, b: a & b)
        yield make(f"or.b{width}", c, c * 2, lambda a, b: a | b)
        yield make(f"xor.b{width}", c, c * 2, lambda a, b: a ^ b)
        yield make(f"shl.b{width}", c, c + "r", lambda a, n, w=width: a << n if n < w else 0)
        if width > 16:
            yield _simple("integer", f"popc.b{width}", "r", c, lambda a: a.bit_count(), kind)
            yield _simple("integer", f"clz.b{width}", "r", c, lambda a, w=width: w - a.bit_length(), kind)
            yield make(f"brev.b{width}", c, c, lambda a, w=width: int(f"{a:0{w}b}"[::-1], 2))
            text = _BYTES.replace("{3}", "{4}").replace("{2}", "{3}")
            yield Operation(
                f"{text}bfi.b{width} {{0}}, {{1}}, {{2}}, %first, %second;", c, c * 2 + "rr",
                lambda a, b, p, n, w=width: _insert(a, b, p, n, w), (kind, kind, "i32", "i32"), kind, "integer",
            )  # fmt: skip
    yield from _words()


def _words() -> Iterator[Operation]:
    make = partial(_simple, "word", kind="i32")

    def clamp(x: int) -> int:
        return min(max(x, -(1 << 31)), (1 << 31) - 1)

    yield make("add.sat.s32", "r", "rr", lambda a, b: clamp(signed(a, 32) + signed(b, 32)))
    # The assembler takes (x + c) - x for c without regard to .sat, so it must not see that both come from one x.
    hidden = "xor.b32 %first, {2}, %zeror; sub.sat.s32 {0}, {1}, %first;"
    yield Operation(hidden, "r", "rr", lambda a, b: clamp(signed(a, 32) - signed(b, 32)), ("i32", "i32"), "i32", "word")
    for letter in "us":
        t = (lambda a: signed(a & 0xFFFFFF, 24)) if letter == "s" else (lambda a: a & 0xFFFFFF)
        yield make(f"mul24.lo.{letter}32", "r", "rr", lambda a, b, t=t: t(a) * t(b))
        yield make(f"mul24.hi.{letter}32", "r", "rr", lambda a, b, t=t: t(a) * t(b) >> 16)
        yield make(f"mad24.lo.{letter}32", "r", "rrr", lambda a, b, c, t=t: t(a) * t(b) + c)
        for other in "us":
            s, o = _typed(8, letter), _typed(8, other)
            yield make(
                f"dp4a.{letter}32.{other}32", "r", "rrr",
                lambda a, b, c, s=s, o=o: c + sum(s(a >> i & 255) * o(b >> i & 255) for i in (0, 8, 16, 24)),
            )  # fmt: skip
            wide = _typed(16, letter)
            for half, at in (("lo", 0), ("hi", 16)):
                yield make(
                    f"dp2a.{half}.{letter}32.{other}32", "r", "rrr",
                    lambda a, b, c, s=wide, o=o, at=at: c
                    + sum(s(a >> 16 * i & 0xFFFF) * o(b >> at + 8 * i & 255) for i in (0, 1)),
                )  # fmt: skip
        for op, formula in (("add", lambda x, y: x + y), ("min", min), ("max", max)):
            yield make(f"{op}.{letter}16x2", "r", "rr", lambda a, b, f=formula, s=letter: _pairs(f, a, b, s))
    for table in (0x96, 0xE8, 0xCA, 0x1D, 0x6B, 0xD2):
        yield make("lop3.b32", "r", "rrr", lambda a, b, c, t=table: _table(a, b, c, t), tail=f", {table:#x}")
    yield make("prmt.b32", "r", "rrr", _permute)
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield make(f"prmt.b32.{mode}", "r", "rrr", lambda a, b, c, m=mode: _permute_mode(a, b, c & 3, m))
    for way in "lr":
        for kind in ("clamp", "wrap"):
            yield make(f"shf.{way}.{kind}.b32", "r", "rrr", lambda a, b, c, w=way, k=kind: _funnel(a, b, c, w, k))
    yield make("bmsk.clamp.b32", "r", "rr",
               lambda a, b: ((1 << min(b, 32)) - 1) << a if a < 32 else 0)  # fmt: skip
    yield make("bmsk.wrap.b32", "r", "rr", lambda a, b: ((1 << (b & 31)) - 1) << (a & 31))
    for width, c in ((32, "r"), (64, "d")):
        add = f"add.cc.u{width} {{0}}, {{2}}, {{4}}; addc.u{width} {{1}}, {{3}}, {{5}};"
        sub = f"sub.cc.u{width} {{0}}, {{2}}, {{4}}; subc.u{width} {{1}}, {{3}}, {{5}};"
        kinds = (f"i{width}",) * 4
        yield Operation(add, c * 2, c * 4, lambda a, b, x, y, w=width: (a + x, b + y + (a + x >> w)), kinds,
                        kinds[0], "word")  # fmt: skip
        yield Operation(sub, c * 2, c * 4, lambda a, b, x, y: (a - x, b - y - (a < x)), kinds, kinds[0], "word")
    text = "mad.lo.cc.u32 {0}, {2}, {3}, {4}; madc.hi.u32 {1}, {2}, {3}, {5};"
    yield Operation(
        text, "rr", "rrrr", lambda a, b, c, d: ((a * b & 0xFFFFFFFF) + c, (a * b >> 32) + d
        + ((a * b & 0xFFFFFFFF) + c >> 32)), ("i32",) * 4, "i32", "word",
    )  # fmt: skip


def _extract(a: int, position: int, length: int, width: int, is_signed: bool) -> int:
    position, length = position & 255, length & 255
    last = min(position + length - 1, width - 1)
    fill = a >> last & 1 if is_signed and length else 0
    bits = [a >> position + i & 1 if i < length and position + i < width else fill for i in range(width)]
    return sum(bit << i for i, bit in enumerate(bits))


def _insert(a: int, b: int, position: int, length: int, width: int) -> int:
    position, length = position & 255, length & 255
    mask = ((1 << length) - 1 << position) & (1 << width) - 1
    return b & ~mask | a << position & mask


def _leading(a: int, width: int, letter: str) -> int:
    if letter == "s" and a >> width - 1:
        a ^= (1 << width) - 1
    return a.bit_length() - 1


def _shift_amount(a: int, width: int, letter: str) -> int:
    place = _leading(a, width, letter)
    return place if place < 0 else width - 1 - place


def _pairs(formula: Meaning, a: int, b: int, letter: str) -> int:
    t = _typed(16, letter)
    low, high = (formula(t(a >> s & 0xFFFF), t(b >> s & 0xFFFF)) & 0xFFFF for s in (0, 16))  # type: ignore[operator]
    return low | high << 16


def _table(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for index in range(8):
        if table >> index & 1:
            x, y, z = (v if index >> place & 1 else ~v for v, place in ((a, 2), (b, 1), (c, 0)))
            result |= x & y & z
    return result


def _permute(a: int, b: int, selector: int) -> int:
    source, result = b << 32 | a, 0
    for i in range(4):
        choice = selector >> 4 * i & 15
        byte = source >> 8 * (choice & 7) & 255
        result |= (255 * (byte >> 7) if choice & 8 else byte) << 8 * i
    return result


def _permute_mode(a: int, b: int, c: int, mode: str) -> int:
    places = {
        "f4e": [c, c + 1, c + 2, c + 3],
        "b4e": [c, c + 7 & 7, c + 6 & 7, c + 5 & 7],
        "rc8": [c] * 4,
        "ecl": [max(i, c) for i in range(4)],
        "ecr": [min(i, c) for i in range(4)],
        "rc16": [2 * (c & 1), 2 * (c & 1) + 1] * 2,
    }[mode]
    source = b << 32 | a
    return sum((source >> 8 * place & 255) << 8 * i for i, place in enumerate(places))


def _funnel(a: int, b: int, count: int, way: str, kind: str) -> int:
    n = min(count, 32) if kind == "clamp" else count & 31
    whole = b << 32 | a
    return whole << n >> 32 if way == "l" else whole >> n


FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
MODES = ("rn", "rz", "rm", "rp")


def _halves(formula: Callable[..., int]) -> Callable[..., int]:
    """The same on both halves of words."""
    return lambda *words: formula(*(w & 0xFFFF for w in words)) | formula(*(w >> 16 for w in words)) << 16


def _float_form(formula: Callable[..., int], form: Format, ftz: bool, sat: bool, rectified: bool = False):
    def meaning(*bits: int) -> int:
        if ftz:
            bits = tuple(sf.flush(b, form) for b in bits)
        result = formula(*bits)
        if ftz:
            result = sf.flush(result, form)
        if sat:
            result = sf.saturate(result, form)
        return sf.relu(result, form) if rectified else result

    return meaning


def floats() -> Iterator[Operation]:
    """Arithmetic of float32, float64, float16 and bfloat16, alone and in pairs."""
    arithmetic = (("add", 2, sf.add), ("sub", 2, sf.subtract), ("mul", 2, sf.multiply), ("fma", 3, sf.fma))
    for name, count, formula in arithmetic:
        for mode in MODES:
            for ftz in ("", ".ftz"):
                for sat in ("", ".sat"):
                    exact = partial(_rounded, formula, F32, mode)
                    yield _simple("f32", f"{name}.{mode}{ftz}{sat}.f32", "r", "r" * count,
                                  _float_form(exact, F32, bool(ftz), bool(sat)), "f32")  # fmt: skip
            yield _double(f"{name}.{mode}.f64", count, partial(_rounded, formula, F64, mode))
        for kind in ("f16", "bf16"):
            form = FORMATS[kind]
            exact = partial(_rounded, formula, form, "rn")
            options = [("", ""), (".ftz", ""), ("", ".sat"), (".ftz", ".sat")] if kind == "f16" else [("", "")]
            if name == "fma":
                options += [("", ".relu")]
            for ftz, flag in options:
                meaning = _float_form(exact, form, bool(ftz), flag == ".sat", flag == ".relu")
                yield from _small(f"{name}.rn{ftz}{flag}", kind, count, meaning)
    for mode in MODES:
        for ftz in ("", ".ftz"):
            for name, count, formula in _SLOW:
                if name == "div" and ftz:
                    continue  # a subnormal by zero is 0 on an H200, where flushing makes it NaN
                exact = partial(_rounded, formula, F32, mode)
                yield _simple("slow", f"{name}.{mode}{ftz}.f32", "r", "r" * count,
                              _float_form(exact, F32, bool(ftz), False), "f32")  # fmt: skip
        for name, count, formula in _SLOW:
            yield _double(f"{name}.{mode}.f64", count, partial(_rounded, formula, F64, mode), "slow")
    yield from _choices()


def _rounded(formula: Callable[..., int], form: Format, mode: str, *bits: int) -> int:
    return formula(*bits, form, mode)


def _reciprocal(a: int, form: Format, mode: str) -> int:
    return sf.divide(sf.ONE[form], a, form, mode)


_SLOW: tuple[tuple[str, int, Callable], ...]
_SLOW = (("div", 2, sf.divide), ("sqrt", 1, sf.root), ("rcp", 1, _reciprocal))
_NUMBER = " testp.notanumber.f64 %nan, {0}; selp.b64 {0}, 0x3FF8000000000000, {0}, %nan;"


def _double(opcode: str, count: int, formula: Callable[..., int], family: str = "f64") -> Operation:
    """A float64 operation, its NaNs replaced by a number: PTX leaves their bits open."""

    def meaning(*bits: int) -> int:
        result = formula(*bits)
        return 0x3FF8000000000000 if sf.is_nan(result, F64) else result

    operands = ", ".join(f"{{{n}}}" for n in range(1 + count))
    text = f"{opcode} {operands};" + _NUMBER
    return Operation(text, "d", "d" * count, meaning, ("f64",) * count, "f64", family)


def _small(opcode: str, kind: str, count: int, meaning: Callable[..., int]) -> Iterator[Operation]:
    yield _simple("half", f"{opcode}.{kind}", "h", "h" * count, meaning, kind)
    yield _simple("half", f"{opcode}.{kind}x2", "r", "r" * count, _halves(meaning), f"{kind}x2")


def _choices() -> Iterator[Operation]:
    """min, max, neg, abs, copysign."""
    for name, largest in (("min", False), ("max", True)):
        for ftz in ("", ".ftz"):
            for nan in ("", ".NaN"):
                pick = partial(_pick, F32, largest, bool(nan))
                yield _simple(
                    "f32", f"{name}{ftz}{nan}.f32", "r", "rr", _float_form(pick, F32, bool(ftz), False), "f32"
                )
                small = partial(_pick, F16, largest, bool(nan))
                yield from _small(f"{name}{ftz}{nan}", "f16", 2, _float_form(small, F16, bool(ftz), False))
        for nan in ("", ".NaN"):
            yield from _small(f"{name}{nan}", "bf16", 2, partial(_pick, BF16, largest, bool(nan)))
        yield _simple("f32", f"{name}.xorsign.abs.f32", "r", "rr", partial(_pick_sign, largest), "f32")
        yield _double(f"{name}.f64", 2, partial(_pick, F64, largest, False))
    for kind, c in (("f32", "r"), ("f64", "d")):
        form = FORMATS[kind]
        if kind == "f32":
            yield _simple("f32", "neg.f32", c, c, lambda a: F32.nan if sf.is_nan(a, F32) else a ^ F32.sign, kind)
            yield _simple("f32", "abs.f32", c, c, lambda a: F32.nan if sf.is_nan(a, F32) else a & ~F32.sign, kind)
        else:
            yield _double("neg.f64", 1, lambda a: a ^ F64.sign)
            yield _double("abs.f64", 1, lambda a: a & ~F64.sign)
        yield _simple("f32", f"copysign.{kind}", c, c * 2,
                      lambda a, b, s=form.sign: a & s | b & ~s, kind)  # fmt: skip
    for kind in ("f16", "bf16"):
        form = FORMATS[kind]
        yield from _small("neg", kind, 1, lambda a, f=form: f.nan if sf.is_nan(a, f) else a ^ f.sign)
        yield from _small("abs", kind, 1, lambda a, f=form: f.nan if sf.is_nan(a, f) else a & ~f.sign)


def _pick(form: Format, largest: bool, nan: bool, a: int, b: int) -> int:
    return sf.choose(a, b, form, largest, nan)


def _pick_sign(largest: bool, a: int, b: int) -> int:
    result = sf.choose(a & ~F32.sign, b & ~F32.sign, F32, largest)
    return F32.nan if sf.is_nan(result, F32) else result & ~F32.sign | (a ^ b) & F32.sign


CONDITIONS = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = (*CONDITIONS, *(f"{c}u" for c in CONDITIONS), "num", "nan")


def comparisons() -> Iterator[Operation]:
    """setp, set, selp, slct, testp and logic on predicates."""
    for width in (16, 32, 64):
        c = CLASS[width]
        for letter in "us":
            t = _typed(width, letter)
            for name in CONDITIONS:
                relation = sf.RELATIONS[name]
                meaning = lambda a, b, r=relation, t=t: r(t(a), t(b))  # noqa: E731
                yield _simple("compare", f"setp.{name}.{letter}{width}", "p", c * 2, meaning, f"i{width}", "p")
                if width > 16:
                    yield _simple("compare", f"set.{name}.u32.{letter}{width}", "r", c * 2,
                                  lambda a, b, m=meaning: 0xFFFFFFFF * m(a, b), f"i{width}", "i32")  # fmt: skip
    for kind, c in (("f16", "h"), ("bf16", "h"), ("f32", "r"), ("f64", "d")):
        form = FORMATS[kind]
        for name in UNORDERED:
            meaning = lambda a, b, n=name, f=form: sf.compare(n, a, b, f)  # noqa: E731
            yield _simple("compare", f"setp.{name}.{kind}", "p", c * 2, meaning, kind, "p")
            if kind == "f32":
                flushed = lambda a, b, m=meaning: m(sf.flush(a, F32), sf.flush(b, F32))  # noqa: E731
                yield _simple("compare", f"setp.{name}.ftz.f32", "p", "rr", flushed, kind, "p")
                yield _simple("compare", f"set.{name}.f32.f32", "r", "rr",
                              lambda a, b, m=meaning: sf.ONE[F32] * m(a, b), kind, "f32")  # fmt: skip
    for combination, logic in (("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)):
        for name in ("lt", "ne"):
            text = f"setp.{name}.{combination}.s32 {{0}}|{{1}}, {{2}}, {{3}}, {{4}};"

            def both(a: int, b: int, p: int, r=sf.RELATIONS[name], logic=logic) -> tuple[int, int]:
                found = int(r(signed(a, 32), signed(b, 32)))
                return logic(found, int(p)), logic(1 - found, int(p))

            yield Operation(text, "pp", "rrp", both, ("i32", "i32", "p"), "p", "compare")
        yield _simple("compare", f"{combination}.pred", "p", "pp", lambda a, b, f=logic: f(int(a), int(b)), "p")
    yield _simple("compare", "not.pred", "p", "p", lambda a: not a, "p")
    for width in (16, 32, 64):
        c = CLASS[width]
        yield _simple("compare", f"selp.b{width}", c, c * 2 + "p", lambda a, b, p: a if p else b, f"i{width}")
    yield _simple("compare", "slct.b32.s32", "r", "rrr", lambda a, b, x: b if x >> 31 else a, "i32")
    yield _simple("compare", "slct.b64.f32", "d", "ddr", _select_by_float, "i64")
    for name, form, c in (("f32", F32, "r"), ("f64", F64, "d")):
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield _simple("compare", f"testp.{test}.{name}", "p", c, lambda a, t=test, f=form: _is(t, a, f), name, "p")


def _select_by_float(a: int, b: int, x: int) -> int:
    return a if not sf.is_nan(x, F32) and sf.order(x, F32) >= 0 else b


def _is(test: str, bits: int, form: Format) -> bool:
    magnitude, least = bits & form.sign - 1, 1 << form.fraction
    return {
        "finite": magnitude < form.infinity,
        "infinite": magnitude == form.infinity,
        "number": magnitude <= form.infinity,
        "notanumber": magnitude > form.infinity,
        "normal": least <= magnitude < form.infinity or magnitude == 0,
        "subnormal": 0 < magnitude < least,
    }[test]


def conversions() -> Iterator[Operation]:
    """cvt between integers, between floats, and across."""
    for width in (16, 32, 64):
        for letter in "us":
            t, source = _typed(width, letter), CLASS[width]
            for to in (16, 32, 64):
                yield _simple("convert", f"cvt.s{to}.{letter}{width}", CLASS[to], source, lambda a, t=t: t(a),
                              f"i{width}", f"i{to}")  # fmt: skip
                for other in "us":
                    low, high = (-(1 << to - 1), (1 << to - 1) - 1) if other == "s" else (0, (1 << to) - 1)
                    if (
                        low <= (-(1 << width - 1) if letter == "s" else 0)
                        and high >= (1 << width - (letter == "s")) - 1
                    ):
                        continue  # nothing to saturate: ptxas refuses it
                    yield _simple("convert", f"cvt.sat.{other}{to}.{letter}{width}", CLASS[to], source,
                                  lambda a, t=t, lo=low, hi=high: min(max(t(a), lo), hi), f"i{width}",
                                  f"i{to}")  # fmt: skip
            for small in (8,):
                yield _simple("convert", f"cvt.u32.{letter}{small}", "r", "r",
                              lambda a, s=letter: signed(a & 255, 8) if s == "s" else a & 255, "i32")  # fmt: skip
            for kind, form in FORMATS.items():
                for mode in MODES:
                    yield _simple("convert", f"cvt.{mode}.{kind}.{letter}{width}", CLASS[form.width], source,
                                  lambda a, t=t, f=form, m=mode: sf.from_integer(t(a), f, m), f"i{width}",
                                  kind)  # fmt: skip
    for kind, form in FORMATS.items():
        c = CLASS[form.width]
        for mode in ("rni", "rzi", "rmi", "rpi"):
            for width in (16, 32, 64):
                for letter in "us":
                    meaning = partial(_whole, form, mode, width, letter)
                    # What is 64 bits wide is kept from being clamped again: ptxas clamps once, and NaN shows it.
                    yield _simple("convert", f"cvt.{mode}.{letter}{width}.{kind}", CLASS[width], c, meaning, kind,
                                  f"i{width}" if width < 64 else "clamped")  # fmt: skip
            if kind in ("f16", "f32"):
                yield _simple("convert", f"cvt.{mode}.{kind}.{kind}", c, c,
                              lambda a, f=form, m=mode: sf.to_whole_float(a, f, m), kind)  # fmt: skip
    yield from _narrowings()


def _whole(form: Format, mode: str, width: int, letter: str, a: int) -> int:
    return sf.to_integer(a, form, mode, width, letter == "s")


def _narrowings() -> Iterator[Operation]:
    def plain(target: str, source: str, mode: str, flag: str = "") -> Meaning:
        t, s = FORMATS[target], FORMATS[source]

        def meaning(a: int) -> int:
            result = sf.convert(a, s, t, mode)
            return sf.saturate(result, t) if flag == "sat" else sf.relu(result, t) if flag == "relu" else result

        return meaning

    for mode in MODES:
        yield _simple("convert", f"cvt.{mode}.f32.f64", "r", "d", plain("f32", "f64", mode), "f64", "f32")
        yield _simple("convert", f"cvt.{mode}.f16.f64", "h", "d", plain("f16", "f64", mode), "f64", "f16")
        yield _simple(
            "convert", f"cvt.{mode}.sat.f32.f64", "r", "d", plain("f32", "f64", mode, flag="sat"), "f64", "f32"
        )
        for ftz in ("", ".ftz"):
            yield _simple("convert", f"cvt.{mode}{ftz}.f16.f32", "h", "r", plain("f16", "f32", mode), "f32", "f16")
            yield _simple("convert", f"cvt.{mode}{ftz}.sat.f16.f32", "h", "r",
                          plain("f16", "f32", mode, "sat"), "f32", "f16")  # fmt: skip
    for mode in ("rn", "rz"):
        for kind in ("f16", "bf16"):
            for flag in ("", ".relu"):
                one = plain(kind, "f32", mode, flag=flag[1:])
                yield _simple("convert", f"cvt.{mode}{flag}.{kind}.f32", "h", "r", one, "f32", kind)
                yield _simple("convert", f"cvt.{mode}{flag}.{kind}x2.f32", "r", "rr",
                              lambda a, b, f=one: f(a) << 16 | f(b), "f32", f"{kind}x2")  # fmt: skip
    yield _simple("convert", "cvt.f32.f16", "r", "h", plain("f32", "f16", "rn"), "f16", "f32")
    yield _simple("convert", "cvt.f32.bf16", "r", "h", lambda a: a << 16, "bf16", "f32")
    for mode in ("rna", "rn", "rz"):
        yield _simple("convert", f"cvt.{mode}.tf32.f32", "r", "r", partial(_tf32, mode), "f32", "f32")
    for name in ("e4m3", "e5m2"):
        for flag in ("", ".relu"):
            one = lambda a, n=name, r=bool(flag): sf.to_eight(a, F32, n, r)  # noqa: E731
            yield _simple("convert", f"cvt.rn.satfinite{flag}.{name}x2.f32", "h", "rr",
                          lambda a, b, f=one: f(a) << 8 | f(b), "f32", "i16")  # fmt: skip
            half = lambda a, n=name, r=bool(flag): sf.to_eight(a, F16, n, r)  # noqa: E731
            yield _simple("convert", f"cvt.rn.satfinite{flag}.{name}x2.f16x2", "h", "r",
                          lambda a, f=half: f(a >> 16) << 8 | f(a & 0xFFFF), "f16x2", "i16")  # fmt: skip
        yield _simple("convert", f"cvt.rn.f16x2.{name}x2", "r", "h",
                      lambda a, n=name: sf.from_eight(a >> 8, n) << 16 | sf.from_eight(a & 255, n), "i16",
                      "f16x2")  # fmt: skip
    widened = lambda a: _replaced(sf.convert(a, F32, F64))  # noqa: E731
    yield Operation("cvt.f64.f32 {0}, {1};" + _NUMBER, "d", "r", widened, ("f32",), "f64", "convert")


def _replaced(bits: int) -> int:
    return 0x3FF8000000000000 if sf.is_nan(bits, F64) else bits


def _tf32(mode: str, a: int) -> int:
    if sf.is_nan(a, F32):
        return a & 0xFFFFE000 if mode == "rna" else TF32.nan << 13
    if sf.is_infinite(a, F32):
        return a
    return sf.pack(*sf.unpack(a, F32), TF32, mode) << 13


def moves() -> Iterator[Operation]:
    """Packing, unpacking, and detours through memory of a thread's own: {own} is its slot of 32 bytes."""
    for kind, other, c in (("f32", "i32", "r"), ("f16x2", "i32", "r"), ("bf16x2", "i32", "r"), ("f64", "i64", "d"),
                           ("f16", "i16", "h"), ("bf16", "i16", "h")):  # fmt: skip
        # A detour that ptxas cannot see through: it mistakes registers that hold now a float, now an integer.
        for holds, gives in ((kind, other), (other, kind)):
            yield Operation(f"xor.b{WIDTHS[c]} {{0}}, {{1}}, %zero{c};", c, c, lambda a: a, (holds,), gives, "move")
    yield Operation("mov.b64 {0}, {{{1}, {2}}};", "d", "rr", lambda a, b: b << 32 | a, ("i32", "i32"), "i64", "move")
    yield Operation("mov.b64 {{{0}, {1}}}, {2};", "rr", "d", lambda a: (a, a >> 32), ("i64",), "i32", "move")
    yield Operation("mov.b32 {0}, {{{1}, {2}}};", "r", "hh", lambda a, b: b << 16 | a, ("f16", "f16"), "f16x2", "move")
    yield Operation("mov.b32 {0}, {{{1}, {2}}};", "r", "hh", lambda a, b: b << 16 | a, ("bf16",) * 2, "bf16x2", "move")
    yield Operation("mov.b32 {{{0}, {1}}}, {2};", "hh", "r", lambda a: (a, a >> 16), ("f16x2",), "f16", "move")
    yield Operation("mov.b32 {{{0}, {1}}}, {2};", "hh", "r", lambda a: (a, a >> 16), ("bf16x2",), "bf16", "move")
    words = lambda *w: sum(x << 32 * i for i, x in enumerate(w))  # noqa: E731
    for space in ("shared", "local"):
        stores = (
            (f"st.{space}.v4.b32 [%{space}], {{{{{{1}}, {{2}}, {{3}}, {{4}}}}}};", "rrrr", words),
            (f"st.{space}.v2.b64 [%{space}], {{{{{{1}}, {{2}}}}}};", "dd", lambda a, b: b << 64 | a),
        )
        for store, sources, together in stores:
            for kind, c, size, sign in (
                *(("u8", "r", 8, False), ("s8", "r", 8, True), ("u16", "r", 16, False), ("s16", "r", 16, True)),
                *(("b32", "r", 32, False), ("s32", "d", 32, True), ("u64", "d", 64, False), ("u16", "h", 16, False)),
            ):
                for at in (0, 8 * size // 8 % 16, 16 - size // 8):
                    text = f"{store} ld.{space}.{kind} {{0}}, [%{space}+{at}];"

                    def one(*values: int, f=together, at=at, size=size, sign=sign) -> int:
                        part = f(*values) >> 8 * at & (1 << size) - 1
                        return signed(part, size) if sign else part

                    kinds = tuple("i32" if s == "r" else "i64" for s in sources)
                    yield Operation(text, c, sources, one, kinds, f"i{WIDTHS[c]}", "memory")


def lanes() -> Iterator[Operation]:
    """Instructions over the 32 lanes of a full warp."""
    mask = "0xFFFFFFFF"
    for n in (1, 5, 31):
        text = f"shfl.sync.bfly.b32 {{0}}|{{1}}, {{2}}, {n}, 31, {mask};"
        yield _across(text, "rp", "r", lambda a, n=n: [(a[i ^ n], 1) for i in range(32)])
        text = f"shfl.sync.up.b32 {{0}}|{{1}}, {{2}}, {n}, 0, {mask};"
        yield _across(text, "rp", "r", lambda a, n=n: [(a[i - n] if i >= n else a[i], i >= n) for i in range(32)])
        text = f"shfl.sync.down.b32 {{0}}|{{1}}, {{2}}, {n}, 31, {mask};"
        yield _across(
            text, "rp", "r", lambda a, n=n: [(a[i + n] if i + n < 32 else a[i], i + n < 32) for i in range(32)]
        )
    text = f"shfl.sync.idx.b32 {{0}}|{{1}}, {{2}}, {{3}}, 31, {mask};"
    yield _across(text, "rp", "rr", lambda a, b: [(a[j & 31], 1) for j in b])
    ballot = lambda p: [(sum(int(x) << i for i, x in enumerate(p)),)] * 32  # noqa: E731
    yield _across(f"vote.sync.ballot.b32 {{0}}, {{1}}, {mask};", "r", "p", ballot)
    for name, formula in (("add", sum), ("min", min), ("max", max)):
        for letter in "us":
            t = _typed(32, letter)
            yield _across(f"redux.sync.{name}.{letter}32 {{0}}, {{1}}, {mask};", "r", "r",
                          lambda a, f=formula, t=t: [(f(t(x) for x in a),)] * 32)  # fmt: skip
    yield _across(f"match.any.sync.b32 {{0}}, {{1}}, {mask};", "r", "r",
                  lambda a: [(sum(1 << i for i, x in enumerate(a) if x == y),) for y in a])  # fmt: skip


def _across(text: str, targets: str, sources: str, meaning: Meaning) -> Operation:
    kinds = tuple("p" if s == "p" else "i32" for s in sources)
    return Operation(text, targets, sources, meaning, kinds, "i32", "lanes", lanes=True)


def contractible() -> Iterator[Operation]:
    """Products and sums that the assembler may fuse: their meaning is left to it, so there is none here."""
    for kind, c in (("f32", "r"), ("f64", "d"), ("f16", "h"), ("f16x2", "r"), ("bf16", "h")):
        for a, b in (("mul", "add"), ("mul", "sub")):
            for left, right in (("%t", "{3}"), ("{3}", "%t"), ("{0}", "{3}"), ("{3}", "{0}")):
                product = "%t" if "%t" in (left, right) else "{0}"
                body = f"{a}.{kind} {product}, {{1}}, {{2}}; {b}.{kind} {{0}}, {left}, {right};"
                if product == "%t":
                    body = f"{{{{ .reg .b{WIDTHS[c]} %t; {body} }}}}"
                yield Operation(body, c, c * 3, lambda *v: 0, (kind,) * 3, kind, "contractible")


OPERATIONS: tuple[Operation, ...] = (
    *integers(), *floats(), *comparisons(), *conversions(), *moves(), *lanes(),
)  # fmt: skip
FAMILIES: dict[str, tuple[Operation, ...]] = {
    family: tuple(o for o in OPERATIONS if o.family == family) for family in dict.fromkeys(o.family for o in OPERATIONS)
}
