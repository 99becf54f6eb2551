from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from autograder.spec.lab import CHECKOUT, LabError
from autograder.starter import StarterError, make_starter, reset, starters

SOLUTION = '''\
"""Doubles."""
from numba import cuda


@cuda.jit
def kernel(x, out):
    # STARTER: this line is outside a block and stays
    # BEGIN SOLUTION
    i = cuda.grid(1)
    # STARTER: i = 0  # which element is this thread's?
    if i < x.size:
        out[i] = 2 * x[i]
    # STARTER:
    # STARTER: pass
    # END SOLUTION


SOURCE = r"""
__global__ void twice() {
    // BEGIN SOLUTION
    secret();
    // STARTER: // write here
    // END SOLUTION
}
"""
'''

STARTER = '''\
"""Doubles."""
from numba import cuda


@cuda.jit
def kernel(x, out):
    # STARTER: this line is outside a block and stays
    i = 0  # which element is this thread's?

    pass


SOURCE = r"""
__global__ void twice() {
    // write here
}
"""
'''


def test_blocks_are_replaced_by_their_starter_lines() -> None:
    assert make_starter(SOLUTION) == STARTER


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# BEGIN SOLUTION\nx = 1\n", "line 1: BEGIN SOLUTION without END"),
        ("x = 1\n# END SOLUTION\n", "line 2: END SOLUTION without BEGIN"),
        (
            "# BEGIN SOLUTION\n# BEGIN SOLUTION\n# END SOLUTION\n",
            "line 2: BEGIN SOLUTION inside the block begun on line 1",
        ),
        ("def f():\n    # BEGIN SOLUTION\n    return 1\n    # END SOLUTION\n", "starter is not Python"),
    ],
)
def test_mistakes_in_the_markers_are_named(text: str, words: str) -> None:
    with pytest.raises(StarterError, match=words):
        make_starter(text)


def test_every_starter_in_the_checkout_is_up_to_date() -> None:
    assert [file.path for file in starters() if not file.up_to_date] == []


def test_reset_puts_starters_back_and_keeps_every_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("labs", "solutions"):
        shutil.copytree(CHECKOUT / folder / "01_axpy", tmp_path / folder / "01_axpy")
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "labs"))
    mine = tmp_path / "labs" / "01_axpy" / "submission.py"
    starter = mine.read_bytes()
    assert reset("01_axpy") == []
    for n, attempt in enumerate((b"first", b"\xff not text"), start=1):
        mine.write_bytes(attempt)
        assert reset("01_axpy") == [(mine, mine.with_name(f"submission.{n}.py"))]
        assert mine.read_bytes() == starter and mine.with_name(f"submission.{n}.py").read_bytes() == attempt
    mine.unlink()
    assert reset("01_axpy") == [] and mine.read_bytes() == starter
    with pytest.raises(LabError, match="no lab named"):
        reset("99_none")
