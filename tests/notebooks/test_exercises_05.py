"""The exercises of notebook 05: what is given does not reach the goal, the solution that is printed does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from course.chapters import c05_roofline as c05
from course.kernel_cell import kernel_cell

pytestmark = pytest.mark.stored

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "05_roofline.md"
TEXT = SOURCE.read_text(encoding="utf-8")
CELLS = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", TEXT, re.S)
EXERCISES = [("two_reads", "### Exercise 1"), ("one_read", "### Exercise 2"), ("block_read", "### Exercise 3")]


def given(name: str) -> str:
    (cell,) = [cell for cell in CELLS if cell.startswith(f"%%kernel {name}\n")]
    return cell.split("\n", 1)[1]


def printed_solution(heading: str) -> str:
    found = re.search(r"<details>.*?```python\n(.*?)```", TEXT[TEXT.index(heading) :], re.S)
    assert found
    return found.group(1)


def reached(name: str, text: str, folder: Path) -> bool:
    """What the cell says that judges the exercise `name`, with `text` as the learner's cell."""
    said: list[bool] = []
    (cell,) = [cell for cell in CELLS if f"c05.judged({name}," in cell]
    names: dict[str, Any] = {"c05": c05, "goal": lambda yes, _: said.append(bool(yes))}
    exec(cell, names | {name: kernel_cell(name, text, folder)})
    return said[0]


@pytest.mark.parametrize(("name", "heading"), EXERCISES)
def test_softmax(name: str, heading: str, tmp_path: Path) -> None:
    assert not reached(name, given(name), tmp_path)
    assert reached(name, printed_solution(heading), tmp_path)
    wrong = printed_solution(heading).replace("/ total", "/ (total + 1)")
    assert not reached(name, wrong, tmp_path), "wrong, though sparing"


def test_a_block_without_its_barriers_does_not_reach_the_goal(tmp_path: Path) -> None:
    bare = printed_solution("### Exercise 3").replace("    cuda.syncthreads()\n", "", 1)
    assert not reached("block_read", bare, tmp_path)


def test_a_mask(tmp_path: Path) -> None:
    (cell,) = [cell for cell in CELLS if "c05.judged_with_mask(masked)" in cell]
    solution = printed_solution("### Exercise 4")
    infinite = solution.replace("        if mask[row, j] != 0:\n            out", "        if True:\n            out")
    ignored = solution.replace(
        "        if mask[row, j] != 0:\n            largest", "        if True:\n            largest"
    )
    assert len({solution, infinite, ignored}) == 3
    for text, right in ((given("masked"), False), (solution, True), (infinite, False), (ignored, False)):
        said: list[bool] = []
        names: dict[str, Any] = {"c05": c05, "goal": lambda yes, _, said=said: said.append(yes)}
        exec(cell, names | {"masked": kernel_cell("masked", text, tmp_path)})
        assert said == [right], text


def test_three_kernels_request_what_counting_by_hand_says(tmp_path: Path) -> None:
    runs = c05.runs_of_three_kernels(kernel_cell("stencil", given("stencil"), tmp_path))
    run, must = runs["gemv"]
    assert must == 4 * (512 * 512 + 512 + 512)
    # Of each row, 2 KiB of the matrix and 2 KiB of the vector; a sector for the one result that it writes.
    assert c05.requested(run)[0] == 512 * (2048 + 2048 + 32)
    run, must = runs["embedding"]
    assert must == 512 * 256 * 4 * 2 + 512 * 8


def test_the_number_of_tokens() -> None:
    names: dict[str, Any] = {"limited": c05.limited_by}
    exec(printed_solution("### Exercise 5"), names)
    tokens = names["tokens"]
    assert isinstance(tokens, int)
    # 1/I = 1/n + 1/t + 1/k, at the ridge
    ridge = c05.ceiling("tensor_fp16") / c05.ceiling("copy")
    assert tokens == pytest.approx(1 / (1 / ridge - 1 / 14336 - 1 / 4096), abs=1)
