"""What tests know of lab 22_dispatch_combine: mistakes in its references, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "22_dispatch_combine/submission.py", "22_dispatch_combine/submission_cuda.py"
_WRONG, _RACE, _OVER, _OUT = "wrong answer", "race", "over budget", "elements of out are wrong"

TOLERANCES = (
    Case("ragged", {"ranks": 2, "tokens": 61, "k": 4, "experts": 16, "width": 160}, Family.NORMAL),
    Case("one rank has all", {"ranks": 2, "tokens": 40, "k": 6, "experts": 24, "width": 96}, Family.WIDE),
)
CLASSES = {"chosen": {"out": 0.9}}  # a token may choose the same experts again
MUTANTS = (
    Mutant(
        _NUMBA,
        "sums_without_signal",
        "sums are read before they have come back",
        (Edit("        wait(signals, rank, SUMS, tile)\n", ""),),
        Cause(Part.SAFETY, _RACE, at="back = ptx.load_global_16"),
    ),
    Mutant(
        _NUMBA,
        "signal_without_barrier",
        "the first warp signals for all",
        (Edit('is there."""\n    cuda.syncthreads()\n', 'is there."""\n'),),
        Cause(Part.SAFETY, _RACE, words="cuda.syncthreads() before the signal"),
    ),
    Mutant(
        _NUMBA,
        "wait_without_barrier",
        "only the first warp waits",
        (Edit("            pass\n    cuda.syncthreads()\n", "            pass\n"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _NUMBA,
        "all_sent",
        "rows are sent whether an expert is there or not",
        (
            Edit(
                "            if look_up(chosen, weight, rank, token, peer, local, experts, factors):\n",
                "            if token >= 0:\n",
            ),
        ),
        Cause(Part.TRAFFIC, _OVER, words="link written sectors"),
    ),
    Mutant(
        _NUMBA,
        "last_choice_only",
        "a token goes where its last choice is",
        (Edit("                found = True\n", "                found = j == chosen.shape[2] - 1\n"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _NUMBA,
        "sums_not_added",
        "what comes back replaces the own part",
        (Edit("a += libdevice.int_as_float(int32(back[0]))", "a = libdevice.int_as_float(int32(back[0]))"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _CUDA,
        "release_of_the_gpu",
        "the release reaches blocks of its own GPU only",
        (Edit("st.release.sys.global", "st.release.gpu.global"),),
        Cause(Part.TRAFFIC, _OVER, words="its own GPU only"),
    ),
    Mutant(
        _CUDA,
        "relaxed_signal",
        "the signal orders nothing before it",
        (Edit("st.release.sys.global", "st.relaxed.sys.global"),),
        Cause(Part.SAFETY, _RACE, words="fence"),
    ),
    Mutant(
        _CUDA,
        "relaxed_wait",
        "the wait orders nothing behind it",
        (Edit("ld.acquire.sys.global", "ld.relaxed.sys.global"),),
        Cause(Part.SAFETY, _RACE, words="fence"),
    ),
    Mutant(
        _CUDA,
        "inbox_at_home",
        "rows stay in the sender's memory, where the other rank reads them",
        (
            Edit("float* to = inbox + row(peer, token)", "float* to = inbox + row(rank, token)"),
            Edit("inbox + row(rank, token) * width + i);", "inbox + row(peer, token) * width + i);"),
        ),
        Cause(Part.TRAFFIC, _OVER, words="over the link"),
    ),
    Mutant(
        _CUDA,
        "tiles_rounded_down",
        "the tokens behind the last whole tile are left out",
        (Edit("(tokens + TILE - 1) / TILE", "(tokens + TILE - 8) / TILE"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _CUDA,
        "swapped_component",
        "the third component is taken for the fourth",
        (Edit("total.w * row.w);", "total.w * row.z);"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _CUDA,
        "half_precision",
        "sums come back through float16",
        (
            Edit("float4 back = *(const", "float4 back = through_half(*(const"),
            Edit("sums + row(rank, token) * width + i);", "sums + row(rank, token) * width + i));"),
            Edit(
                "enum { ROWS, SUMS };",
                "#include <cuda_fp16.h>\n"
                "__device__ float4 through_half(float4 v)\n"
                "{\n"
                "    return make_float4(__half2float(__float2half(v.x)), __half2float(__float2half(v.y)),\n"
                "                       __half2float(__float2half(v.z)), __half2float(__float2half(v.w)));\n"
                "}\n"
                "enum { ROWS, SUMS };",
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
)
