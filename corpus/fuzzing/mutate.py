"""Damage: texts and files with bytes, words, lines and numbers changed."""

from __future__ import annotations

import random
import re

_TOKEN = re.compile(r"%?[\w$.]+|[^\s\w]")
_NUMBER = re.compile(r"(?<![\w%$.])-?\d+(?![\w.])")
EXTREMES = (
    0, 1, -1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 1023, 1024, 4095, 65535, 65536, 1 << 20,
    (1 << 24) - 1, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 33), (1 << 40), (1 << 63) - 1,
    
    -(1 << 31), -(1 << 33), -(1 << 63), 1 << 63, (1 << 63) - 4, (1 << 63) - 16,
    0x7000_0000_0000, 0x7FFF_FFFF_FFF0, (1 << 64) - 1, 1 << 64, 10**30,
)  # fmt: skip
# What has once been trouble, or might be.
ODD = (
    "1+2*3", '.pragma "{";', '.pragma "}";', "{", "}", "(", ")", "[", "]", "/*", "*/", "//", '"', ";", ",", "|", "!",
    "_", "@%p1", "@!%p1", ".reg .b32 q<2000000000>;", ".reg .b64 %q<9>;", ".shared .align 16 .b8 s[99999999];",
    ".local .b8 l[1000000];", ".loc 1 99999999999999999999 0", ".loc 1 2147483648 0", "9" * 5000, "0f3f800000",
    "0dZZ", ".global .align 3 .b8 g[4] = {1, 2, 3, 4};", "WARP_SZ", "%clock64", "%dynamic_smem_size",
    "bra nowhere;",
    "brx.idx %r1, nowhere;", "call nobody;", "{{{{{{{{", "}}}}}}}}", "ret;", "trap;", "%tid.q", ".b128",
    ".pred", ".f64", ".v4", ".v8", ".u8", ".b16", ".s64", ".shared", ".local", ".param", ".global", ".const",
    "::cluster", ".noinc",
)  # fmt: skip


def damaged_text(rng: random.Random, text: str) -> str:
    """A PTX text with one to four things changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        text = rng.choice(_DAMAGES)(rng, text)
    return text


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """A file with some bytes changed, cut off or repeated."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 8, 32))):
        if not changed:
            break
        place = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[place] ^= 1 << rng.randrange(8)
            case 1:
                changed[place] = rng.choice((0, 255, 127, 128, rng.randrange(256)))
            case 2:
                del changed[place : place + rng.choice((1, 4, 100, 10_000))]
            case _:
                changed[place:place] = changed[place : place + rng.choice((1, 4, 100))]
    return bytes(changed)


def _flip(rng: random.Random, text: str) -> str:
    place = rng.randrange(len(text) or 1)
    return text[:place] + chr(rng.choice((rng.randrange(32, 127), 10, 0, 0xE9))) + text[place + 1 :]


def _cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) or 1)]


def _one_token(rng: random.Random, text: str) -> re.Match[str] | None:
    """Any token: the first one after a random place."""
    return _TOKEN.search(text, rng.randrange(len(text) or 1))


def _put(text: str, match: re.Match[str], new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def _swap_tokens(rng: random.Random, text: str) -> str:
    a, b = _one_token(rng, text), _one_token(rng, text)
    if a is None or b is None or a.start() >= b.start():
        return text
    return _put(_put(text, b, a[0]), a, b[0])


def _replace_token(rng: random.Random, text: str) -> str:
    token, other = _one_token(rng, text), _one_token(rng, text)
    if token is None or other is None:
        return text
    return _put(text, token, rng.choice((other[0], rng.choice(ODD))))


def _line(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[a : a + rng.choice((1, 1, 5))]
        case 1:
            lines[a:a] = lines[b : b + rng.choice((1, 1, 3, 20))]
        case 2:
            lines[a], lines[b] = lines[b], lines[a]
        case _:
            lines.insert(a, rng.choice(ODD))
    return "\n".join(lines)


def _number(rng: random.Random, text: str) -> str:
    match = _NUMBER.search(text, rng.randrange(len(text) or 1))
    return _put(text, match, str(rng.choice(EXTREMES))) if match else text


def _swap_operands(rng: random.Random, text: str) -> str:
    """Exchange the operands of an instruction, or give one to another instruction."""
    instructions = [m for m in re.finditer(r"\n\t?([a-z][\w.:]*)[ \t]+([^;{}\n]+);", text)]
    if not instructions:
        return text
    a, b = rng.choice(instructions), rng.choice(instructions)
    operands = [part.strip() for part in a[2].split(",")]
    others = [part.strip() for part in b[2].split(",")]
    operands[rng.randrange(len(operands))] = rng.choice(operands + others)
    if rng.random() < 0.2:
        rng.shuffle(operands)
    if rng.random() < 0.1:
        operands = operands[:-1] or operands
    opcode = b[1] if rng.random() < 0.2 else a[1]
    return text[: a.start()] + f"\n\t{opcode} \t{', '.join(operands)};" + text[a.end() :]


_DAMAGES = (_flip, _cut, _swap_tokens, _replace_token, _line, _number, _number, _swap_operands, _swap_operands)
