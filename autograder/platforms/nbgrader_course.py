"""A course folder for nbgrader: a notebook a lab, whose test cells are worth the points of the lab's parts.

The cell that students edit writes `submission.py`; each test cell grades it (`cells.points`) and ends with a number,
which nbgrader takes for the cell's score. nbgrader's metadata: docs/contributor_guide/metadata of nbgrader, schema 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.records.status import Part
from autograder.spec.lab import AnyLab
from warplab.files import write_whole

SUBMISSION = "submission"  # grade_id of the cell that students edit

_CONFIG = '''\
"""nbgrader's settings for this course (https://nbgrader.readthedocs.io, "Configuration options")."""

from nbgrader.preprocessors import CheckCellMetadata, ClearOutput, DeduplicateIds, OverwriteCells, OverwriteKernelspec

from autograder.platforms.nbgrader_cells import DropEmptyMetadata

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = {course!r}
# What students edit is a starter: nothing of it is replaced but what stands between the two markers.
c.ClearSolutions.code_stub = {{"python": ""}}
# Test cells that a student has deleted come back; doubled ones lose their identifier (the last one keeps it).
c.OverwriteCells.add_missing_cells = True
c.Autograde.sanitize_preprocessors = [
    ClearOutput,
    DeduplicateIds,
    DropEmptyMetadata,
    OverwriteKernelspec,
    OverwriteCells,
    CheckCellMetadata,
]
# A grade takes a minute on the emulator, and its first use compiles it.
c.Execute.timeout = 900
c.ExecutePreprocessor.timeout = 900
'''

_TEXT = """\
# {title}

The handout is `labs/{lab}/README.md`. Edit the next cell, and run it: it writes `submission.py`. The cells below it
grade that file, without a GPU on the emulator, and end with the points.
"""


def parts_of(lab: AnyLab, gpu: bool) -> list[tuple[Part, float]]:
    """The parts that have a cell, with their points; efficiency of kernels only where a GPU grades."""
    parts = [part for part in Part if gpu or part.value in lab.task.judged_without_gpu]
    return [(part, lab.points_without_gpus(part.value)) for part in parts]


def assignment(lab: AnyLab, gpu: bool = False) -> str:
    """The instructor's notebook of a lab, as nbgrader's `source/` has it: the starter, and a test cell a part."""
    starter = (lab.folder / "submission.py").read_text(encoding="utf-8").rstrip("\n")
    code = f"%%writefile submission.py\n{starter}\n### BEGIN SOLUTION\n### END SOLUTION"
    cells = [new_markdown_cell(_TEXT.format(title=lab.title, lab=lab.name), id="handout")]
    cells.append(new_code_cell(code, id=SUBMISSION, metadata=_metadata(SUBMISSION, solution=True)))
    for part, points in parts_of(lab, gpu):
        test = f'from autograder.platforms.cells import points\n\npoints("{lab.name}", "{part.value}")'
        cells.append(new_code_cell(test, id=part.value, metadata=_metadata(part.value, points=points)))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.writes(new_notebook(cells=cells, metadata={"kernelspec": kernel}))


def write_course(labs: Sequence[AnyLab], folder: Path, gpu: bool = False) -> list[Path]:
    """Write nbgrader_config.py and source/LAB/LAB.ipynb for each lab; gives the files. Raises OSError."""
    texts = {folder / "nbgrader_config.py": _CONFIG.format(course=folder.resolve().name)}
    for lab in labs:
        texts[folder / "source" / lab.name / f"{lab.name}.ipynb"] = assignment(lab, gpu)
    for path, text in texts.items():
        write_whole(path, text)
    return list(texts)


def _metadata(grade_id: str, *, solution: bool = False, points: float | None = None) -> dict[str, object]:
    about: dict[str, object] = {"schema_version": 3, "grade_id": grade_id, "solution": solution, "task": False}
    about |= {"grade": points is not None, "locked": not solution, "cell_type": "code"}
    return {"nbgrader": about if points is None else about | {"points": points}}
