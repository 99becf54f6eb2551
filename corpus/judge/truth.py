"""What tests know of each lab: `truth.py` in the lab's folder of the corpus, found there and listed nowhere."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autograder.spec.lab import CHECKOUT
from autograder.spec.task import Case
from corpus.judge.mutants.mutant import Mutant

NEARLY_ALL = 0.99
SUBMISSIONS = CHECKOUT / "corpus" / "judge" / "submissions"


@dataclass(frozen=True)
class Truth:
    """`mutants` of the references (MUTANTS), and what the tests of a task cannot find out by themselves.

    `tolerances` (TOLERANCES) are two cases for tests/labs/test_tolerances.py: ragged and small, and for the reference's
    other path whole tiles; families differ in how errors cancel. A lab of schedules, which are exact, has none.
    `classes` (CLASSES, where a lab has any) gives by input the share of an output that another draw of it changes at
    least, where that is not nearly all: of every output, or by output; 0 for one that the input has no part in.
    `finite` (FINITE) is False for a lab that places NaN or infinities among its inputs.
    """

    mutants: tuple[Mutant, ...]
    tolerances: tuple[Case, ...]
    classes: Mapping[str, float | Mapping[str, float]]
    finite: bool

    def share(self, name: str, output: str) -> float:
        """The share of `output` that another draw of the input `name` changes at least; nothing of it changes if 0."""
        share = self.classes.get(name, NEARLY_ALL)
        return share.get(output, NEARLY_ALL) if isinstance(share, Mapping) else share


def truth_of(lab: str) -> Truth:
    """The truth about a lab. Raises FileNotFoundError if its folder of the corpus has none."""
    return _load(SUBMISSIONS / lab / "truth.py")


def mutants() -> tuple[Mutant, ...]:
    """The mutants of all labs, lab by lab."""
    paths = sorted(SUBMISSIONS.glob("*/truth.py"))
    return tuple(mutant for path in paths for mutant in _load(path).mutants)


def _load(path: Path) -> Truth:
    spec = importlib.util.spec_from_file_location(f"warplab_corpus.{path.parent.name}.truth", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Truth(
        module.MUTANTS,
        getattr(module, "TOLERANCES", ()),
        getattr(module, "CLASSES", {}),
        getattr(module, "FINITE", True),
    )
