"""Captures and assembles the corpus, each file in one go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corpus.emulator.entry import Subject
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.model import Plan

SECONDS = 300.0  # a file may hold forty kernels


def assemble_all(subjects: Iterable[Subject], architecture: str) -> dict[str, Plan]:
    """A plan with cubins for each subject, by name. Raises CaptureFailure and CompileError."""
    files: dict[str, list[Subject]] = {}
    for subject in subjects:
        files.setdefault(subject.file, []).append(subject)
    plans: dict[str, Plan] = {}
    for members in files.values():
        plans |= assemble_file(members, architecture)
    return plans


def assemble_file(subjects: Sequence[Subject], architecture: str) -> dict[str, Plan]:
    """The same for subjects that share a file, which is imported once."""
    return {name: assemble(plan, architecture) for name, plan in capture_file(subjects, architecture).items()}


def capture_file(subjects: Sequence[Subject], architecture: str) -> dict[str, Plan]:
    """The same without cubins: their counters are those of the PTX. Raises CaptureFailure."""
    captured = capture(subjects[0].path, [s.call for s in subjects], (architecture,), timeout=SECONDS)
    return {s.name: plan for s, plan in zip(subjects, captured, strict=True)}
