"""What tests know of lab 21_attention: mistakes in its reference, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA = "21_attention/submission.py"
_WRONG, _FAULT = "wrong answer", "out of bounds"
_GUARD, _STORE = "if i < out.size:", "out[i] = x[i] + x[i]"

TOLERANCES = (Case("ragged", {"n": 1501}, Family.NORMAL), Case("wide", {"n": 1024}, Family.WIDE))
# Five mistakes or more for each reference; an edit must fit its text exactly.
MUTANTS = (
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "the last block is taken for a whole one",
        (Edit(_GUARD, "if out.size > 0:"),),
        Cause(Part.SAFETY, _FAULT, at=_STORE),
    ),
    Mutant(
        _NUMBA,
        "one_too_far",
        "<= where < is meant",
        (Edit(_GUARD, "if i <= out.size:"),),
        Cause(Part.SAFETY, _FAULT, at=_STORE),
    ),
    Mutant(
        _NUMBA,
        "grid_rounded_down",
        "the last block is missing",
        (Edit("(out.size + BLOCK - 1) // BLOCK", "max(1, out.size // BLOCK)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
    ),
    Mutant(
        _NUMBA,
        "constant_output",
        "the input is not used",
        (Edit(_STORE, "out[i] = 1"),),
        Cause(Part.CORRECTNESS, _WRONG, words="does not depend on the inputs"),
    ),
    Mutant(
        _NUMBA,
        "adds_to_the_output",
        "out is read before anything wrote it",
        (Edit(_STORE, "out[i] += x[i] + x[i]"),),
        Cause(Part.SAFETY, "uninitialised read", at="out[i] +=", words="nothing has written"),
    ),
)
