"""The kernels of notebooks 01 and 01b: exercises are solved by the printed solution alone, mistakes are found as the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from course.experiment import emulate
from course.kernel_cell import KernelCell, kernel_cell
from course.trial import Trial, attempt
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.stored

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "source"
TEXT = "".join(path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("01*.md")))
CELLS = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", TEXT, re.S)
KERNELS = {name: cell for head, cell in (cell.split("\n", 1) for cell in CELLS if cell.startswith("%%kernel"))
           for name in head.split()[1:]}  # fmt: skip
EXERCISES = ("neighbours", "rows", "largest", "above")


def goal_cell(name: str) -> str:
    """The cell that says whether the exercise is solved."""
    (cell,) = [cell for cell in CELLS if f"attempt({name}," in cell and "goal(" in cell]
    return cell


def solved(name: str) -> str:
    """The given kernel with those of its functions replaced that the folded solution prints."""
    after = TEXT[TEXT.index(f"%%kernel {name}\n") :]
    found = re.search(r"<details>.*?```python\n(.*?)```", after, re.S)
    assert found
    text = KERNELS[name]
    for definition in re.split(r"\n\n\n", found.group(1).strip()):
        (function,) = re.findall(r"^def (\w+)", definition, re.M)
        old = re.search(rf"(?:^@cuda\.jit\n)?^def {function}\(.*?(?=\n\n\n|\Z)", text, re.S | re.M)
        assert old
        text = text.replace(old.group(), definition)
    return text


def reached(name: str, text: str, folder: Path) -> bool:
    said: list[bool] = []
    names: dict[str, Any] = {"np": np, "attempt": attempt, "goal": lambda yes, _: said.append(bool(yes))}
    exec(goal_cell(name), names | {name: kernel_cell(name, text, folder)})
    return said[0]


@pytest.mark.parametrize("name", EXERCISES)
def test_only_the_solution_reaches_the_goal(name: str, tmp_path: Path) -> None:
    assert solved(name) != KERNELS[name]
    assert not reached(name, KERNELS[name], tmp_path)
    assert reached(name, solved(name), tmp_path)


def test_a_sparing_kernel_that_is_wrong_does_not_reach_the_goal(tmp_path: Path) -> None:
    assert not reached("above", solved("above").replace("% 32 == 0", "== 0"), tmp_path)
    assert not reached("rows", solved("rows").replace("+ v[column]", "+ v[row]"), tmp_path)


def run(name: str, folder: Path, **case: Any) -> Trial:
    cell: KernelCell = kernel_cell(name, KERNELS[name], folder)
    return attempt(cell, case)


THIRTY = {"x": np.arange(30, dtype=np.int32), "out": np.zeros(30, np.int32)}
SIXTY_FOUR = {"x": np.arange(64, dtype=np.int32), "out": np.zeros(64, np.int32)}
MATRIX = {"a": np.zeros((7, 15), np.float32), "out": np.zeros((7, 15), np.float32)}
COLOURS = {"colour": np.arange(32, dtype=np.int32) % 4, "out": np.zeros(4, np.int32)}


@pytest.mark.parametrize(
    ("name", "case", "kinds"),
    [
        ("twice", THIRTY, {FindingKind.OUT_OF_BOUNDS}),
        ("guarded", THIRTY, set()),
        ("matrix", MATRIX, set()),
        ("confused", MATRIX, {FindingKind.OUT_OF_BOUNDS}),
        ("turn", {"x": np.arange(32, dtype=np.int32), "out": np.zeros(32, np.int32), "threads": 32},
         {FindingKind.OUT_OF_BOUNDS}),
        ("meet", SIXTY_FOUR, set()),
        ("forgotten", SIXTY_FOUR, {FindingKind.RACE, FindingKind.UNINITIALISED}),
        ("branched", SIXTY_FOUR, {FindingKind.DIVERGENT_BARRIER}),
        ("halves", {"x": np.arange(16, dtype=np.int32), "out": np.zeros((5, 16), np.int32)}, set()),
        ("shuffled", {"x": np.ones(32, np.int32), "out": np.zeros((6, 32), np.int32)}, set()),
        ("thrifty", {"x": np.ones(32, np.int32), "out": np.zeros(1, np.int32)}, {FindingKind.DIVERGENT_BARRIER}),
        ("keep", {"x": np.arange(32, dtype=np.int32), "out": np.zeros(32, np.int32)}, set()),
        ("lost", COLOURS, {FindingKind.RACE}),
        ("counted", COLOURS, set()),
        ("ticket", {"x": np.arange(50), "out": np.zeros(1, np.int64)}, set()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_emulator_names_what_the_text_says_it_names(name: str, case: dict, kinds: set, tmp_path: Path) -> None:
    trial = run(name, tmp_path, **case)
    assert not trial.problem and {finding.kind for finding in trial.findings} == kinds


def test_a_block_that_waits_for_a_later_one_never_ends(tmp_path: Path) -> None:
    cell = kernel_cell("impatient", KERNELS["impatient"], tmp_path)
    trial = attempt(cell, {"out": np.zeros(2, np.int32)}, budget=20_000)
    assert [finding.kind for finding in trial.findings] == [FindingKind.ENDLESS]


def test_a_block_of_2048_threads_is_refused(tmp_path: Path) -> None:
    trial = run("number", tmp_path, out=np.zeros(4096, np.int32), threads=2048)
    assert "the most is 1024" in trial.problem and not trial.clean


def test_the_tree_and_the_shuffles_add_up(tmp_path: Path) -> None:
    digits = np.arange(16, dtype=np.int32)
    tree = run("halves", tmp_path, x=digits, out=np.zeros((5, 16), np.int32)).output
    warp = run("shuffled", tmp_path, x=np.arange(32, dtype=np.int32), out=np.zeros((6, 32), np.int32)).output
    assert tree is not None and tree[4, 0] == digits.sum() and tree[1, 3] == digits[3] + digits[11]
    assert warp is not None and warp[5, 0] == np.arange(32).sum()


def test_exchanged_sides_write_the_columns_that_the_answer_names(tmp_path: Path) -> None:
    written = run("confused", tmp_path, a=np.ones((7, 15), np.float32), out=np.zeros((7, 15), np.float32)).output
    assert written is not None
    assert (written[:, :7] == 2).all() and not (written[:, 7:] == 2).any()


def test_the_swapped_index_costs_eight_times_the_sectors(tmp_path: Path) -> None:
    cell = kernel_cell("doubled", KERNELS["doubled"], tmp_path)
    a = np.ones((128, 128), np.float32)
    sectors = [
        emulate(cell, [{"a": a, "out": a}], name)[0].total.global_load_sectors for name in ("doubled", "swapped")
    ]
    assert sectors == [128 * 128 * 4 // 32, 128 * 128]
