"""Labs 07 to 10 part by part: what the starter earns as its parts are completed, in the order of the handout.

A grade takes the emulator ten seconds: `make test` has one of each of the first two tests, `make test-long` all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.records.status import Status
from autograder.spec.lab import find_lab, labs_folder, solutions_folder
from autograder.starter import make_starter
from tests.labs.judging import EMULATOR, emulator_for
from tests.labs.parts_of_lab_07 import BLOCKS as PLACES
from tests.labs.parts_of_lab_07 import FRAGMENTS, STEPS
from tests.labs.parts_of_lab_10 import CHOOSE, COUNT, PLACE
from tests.sampling import WHOLE, only_whole

pytestmark = pytest.mark.processes

LAB, LAB_07, LAB_09, LAB_10 = "08_hopper_hgemm", "07_tensor_core_hgemm", "09_fp8_gemm", "10_index_shuffle"
LAB_19 = "19_blackwell_gemm"
ONE_PRODUCT, RING = {1, 2, 3, 4}, {1, 2, 3, 4, 5, 8, 9}  # its solution blocks after parts 1 and 2
MOST_LINES = {"submission.py": 70, "submission_cuda.py": 90}  # of labs 07 and 10 after their third stage
BLOCKS = (2, 3, 6, 8)  # of the solution, that are done with part 1, 2, 3 and 4


def completed(blocks: int | set[int], lab: str = LAB) -> str:
    """The reference with its first solution blocks, or those of the set, and the starter's text for the rest."""
    done = set(range(blocks)) if isinstance(blocks, int) else blocks
    text = (solutions_folder() / lab / "submission.py").read_text(encoding="utf-8")
    pieces = re.split(r"(?<=// END SOLUTION\n)", text)
    return make_starter("".join(_without_marks(p) if n in done else p for n, p in enumerate(pieces)))


def _without_marks(piece: str) -> str:
    return re.sub(r"^ *// (BEGIN SOLUTION|END SOLUTION|STARTER:.*)\n", "", piece, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def worker() -> Iterator[ConfinedWorker]:
    with ConfinedWorker(EMULATOR, own=False) as shared:
        yield shared


def graded(text: str, worker: ConfinedWorker, folder: Path, lab: str = LAB) -> Report:
    path = folder / "submission.py"
    path.write_text(text, encoding="utf-8")
    return grade(Request(find_lab(lab), path, emulator_for(lab), seed=3, quick=True), worker)


def passed(report: Report) -> set[str]:
    return {case.name for case in report.parts[0].cases if case.status is Status.PASSED}


def test_without_any_part_it_is_the_starter() -> None:
    """Which tests/labs/test_submissions.py has."""
    assert completed(0) == (labs_folder() / LAB / "submission.py").read_text(encoding="utf-8")


def test_each_part_earns_what_its_case_gives(worker: ConfinedWorker, tmp_path: Path) -> None:
    for blocks, points in ((BLOCKS[0], 5), (BLOCKS[1], 10))[: None if WHOLE else 1]:
        report = graded(completed(blocks), worker, tmp_path)
        assert [part.score for part in report.parts[:3]] == [points, 0, 0]


def test_the_ring_earns_all_answers_but_not_the_drains(worker: ConfinedWorker, tmp_path: Path) -> None:
    report = graded(completed(BLOCKS[2]), worker, tmp_path)
    assert all(part.status is Status.PASSED and part.score == part.max_score for part in report.parts[:2])
    over = [budget.counter for budget in report.parts[2].budgets if not budget.passed]
    assert over == ["warpgroup_drains"] and report.parts[2].score < report.parts[2].max_score


@only_whole
def test_a_ring_that_is_right_but_for_the_order_of_tiles_keeps_what_its_own_case_gives(
    worker: ConfinedWorker, tmp_path: Path
) -> None:
    text = completed(BLOCKS[2])
    wrong = graded(text.replace("column = within / height", "column = within % height"), worker, tmp_path)
    assert wrong.parts[0].score == 15 and {"descriptors", "twice round the ring"} <= passed(wrong)
    assert "order of tiles" not in passed(wrong)


@only_whole
def test_a_case_with_a_finding_earns_nothing(worker: ConfinedWorker, tmp_path: Path) -> None:
    """Stages are handed back when their products are issued: the answers of the ring are right by luck."""
    text = completed(BLOCKS[3])
    early = text.replace("if (step > 0 && leader) arrive(before);", "if (leader) arrive(ring.empty_barrier());")
    early = early.replace("    products_wait<0>();\n    if (leader) arrive(before);\n", "    products_wait<0>();\n")
    early = early.replace("column = within / height", "column = within % height")
    report = graded(early, worker, tmp_path)
    assert report.parts[0].score == 5 and report.parts[1].score == 0


STAGED = {  # what is earned after each part, and the most lines of either language then
    LAB_07: ((FRAGMENTS, PLACES, STEPS), [[0, 0, 0], [5, 0, 0], [10, 0, 0], [30, 15, 0]]),
    LAB_10: ((CHOOSE, COUNT, PLACE), [[0, 0, 0], [5, 0, 0], [10, 0, 0], [35, 15, 0]]),
}


@pytest.mark.parametrize("name", FRAGMENTS)
@pytest.mark.parametrize("lab", STAGED)
def test_starters_in_parts_stage_by_stage(lab: str, name: str, worker: ConfinedWorker, tmp_path: Path) -> None:
    text, (parts, expected) = (labs_folder() / lab / name).read_text(encoding="utf-8"), STAGED[lab]
    earned = []
    for part in ({name: ()}, *parts):
        for given, right in part[name]:
            assert text.count(given) == 1, given
            text = text.replace(given, right)
        report = graded(text, worker, tmp_path, lab)
        earned.append([part.score for part in report.parts[:3]])
    assert earned == expected
    assert len(text.splitlines()) <= MOST_LINES[name]


def test_codes_and_scales_alone_earn_their_case_in_lab_09(worker: ConfinedWorker, tmp_path: Path) -> None:
    report = graded(completed(1, LAB_09), worker, tmp_path, LAB_09)
    assert [part.score for part in report.parts[:3]] == [5, 0, 0] and passed(report) == {"quantise"}


@only_whole
def test_whole_blocks_keep_what_their_cases_give_in_lab_09(worker: ConfinedWorker, tmp_path: Path) -> None:
    wrong = completed(5, LAB_09).replace("blocks = (k + TILE_K - 1) / TILE_K", "blocks = max(k / TILE_K, 1)")
    report = graded(wrong, worker, tmp_path, LAB_09)
    assert report.parts[0].score == 15 and {"quantise", "scale", "promote"} <= passed(report)
    assert "ragged" not in passed(report)


def test_one_product_earns_its_case_in_lab_19(worker: ConfinedWorker, tmp_path: Path) -> None:
    report = graded(completed(ONE_PRODUCT, LAB_19), worker, tmp_path, LAB_19)
    assert [part.score for part in report.parts[:3]] == [10, 0, 0] and "one product" in passed(report)


def test_a_block_alone_earns_all_but_traffic_in_lab_19(worker: ConfinedWorker, tmp_path: Path) -> None:
    report = graded(completed(RING, LAB_19), worker, tmp_path, LAB_19)
    assert [part.score for part in report.parts[:3]] == [40, 20, 0]
    over = [budget.counter for budget in report.parts[2].budgets if not budget.passed]
    assert over == ["bulk_load_sectors", "tensor_instructions"]


def test_the_time_of_lab_19_needs_a_b200(worker: ConfinedWorker, tmp_path: Path) -> None:
    report = graded(completed(0, LAB_19), worker, tmp_path, LAB_19)
    assert report.parts[3].status is Status.NOT_MEASURED and report.parts[3].message == "Needs a B200."
