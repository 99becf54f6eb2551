"""What tests know of lab 16_megakernel: mistakes in its reference, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_SOURCE = "16_megakernel/submission.py"
_WRONG, _RACE, _TRAFFIC, _BOUNDS, _ENDLESS = "wrong answer", "race", "over budget", "out of bounds", "endless kernel"
_UNIT = "m.results[row] = g / (1 + __expf(-g)) * u;"

TOLERANCES = (
    Case("small and ragged", {"width": 40, "hidden": 72}, Family.NORMAL),
    Case("small numbers", {"width": 256, "hidden": 264}, Family.INTEGERS),
)
MUTANTS = (
    Mutant(
        _SOURCE,
        "units_not_awaited",
        "the second product of a layer waits for nobody",
        (Edit("(number - 1, before) if number else", "(number - 1, before) if op == GATE_UP and number else"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _SOURCE,
        "one_instruction_too_few",
        "all instructions of the operation before but one are awaited",
        (Edit("(number - 1, before)", "(number - 1, before - 1)"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _SOURCE,
        "waits_for_all_blocks",
        "a counter is awaited for every block, though some have no instruction of the operation",
        (Edit("        before = instructions\n", "        before = blocks\n"),),
        Cause(Part.CORRECTNESS, _ENDLESS),
    ),
    Mutant(
        _SOURCE,
        "counts_its_own",
        "an instruction waits for the counter that it raises itself",
        (Edit("(number - 1, before) if number else", "(number, before) if number else"),),
        Cause(Part.CORRECTNESS, _ENDLESS),
    ),
    Mutant(
        _SOURCE,
        "relaxed_wait",
        "the counter is read without acquiring what was written before it got there",
        (Edit("ld.acquire.gpu.global", "ld.relaxed.gpu.global"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _SOURCE,
        "nobody_waits_for_the_one",
        "the thread that waits for the counter is not waited for by the others of its block",
        (Edit("(seen < in.target);\n    }\n    __syncthreads();\n", "(seen < in.target);\n    }\n"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _SOURCE,
        "results_not_free",
        "units are stored where some warps still read the sums of squares",
        (Edit("    __syncthreads();  // results are free again\n", ""),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _SOURCE,
        "stream_begins_anew",
        "every layer reads x, not what the layer before has made",
        (Edit("const float *stream = in.layer ? m.y : m.x, *gain", "const float *stream = m.x, *gain"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of y are wrong"),
    ),
    Mutant(
        _SOURCE,
        "gain_of_the_first",
        "every layer has the gains of the first",
        (Edit("*gain = m.gain + in.layer * m.width;", "*gain = m.gain;"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of y are wrong"),
    ),
    Mutant(
        _SOURCE,
        "no_epsilon",
        "nothing is added to the mean square",
        (Edit("sum / m.width + 1e-5f", "sum / m.width"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of y are wrong"),
    ),
    Mutant(
        _SOURCE,
        "half_units",
        "hidden units are rounded to float16",
        (Edit(_UNIT, _UNIT.replace("= ", "= __half2float(__float2half(").replace(" u;", " u));")),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of y are wrong"),
    ),
    Mutant(
        _SOURCE,
        "rows_of_nobody",
        "warps that have no row ask for weights behind those of their instruction",
        (Edit("m.hidden, warp < in.rows);", "m.hidden, true);"),),
        Cause(Part.SAFETY, _BOUNDS, words="reads"),
    ),
    Mutant(
        _SOURCE,
        "vector_in_order",
        "a lane's eight elements lie together, so that lanes meet in one bank",
        (
            Edit("return i % 8 / 4 * (length / 2) + i / 8 * 4 + i % 4;", "return i;"),
            Edit("m.vector + from / 2)", "m.vector + from)"),
            Edit("m.vector + (length + from) / 2)", "m.vector + from + 4)"),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="bank conflicts"),
    ),
    Mutant(
        _SOURCE,
        "one_block",
        "one block has all lines",
        (Edit("blocks = min(BLOCKS, max(1, hidden // 8))", "blocks = 1"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="busiest sm sectors"),
    ),
    Mutant(
        _SOURCE,
        "one_block_of_all",
        "all blocks are launched, and the first has all lines",
        (Edit("block = min(range(blocks), key=loads.__getitem__)", "block = 0"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="busiest sm sectors"),
    ),
    Mutant(
        _SOURCE,
        "one_block_for_each_product",
        "each product is another block's",
        (Edit("block = min(range(blocks), key=loads.__getitem__)", "block = number % blocks"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="busiest sm sectors"),
    ),
    Mutant(
        _SOURCE,
        "weights_again",
        "the first weights of each row, which were asked for ahead, are read again",
        (
            Edit(
                "uint4 now[2] = {ahead[0], ahead[1]};",
                "uint4 now[2] = {ahead[0], ahead[1]};\n    for (int p = 0; p < 2; ++p) {\n"
                "        uint4 v = eight(row, 8 * lane + 256 * p, length);\n"
                '        asm volatile("" :: "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));\n    }',
            ),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="global read sectors"),
    ),
)
