"""Mutants of the references fail, and for their own reasons: one of each lab and reason; `make test-judge` has all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.records.request import Request
from autograder.spec.lab import find_any, known_labs, solutions_folder
from corpus.judge.mutants.mutant import Edit, EditDoesNotApply, Mutant
from corpus.judge.mutants.verdict import objections
from corpus.judge.truth import mutants
from tests.labs.judging import EMULATOR, emulator_for, skip_without_torch
from tests.sampling import one_of_each
from warplab.worker.process import Worker

pytestmark = pytest.mark.processes

SEED = 20
MUTANTS = mutants()
CHOSEN = one_of_each(MUTANTS, lambda mutant: (mutant.cause.part, mutant.cause.status))


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with ConfinedWorker(EMULATOR, own=False) as shared:
        yield shared


@pytest.mark.parametrize("mutant", CHOSEN, ids=lambda mutant: mutant.identifier)
def test_mutants_fail_for_their_reason(mutant: Mutant, worker: Worker, tmp_path: Path) -> None:
    path = mutant.write(solutions_folder(), tmp_path)
    report = grade(Request(find_any(mutant.lab), path, emulator_for(mutant.lab), seed=SEED, quick=True), worker)
    skip_without_torch(report)
    found = objections(mutant, report, path.read_text(encoding="utf-8"))
    assert not found, "\n".join([*found, *(f"{part.part}: {part.status}: {part.message}" for part in report.parts)])


def test_every_reference_has_five_mutants() -> None:
    counts = Counter(mutant.source for mutant in MUTANTS)
    references = [path for lab in known_labs() for path in (solutions_folder() / lab).glob("submission*.py")]
    for path in references:
        assert counts[f"{path.parent.name}/{path.name}"] >= 5, path
    assert len({mutant.identifier for mutant in MUTANTS}) == len(MUTANTS)


def test_an_edit_that_no_longer_applies_fails() -> None:
    assert Edit("a", "b", times=3, only=1).apply("a a a") == "a b a"
    for edit in (Edit("x", "y"), Edit("a", "b"), Edit("a", "b", times=2)):
        with pytest.raises(EditDoesNotApply, match="instead of"):
            edit.apply("a a a")
