"""The cell magic `%%submit LAB`: grades the cell as a submission of that lab and shows the report below it.

Load it in a notebook with `%load_ext autograder.magic`.
"""

from __future__ import annotations

from pathlib import Path

from autograder.lab import CHECKOUT, find_lab
from autograder.machine import choose_machine
from autograder.pipeline import grade
from autograder.report_html import fragment
from autograder.report_json import write_atomically
from autograder.request import Request
from warplab.errors import WarplabError
from warplab.gpu.worker import Worker

_worker = Worker()  # lives as long as the notebook's kernel, so that later submissions find it warm


def submission_path(lab: str) -> Path:
    """Where the cell of a lab is kept: the same file can be graded on the command line."""
    return CHECKOUT / "build" / "submissions" / lab / "submission.py"


def submit(line: str, cell: str) -> None:
    """`%%submit LAB`: write the cell to a file, grade it, show the report."""
    from IPython.display import HTML, display

    try:
        lab = find_lab(line.strip())
        path = submission_path(lab.name)
        write_atomically(path, cell)
        report = grade(Request(lab, path, choose_machine("auto")), _worker)
    except WarplabError as error:
        print(error)
    except OSError as error:
        print(f"The cell could not be written to {error.filename}: {error.strerror}.")
    else:
        display(HTML(fragment(report)))


def load_ipython_extension(shell) -> None:
    """Called by `%load_ext autograder.magic`."""
    shell.register_magic_function(submit, magic_kind="cell", magic_name="submit")


def unload_ipython_extension(shell) -> None:
    """Called by `%unload_ext autograder.magic`."""
    _worker.close()
