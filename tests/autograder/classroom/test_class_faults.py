"""Whatever is killed while a class is graded, each submission ends with one grade, the one that it gets alone.

WARPLAB_FAULTS sets how many processes are killed (`make test-long`: a hundred).
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autograder.classroom import clusters
from autograder.classroom.entries import ClassError
from autograder.classroom.ledger import RECORD
from benchmarks import class_faults
from benchmarks.class_faults import Class, Faults, run, tasks

FAULTS = int(os.environ.get("WARPLAB_FAULTS", "3"))
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc"),
]


def students(count: int) -> dict[str, Any]:
    return dict(list(tasks().items())[:count])


def soon_compiled() -> dict[str, Any]:
    """Two that are refused, then right ones, which still take a while when the last of a few faults is due."""
    right, _, raises, is_no_python, *_ = tasks().values()
    return {f"student_{number:02}": one for number, one in enumerate([raises, is_no_python, *[right] * 3])}


def whole(done: Faults) -> None:
    assert (done.lost, done.twice, done.different, done.left) == ([], [], [], 0)


def test_killed_processes_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    # Submissions of all kinds are for faults enough that each could meet one.
    done = run(tmp_path, FAULTS, soon_compiled() if FAULTS < 20 else students(FAULTS // 2))
    whole(done)
    assert done.killed.total() >= 0.8 * FAULTS and set(done.killed) == set(class_faults.SORTS), done.killed
    assert done.runs > done.killed["run"] / 2


def test_a_grade_that_is_written_again_is_counted(tmp_path: Path) -> None:
    made = Class(tmp_path, students(2), slurm=False)
    report = ("passed", 1.0, 1.0, 1.0, None, "emulator", "", "", 1.0, 0.0, "", "{}")
    with closing(sqlite3.connect(made.out / RECORD)) as database:
        for number in (1, 1, 2):
            row = (number, *report)
            database.execute(f"INSERT OR REPLACE INTO grade VALUES ({', '.join('?' * len(row))})", row)
        database.commit()
        ((first,),) = database.execute("SELECT student FROM submission WHERE id = 1")  # the order is drawn
        assert [row[0] for row in database.execute(class_faults._TWICE)] == [first]
    assert made.graded() == 2


@pytest.mark.slow
def test_each_of_the_processes_knows_its_number() -> None:
    assert clusters.number_here() == 0
    with clusters.local(3) as processes:
        client = processes.client
        addresses = list(client.scheduler_info()["workers"])
        numbers = [client.submit(clusters.number_here, pure=False, workers=[one]).result() for one in addresses]
    assert sorted(numbers) == [0, 1, 2]


def test_a_process_that_does_not_start_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(**settings: Any) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(clusters, "LocalCluster", dies)
    with pytest.raises(ClassError, match="did not start .Nanny failed to start"), clusters.local(2):
        pass
