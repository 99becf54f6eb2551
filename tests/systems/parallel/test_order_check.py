"""What is wrong with the orders of a pipeline, and where it begins."""

import itertools

import pytest

from systems.parallel.bubbles import bubble, least_bubble
from systems.parallel.layout import Schedule
from systems.parallel.order_check import Wrong, check
from systems.parallel.shapes import LayoutError
from systems.parallel.timeline import Kind, Orders, Pass, idle, orders, run

F, B, I, W = Kind.FORWARD, Kind.BACKWARD, Kind.INPUT, Kind.WEIGHTS  # noqa: E741


def order(text: str, rank: int = 0, ranks: int = 2) -> list[Pass]:
    """`F0 B0`, or with a chunk `F0.1`."""
    found = []
    for word in text.split():
        number, _, chunk = word[1:].partition(".")
        found.append(Pass(Kind(word[0]), int(number), int(chunk or 0) * ranks + rank))
    return found


def both(first: str, second: str) -> Orders:
    return [order(first), order(second, 1)]


GOOD = "F0 B0 F1 B1"


@pytest.mark.parametrize("schedule", [Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE])
@pytest.mark.parametrize(("stages", "many"), [(1, 3), (2, 1), (4, 9), (6, 2)])
def test_known_schedules_are_right(schedule: Schedule, stages: int, many: int) -> None:
    assert check(orders(schedule, stages, many), many, split=schedule is Schedule.ZERO_BUBBLE) is None


@pytest.mark.parametrize("chunks", [2, 3])
def test_interleaved_ones_are_right(chunks: int) -> None:
    assert check(orders(Schedule.ONE_F_ONE_B, 3, 6, chunks), 6, chunks) is None


@pytest.mark.parametrize(
    ("wrong", "kind", "rank", "place", "says"),
    [
        (both("F0 B0 F1 B1 F0", GOOD), Wrong.TWICE, 0, 4, "Rank 0 has F of micro-batch 0 as its pass 4, which it has"),
        (both(GOOD, "B0 F0 F1 B1"), Wrong.TOO_EARLY, 1, 0, "as its pass 0, before F of micro-batch 0, whose result"),
        (both(GOOD, "F0 B0 F1"), Wrong.MISSING, 1, None, "Rank 1 never does B of micro-batch 1."),
        (both(GOOD, "F0 B0 F2 B2"), Wrong.NO_SUCH_PASS, 1, 2, "micro-batches are 0 to 1."),
        (both(GOOD, "F0 W0 F1 B1"), Wrong.NO_SUCH_PASS, 1, 1, "the passes here are F, B."),
        (both("F0 F0.1 B0 F1 B1", GOOD), Wrong.NO_SUCH_PASS, 0, 1, "has chunk 1 in its pass 1: chunks are 0 to 0."),
        ([order(GOOD), order(GOOD)], Wrong.NO_SUCH_PASS, 1, 0, "Rank 1 has chunk 0"),
        (
            both("F0 B0 F1 B1", "F1 B1 F0 B0"), Wrong.DEADLOCK, 0, 1,
            "its pass 1, B of micro-batch 0, needs B of micro-batch 0 of rank 1, where F of micro-batch 1 comes first, "
            "which waits for rank 0.",
        ),
        ([[], []], Wrong.MISSING, 0, None, "Rank 0 never does F of micro-batch 0."),
    ],
)  # fmt: skip
def test_the_first_fault_is_named(wrong: Orders, kind: Wrong, rank: int, place: int | None, says: str) -> None:
    fault = check(wrong, 2)
    assert fault is not None
    assert (fault.kind, fault.rank, fault.place) == (kind, rank, place), fault.sentence
    assert says in fault.sentence


def test_weights_come_after_the_inputs_gradient() -> None:
    fault = check([order("F0 W0 I0", ranks=1)], 1, split=True)
    assert fault is not None and fault.kind is Wrong.TOO_EARLY
    assert (
        fault.sentence
        == "Rank 0 has W of micro-batch 0 as its pass 1, before B of micro-batch 0, whose result it needs."
    )
    assert check([order("F0 I0 W0", ranks=1)], 1, split=True) is None
    assert check([order("F0 I0 W0", ranks=1)], 1) is not None


def test_orders_pass_if_and_only_if_they_can_be_carried_out() -> None:
    """Every order of two micro-batches on two ranks: what the check lets pass, `run` does, and nothing else."""
    passes = order("F0 F1 B0 B1")
    verdicts = set()
    for first in itertools.permutations(passes):
        for second in itertools.permutations([Pass(one.kind, one.micro_batch, 1) for one in passes]):
            made = [list(first), list(second)]
            try:
                run(made, 1, 1, 1)
                possible = True
            except LayoutError:
                possible = False
            verdicts.add(possible)
            assert (check(made, 2) is None) is possible, made
    assert verdicts == {True, False}


def test_of_passes_side_by_side_nothing_is_said() -> None:
    with pytest.raises(LayoutError, match="side by side"):
        check(orders(Schedule.DUALPIPE, 4, 8), 8)


class TestLeastBubble:
    @pytest.mark.parametrize(("chunks", "split"), [(1, False), (2, False), (3, False), (1, True)])
    def test_is_the_closed_form_where_sending_takes_no_time(self, chunks: int, split: bool) -> None:
        schedule = Schedule.ZERO_BUBBLE if split else Schedule.ONE_F_ONE_B
        expected = bubble(schedule, 5, 1.0, 2.0, 1.0, chunks)
        assert least_bubble(5, 10, 1.0, 1.0, 1.0, chunks, split=split) == pytest.approx(expected)

    def test_nothing_is_below_it(self) -> None:
        """Every order of two micro-batches on two ranks, with whole passes and with split ones."""
        for split, kinds in ((False, (F, B)), (True, (F, I, W))):
            many = 2
            passes = [Pass(kind, m, 0) for m in range(many) for kind in kinds]
            least = least_bubble(2, many, 1.0, 1.3, 0.7, transfer=0.2, split=split)
            alone = [p for p in map(list, itertools.permutations(passes)) if check([p], many, split=split) is None]
            found = []
            for first, second in itertools.product(alone, repeat=2):
                made = [first, [Pass(one.kind, one.micro_batch, 1) for one in second]]
                if check(made, many, split=split) is None:
                    cells = run(made, 1.0, 1.3, 0.7, transfer=0.2)
                    found.append(max(idle(cells, gpu) for gpu in range(2)))
            assert min(found) >= least - 1e-12
            assert min(found) <= least * 1.5  # a bound, and not a number far below everything


def test_a_transfer_delays_what_comes_from_another_gpu_alone() -> None:
    """By hand: F on GPU 0 ends at 1, on GPU 1 it runs from 1.5 to 2.5, B there to 4.5, B on GPU 0 from 5 to 7."""
    cells = run(both("F0 B0", "F0 B0"), 1.0, 1.0, 1.0, transfer=0.5)
    assert [(cell.gpu, cell.start, cell.end) for cell in cells] == [(0, 0, 1), (1, 1.5, 2.5), (1, 2.5, 4.5), (0, 5, 7)]
