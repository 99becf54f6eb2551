"""The judge's corpus: every submission with the verdict that it must get, whichever machine judges it.

The first line of a submission in corpus/judge/submissions is `# expect: <part>: <status>: <why>`. A line `# on a GPU:
...` of the same form stands for the GPU where that differs. What would do damage, or succeed, under reduced isolation
has the line `# needs: isolation` and is left out there. `# seed: ...` is the seed where the verdict depends on what is
drawn. A line `# tests: ...` names further tests that take a submission: `seeds` of those for which luck once decided,
or could (tests/labs/test_seeds.py), `tolerances` of those that are less precise than their lab asks for
(tests/labs/test_tolerances.py). Mutants bring their verdict along.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autograder.records.report import PartResult, Report
from autograder.records.status import Executor, Part, Status
from autograder.spec.lab import solutions_folder
from corpus.judge.mutants.mutant import Mutant
from corpus.judge.mutants.verdict import failed, objections
from corpus.judge.submission_files import submissions
from corpus.judge.truth import SUBMISSIONS, mutants

CORPORA = ("reference", "correct", "exploit", "wrong", "mutant", "bad_input", "file")
FURTHER_TESTS = ("seeds", "tolerances")
_EXPECTED = re.compile(r"^# (expect|on a GPU): (.+?): (.+?): (.*)$", re.MULTILINE)
_SEED = re.compile(r"^# seed: (\d+)$", re.MULTILINE)
_JUDGED_ANYWHERE = (Part.CORRECTNESS, Part.SAFETY, Part.TRAFFIC)


@dataclass(frozen=True)
class CorpusCase:
    """One submission. `source(folder)` gives its path, written into `folder` if it has none of its own.

    `object(report)` says what is wrong with a verdict; nothing if it is right. `quick` leaves the hidden cases out. A
    `seed` is given where the verdict depends on what is drawn.
    """

    corpus: str
    lab: str
    name: str
    source: Callable[[Path], Path]
    object: Callable[[Report], list[str]]
    quick: bool = False
    needs_isolation: bool = False
    seed: int | None = None

    @property
    def timed(self) -> bool:
        """Whether a GPU measures the time too: not of what must fail before."""
        return self.corpus == "file" or not (self.quick or self.corpus == "bad_input")


def cases() -> Iterator[CorpusCase]:
    """All of the corpus, right submissions first."""
    for path in sorted(solutions_folder().glob("*/submission*.py")):
        yield CorpusCase("reference", path.parent.name, path.stem, _at(path), _full_marks)
    for corpus in ("correct", "exploit", "wrong"):
        for path in submissions(corpus):
            check = _as_the_file_says(path)
            quick, seed = corpus == "wrong", _SEED.search(path.read_text("utf-8", "replace"))
            yield CorpusCase(
                corpus, path.parts[-3], path.stem, _at(path), check, quick, needs_isolation(path),
                int(seed[1]) if seed else None,
            )  # fmt: skip
    for mutant in mutants():
        yield _mutated(mutant)
    for path in sorted((SUBMISSIONS / "bad_input").glob("*.py")):
        yield CorpusCase("bad_input", "01_axpy", path.stem, _at(path), _as_the_file_says(path))
    for name, place in _NO_SUBMISSIONS.items():
        yield CorpusCase("file", "03_transpose", name, place, _refused_unread)
    for number, name in enumerate(_NAMES):
        yield CorpusCase("file", "03_transpose", f"name_{number}", _named(name), _full_marks, quick=True)


def _reference() -> Path:
    return solutions_folder() / "03_transpose" / "submission.py"


def _link(folder: Path) -> Path:
    """A link to the reference, which earned its marks."""
    (folder / "link.py").unlink(missing_ok=True)
    (folder / "link.py").symlink_to(_reference())
    return folder / "link.py"


def _linked_folder(folder: Path) -> Path:
    (folder / "alice").unlink(missing_ok=True)
    (folder / "alice").symlink_to(_reference().parent)
    return folder / "alice" / "submission.py"


def _pipe(folder: Path) -> Path:
    """One that nobody writes to: opened like a file it is waited for, for ever."""
    (folder / "pipe.py").unlink(missing_ok=True)
    os.mkfifo(folder / "pipe.py")
    return folder / "pipe.py"


def _huge(folder: Path) -> Path:
    with open(folder / "huge.py", "wb") as file:
        file.truncate(1 << 40)
    return folder / "huge.py"


_NO_SUBMISSIONS: Mapping[str, Callable[[Path], Path]] = {
    "link": _link,
    "linked_folder": _linked_folder,
    "pipe": _pipe,
    "device": lambda folder: Path("/dev/zero"),
    "huge": _huge,
}
_NAMES = ("müller lösung.py", "张伟.py", 'it\'s "mine".py', "two\nlines.py", "-O3.py")  # of people, and of shells


def _named(name: str) -> Callable[[Path], Path]:
    def source(folder: Path) -> Path:
        return Path(shutil.copy(_reference(), folder / name))

    return source


def _refused_unread(report: Report) -> list[str]:
    """What is wrong if what is no submission was read, or earned anything."""
    wrong = [f"earned {report.score:g} points"] if report.score else []
    wrong += [f"{report.status} instead of {Status.NOT_PYTHON}"] if report.status is not Status.NOT_PYTHON else []
    return wrong + (["its content is in the report"] if report.source else [])


def needs_isolation(path: Path) -> bool:
    """Whether a submission must not run where its host code could reach the machine's files."""
    return "\n# needs: isolation\n" in path.read_text("utf-8", "replace")


def further_tests(text: str) -> set[str]:
    """The tests that a submission's line `# tests: ...` names."""
    named = re.search(r"^# tests: (.+)$", text, re.MULTILINE)
    return set(named[1].split(", ")) if named else set()


def _at(path: Path) -> Callable[[Path], Path]:
    return lambda folder: path


def _mutated(mutant: Mutant) -> CorpusCase:
    def source(folder: Path) -> Path:
        return mutant.write(solutions_folder(), folder)

    def objection(report: Report) -> list[str]:
        if report.device is Executor.GPU:
            return _fails_in(report, mutant.cause.part, None)
        return objections(mutant, report, mutant.text(solutions_folder()))

    name = f"{Path(mutant.source).stem}/{mutant.name}"
    return CorpusCase("mutant", mutant.lab, name, source, objection, quick=True)


def _full_marks(report: Report) -> list[str]:
    return [] if report.full_marks else [f"not full marks: {report.message}"]


def _as_the_file_says(path: Path) -> Callable[[Report], list[str]]:
    expected = {
        where: (part, status) for where, part, status, _ in _EXPECTED.findall(path.read_text("utf-8", "replace"))
    }

    def objection(report: Report) -> list[str]:
        on_gpu = report.device is Executor.GPU
        part, status = expected["on a GPU" if on_gpu and "on a GPU" in expected else "expect"]
        if status == Status.PASSED:
            last = _JUDGED_ANYWHERE[-1] if part == "all" else Part(part)
            parts = [report.part(p) for p in _JUDGED_ANYWHERE[: _JUDGED_ANYWHERE.index(last) + 1]]
            return [f"{p.part}: {p.status}: {p.message}" for p in parts if p.status is not Status.PASSED]
        # A GPU may stop at a fault that the emulator goes on after, so there only the part has to be the same.
        exact = not on_gpu or "on a GPU" in expected
        return _fails_in(report, Part(part), status if exact else None)

    return objection


def _fails_in(report: Report, name: Part, status: str | None) -> list[str]:
    part = report.part(name)
    if report.full_marks or not failed(part):
        return [f"earned {part.score:g} of {part.max_score:g} points for {part.part}"]
    kinds = _kinds(part)
    return [] if status is None or status in kinds else [f"{', '.join(sorted(kinds))} instead of {status}"]


def _kinds(part: PartResult) -> set[str]:
    return {part.status.value, *(finding.kind.value for finding in part.findings)}
