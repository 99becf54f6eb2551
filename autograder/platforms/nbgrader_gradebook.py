"""Writes a class's grades into nbgrader's gradebook, as if its own autograding had given them.

So a class can be graded by `autograder class submitted/`, where a student's cells are read and never run beside what
counts the points, and nbgrader's feedback and exports go on from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.platforms.judged import is_judged, judged_parts


def import_grades(lines: Iterable[GradeLine], database: Path) -> int:
    """Write the points of each graded submission to nbgrader's `gradebook.db`; how many there were.

    An assignment must be there (`nbgrader generate_assignment`); a student or a submission that is not is added. A
    score that somebody has set by hand in nbgrader stays above these. Raises ClassError.
    """
    try:
        from nbgrader.api import Gradebook, MissingEntry
    except ImportError:
        raise ClassError("nbgrader is not installed here: pip install -c constraints.txt nbgrader.") from None
    if not database.is_file():
        raise ClassError(f"There is no gradebook {database}: run `nbgrader generate_assignment` in its course first.")
    written = 0
    with Gradebook(f"sqlite:///{database.resolve()}") as gradebook:
        for line in lines:
            report = line.graded()
            if report is None or not is_judged(report):
                continue
            try:
                gradebook.find_notebook(line.lab, line.lab)
            except MissingEntry:
                words = f"has no notebook of {line.lab}: run `nbgrader generate_assignment {line.lab}` first."
                raise ClassError(f"The gradebook {database} {words}") from None
            gradebook.update_or_create_student(line.student)
            gradebook.update_or_create_submission(line.lab, line.student)
            points = {part.name: part.score for part in judged_parts(report)}
            for grade in gradebook.find_submission_notebook(line.lab, line.lab, line.student).grades:
                if grade.name in points:
                    grade.auto_score = min(points[grade.name], grade.max_score)
                    grade.needs_manual_grade = False
            gradebook.db.commit()
            written += 1
    return written
