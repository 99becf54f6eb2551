"""What ptxas 13.0 said of one bad statement each, and what a user is told."""

from __future__ import annotations

import pytest

from warplab.plan.assembler_words import in_words


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (["Not a name of any known instruction: 'adds'"], "PTX has no instruction 'adds'"),
        (["Unknown modifier '.f33'", "Unexpected instruction types specified for 'add'"], "'.f33' cannot stand there"),
        (["Arguments mismatch for instruction 'add'", "Unknown symbol '%foo'"], "'%foo' is not declared"),
        (["Arguments mismatch for instruction 'cvt'"], "the operands of 'cvt' do not fit it"),
        (["Barrier number '99' out of range, expected to be in range [0..15]"], "barriers 0 to 15, and no barrier 99"),
        (["Instruction 'tcgen05.fence' not supported on .target 'sm_90a'"], "sm_90a has no 'tcgen05.fence'"),
        (["Argument vector size mismatch for instruction 'mma'"], "another number of registers in braces"),
        (["Parsing error near 'ret': syntax error"], "cannot be read before 'ret': look for a missing semicolon"),
        (["Illegal to use symbol '%f1' of type .f32 as address operand. Use integer or bit only"], "is no address"),
        (
            ["Argument 2 of instruction 'cp.async': unexpected value '4', expected to be 16"],
            "takes 16 where it is given 4",
        ),
        (["Duplicate definition of label 'A'"], "put %= behind its name"),
        (["Unknown modifier '.v3'", "Illegal vector size: 3"], "a vector has 2 or 4 elements"),
        (
            ["Entry function 'k' uses too much shared data (0x13880 bytes, 0xc000 max)"],
            "take 80,000 bytes, of at most 49,152: use smaller shared arrays",
        ),
        (["Something new"], "Something new"),
    ],
)
def test_each_message_is_a_sentence_that_says_what_to_do(said: list[str], words: str) -> None:
    assert words in in_words(said)
