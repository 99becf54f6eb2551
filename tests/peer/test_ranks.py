"""What ranks of a measurement do together, where it needs no GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")


class Clock:
    """All ranks have time for so many pieces of work."""

    def __init__(self, pieces: int) -> None:
        self._left = pieces

    def agree(self, yes: bool) -> bool:
        self._left -= 1
        return yes and self._left >= 0


@pytest.mark.parametrize(("rank", "said"), [(0, {"cut": "the measurement"}), (1, None)])
def test_work_is_cut_where_a_rank_has_no_time_left(rank: int, said: object, capsys: pytest.CaptureFixture[str]) -> None:
    from systems.peer.ranks import Ranks

    begun = []

    def work() -> Iterator[int]:
        for piece in range(4):
            begun.append(piece)
            yield piece

    ranks = Ranks(rank, 2, Clock(2), None, lambda: "")  # type: ignore[arg-type]
    assert list(ranks.while_time(work(), float("inf"), "the measurement")) == [0, 1]
    printed = capsys.readouterr().out
    assert (json.loads(printed) if printed else None) == said
    assert begun == [0, 1, 2]


def test_no_work_begins_when_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    from systems.peer.ranks import Ranks

    assert not list(Ranks(0, 2, Clock(9), None, lambda: "").while_time([1], 0.0, "all"))  # type: ignore[arg-type]
    assert json.loads(capsys.readouterr().out) == {"cut": "all"}
