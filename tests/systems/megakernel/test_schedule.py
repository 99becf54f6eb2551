"""Lists of instructions: every row once, nothing before what it needs, pages shared out evenly."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple

import pytest

from systems.megakernel.schedule import MATRIX, MOST_PAGES, Op, Schedule, counters, encoded, schedule
from systems.megakernel.shapes import LLAMA_1B, ROWS, TOY, Shape, ShapeError

CASES = [(TOY, 1, 0), (TOY, 4, 16), (TOY, 132, 31), (LLAMA_1B, 132, 511), (LLAMA_1B, 114, 1000)]
each_case = pytest.mark.parametrize(("shape", "sms", "position"), CASES)


@each_case
def test_every_page_of_the_weights_is_multiplied_once(shape: Shape, sms: int, position: int) -> None:
    pages: Counter[int] = Counter()
    rows: dict[tuple[Op, int], Counter[int]] = {}
    for line in lines_of(schedule(shape, sms, position)):
        if line.op in MATRIX:
            assert 1 <= line.pages <= MOST_PAGES
            pages.update(range(line.page, line.page + line.pages))
            outputs = line.pages if line.op is Op.DOWN else ROWS * line.pages
            rows.setdefault((line.op, line.layer), Counter()).update(range(line.row, line.row + outputs))
    assert pages == Counter(range(shape.all_rows // ROWS))
    assert len(rows) == 4 * shape.layers + 1
    for (op, layer), found in rows.items():
        outputs = shape.width if op is Op.DOWN else shape.rows(MATRIX[op])
        assert found == Counter(range(outputs)), (op, layer)


@each_case
def test_every_page_of_the_cache_up_to_the_position_is_attended_once(shape: Shape, sms: int, position: int) -> None:
    found = Counter(line.page for line in lines_of(schedule(shape, sms, position)) if line.op is Op.ATTEND)
    expected = [
        2 * ((layer * shape.kv_heads + head) * shape.blocks + block)
        for layer in range(shape.layers)
        for head in range(shape.kv_heads)
        for block in range(shape.blocks)
        if block * shape.positions <= position
    ]
    assert found == Counter(expected)


@each_case
def test_each_begins_only_when_all_that_makes_its_inputs_is_done(shape: Shape, sms: int, position: int) -> None:
    lists = schedule(shape, sms, position)
    bumps = Counter(line.bump for line in lines_of(lists) if line.bump >= 0)
    assert set(bumps) == set(range(counters(shape)))
    made = {line.bump: (line.op, line.layer) for line in lines_of(lists) if line.bump >= 0}
    needs = {
        Op.QKV: (Op.DOWN, -1), Op.ATTEND: (Op.QKV, 0), Op.OUT: (Op.ATTEND, 0), Op.GATE_UP: (Op.OUT, 0),
        Op.DOWN: (Op.GATE_UP, 0), Op.LOGITS: (Op.DOWN, -1),
    }  # fmt: skip
    for line in lines_of(lists):
        if line.op is Op.EMBED:
            assert line.wait == -1
            continue
        assert line.target == bumps[line.wait]
        op, step = needs[line.op]
        first = line.op is Op.QKV and line.layer == 0
        assert made[line.wait] == ((Op.EMBED, 0) if first else (op, line.layer + step))


@each_case
def test_lists_end_whichever_sm_is_slow(shape: Shape, sms: int, position: int) -> None:
    lists = schedule(shape, sms, position)
    for order in (range(sms), range(sms - 1, -1, -1)):
        reached: Counter[int] = Counter()
        at = [0] * sms
        while True:
            before = sum(at)
            for sm in order:
                while at[sm] < len(lists[sm]):
                    line = lists[sm][at[sm]]
                    if line.wait >= 0 and reached[line.wait] < line.target:
                        break
                    reached[line.bump] += 1
                    at[sm] += 1
            if sum(at) == before:
                break
        assert at == [len(each) for each in lists]


@each_case
def test_no_sm_has_two_pages_more_than_another(shape: Shape, sms: int, position: int) -> None:
    loads = [sum(line.pages for line in each) for each in schedule(shape, sms, position)]
    assert max(loads) - min(loads) <= 1


def test_lists_travel_as_the_kernels_structure() -> None:
    lists = schedule(TOY, 3, 5)
    words = encoded(lists)
    assert words.dtype.name == "int32" and words.shape[2] == 8
    for sm, each in enumerate(lists):
        assert [tuple(row) for row in words[sm, : len(each)].tolist()] == [astuple(line) for line in each]
        assert (words[sm, len(each) :] == 0).all() and len(each) < words.shape[1]


def test_a_1b_llama_reads_what_its_parameters_take() -> None:
    # Llama 3.2 1B has 1,235,814,400 parameters (its model card says 1.23B), of which 33 norms have 2,048 each
    assert LLAMA_1B.weight_bytes == 2 * (1_235_814_400 - 33 * 2048)
    assert LLAMA_1B.page == 16384 and LLAMA_1B.positions == 128


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"width": 192, "heads": 3}, "A width of 192"),
        ({"kv_heads": 3}, "3 KV heads for 4 heads"),
        ({"vocabulary": 255}, "A vocabulary of 255"),
    ],
)
def test_shapes_that_do_not_fit_pages_are_refused(change: dict[str, int], said: str) -> None:
    sizes = {"layers": 1, "width": 256, "heads": 4, "kv_heads": 2, "vocabulary": 256, "blocks": 1}
    with pytest.raises(ShapeError, match=said):
        Shape(**(sizes | change))


def lines_of(lists: Schedule) -> list:
    return [line for each in lists for line in each]
