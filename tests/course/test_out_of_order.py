"""A cell that runs before those above it gets a sentence; a reader's own misspelt name keeps its traceback."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from course import out_of_order


@pytest.fixture
def shell() -> InteractiveShell:
    made = InteractiveShell()
    out_of_order.install(made)
    return made


def test_a_name_of_a_chapter_leads_to_the_cells_above(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = shell.run_cell("reveal(1, 2, 'x', 'Counted')")
    said = capsys.readouterr().out
    assert said.strip().endswith("`reveal` comes from a cell above: choose Run > Run All Above Selected Cell, "
                                 "then run this cell again.")  # fmt: skip
    assert "Traceback" not in said and isinstance(outcome.error_in_exec, NameError), "a run of all cells still fails"


def test_another_name_is_a_mistake(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("misspelt_by_a_reader + 1")
    said = capsys.readouterr().out
    assert "above" not in said and "misspelt_by_a_reader" in said and "Traceback" in said


def test_a_name_missing_in_a_readers_function_is_a_mistake(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("def mine():\n    return reveal")
    shell.run_cell("mine()")
    said = capsys.readouterr().out
    assert "above" not in said and "Traceback" in said


def test_what_a_kernel_names_for_itself_comes_from_no_cell() -> None:
    """Kernels of the chapters assign `lane`; cells import `np` and `reveal`."""
    made = out_of_order._made()
    assert "lane" not in made and "np" in made and "reveal" in made
