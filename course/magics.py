"""The cell magic `%%submit LAB`: grades the cell as a submission of that lab and shows the report below it.

Load it in a notebook with `%load_ext course.magics`.
"""

from __future__ import annotations

from pathlib import Path

from autograder import own_history
from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.panel.shown import shown
from autograder.records.machine import Machine, choose_machine
from autograder.records.request import Request
from autograder.report.html_page import fragment
from autograder.report.links import Links
from autograder.spec.lab import CHECKOUT, find_any, labs_folder
from course.captures import PROCESSES
from course.cell_file import cell_file
from course.waiting import Waiting
from warplab.errors import WarplabError
from warplab.files import write_whole

_workers: dict[Machine, ConfinedWorker] = {}  # as long as the notebook's kernel: later submissions find it warm


def submission_path(lab: str) -> Path:
    """Where the cell of a lab is kept: the same file can be graded on the command line."""
    return CHECKOUT / "build" / "submissions" / lab / "submission.py"


def submit(line: str, cell: str) -> None:
    """`%%submit LAB`: write the cell to a file, line by line, grade it, show the report."""
    from IPython.display import HTML

    try:
        lab = find_any(line.strip())
        path = submission_path(lab.name)
        write_whole(path, cell_file("submit", line, cell))
    except WarplabError as error:
        print(error)
        return
    except OSError as error:
        print(f"The cell could not be written to {error.filename}: {error.strerror}.")
        return
    waiting = Waiting(f"Grading {lab.name}")
    try:
        machine = choose_machine("auto", lab.oldest, own=True)
        if machine not in _workers:
            _workers[machine] = ConfinedWorker(machine, own=True)
        request = Request(lab, path, machine, captured_in=PROCESSES.for_text(cell))
        report = grade(request, _workers[machine], waiting.progress)
    except KeyboardInterrupt:
        waiting.answer("Stopped by you, nothing was graded.")
    except WarplabError as error:
        waiting.answer(str(error))
    else:
        own_history.keep(report)
        links = Links.between(Path.cwd(), labs_folder().parent, grades=own_history.words_about(lab.name))
        for_panel = {"report": shown(report), "text": cell}
        waiting.answer(HTML(fragment(report, links), metadata={"warplab": for_panel}))


def load_ipython_extension(shell) -> None:
    """Called by `%load_ext course.magics`."""
    shell.register_magic_function(submit, magic_kind="cell", magic_name="submit")


def unload_ipython_extension(shell) -> None:
    """Called by `%unload_ext course.magics`."""
    for worker in _workers.values():
        worker.close()
    _workers.clear()
