"""Captures corpus entries, each file once, and assembles them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.corpus.entry import Subject
from warplab.plan.assemble import assemble
from warplab.plan.capture import capture
from warplab.plan.model import Plan

SECONDS = 300.0  # a file may hold forty kernels


def capture_all(subjects: Sequence[Subject], architecture: str) -> dict[str, Plan]:
    """A plan without cubins for each subject, by name. Raises CaptureFailure."""
    files: dict[Path, list[Subject]] = {}
    for subject in subjects:
        files.setdefault(subject.path, []).append(subject)
    plans = {}
    for path, members in files.items():
        captured = capture(path, [s.call for s in members], (architecture,), timeout=SECONDS)
        plans |= {s.name: plan for s, plan in zip(members, captured, strict=True)}
    return plans


def assemble_all(subjects: Sequence[Subject], architecture: str) -> dict[str, Plan]:
    """The same with cubins. Raises CaptureFailure and CompileError."""
    return {name: assemble(plan, architecture) for name, plan in capture_all(subjects, architecture).items()}
