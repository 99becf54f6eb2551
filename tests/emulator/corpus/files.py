"""Plans of the emulator's corpus for tests that do not look at counters.

The assembler and the disassembler take longer than to capture and to run a kernel, and what the latter makes of its
text decides about counters. `make test` goes without them; `make test-long` has all assembled, as the judge has.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus.emulator.entry import Subject
from corpus.emulator.plans import assemble_file, capture_file
from tests.sampling import WHOLE
from warplab.plan.model import Plan

ARCHITECTURE = "sm_90a"


def plans_of_file(subjects: Sequence[Subject]) -> dict[str, Plan]:
    """The plans of subjects that share a file, by name."""
    return (assemble_file if WHOLE else capture_file)(subjects, ARCHITECTURE)
