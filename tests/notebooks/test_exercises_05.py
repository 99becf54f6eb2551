"""The exercises of notebook 05: what is given does not reach the goal, the solution that is printed does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.stored

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "05_roofline.md"
TEXT = SOURCE.read_text(encoding="utf-8")
CELLS = re.findall(r"```\{code-cell\} ipython3\n(?:---\n.*?^---\n)?(.*?)```", TEXT, re.S | re.M)  # without metadata


def given(name: str) -> str:
    (cell,) = [cell for cell in CELLS if cell.startswith(f"%%writefile ../build/roofline/{name}.py\n")]
    return cell.split("\n", 1)[1]


def printed_solution(heading: str) -> str:
    found = re.search(r"<details>.*?```python\n(.*?)```", TEXT[TEXT.index(heading) :], re.S)
    assert found
    return found.group(1)


@pytest.fixture
def goals(tmp_path: Path) -> Callable[[str, str], bool]:
    """Runs the cell that says whether the exercise `name` is solved, with `text` as the learner's file."""
    reached: list[bool] = []
    names: dict = {"np": np, "Path": Path, "folder": tmp_path, "goal": lambda ok, text: reached.append(bool(ok))}
    exec("from warplab.hardware.chips import H200", names)
    (emulate,) = [cell for cell in CELLS if "def emulate(" in cell]
    exec(emulate, names)
    (measure,) = [cell for cell in CELLS if "def softmax_run(" in cell]
    exec(measure[: measure.index("\nrun, right")], names)

    def solved(name: str, text: str) -> bool:
        (tmp_path / f"{name}.py").write_text(text)
        (cell,) = [cell for cell in CELLS if f'softmax_run("{name}")' in cell]
        exec(cell[re.search(r"^run, right", cell, re.M).start() :], names)  # type: ignore[union-attr]
        return reached.pop()

    return solved


@pytest.mark.parametrize(("name", "heading"), [("two_reads", "### Exercise 1"), ("one_read", "### Exercise 2")])
def test_softmax(name: str, heading: str, goals: Callable[[str, str], bool]) -> None:
    assert not goals(name, given(name))
    assert goals(name, printed_solution(heading))
    assert not goals(name, printed_solution(heading).replace("/ total", "/ (total + 1)")), "wrong, though thrifty"


def test_the_number_of_tokens() -> None:
    from warplab.hardware import Roofline
    from warplab.hardware.operators import gemm

    text = printed_solution("### Exercise 3")
    roof = Roofline(850e12, 4.28e12)
    names = {"limited": lambda count: roof.bound(gemm("linear", count, 14336, 4096).intensity)}
    exec(text, names)
    tokens = names["tokens"]
    assert isinstance(tokens, int)
    # 1/I = 1/n + 1/t + 1/k, at the ridge
    assert tokens == pytest.approx(1 / (1 / roof.ridge - 1 / 14336 - 1 / 4096), abs=1)
