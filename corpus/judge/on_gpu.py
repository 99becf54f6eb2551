"""What `benchmarks.judge` has a confined worker do before it uses the GPU; imports nothing that is not shown there."""

from __future__ import annotations

TIMING_SECONDS = 0.5  # of a submission; here it is asked who may be timed, not what a time is worth


def timing_seconds() -> float:
    """TIMING_SECONDS, as a process that has this module says it."""
    return TIMING_SECONDS


def take() -> None:
    """Time briefly, in one place."""
    from autograder.worker import gpu_stage

    gpu_stage.BUDGET_SECONDS, gpu_stage.PLACEMENTS = TIMING_SECONDS, 1
