"""Schedules: built ones mean what NumPy says, wrong ones get their verdict, files that are none a sentence."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.network.collectives import Collective
from systems.network.costs import Algorithm, cost, pipeline
from systems.network.schedules import (
    Flaw,
    Op,
    Phase,
    Schedule,
    ScheduleError,
    Transfer,
    build,
    check,
    dumps,
    expected,
    loads,
    reference,
)
from systems.network.schedules.model import expand, starts_with
from tests.systems.network.wrong_schedules import WRONG, Wrong

AR, AG, RS = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER
BUILT = [
    *(build.ring(kind, ranks) for kind in (AR, AG, RS) for ranks in (2, 5)),
    build.ring(AR, 8, build.node_rings(2, 4)),
    build.ring(AR, 4, [[2, 0, 3, 1]]),
    *(build.one_shot(kind, 5) for kind in (AR, AG, RS)),
    build.two_shot_all_reduce(6),
    *(build.halving_doubling(kind, 8) for kind in (AR, AG, RS)),
    *(build.binomial(kind, 7, root=3) for kind in (Collective.BROADCAST, Collective.REDUCE)),
    *(build.chain(kind, 5, 3, root=2) for kind in (Collective.BROADCAST, Collective.REDUCE)),
    *(build.double_tree_all_reduce(ranks, 3) for ranks in (2, 3, 4, 5, 7, 8, 13)),
    *(build.hierarchical_all_reduce(*shape) for shape in ((3, 4), (1, 4), (4, 1), (2, 8))),
    build.all_to_all(5),
    build.all_to_all(5, pairwise=True),
    build.hierarchical_all_to_all(3, 2),
]


def inputs(schedule: Schedule, dtype: type = np.float64) -> np.ndarray:
    """Small whole numbers, which every order of additions sums up exactly."""
    own = sum(starts_with(schedule, schedule.root, chunk) for chunk in range(schedule.chunks))
    return np.random.default_rng(7).integers(-9, 9, (schedule.ranks, 3 * own)).astype(dtype)


def numpy_says(schedule: Schedule, data: np.ndarray) -> list[np.ndarray]:
    """The collective's result by NumPy on whole rows, knowing nothing of chunks."""
    n, total = schedule.ranks, data.sum(0)
    if schedule.collective is AR:
        return [total] * n
    if schedule.collective is AG:
        return [data.ravel()] * n
    if schedule.collective is RS:
        return np.split(total, n)
    if schedule.collective is Collective.ALL_TO_ALL:
        return list(data.reshape(n, n, -1).swapaxes(0, 1).reshape(n, -1))
    one = data[schedule.root] if schedule.collective is Collective.BROADCAST else total
    everywhere = schedule.collective is Collective.BROADCAST
    return [one if everywhere or rank == schedule.root else np.zeros(0) for rank in range(n)]


@pytest.mark.parametrize("schedule", BUILT, ids=lambda s: f"{s.name} of {s.ranks}")
def test_what_is_built_is_right_and_means_what_numpy_says(schedule: Schedule) -> None:
    assert check(schedule) is None
    data = inputs(schedule)
    truth = numpy_says(schedule, data)
    for found, meant, true in zip(reference(schedule, data), expected(schedule, data), truth, strict=True):
        assert found.tolist() == true.tolist() == meant.tolist()


@pytest.mark.parametrize("schedule", BUILT, ids=lambda s: f"{s.name} of {s.ranks}")
def test_a_schedule_survives_its_file(schedule: Schedule) -> None:
    assert loads(dumps(schedule)) == schedule


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_a_wrong_schedule_gets_its_verdict(wrong: Wrong) -> None:
    finding = check(wrong.schedule)
    assert finding is not None
    assert (finding.kind, finding.rank, finding.chunk, finding.step) == (wrong.kind, *wrong.where)
    assert wrong.says in finding.sentence
    assert finding.sentence.endswith(".") and "\n" not in finding.sentence
    with pytest.raises(ScheduleError):
        reference(wrong.schedule, inputs(wrong.schedule))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_schedule_survives_the_loss_of_a_transfer(data: st.DataObject) -> None:
    """Each transfer of these algorithms carries something that nothing else does."""
    schedule = data.draw(st.sampled_from([s for s in BUILT if s.ranks <= 8]))
    moves = expand(schedule)
    lost = data.draw(st.integers(0, len(moves.step) - 1))
    assert check(_listed(schedule, [i for i in range(len(moves.step)) if i != lost])) is not None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sums_are_never_right_when_a_transfer_is_done_twice(data: st.DataObject) -> None:
    schedule = data.draw(st.sampled_from([s for s in BUILT if s.collective is AR and s.ranks <= 8]))
    moves = expand(schedule)
    reducing = np.flatnonzero(moves.reduce)
    twice = int(data.draw(st.sampled_from(reducing.tolist())))
    finding = check(_listed(schedule, sorted([*range(len(moves.step)), twice])))
    assert finding is not None and finding.kind is Flaw.ADDED_TWICE
    assert finding.chunk == moves.chunk[twice] and finding.rank == moves.destination[twice]


def _listed(schedule: Schedule, numbers: list[int]) -> Schedule:
    moves = expand(schedule)
    transfers = tuple(
        Transfer(int(moves.step[i]), int(moves.source[i]), int(moves.destination[i]), int(moves.chunk[i]),
                 Op.REDUCE if moves.reduce[i] else Op.COPY) for i in numbers
    )  # fmt: skip
    phases = (Phase(transfers),) if transfers else ()
    return msgspec.structs.replace(schedule, phases=phases)


def busiest_port(schedule: Schedule) -> float:
    """The most that any rank sends or receives, as a share of the size."""
    moves = expand(schedule)
    out = np.bincount(moves.source, minlength=schedule.ranks)
    into = np.bincount(moves.destination, minlength=schedule.ranks)
    return max(out.max(), into.max()) * schedule.chunk_share()


@pytest.mark.parametrize(
    ("schedule", "algorithm"),
    [
        *((build.ring(kind, 6), Algorithm.RING) for kind in (AR, AG, RS)),
        *((build.one_shot(kind, 6), Algorithm.ONE_SHOT) for kind in (AR, AG, RS)),
        (build.two_shot_all_reduce(6), Algorithm.TWO_SHOT),
        *((build.halving_doubling(kind, 8), Algorithm.HALVING_DOUBLING) for kind in (AR, AG, RS)),
        (build.all_to_all(6), Algorithm.DIRECT),
        (build.all_to_all(6, pairwise=True), Algorithm.PAIRWISE),
        (build.binomial(Collective.BROADCAST, 8), Algorithm.TREE),
        (build.binomial(Collective.REDUCE, 8), Algorithm.TREE),
    ],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_steps_and_traffic_are_those_of_the_closed_form(schedule: Schedule, algorithm: Algorithm) -> None:
    closed = cost(schedule.collective, algorithm, schedule.ranks)
    assert schedule.steps == closed.messages
    assert busiest_port(schedule) == pytest.approx(closed.volume)


@pytest.mark.parametrize("ranks", [4, 8, 16, 64])
def test_pipelines_take_the_steps_of_their_closed_form(ranks: int) -> None:
    tree = pipeline(AR, Algorithm.PIPELINED_TREE, ranks)
    for pieces in (1, 5):
        assert build.double_tree_all_reduce(ranks, pieces).steps == tree.depth + pieces - 1
        chain = pipeline(Collective.BROADCAST, Algorithm.PIPELINED_RING, ranks)
        assert build.chain(Collective.BROADCAST, ranks, pieces).steps == chain.depth + pieces - 1
    assert busiest_port(build.double_tree_all_reduce(ranks)) <= tree.volume


@pytest.mark.parametrize("ranks", [*range(2, 20), 64, 72])
def test_an_inner_vertex_of_one_tree_is_a_leaf_of_the_other(ranks: int) -> None:
    inner = []
    for parents in (build.binary_tree(ranks), build.second_tree(ranks)):
        children = np.bincount([p for p in parents if p >= 0], minlength=ranks)
        assert children.max() <= 2 and parents.count(-1) == 1
        inner.append({rank for rank in range(ranks) if children[rank] and parents[rank] >= 0})
    assert not inner[0] & inner[1]


def test_a_ring_visits_everybody_and_uses_each_nic_once() -> None:
    rings = build.node_rings(4, 8)
    crossings = [
        (one % 8, other % 8)
        for ring in rings
        for one, other in itertools.pairwise([*ring, ring[0]])
        if one // 8 != other // 8
    ]
    assert all(sorted(ring) == list(range(32)) for ring in rings)
    assert np.bincount([into for _, into in crossings]).tolist() == [4] * 8
    with pytest.raises(ScheduleError, match="visit each of them once"):
        build.ring(AR, 4, [[0, 1, 2, 2]])


def test_a_loop_says_what_the_list_of_its_repeats_says() -> None:
    ring = build.ring(AR, 5)
    unrolled = _listed(ring, list(range(ring.transfers)))
    assert ring.transfers == 2 * 4 * 5 and len(ring.phases[0].transfers) == 5
    one, other = expand(ring), expand(unrolled)
    assert all((getattr(one, name) == getattr(other, name)).all() for name in vars(one))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "This is no schedule: Input data was truncated"),
        (b"[]", "This is no schedule: Expected `object`"),
        (b'{"name": "a"}', "missing required field `collective`"),
        (b'{"name":"a","collective":"all_reduce","ranks":2,"chunks":1,"phases":[],"gpu":1}', "unknown field `gpu`"),
        (b'{"name":"a","collective":"all_reduce","ranks":1,"chunks":1,"phases":[]}', "`int` >= 2"),
        (b'{"name":"a","collective":"all_gather","ranks":3,"chunks":4,"phases":[]}', "needs a multiple of 3"),
        (b'{"name":"a","collective":"all_to_all","ranks":3,"chunks":3,"phases":[]}', "needs a multiple of 9"),
        (b'{"name":"a","collective":"reduce","ranks":3,"chunks":3,"root":3,"phases":[]}', "root 3"),
        (b'{"name":"a","collective":"send_recv","ranks":2,"chunks":1,"phases":[]}', "needs no schedule"),
    ],
)
def test_what_is_no_schedule_is_refused_in_a_sentence(text: bytes, says: str) -> None:
    with pytest.raises(ScheduleError, match=says):
        loads(text)


@pytest.mark.parametrize(
    ("transfer", "says"),
    [
        (Transfer(0, 0, 2, 0), "there are ranks 0 to 1 only"),
        (Transfer(0, 1, 1, 0), "does not send to itself"),
        (Transfer(0, 0, 1, 1), "there is no chunk 1"),
    ],
)
def test_ranks_and_chunks_must_exist(transfer: Transfer, says: str) -> None:
    with pytest.raises(ScheduleError, match=says):
        check(Schedule("a", AR, 2, 1, (Phase((transfer,)),)))


def test_what_is_too_large_to_list_is_said() -> None:
    with pytest.raises(ScheduleError, match="has 536838144 transfers: at most 16777216"):
        expand(build.ring(AR, 16384))


def test_a_file_cannot_ask_for_more_than_there_is_memory() -> None:
    huge = b'{"name":"a","collective":"all_reduce","ranks":2,"chunks":2147483648,"phases":[]}'
    with pytest.raises(ScheduleError, match="has 2147483648 chunks on each of 2 ranks: at most"):
        check(loads(huge))


def test_data_must_fit_the_chunks() -> None:
    with pytest.raises(ScheduleError, match="a multiple of as many elements, not 7"):
        reference(build.ring(AR, 4), np.zeros((4, 7)))
