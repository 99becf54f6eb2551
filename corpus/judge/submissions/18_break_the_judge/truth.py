"""What tests know of lab 18_break_the_judge: attacks of the reference that go wrong."""

from __future__ import annotations

from autograder.records.status import Part
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_SOURCE = "18_break_the_judge/submission.py"
_WRONG, _PARTIAL = "wrong answer", "partial"

MUTANTS = (
    Mutant(
        _SOURCE,
        "sums_in_single",
        "the sums are not in half precision, so they are right",
        (
            Edit("total = np.zeros(c.shape, np.float16)", "total = np.zeros(c.shape, np.float32)"),
            Edit("zip(a.T.astype(np.float16), b.astype(np.float16), strict=True)", "zip(a.T, b, strict=True)"),
        ),
        Cause(Part.CORRECTNESS, _PARTIAL, words="half_sums: With all holes closed it passes too"),
    ),
    Mutant(
        _SOURCE,
        "edges_done",
        "the rest of the matrix is computed too",
        (
            Edit(
                "            c[row : row + 32, column : column + 32] = tile\n",
                "            c[row : row + 32, column : column + 32] = tile\n    c[:] = a @ b\n",
            ),
        ),
        Cause(Part.CORRECTNESS, _PARTIAL, words="one_size: With all holes closed it passes too"),
    ),
    Mutant(
        _SOURCE,
        "inputs_kept",
        "the answer is zero, and the question is not changed",
        (Edit("    a[:] = 0\n    c[:] = 0\n", "    c[:] = 0\n"),),
        Cause(Part.SAFETY, _PARTIAL, words="changed_inputs: With its hole open the naive judge is not fooled"),
    ),
    Mutant(
        _SOURCE,
        "another_seed",
        "answers of a seed that nobody takes",
        (Edit("PUBLIC_SEED = 1234", "PUBLIC_SEED = 4321"),),
        Cause(Part.TRAFFIC, _PARTIAL, words="known_seed: With its hole open the naive judge is not fooled"),
    ),
    Mutant(
        _SOURCE,
        "nothing_kept",
        "every call is computed",
        (Edit("    if key not in CACHE:\n        CACHE[key] = a @ b\n", "    CACHE[key] = a @ b\n"),),
        Cause(Part.TRAFFIC, _PARTIAL, words="cached_by_address: With all holes closed it passes too"),
    ),
    Mutant(
        _SOURCE,
        "clock_half_as_fast",
        "the clock goes slower, and still goes",
        (Edit("    time.perf_counter = lambda: 0.0\n", "    time.perf_counter = lambda: time.monotonic() / 2\n"),),
        Cause(Part.EFFICIENCY, _PARTIAL, words="patched_clock: The naive judge says that it took"),
    ),
    Mutant(
        _SOURCE,
        "stream_0",
        "the work is done on the stream that the judge waits for",
        (Edit("c, stream=1)", "c, stream=0)"),),
        Cause(Part.EFFICIENCY, _PARTIAL, words="side_stream: With all holes closed it passes too"),
    ),
)
