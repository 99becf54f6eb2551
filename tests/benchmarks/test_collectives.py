"""What `make bench NET=1` makes of times and logs, against known lines and logs; and a run on two processes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import collective_fits, collectives
from course import results
from systems.network.collectives import Collective

pytestmark = pytest.mark.processes

LOG = """\
host:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}
host:1:1 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}
host:1:1 [0] NCCL INFO Broadcast: 1024 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..3}
"""


def test_what_nccl_logs_is_read_in_the_order_of_the_calls() -> None:
    found = collectives.choices(LOG, [1024, 1 << 20])
    assert found == {
        ("all_reduce", 1024): {"algorithm": "tree", "protocol": "ll", "channels": 4},
        ("all_reduce", 1 << 20): {"algorithm": "ring", "protocol": "simple", "channels": 24},
    }
    older = LOG.replace(" channel{Lo..Hi}={0..3}", "").replace(" channel{Lo..Hi}={0..23}", "")
    assert collectives.choices(older, [1024, 1 << 20])["all_reduce", 1024] == {"algorithm": "tree", "protocol": "ll"}


def test_sizes_that_are_not_fitted_lie_between_those_that_are() -> None:
    of = collectives.sizes(1 << 20)
    powers = [size for size in of if not size & (size - 1)]
    assert (of[0], of[-1]) == (1 << 10, 1 << 20) and len(powers) == 11 and len(of) == 21
    assert all(size % 3 == 0 for size in of if size not in powers)
    whole = collectives.sizes(1 << 30)
    assert [size >> 18 for size in whole if 1 << 20 <= size <= 1 << 22] == [4, 5, 6, 7, 8, 10, 12, 14, 16]
    assert sum(map(collective_fits.is_fitted, whole)) == 21 + 4 and len(whole) == 41 + 8
    assert not any(collective_fits.is_fitted(size) for size in whole if size % 3 == 0 or size % 7 == 0)


def test_without_two_gpus_it_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collectives.main(["--ranks", "1", "--out", str(tmp_path / "x.json")]) == 1
    assert "--backend gloo" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_was_measured_before_a_rank_failed_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the rank that waits for it is ended, long before its time."""
    monkeypatch.setattr(collectives, "_RANK", "tests.failing_rank")
    path = tmp_path / "collectives.json"
    asked = ["--backend", "gloo", "--part", "library", "--largest", "1024", "--out", str(path)]
    begin = time.monotonic()
    assert collectives.main(asked) == 1
    assert time.monotonic() - begin < 90
    assert "Rank 1 failed: its reason" in capsys.readouterr().err
    assert [(record.name, record.value) for record in results.read(path).records] == [("broadcast", 12.0)]


def test_ranks_that_do_not_end_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(collectives, "_RANK", "tests.failing_rank")
    monkeypatch.setattr(collectives, "_GRACE", 1.0)
    limited = collectives._problem

    def patient(processes: Sequence[subprocess.Popen[bytes]], limit: float, place: Path) -> str:
        """As it was, but not before rank 0 has begun, which takes long on a busy machine."""
        while processes[0].poll() is None and not (place / "rank_0.out").stat().st_size:
            time.sleep(0.05)
        return limited(processes, limit, place)

    monkeypatch.setattr(collectives, "_problem", patient)
    monkeypatch.setenv("WARPLAB_TEST_HANGS", "1")
    path = tmp_path / "collectives.json"
    asked = ["--backend", "gloo", "--part", "library", "--minutes", "0.05", "--out", str(path)]
    assert collectives.main(asked) == 1
    assert "did not finish in time" in capsys.readouterr().err
    assert len(results.read(path).records) == 1


def test_multicast_over_nvlink_is_off_whatever_the_user_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    monkeypatch.setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "0")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    found = collectives.environment()
    assert (found["NCCL_NVLS_ENABLE"], found["TORCH_SYMM_MEM_DISABLE_MULTICAST"]) == ("0", "1")
    assert found["NCCL_SOCKET_IFNAME"] == "eth7"


def test_by_hand_is_beside_nccl_in_the_same_turns(tmp_path: Path) -> None:
    """The ratio is how many times as fast, so that a one-shot of half of NCCL's time has 2."""
    ways = {"nccl": [10e-6, 9e-6, 11e-6], "one-shot": [5e-6, 4e-6, 6e-6], "two-shot": [20e-6] * 3,
            "two-shot, LL": [2.5e-6] * 3}  # fmt: skip
    said = {"name": "all_reduce", "dtype": "float32", "shape": [1024], "memory": "CUDA IPC", "ways": ways}
    rows = said | {"name": "rows", "shape": [4, 8192], "ways": {**ways, "fused": [2e-6] * 3}}
    records = [*collectives.by_hand(said | {"launches": {"one-shot": [8, 128]}}, 2), *collectives.by_hand(rows, 2)]
    results.write(tmp_path / "x.json", results.make_header("x"), records)
    read = results.read(tmp_path / "x.json")
    one = read.find("all_reduce", "time", variant="by hand: one-shot")
    assert (one.value, one.ratio, one.shape, one.extra["launch"]) == (5.0, 2.0, (2, 1024), [8, 128])
    assert read.find("all_reduce", "time", variant="by hand: two-shot").ratio == 0.5
    assert read.find("all_reduce", "time", variant="by hand: two-shot, LL").ratio == 4.0
    assert one.baseline == "NCCL's all_reduce, same turns"
    assert read.find("all_reduce", "time", variant="by hand: nccl").baseline is None
    fused = read.find("rows", "time", variant="by hand: fused")
    assert fused.ratio == 5.0 and fused.baseline is not None and "residual and norm" in fused.baseline


def test_by_hand_needs_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--backend", "gloo", "--part", "by-hand", "--out", str(tmp_path / "x.json")]
    assert collectives.main(asked) == 1
    assert "need GPUs" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_two_processes_over_gloo(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "collectives.json"
    arguments = ["--backend", "gloo", "--ranks", "2", "--largest", "4096", "--samples", "2", "--out", str(path)]
    assert collectives.main(arguments) == 0
    records = results.read(path).records
    timed = {record.name for record in records if record.metric == "time" and record.variant == "gloo"}
    assert timed == {kind.value for kind in collectives.COLLECTIVES}
    assert {record.variant for record in records if record.name == Collective.ALL_REDUCE} >= {
        "gloo",
        "ring all_reduce over gloo",
    }
    assert all(record.extra["processes"] == 2 for record in records)
    assert any(record.metric == "error below 1 MiB" for record in records)
