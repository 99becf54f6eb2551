"""The assembler's messages as sentences that say what to do; those of other kinds stay as they are."""

from __future__ import annotations

import re

# The more telling come first: of one statement the assembler often says several things.
_SENTENCES = (
    (r"Not a name of any known instruction: '(.+)'", "PTX has no instruction '{0}': look for its name in the PTX ISA"),
    (r"Unknown symbol '(.+)'", "'{0}' is not declared: pass it to asm as an operand, or declare it there with .reg"),
    (r"Illegal vector size: (\d+)", "a vector has 2 or 4 elements, or 8 of 32 bits on newer GPUs, and not {0}"),
    (
        r"Unknown modifier '(.+)'",
        "'{0}' cannot stand there: compare the instruction's options with the PTX ISA",
    ),
    (
        r"Argument vector size mismatch for instruction '(.+)'",
        "'{0}' takes another number of registers in braces: count those of each operand in the PTX ISA",
    ),
    (
        r"Arguments mismatch for instruction '(.+)'",
        "the operands of '{0}' do not fit it: compare their number and sizes with the PTX ISA (in asm \"h\" has 16 "
        'bits, "r" 32, "l" 64, "f" is a float and "d" a double)',
    ),
    (r"Barrier number '(\d+)' out of range", "a block has the barriers 0 to 15, and no barrier {0}"),
    (
        r"Instruction '(.+)' not supported on \.target '(.+)'",
        "{1} has no '{0}': write it with an instruction of this architecture",
    ),
    (r"Parsing error near '(.+)'", "the PTX cannot be read before '{0}': look for a missing semicolon, comma or brace"),
    (
        r"Illegal to use symbol '(.+)' of type (\S+) as address operand",
        '\'{0}\' of type {1} is no address: pass a pointer as "l", or a shared address of 32 bits as "r"',
    ),
    (
        r"Argument \d+ of instruction '(.+)': unexpected value '(.+)', expected to be (.+)",
        "'{0}' takes {2} where it is given {1}",
    ),
    (
        r"Duplicate definition of label '(.+)'",
        "the label '{0}' is there twice: put %= behind its name, or braces around the text of asm",
    ),
    (
        r"uses too much shared data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max\)",
        "its shared arrays take {0} bytes, of at most {1}: use smaller shared arrays, or dynamic shared memory",
    ),
)


def in_words(said: list[str]) -> str:
    """A sentence, without its full stop, for the most telling of the messages of one statement."""
    for pattern, sentence in _SENTENCES:
        for words in said:
            if found := re.search(pattern, words):
                return sentence.format(*(_plain(text) for text in found.groups()))
    return said[0]


def _plain(text: str) -> str:
    return f"{int(text, 16):,}" if text.startswith("0x") else text
