"""What tests know of lab 14_pipeline_schedule: mistakes in its reference."""

from __future__ import annotations

from autograder.records.status import Part
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_SOURCE = "14_pipeline_schedule/submission.py"
_WRONG, _EARLY, _DEADLOCK, _OVER = "wrong answer", "uninitialised read", "deadlock", "over budget"
_AHEAD = "ahead = min(micro_batches, ranks - 1 - rank)"
_AHEAD_OF_CHUNKS = "2 * (ranks - 1 - rank) + (chunks - 1) * ranks"

MUTANTS = (
    Mutant(
        _SOURCE,
        "as_far_ahead_as_there_are_ranks",
        "every rank runs ahead as far as rank 0",
        (Edit(_AHEAD, "ahead = min(micro_batches, ranks - 1)", times=2, only=0),),
        Cause(Part.TRAFFIC, _OVER, words="Begin with a backward pass as soon as there is one"),
    ),
    Mutant(
        _SOURCE,
        "all_forward_first",
        "the warm-up is all forward passes",
        (Edit(_AHEAD, "ahead = micro_batches - 1", times=2, only=0),),
        Cause(Part.TRAFFIC, _OVER, words="Begin with a backward pass as soon as there is one"),
    ),
    Mutant(
        _SOURCE,
        "ends_with_the_last_forward_pass",
        "the loop ends before the backward passes do",
        (Edit("for number in range(micro_batches + ahead):", "for number in range(micro_batches):", times=2, only=0),),
        Cause(Part.CORRECTNESS, _WRONG, words="never does B of micro-batch"),
    ),
    Mutant(
        _SOURCE,
        "back_through_the_same_chunk",
        "the backward passes begin with chunk 0",
        (Edit("chunks - 1 - chunk", "chunk"),),
        Cause(Part.CORRECTNESS, _DEADLOCK, words="Deadlock at rank"),
    ),
    Mutant(
        _SOURCE,
        "warm_up_of_one_chunk",
        "the warm-up forgets the rounds of the other chunks",
        (Edit(_AHEAD_OF_CHUNKS, "2 * (ranks - 1 - rank)"),),
        Cause(Part.CORRECTNESS, _EARLY, words="whose result it needs"),
    ),
    Mutant(
        _SOURCE,
        "warm_up_without_the_way_back",
        "the warm-up counts the ranks behind once, not there and back",
        (Edit(_AHEAD_OF_CHUNKS, "(ranks - 1 - rank) + (chunks - 1) * ranks - 1"),),
        Cause(Part.CORRECTNESS, _EARLY, words="whose result it needs"),
    ),
    Mutant(
        _SOURCE,
        "chunks_in_the_wrong_loop",
        "a micro-batch goes through all chunks before the next begins",
        (
            Edit(
                "            for chunk in range(chunks)\n            for number in range(ranks)\n",
                "            for number in range(ranks)\n            for chunk in range(chunks)\n",
            ),
        ),
        Cause(Part.CORRECTNESS, _DEADLOCK, words="Deadlock at rank"),
    ),
    Mutant(
        _SOURCE,
        "last_weights_forgotten",
        "what was put off is not done in the end",
        (Edit("range(micro_batches - late, micro_batches)", "range(micro_batches - late, micro_batches - 1)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="never does W of micro-batch"),
    ),
    Mutant(
        _SOURCE,
        "weights_a_micro_batch_early",
        "W comes before the B that it needs where none is put off",
        (
            Edit("if number >= ahead + late:", "if number >= ahead + late - 1:"),
            Edit("number - ahead - late, 0", "number - ahead - late + 1, 0"),
        ),
        Cause(Part.CORRECTNESS, _EARLY, words="before B of micro-batch"),
    ),
    Mutant(
        _SOURCE,
        "put_off_by_all",
        "every rank puts off as many W as the last may",
        (Edit("late = min(micro_batches, rank)", "late = min(micro_batches, ranks - 1)"),),
        Cause(Part.TRAFFIC, _OVER, words="A micro-batch is held until its W"),
    ),
)
