"""The words of a grade: how a case or a part can end, which parts there are, what runs kernels."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Every way to pass or to fail."""

    PASSED = "passed"
    PARTIAL = "partial"  # some of the points
    # the answer
    WRONG_ANSWER = "wrong answer"
    RUNS_DISAGREE = "two runs disagree"
    INPUT_MODIFIED = "input modified"
    # the file and its host code
    NOT_FOUND = "file not found"
    NOT_PYTHON = "not Python"
    SYNTAX_ERROR = "syntax error"
    IMPORT_ERROR = "import error"
    NO_FUNCTION = "no such function"
    ARGUMENT_MISMATCH = "wrong arguments"
    HOST_ERROR = "host error"
    HOST_TIMEOUT = "host code timed out"
    HOST_CRASHED = "host code crashed"
    COMPILE_ERROR = "compile error"
    LAUNCH_ERROR = "launch error"
    NO_LAUNCH = "no kernel launched"
    NO_RECORDS = "no records returned"
    HOST_UNSUPPORTED = "unsupported host call"
    RESOURCES = "too many resources"
    WRONG_LANGUAGE = "language not allowed"
    NOT_ALLOWED = "instruction not allowed"
    # the device code
    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned address"
    NULL_POINTER = "null pointer"
    UNINITIALISED = "uninitialised read"
    RACE = "race"
    DIVERGENT_BARRIER = "divergent barrier"
    DEADLOCK = "deadlock"
    ENDLESS = "endless kernel"
    TRAP = "trap"
    REDZONE = "write outside a buffer"
    LAUNCH_FAILURE = "launch failure"
    DEVICE_FAULT = "device fault"
    UNSUPPORTED = "unsupported instruction"  # beyond what the emulator knows, and so what a submission may use
    ADVISORY = "advisory"  # costs nothing
    WORKER_CRASHED = "crashed the judge's worker"
    # traffic and speed
    OVER_BUDGET = "over budget"
    OTHER_KERNELS = "other kernels"  # are timed than were counted and judged
    SLOW = "below the floor"
    IMPOSSIBLE = "impossible time"
    # no judgement
    WITHHELD = "withheld"  # would have passed, but the answers are wrong or the kernel is not safe
    NEEDS_TORCH = "needs PyTorch"  # which is free: unlike a GPU, its lack leaves no points out of the maximum
    SKIPPED = "skipped"
    NOT_MEASURED = "not measured"
    JUDGE_ERROR = "judge error"


# For want of a GPU, or for a fault of the judge: what a submission itself keeps from being judged counts, as nothing.
NOT_JUDGED = frozenset({Status.SKIPPED, Status.NOT_MEASURED, Status.JUDGE_ERROR})
# Of a case whose kernels did not come to their end without being at fault: nothing can be said of them.
UNFINISHED = frozenset({Status.UNSUPPORTED, Status.WORKER_CRASHED, Status.RESOURCES, Status.LAUNCH_ERROR})


class Part(StrEnum):
    """The parts of a grade, in the order of the report."""

    CORRECTNESS = "correctness"
    SAFETY = "safety"
    TRAFFIC = "traffic"
    EFFICIENCY = "efficiency"


class Executor(StrEnum):
    """What ran the kernels."""

    GPU = "gpu"
    EMULATOR = "emulator"
