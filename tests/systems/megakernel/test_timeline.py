"""The model of which block waits for which, beside cases that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from systems.megakernel.schedule import Instruction, Op, schedule
from systems.megakernel.shapes import LLAMA_1B, TOY
from systems.megakernel.timeline import Machine, Span, modelled, read, spans, written

PLAIN = Machine(page=10, latency=100, compute=4, hand_over=50, slots=3)


def test_pages_come_at_the_memorys_pace_and_a_slot_must_be_free() -> None:
    (times,) = modelled([[Instruction(Op.QKV, pages=5)]], PLAIN)
    # asked at 0, 10, 20; the fourth when the first is multiplied (104), the fifth with the second (114)
    assert times.tolist() == [[0, 0, 100, 218, 218]]
    (many,) = modelled([[Instruction(Op.QKV, pages=5)]], replace(PLAIN, slots=5))
    assert many[0, 3] == 40 + 100 + 4


def test_weights_come_while_inputs_are_waited_for_and_only_if_asked_for_ahead() -> None:
    lists = [
        [Instruction(Op.QKV, pages=1, bump=0)],
        [Instruction(Op.OUT, pages=1, wait=0, target=1)],
    ]
    times = modelled(lists, PLAIN)
    assert times[0, 0].tolist() == [0, 0, 100, 104, 104]
    assert times[1, 0].tolist() == [0, 154, 100, 158, 158]
    late = modelled(lists, replace(PLAIN, ahead=False))
    assert late[1, 0].tolist() == [0, 154, 254, 258, 258]


def test_who_asks_for_much_tells_late() -> None:
    lists = [
        [Instruction(Op.QKV, pages=1, bump=0), Instruction(Op.DOWN, pages=5)],
        [Instruction(Op.OUT, pages=1, wait=0, target=1)],
    ]
    waits = replace(PLAIN, release_waits=True)
    # At 104 the first page is multiplied; two more are on their way, and a fourth has just been asked for.
    times = modelled(lists, waits)
    assert times[0, 0].tolist() == [0, 0, 100, 104, 204]
    assert times[1, 0, 1] == 204 + 50
    # With one at a time the second has just been asked for when the first has come, as is told in the end.
    one = modelled(lists, replace(waits, in_flight=1, latency=20, page=10))
    assert one[0, 0].tolist() == [0, 0, 20, 24, 40]
    # Who tells nobody waits for nothing.
    assert modelled([lists[0][1:]], waits)[0, 0, 3:].tolist() == [218, 218]


def test_pages_on_their_way_are_counted() -> None:
    line = [[Instruction(Op.QKV, pages=4)]]
    two = modelled(line, replace(PLAIN, slots=4, in_flight=2))
    assert two[0, 0, 3] == 210 + 4, "at 0, 0, and when these have come at 100 and 110"
    assert modelled(line, replace(PLAIN, slots=4))[0, 0, 3] == 130 + 4
    assert (
        modelled(line, replace(PLAIN, slots=2)).tolist()
        == modelled(line, replace(PLAIN, slots=2, in_flight=9)).tolist()
    )


@pytest.mark.slow
def test_no_step_beats_the_memory_and_deep_rings_reach_it() -> None:
    lists = schedule(LLAMA_1B, 132, 511)
    floor = sum(line.pages for each in lists for line in each) / 132
    machine = Machine(page=1, latency=2, compute=0.2, hand_over=4, slots=13)
    took = {slots: modelled(lists, replace(machine, slots=slots)).max() for slots in (4, 13, 40)}
    assert took[4] > took[13] >= took[40] > floor
    assert took[40] < 1.02 * floor
    assert modelled(lists, replace(machine, ahead=False)).max() > 1.2 * floor


def test_lists_that_wait_for_each_other_are_refused() -> None:
    lists = [[Instruction(Op.QKV, wait=0, target=1, bump=1)], [Instruction(Op.QKV, wait=1, target=1, bump=0)]]
    with pytest.raises(ValueError, match="never end"):
        modelled(lists, PLAIN)


def test_spans_travel_as_text() -> None:
    lists = schedule(TOY, 3, 0)
    times = np.rint(modelled(lists, PLAIN))
    for each, lines in zip(spans(lists, times), lists, strict=True):
        assert [span.op for span in each] == [line.op for line in lines]
        assert read(written(each)) == each
    assert read("") == []
    assert read("DOWN 3 1 2 3 4 5") == [Span(Op.DOWN, 3, 1, 2, 3, 4, 5)]
