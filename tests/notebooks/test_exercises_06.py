"""The exercises of the notebooks: what is given does not reach the goal, the solution that is printed does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from course.lesson import Lesson, Step

pytestmark = pytest.mark.stored

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "06_tiled_gemm.md"
TEXT = SOURCE.read_text(encoding="utf-8")
CELL = r"```\{code-cell\} ipython3\n"


def given(name: str) -> str:
    """The kernel that an exercise starts from."""
    (cell,) = re.findall(rf"{CELL}%%rung 06_tiled_gemm {name}\n(.*?)```", TEXT, re.S)
    return cell


def goal_cell(name: str) -> str:
    """The cell that says whether the exercise is solved."""
    after = TEXT[TEXT.index(f"%%rung 06_tiled_gemm {name}\n") :]
    (cell,) = [cell for cell in re.findall(rf"{CELL}(.*?)```", after, re.S) if "goal(" in cell][:1]
    return cell


def printed_solution(name: str) -> str:
    """The Python of the folded solution that follows the exercise."""
    after = TEXT[TEXT.index(f"%%rung 06_tiled_gemm {name}\n") :]
    found = re.search(r"<details>.*?```python\n(.*?)```", after, re.S)
    assert found
    return found.group(1)


def replace(text: str, first: str, last: str, new: str) -> str:
    """`text` with everything from `first` to the end of `last` replaced."""
    start, end = text.index(first), text.index(last) + len(last)
    return text[:start] + new + text[end:]


def solve_plain_loop(text: str) -> str:
    return replace(text, "    j, i = cuda.grid(2)\n", "        c[i, j] = total\n", printed_solution("plain_loop"))


def solve_transposed(text: str) -> str:
    return text.replace("PITCH = 32", "PITCH = 33")


def solve_unguarded(text: str) -> str:
    return re.sub(r".*# take this one out\n", "", text)


def solve_two_rows(text: str) -> str:
    text = replace(text, "    total = float32(0)\n", "        c[i, j] = total\n", printed_solution("two_rows"))
    return text.replace("(TILE, TILE)](a, b, c)", "(TILE, TILE // 2)](a, b, c)")


@pytest.fixture(scope="module")
def lesson() -> Lesson:
    return Lesson("06_tiled_gemm")


TWO_ROWS = pytest.param(solve_two_rows, marks=pytest.mark.processes)  # its PTX differs from one process to another


@pytest.mark.parametrize("solve", [solve_plain_loop, solve_transposed, solve_unguarded, TWO_ROWS])
def test_only_the_solution_reaches_the_goal(solve: Callable[[str], str], lesson: Lesson, tmp_path: Path) -> None:
    name = solve.__name__.removeprefix("solve_")
    shared = lesson.climb("rung_3_shared_tile")

    def reached(text: str) -> bool:
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        step: Step = lesson.climb(path)
        said: list[bool] = []
        exec(goal_cell(name), {name: step, "shared": shared, "goal": lambda yes, _: said.append(yes), "costs": bool})
        return said[0]

    assert solve(given(name)) != given(name)
    assert not reached(given(name))
    assert reached(solve(given(name)))
