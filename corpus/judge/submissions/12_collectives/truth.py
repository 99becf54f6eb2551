"""What tests know of lab 12_collectives: mistakes in its reference."""

from __future__ import annotations

from autograder.records.status import Part
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_SOURCE = "12_collectives/submission.py"
_WRONG, _RACE, _EARLY = "wrong answer", "race", "uninitialised read"

MUTANTS = (
    Mutant(
        _SOURCE,
        "block_after",
        "a rank passes on the block that it will get next",
        (Edit("block = (rank - step) % ranks", "block = (rank + step) % ranks"),),
        Cause(Part.CORRECTNESS, _WRONG, words="ends without the data of"),
    ),
    Mutant(
        _SOURCE,
        "one_step_less",
        "the second round ends a step early",
        (Edit("for step in range(2 * (ranks - 1)):", "for step in range(2 * (ranks - 1) - 1):"),),
        Cause(Part.CORRECTNESS, _WRONG, words="ends without the data of"),
    ),
    Mutant(
        _SOURCE,
        "copied_a_step_early",
        "the last sums are copied over what should be added to",
        (Edit('operation = "reduce" if step < ranks - 1 else', 'operation = "reduce" if step < ranks - 2 else'),),
        Cause(Part.CORRECTNESS, _WRONG, words="ends without the data of"),
    ),
    Mutant(
        _SOURCE,
        "pieces_apart",
        "all pieces go into the same chunks",
        (Edit("chunks[gpu][(node - hop) % nodes]", "chunks[gpu][0]"),),
        Cause(Part.CORRECTNESS, _WRONG, words="hierarchical_all_reduce("),
    ),
    Mutant(
        _SOURCE,
        "gathered_too_early",
        "the sums are handed out in the step in which the last of them arrive",
        (Edit("inside(piece + 1 + 2 * (nodes - 1),", "inside(piece + 2 * (nodes - 1),"),),
        Cause(Part.CORRECTNESS, _WRONG, words="hierarchical_all_reduce("),
    ),
    Mutant(
        _SOURCE,
        "gathered_to_the_wrong_gpu",
        "GPUs hand out what others care for",
        (Edit('other if operation == "reduce" else one', "other"),),
        Cause(Part.SAFETY, _RACE, words="replaces what is there"),
    ),
    Mutant(
        _SOURCE,
        "relays_at_once",
        "the relay passes a chunk on in the step in which it gets it",
        (Edit("records.append((1, relay,", "records.append((0, relay,"),),
        Cause(Part.SAFETY, _EARLY, words="it arrives there only in step"),
    ),
    Mutant(
        _SOURCE,
        "rail_of_the_source",
        "chunks leave on their source's rail",
        (Edit("per_node * per_node + destination % per_node", "per_node * per_node + source % per_node"),),
        Cause(Part.TRAFFIC, "over budget", words="spine bytes"),
    ),
    Mutant(
        _SOURCE,
        "also_backward",
        "the first rank tells the last one what it knows already",
        (Edit("return records\n", "return [*records, (2 * ranks, 0, ranks - 1, 0, 'copy')]\n", times=4, only=0),),
        Cause(Part.TRAFFIC, "over budget", words="peers of ring all reduce"),
    ),
)
