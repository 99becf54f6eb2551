"""What notebook 14 says of a reader's plan, and of what is none."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure

from course.own_checkpoint import as_in_the_lab, own_checkpoint
from course.own_pipeline import lab_functions
from systems.training.planner import Operator

TABLE = [
    Operator(block, *one) for block in (0, 1) for one in (("qkv", 30, 60, 5), ("norm", 10, 0, 20), ("up", 40, 70, 6))
]


def test_a_plan_is_drawn_with_what_it_costs_beside_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 80 bytes a block with 130 FLOP, 45 hold the 70 of one `up`, and the rest no more than nothing."""
    made = own_checkpoint([(0, "qkv"), (1, "norm")], TABLE, budget=45)
    assert isinstance(made, Figure) and len(made.axes[0].patches) == len(TABLE)
    assert capsys.readouterr().out == (
        "bytes kept: 40; the best plan: 40\nFLOP again: 200; the best plan: 190\n"
        "bytes moved again: 37; the best plan: 56\n"
    )


def test_at_the_peak_the_last_block_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    last = [(1, "qkv"), (1, "norm"), (1, "up")]
    assert own_checkpoint(last, TABLE, budget=0, at_peak=True) is not None
    assert "FLOP again: 130; the best plan: 130" in capsys.readouterr().out
    own_checkpoint([*last, (0, "norm")], TABLE, budget=0, at_peak=True)
    assert "That is 10 bytes more at the peak, where the budget is 0." in capsys.readouterr().out


def test_a_policy_has_no_budget(capsys: pytest.CaptureFixture[str]) -> None:
    own_checkpoint([(0, "qkv"), (0, "up"), (1, "qkv")], TABLE)
    said = capsys.readouterr().out
    assert "bytes kept: 100; the best plan: 140" in said and said.endswith("A policy computes no FLOP again.\n")


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([(0, "down")], "'down' of block 0 is not in the table."),
        ([(2, "up")], "'up' of block 2 is not in the table."),
        ([(0, "up"), (0, "up")], "'up' of block 0 is kept more than once."),
        ([("up",)], "not (block, name of an operator)"),
        (None, "your function returns None instead of a list of records"),
    ],
)
def test_a_wrong_one_gets_a_sentence(records: Any, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert own_checkpoint(records, TABLE, budget=100) is None
    assert says in capsys.readouterr().out


def test_the_file_of_the_lab_is_called_with_its_table() -> None:
    table = as_in_the_lab(TABLE)
    assert table[2].flops == 70 and [tuple(one) for one in table][0] == (0, "qkv", 30, 60, 5)
    assert lab_functions("15_selective_checkpoint").plan(table, 100) == []
