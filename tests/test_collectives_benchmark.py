"""What `make bench NET=1` makes of times and logs, against known lines and logs; and a run on two processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import collectives
from warplab import results
from warplab.network.collectives import Collective

LOG = """\
host:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}
host:1:1 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}
host:1:1 [0] NCCL INFO Broadcast: 1024 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..3}
"""


def test_what_nccl_logs_is_read_in_the_order_of_the_calls() -> None:
    found = collectives.choices(LOG, [1024, 1 << 20])
    assert found == {("all_reduce", 1024): ("tree", "ll"), ("all_reduce", 1 << 20): ("ring", "simple")}


def test_sizes_that_are_not_fitted_lie_between_those_that_are() -> None:
    of = collectives.sizes(1 << 20)
    powers = [size for size in of if not size & (size - 1)]
    assert (of[0], of[-1]) == (1 << 10, 1 << 20) and len(powers) == 11 and len(of) == 21
    assert all(size % 3 == 0 for size in of if size not in powers)


def test_without_two_gpus_it_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collectives.main(["--ranks", "1", "--out", str(tmp_path / "x.json")]) == 1
    assert "--backend gloo" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


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
