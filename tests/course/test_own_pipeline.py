"""What notebook 13 says of a reader's pipeline schedule, and of what is none."""

import pytest
from matplotlib.figure import Figure

from autograder.spec.lab import LabError
from course.own_pipeline import lab_functions, own_pipeline

SERIAL = [(rank, kind, number, 0) for rank in range(2) for number in range(2) for kind in "FB"]


def test_a_right_one_is_drawn_with_what_it_holds_and_waits(capsys: pytest.CaptureFixture[str]) -> None:
    """Two micro-batches one after the other: each rank waits for the other's 3, and for two transfers, twice."""
    assert isinstance(own_pipeline(SERIAL, 2, 2), Figure)
    assert capsys.readouterr().out == "held at once, by rank: 1, 1\nbubble: 6.16 forward passes, at least 3.08\n"


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (SERIAL[:-1], "Rank 1 never does B of micro-batch 1."),
        (SERIAL + SERIAL[:1], "which it has done before"),
        ([(2, "F", 0, 0)], "ranks are 0 to 1"),
        ([(0, "X", 0, 0)], "Record 0 has the pass 'X': it is 'F', 'B' or 'W'."),
        ([(0, "F", 0)], "These are no records (rank, pass, micro-batch, chunk)"),
        (None, "These are no records"),
    ],
)
def test_a_wrong_one_gets_a_sentence(records: list, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert own_pipeline(records, 2, 2) is None
    assert says in capsys.readouterr().out


def test_the_file_of_the_lab_is_read() -> None:
    assert lab_functions("14_pipeline_schedule").zero_bubble(4, 8) == []
    with pytest.raises(LabError, match="There is no lab"):
        lab_functions("14_pipelines")
