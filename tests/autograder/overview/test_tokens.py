"""What a stranger's text costs `autograder similar`: time in its length, and never more than its limit."""

from __future__ import annotations

import random
import time
from difflib import SequenceMatcher

import pytest

from autograder.overview import tokens as module
from autograder.overview.common_parts import longest_run
from autograder.overview.tokens import MOST_TOKENS, NAME, NUMBER, STRING, TokenReader, tokens


def device(text: str) -> str:
    return f'c = r"""__global__ {text}"""\n'


ENDLESS = {
    "spaces": lambda n: device(" " * n),
    "spaces before what is no token": lambda n: "x = 1" + " " * n + "?\n",
    "comments that do not end": lambda n: device("/*" * (n // 2)),
    "slashes": lambda n: device("/" * n),
    "quotes": lambda n: device("'" * n),
    "backslashes in a string": lambda n: device('"' + "\\\\" * (n // 2)),
    "braces": lambda n: device("{" * n),
    "templates": lambda n: device("a<" * (n // 2)),
    "names": lambda n: device("a " * (n // 2)),
    "lines": lambda n: device("\n" * n),
    "parentheses": lambda n: "(" * n,
    "digits": lambda n: "1" * n,
    "blocks": lambda n: "\n".join(" " * depth + "if x:" for depth in range(int((2 * n) ** 0.5))),
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_text_is_read_in_one_pass(text) -> None:
    """A pass over 800,000 characters takes about a second; looking from each place at each other one takes hours."""
    begin = time.process_time()
    assert len(tokens(text(800_000))) <= MOST_TOKENS
    assert time.process_time() - begin < 300


def test_cuda_is_read_without_what_a_student_chooses() -> None:
    code = """
#define N 8  // eight
__global__ void f(float *x, int n) {  /* all
of it */
    for (int i = 0; i < n; ++i) x[i] += 1.5e-3f * g<<<1, 2>>>("a \\\" b", 'c', 0x1fULL);
}
"""
    kinds = [token.kind for token in tokens(device(code))][2:]
    expected = (
        f"__global__ # {NAME} {NAME} {NUMBER} __global__ void {NAME} ( float * {NAME} , int {NAME} ) {{ for ( int"
    )
    expected += f" {NAME} = {NUMBER} ; {NAME} < {NAME} ; ++ {NAME} ) {NAME} [ {NAME} ] +="
    expected += f" {NUMBER} * {NAME} <<< {NUMBER} , {NUMBER} >>> ( {STRING} , {STRING} , {NUMBER} ) ; }}"
    assert kinds == expected.split()
    assert {token.line for token in tokens(device(code)) if token.kind in ("for", "}")} == {5, 6}


def test_the_longest_common_run_is_that_of_difflib() -> None:
    draw = random.Random(3)
    for _ in range(500):
        first, second = (draw.choices("abc", k=draw.randrange(25)) for _ in range(2))
        match = SequenceMatcher(None, first, second, autojunk=False).find_longest_match()
        assert longest_run(first, second) == (match.a, match.b, match.size)


@pytest.mark.processes
def test_what_takes_too_long_or_ends_its_process_has_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    with TokenReader() as reader:
        assert reader.read("x = 1\n") == tuple(tokens("x = 1\n"))
        monkeypatch.setattr(module, "SECONDS", 1e-4)
        assert reader.read("x = 1\n" * 100_000) == ()
        monkeypatch.undo()
        assert reader.read("y = 2\n") == tuple(tokens("y = 2\n"))
