"""What tests know of lab 13_tensor_parallel: mistakes in its reference."""

from __future__ import annotations

from autograder.records.status import Part
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_SOURCE = "13_tensor_parallel/submission.py"
_WRONG, _OVER = "wrong answer", "over budget"

MUTANTS = (
    Mutant(
        _SOURCE,
        "own_part_of_y",
        "a rank gives out its part of y",
        (Edit('    y = yield "all_reduce", hidden @ down\n', "    y = hidden @ down\n"),),
        Cause(Part.CORRECTNESS, _WRONG, words='ask for "all_reduce"'),
    ),
    Mutant(
        _SOURCE,
        "own_part_of_dx",
        "a rank returns its part of dx",
        (Edit('dx = yield "all_reduce", dhidden @ up.T', "dx = dhidden @ up.T"),),
        Cause(Part.CORRECTNESS, _WRONG, words='ask for "all_reduce"'),
    ),
    Mutant(
        _SOURCE,
        "relu_forgotten",
        "the gradient passes where nothing passed",
        (Edit("dhidden = dy @ down.T * (hidden > 0)", "dhidden = dy @ down.T", times=2, only=0),),
        Cause(Part.CORRECTNESS, _WRONG, words="for dx["),
    ),
    Mutant(
        _SOURCE,
        "softmax_of_columns",
        "the softmax adds up to 1 along the wrong axis",
        (Edit("shares /= shares.sum(axis=2, keepdims=True)", "shares /= shares.sum(axis=1, keepdims=True)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="for y["),
    ),
    Mutant(
        _SOURCE,
        "scale_forgotten_on_the_way_back",
        "the gradient of the scores is not scaled",
        (Edit("keepdims=True)) / np.sqrt(HEAD)", "keepdims=True))"),),
        Cause(Part.CORRECTNESS, _WRONG, words="for dx["),
    ),
    Mutant(
        _SOURCE,
        "queries_for_keys",
        "the gradients of queries and keys change places",
        (Edit("x.T @ dq, x.T @ dk", "x.T @ dk, x.T @ dq"),),
        Cause(Part.CORRECTNESS, _WRONG, words="for dqueries["),
    ),
    Mutant(
        _SOURCE,
        "dy_not_gathered",
        "the way back uses the rows of one rank",
        (Edit('    dy = yield "all_gather", dy\n', "    dy = np.concatenate([dy] * ranks)\n"),),
        Cause(Part.CORRECTNESS, _WRONG, words="for dx["),
    ),
    Mutant(
        _SOURCE,
        "rows_not_gathered",
        "the first product has the rows of one rank",
        (Edit('x = yield "all_gather", x', "x = x[:1]"),),
        Cause(Part.CORRECTNESS, _WRONG, words="has y of shape"),
    ),
    Mutant(
        _SOURCE,
        "reduced_before_it_is_scattered",
        "y is summed on all ranks and then scattered, divided so that it comes out right",
        (
            Edit(
                'y = yield "reduce_scatter", hidden @ down',
                'y = yield "all_reduce", hidden @ down\n    y = yield "reduce_scatter", y / ranks',
            ),
        ),
        Cause(Part.TRAFFIC, _OVER, words="Gather rows before the first product"),
    ),
)
