"""Schedules on real processes: right ones bit for bit, a verdict for ranks that die, hang or send less."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from systems.network.collectives import Collective
from systems.network.execution import Backend, Fault, FaultKind, Outcome, Verdict, execute
from systems.network.execution.group import Group
from systems.network.execution.launch import MOST_RANKS
from systems.network.schedules import Op, Phase, Schedule, ScheduleError, Transfer, build, expected
from systems.network.schedules.model import starts_with
from tests.sampling import WHOLE, one_of_each
from tests.systems.network import gone_peer, late_death

pytestmark = pytest.mark.processes

AR, AG, RS = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER
HAVE_TORCH = importlib.util.find_spec("torch") is not None
BACKENDS = [
    Backend.SOCKETS,
    pytest.param(Backend.GLOO, marks=pytest.mark.skipif(not HAVE_TORCH, reason="PyTorch is not installed")),
]
SCHEDULES = [
    build.double_tree_all_reduce(5, 2),
    build.ring(AR, 4),
    build.ring(AR, 4, build.node_rings(2, 2)),
    build.halving_doubling(AR, 4),
    build.hierarchical_all_reduce(2, 2),
    build.one_shot(AR, 3),
    build.ring(AG, 3),
    build.ring(RS, 3),
    build.all_to_all(4),
    build.hierarchical_all_to_all(2, 2),
    build.binomial(Collective.REDUCE, 3, root=1),
    build.chain(Collective.BROADCAST, 3, 4, root=2),
]


def inputs(schedule: Schedule, dtype: str = "float32", per_chunk: int = 33) -> np.ndarray:
    """Numbers that no order of additions but the schedule's rounds alike."""
    own = sum(starts_with(schedule, schedule.root, chunk) for chunk in range(schedule.chunks))
    return np.random.default_rng(1).standard_normal((schedule.ranks, per_chunk * own)).astype(dtype)


def children() -> set[str]:
    """The command lines of processes that this one started."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if int(parent) == os.getpid():
                found.add((folder / "cmdline").read_text())
        except (OSError, IndexError):
            continue
    return {line for line in found if "systems.network.execution.rank" in line}


@pytest.fixture(autouse=True)
def nobody_is_left():
    yield
    assert children() == set()


# In `make test` one schedule of each collective. A process of Gloo's imports PyTorch, which takes seconds: there one,
# which adds up and copies.
OVER_GLOO = SCHEDULES if WHOLE else [build.double_tree_all_reduce(2, 2)]
OVER_SOCKETS = one_of_each(SCHEDULES, lambda one: one.collective)
RUN = [(one, Backend.SOCKETS) for one in OVER_SOCKETS] + [(one, Backend.GLOO) for one in OVER_GLOO]


@pytest.mark.parametrize(("schedule", "backend"), RUN, ids=[f"{one.name}-{backend}" for one, backend in RUN])
def test_processes_end_with_what_the_schedule_gives_bit_for_bit(schedule: Schedule, backend: Backend) -> None:
    if backend is Backend.GLOO and not HAVE_TORCH:
        pytest.skip("PyTorch is not installed")
    data = inputs(schedule)
    outcome = execute(schedule, data, backend, patience=60)
    assert outcome.verdict is Verdict.RIGHT, outcome.sentence
    assert outcome.seconds is not None and outcome.seconds > 0
    for found, true in zip(outcome.outputs, expected(schedule, data), strict=True):
        assert found.dtype == np.float32 and found.shape == true.shape
        bound = 8 * np.finfo(np.float32).eps * expected_sum(schedule, data)
        assert np.abs(found - true).max(initial=0) <= bound


def expected_sum(schedule: Schedule, data: np.ndarray) -> float:
    """The largest sum of absolute values: what errors of additions are a share of."""
    return max(float(part.max(initial=0)) for part in expected(schedule, np.abs(data)))


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_other_types(dtype: str) -> None:
    schedule = build.ring(AR, 3)
    data = (100 * inputs(schedule, "float64")).astype(dtype)
    assert execute(schedule, data, patience=60).verdict is Verdict.RIGHT


def test_messages_larger_than_a_sockets_buffer_do_not_block() -> None:
    """Both directions at once, megabytes each: a blocking send would wait for a receive that is never posted."""
    schedule = build.one_shot(AR, 2)
    assert execute(schedule, inputs(schedule, "float64", 1 << 19), patience=60).verdict is Verdict.RIGHT


@pytest.mark.parametrize("backend", BACKENDS if WHOLE else BACKENDS[:1])
def test_messages_of_one_step_that_are_taken_in_two_the_later_record_first(backend: Backend) -> None:
    """Between two ranks messages arrive as they were sent: both have to know in which order that is."""
    crossed = (Transfer(0, 0, 1, 0, Op.COPY, 1), Transfer(0, 0, 1, 1, Op.COPY, 0))
    schedule = Schedule("crossed", Collective.BROADCAST, 2, 2, (Phase(crossed),))
    outcome = execute(schedule, inputs(schedule), backend, patience=30)
    assert outcome.verdict is Verdict.RIGHT, outcome.sentence


FAULTS = [
    (FaultKind.DIE, Verdict.DIED, "ended with status 3"),
    (FaultKind.HANG, Verdict.HUNG, "was silent for 5 s"),
    (FaultKind.SEND_LESS, Verdict.WRONG_SIZE, "sent 128 bytes where the schedule has 132"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "verdict", "says"), FAULTS, ids=[kind.value for kind, _, _ in FAULTS])
def test_a_rank_that_misbehaves_is_named(kind: FaultKind, verdict: Verdict, says: str, backend: Backend) -> None:
    """The last of three, in its last step; over Gloo, which imports PyTorch, in `make test` one of two dies."""
    if backend is Backend.GLOO and kind is not FaultKind.DIE and not WHOLE:
        pytest.skip("make test-long has it")
    ranks = 2 if backend is Backend.GLOO and not WHOLE else 3
    rank, schedule = ranks - 1, build.ring(AR, ranks)
    step = schedule.steps - 1
    patience = 5.0 if kind is FaultKind.HANG else 60.0  # or a rank that waits for a processor would be taken for it
    outcome = execute(schedule, inputs(schedule), backend, patience=patience, faults=[Fault(rank, step, kind)])
    assert (outcome.verdict, outcome.rank, outcome.step) == (verdict, rank, step), outcome.sentence
    assert outcome.sentence.startswith(f"Rank {rank} ") and says in outcome.sentence and not outcome.outputs


def test_a_rank_whose_connections_close_before_it_ends_has_died(tmp_path: Path) -> None:
    """Everybody else has blamed it by then, and nobody has seen its process end."""

    def job(rank: int, sockets: Mapping[int, int]) -> bytes:
        return json.dumps({"rank": rank, "sockets": dict(sockets)}).encode() + b"\n"

    group = Group(late_death.__name__, 3, [(0, 1), (1, 2)], job, 30.0, tmp_path, "sockets")
    outcome = group.run()
    assert outcome is not None
    assert (outcome.verdict, outcome.rank) == (Verdict.DIED, late_death.DYING), outcome.sentence
    assert f"ended with status {late_death.STATUS}" in outcome.sentence


@pytest.mark.skipif(not HAVE_TORCH, reason="PyTorch is not installed")
def test_a_peer_that_gloo_knows_to_be_gone_is_blamed(tmp_path: Path) -> None:
    """Its exchange does not even begin then."""
    command = [sys.executable, "-m", gone_peer.__name__]
    gone = subprocess.Popen([*command, "1", str(tmp_path / "meeting")])
    blames = subprocess.run([*command, "0", str(tmp_path / "meeting")], capture_output=True, text=True)
    assert gone.wait() == 0 and blames.stdout.split() == ["DIED", "1"], blames.stderr


def test_a_hang_in_a_chain_is_blamed_on_its_cause_not_on_a_neighbour() -> None:
    """Ranks 2 and 3 wait for each other's messages as well, but all of it for rank 0's."""
    schedule = build.chain(Collective.BROADCAST, 4, 2)
    outcome = execute(schedule, inputs(schedule), patience=5.0, faults=[Fault(0, 0, FaultKind.HANG)])
    assert (outcome.verdict, outcome.rank, outcome.step) == (Verdict.HUNG, 0, 0)


def test_a_verdict_does_not_wait_for_the_patience_of_the_others() -> None:
    """A limit far above what is needed and far below the patience, so that a slow machine passes."""
    schedule, begin = build.ring(AR, 3), time.monotonic()
    outcome = execute(schedule, inputs(schedule), patience=600, faults=[Fault(1, 1, FaultKind.DIE)])
    assert outcome.verdict is Verdict.DIED and time.monotonic() - begin < 300


def test_a_wrong_schedule_is_refused_before_anything_starts() -> None:
    wrong = Schedule("wrong", AR, 2, 1, (Phase((Transfer(0, 0, 1, 0, Op.REDUCE),)),))
    outcome = execute(wrong, np.ones((2, 4)))
    assert outcome.verdict is Verdict.REFUSED and outcome.rank == 0
    assert outcome.sentence.startswith("Rank 0 ends without the data of rank 1")


@pytest.mark.parametrize(
    ("schedule", "data", "says"),
    [
        (build.ring(AR, 4), np.zeros((3, 4)), "for each of its 4 ranks, not float64 of shape"),
        (build.ring(AR, 4), np.zeros((4, 4), np.float16), "not float16"),
        (build.ring(AR, 4), np.zeros((4, 6)), "a multiple of as many elements, not 6"),
        (build.ring(AR, MOST_RANKS + 1), np.zeros((1, 1)), "at most 64 run on one machine"),
    ],
)
def test_inputs_must_fit(schedule: Schedule, data: np.ndarray, says: str) -> None:
    with pytest.raises(ScheduleError, match=says):
        execute(schedule, data)


@pytest.mark.skipif(HAVE_TORCH, reason="PyTorch is installed")
def test_without_pytorch_gloo_says_so() -> None:
    schedule = build.ring(AR, 2)
    outcome = execute(schedule, inputs(schedule), Backend.GLOO)
    assert outcome.verdict is Verdict.NOT_STARTED and "cannot use gloo: No module named 'torch'" in outcome.sentence


def test_ranks_end_when_what_started_them_is_killed(tmp_path: Path) -> None:
    """A judge that is killed leaves nobody behind, not even a rank that hangs."""
    script = tmp_path / "judge.py"
    script.write_text(
        "import numpy as np\n"
        "from systems.network.collectives import Collective\n"
        "from systems.network.execution import Fault, FaultKind, execute\n"
        "from systems.network.schedules import build\n"
        "hang = [Fault(0, 0, FaultKind.HANG)]\n"
        "execute(build.ring(Collective.ALL_REDUCE, 2), np.zeros((2, 2)), patience=600, faults=hang)\n"
    )
    judge = subprocess.Popen([sys.executable, str(script)], start_new_session=True)
    try:
        ranks = _wait_for(lambda: found if len(found := _ranks_of(judge.pid)) == 2 else None)
    finally:
        judge.kill()
        judge.wait()
    _wait_for(lambda: not any(Path(f"/proc/{rank}").exists() for rank in ranks))


def _ranks_of(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _wait_for(condition, seconds: float = 60):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come to be")


@pytest.mark.multigpu
@pytest.mark.skipif(not HAVE_TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize(
    "schedule", [build.ring(AR, 2), build.one_shot(AG, 2), build.all_to_all(2)], ids=lambda s: s.name
)
def test_gpus_end_with_what_the_schedule_gives_bit_for_bit(schedule: Schedule) -> None:
    outcome: Outcome = execute(schedule, inputs(schedule), Backend.NCCL, patience=30)
    assert outcome.verdict is Verdict.RIGHT, outcome.sentence
