"""What tests know of lab 15_selective_checkpoint: mistakes in its reference."""

from __future__ import annotations

from autograder.records.status import Part
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_SOURCE = "15_selective_checkpoint/submission.py"
_WRONG, _OUTSIDE, _OVER, _PARTLY = "wrong answer", "out of bounds", "over budget", "partial"
_LAST = "last = max(one.block for one in operators)"
_BETTER = "choice[1:3] > choices[-1][1:3]"

MUTANTS = (
    Mutant(
        _SOURCE,
        "keeps_what_is_free",
        "the policy keeps what takes no FLOP in place of what does",
        (Edit("for one in operators if one.flops", "for one in operators if not one.flops"),),
        Cause(Part.CORRECTNESS, _WRONG, words="FLOP are computed again, those of qkv of block 0 first"),
    ),
    Mutant(
        _SOURCE,
        "policy_without_a_condition",
        "the policy keeps everything",
        (Edit("for one in operators if one.flops", "for one in operators"),),
        Cause(Part.EFFICIENCY, _PARTLY, words="of the bound"),
    ),
    Mutant(
        _SOURCE,
        "full_before_it_is_asked",
        "whether there is room is asked before the operator is put in",
        (Edit("if size + one.bytes <= budget", "if size <= budget"),),
        Cause(Part.CORRECTNESS, _WRONG, words="where the budget is 0."),
    ),
    Mutant(
        _SOURCE,
        "blocks_from_one",
        "blocks are numbered from 1",
        (Edit("(one.block, one.name) for one in kept", "(one.block + 1, one.name) for one in kept"),),
        Cause(Part.CORRECTNESS, _OUTSIDE, words="which is not in the table"),
    ),
    Mutant(
        _SOURCE,
        "first_block_is_free",
        "the first block is taken for the one that is on its way back at the peak",
        (Edit(_LAST, "last = min(one.block for one in operators)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="bytes more at the peak, where the budget is"),
    ),
    Mutant(
        _SOURCE,
        "last_block_twice",
        "the last block, which is kept anyway, is planned for as well",
        (Edit("best([one for one in operators if one.block != last], budget)", "best(operators, budget)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="which an earlier one does too"),
    ),
    Mutant(
        _SOURCE,
        "last_block_charged",
        "the last block is kept as far as the budget goes",
        (Edit("records(free + best([one for one in operators if one.block != last]", "records(best(operators"),),
        Cause(Part.EFFICIENCY, _PARTLY, words="plan_for_peak"),
    ),
    Mutant(
        _SOURCE,
        "traffic_not_counted",
        "of plans with as few FLOP again any is taken",
        (Edit("moved + one.moved", "moved"),),
        Cause(Part.TRAFFIC, _OVER, words="take the one that moves the fewest bytes again"),
    ),
    Mutant(
        _SOURCE,
        "traffic_alone",
        "plans are compared by the bytes that they move alone",
        (Edit(_BETTER, "choice[2] > choices[-1][2]"),),
        Cause(Part.EFFICIENCY, _PARTLY, words="of the bound"),
    ),
)
