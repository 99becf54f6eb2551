"""Which records are stale, what renews them, and that a run of it can be ended at any moment."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import renew
from benchmarks.table import BENCHMARKS, GPU, NOTHING, Benchmark, table
from course import results
from course.results import Header, Record
from course.sources import digest, files_of, in_folder

ROOT = Path(__file__).resolve().parent.parent
HEADER = Header("none", "none", {}, "abc", "python -m benchmarks.x", "2026-01-02T03:04:05+00:00")
AXPY = Record("01_axpy", "time", 1.0, "ms", variant="submission")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of two kernels, and results files beside them."""
    for lab in ("01_axpy", "03_transpose"):
        folder = tmp_path / "solutions" / lab
        folder.mkdir(parents=True)
        (folder / "submission.py").write_text(f"# {lab}\n")
    monkeypatch.setattr(results, "DIRECTORY", tmp_path / "benchmarks" / "results")
    monkeypatch.setattr(renew, "present", lambda: None)
    return tmp_path


def test_a_changed_kernel_makes_its_records_stale_and_no_others(tree: Path) -> None:
    path = results.DIRECTORY / "labs.json"
    results.write(path, HEADER, [AXPY, replace(AXPY, name="03_transpose")])
    benchmark = Benchmark("benchmarks.bench_gpu", GPU, ("labs",), "")
    assert renew.state_of(benchmark).stale == ()
    (tree / "solutions" / "01_axpy" / "submission.py").write_text("# another kernel\n")
    state = renew.state_of(benchmark)
    assert [record.name for record in state.stale] == ["01_axpy"] and state.current == 1
    (tree / "solutions" / "03_transpose" / "submission.py").unlink()  # a kernel that is gone
    assert len(renew.state_of(benchmark).stale) == 2
    results.write(path, HEADER, [AXPY], merge=True)
    assert [record.name for record in renew.state_of(benchmark).stale] == ["03_transpose"]


def test_a_record_that_is_written_again_is_no_fresher(tree: Path) -> None:
    path = results.DIRECTORY / "labs.json"
    results.write(path, HEADER, [AXPY])
    (tree / "solutions" / "01_axpy" / "submission.py").write_text("# another kernel\n")
    results.write(path, HEADER, results.read(path).records)  # as fits of old times are renewed
    assert len(renew.state_of(Benchmark("benchmarks.bench_gpu", GPU, ("labs",), "")).stale) == 1


def test_a_record_without_a_digest_is_stale(tree: Path) -> None:
    path = results.DIRECTORY / "labs.json"
    results.write(path, HEADER, [AXPY])
    path.write_text(re.sub(r',\s*"source": "\w+"', "", path.read_text()))
    assert len(renew.state_of(Benchmark("x", NOTHING, ("labs",), "")).stale) == 1


def test_a_run_that_is_ended_goes_on_where_it_was(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = results.DIRECTORY / "labs.json"
    both = [AXPY, replace(AXPY, name="03_transpose")]
    results.write(path, HEADER, both)
    for lab in ("01_axpy", "03_transpose"):
        (tree / "solutions" / lab / "submission.py").write_text("# new\n")
    benchmark = Benchmark("bench", NOTHING, ("labs",), "", minutes=4, part=lambda record: record.name)
    started: list[str] = []

    def start(command: str, seconds: float) -> int:
        started.append(command)
        if len(started) == 2:
            return 1  # it was ended in the middle
        (record,) = (one for one in both if one.name == command.split()[1])
        results.write(path, HEADER, [record], merge=True)
        return 0

    assert renew.run([renew.state_of(benchmark)], 60, start) == 1
    assert len(results.read(path).records) == 2
    assert renew.run([renew.state_of(benchmark)], 60, start) == 0
    assert started == ["bench 01_axpy", "bench 03_transpose", "bench 03_transpose"]
    assert renew.run([renew.state_of(benchmark)], 60, start) == 0 and len(started) == 3
    assert renew.run([replace_stale(benchmark, AXPY)], 0, start) == 0 and len(started) == 3
    assert "the time is up" in capsys.readouterr().out


def replace_stale(benchmark: Benchmark, record: Record) -> renew.State:
    return renew.State(benchmark, 0, (record,), False, "")


def test_what_the_machine_cannot_run_is_left(tree: Path) -> None:
    state = renew.state_of(Benchmark("bench", GPU, ("labs",), ""))
    assert state.missing and state.obstacle == "no GPU here"
    assert renew.run([state], 60, lambda command, seconds: pytest.fail(command)) == 0


def test_shortest_first(tree: Path) -> None:
    long, short = Benchmark("long", NOTHING, (), "", minutes=9), Benchmark("short", NOTHING, (), "", minutes=1)
    started: list[str] = []
    renew.run([replace_stale(long, AXPY), replace_stale(short, AXPY)], 60, lambda c, s: bool(started.append(c)))
    assert started == ["short", "long"]


@pytest.mark.parametrize(
    ("file", "name", "variant", "files"),
    [
        ("labs", "05_softmax", "rung_1_thread_a_row", ("solutions/05_softmax/rung_1_thread_a_row.py",)),
        ("gemm", "08_hopper_hgemm/rung_14_any_shape", "squares", ("solutions/08_hopper_hgemm/rung_14_any_shape.py",)),
        ("collectives", "all_reduce", "by hand: one-shot", ("systems/peer/all_reduce.cu", "systems/peer/waiting.cuh")),
        ("collectives", "all_reduce", "nccl", ()),
        ("attention", "decode", "decode, ragged", ("systems/attention/decode.cu",)),
        ("attention", "cudnn", "causal", ()),
        ("judge", "01_axpy", "reference/submission", ()),
    ],
)
def test_files_of_a_record(file: str, name: str, variant: str, files: tuple[str, ...]) -> None:
    assert files_of(file, name, variant) == files
    assert all((ROOT / path).is_file() for path in files)
    assert bool(digest(files, in_folder(ROOT))) == bool(files)


@pytest.mark.pages
def test_every_results_file_is_written_by_one_benchmark_of_the_page() -> None:
    written = [name for one in BENCHMARKS for name in one.writes]
    assert len(written) == len(set(written))
    kept = {path.stem.partition("_nvidia_")[0] for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    assert kept <= {*written, "suites"}, "suites: run by hand, since their sources are not part of the project"
    assert table() in (ROOT / "benchmarks" / "README.md").read_text()
    assert [one.says for one in BENCHMARKS if len(one.says.split()) > 15] == []


@pytest.mark.pages
def test_every_benchmark_has_a_module() -> None:
    for one in BENCHMARKS:
        place = ROOT.joinpath(*one.command.split()[0].split("."))
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), one.command
