"""A results file must come back as it was written, and a wrong one must not get in."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import results_page
from course import results
from course.results import Header, Record, ResultsError

pytestmark = pytest.mark.pages

HEADER = Header("NVIDIA H200", "580.95", {"numpy": "2.4.6"}, "abc", "make bench", "2026-01-02T03:04:05+00:00")
AXPY = Record(
    name="01_axpy",
    variant="reference",
    shape=(67108864,),
    dtype="float32",
    metric="time",
    value=0.2,
    unit="ms",
    interval=(0.199, 0.201),
    baseline="copy",
    baseline_value=0.19,
    ratio=0.95,
    extra={"samples": 40},
)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "axpy.json"
    results.write(path, HEADER, [AXPY])
    assert results.read(path) == results.Results(HEADER, (AXPY,))
    assert json.loads(path.read_text())["records"][0]["samples"] == 40
    assert [p.name for p in path.parent.iterdir()] == ["axpy.json"]


def test_writing_replaces(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    results.write(path, HEADER, [AXPY])
    results.write(path, HEADER, [replace(AXPY, name="other")])
    assert [r.name for r in results.read(path).records] == ["other"]


def test_merging_keeps_what_was_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    results.write(path, HEADER, [AXPY, replace(AXPY, name="old")])
    later = replace(HEADER, commit="def", date="2026-02-02T00:00:00+00:00")
    again = replace(AXPY, value=0.19, baseline_value=0.19, ratio=1.0)
    results.write(path, later, [again], merge=True)
    merged = results.read(path)
    assert merged.header == later
    assert merged.find("01_axpy", "time") == again
    # A number keeps the commit that measured it, however often the file is merged.
    assert merged.find("old", "time").extra == {"samples": 40, "commit": "abc", "date": HEADER.date}
    results.write(path, replace(later, commit="ghi"), [replace(AXPY, name="third")], merge=True)
    assert results.read(path).find("old", "time").extra["commit"] == "abc"
    assert results.read(path).find("01_axpy", "time").extra["commit"] == "def"


def test_merging_drops_what_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    results.write(path, HEADER, [AXPY, replace(AXPY, name="old"), replace(AXPY, name="older")])
    new = replace(AXPY, name="new")
    results.write(path, HEADER, [AXPY, new], merge=True, stale=lambda record: record.name in ("old", "01_axpy"))
    assert [record.name for record in results.read(path).records] == ["older", "01_axpy", "new"]


def test_another_gpus_records_have_a_file_of_their_own(tmp_path: Path) -> None:
    path, other = tmp_path / "r.json", replace(HEADER, gpu="NVIDIA B200")
    assert results.write(path, HEADER, [AXPY], merge=True) == path
    before = path.read_bytes()
    beside = results.write(path, other, [AXPY], merge=True)
    assert (beside.name, path.read_bytes()) == ("r_nvidia_b200.json", before)
    results.write(path, other, [replace(AXPY, name="second")], merge=True)
    kept = results.read(beside)
    assert (kept.header.gpu, [record.name for record in kept.records]) == ("NVIDIA B200", [AXPY.name, "second"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": float("nan")}, "value must be a finite number"),
        ({"value": True}, "value must be a finite number"),
        ({"unit": ""}, "unit must be text"),
        ({"shape": (1.5,)}, "shape must be a list of sizes"),
        ({"interval": (2.0, 1.0)}, "interval must be"),
        ({"interval": (0.1, float("inf"))}, "interval must be"),
        ({"interval": (0.1,)}, "interval must be"),
        ({"variant": None}, "variant must be text"),
        ({"baseline_value": None}, "needs a baseline_value"),
        ({"ratio": 1.05}, "ratio is 1.05, but value and baseline_value give 0.95"),
        ({"ratio": None}, "needs a ratio"),
        ({"baseline": None}, "need a baseline"),
        ({"extra": {"unit": "s"}}, "is a field of every record"),
    ],
)
def test_a_wrong_record_is_refused_and_nothing_is_written(tmp_path: Path, change: dict, message: str) -> None:
    path = tmp_path / "r.json"
    with pytest.raises(ResultsError, match=message):
        results.write(path, HEADER, [replace(AXPY, **change)])
    assert list(tmp_path.iterdir()) == []


def test_two_records_with_one_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="there twice"):
        results.write(tmp_path / "r.json", HEADER, [AXPY, replace(AXPY, value=0.19, baseline_value=0.19, ratio=1)])


@pytest.mark.parametrize("text", ["", "[1]", '{"header": {}, "records": []}', '{"records": []}', "\x00"])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=r"r\.json is not"):
        results.read(path)


def test_a_field_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    results.write(path, HEADER, [AXPY])
    data = json.loads(path.read_text())
    del data["records"][0]["value"]
    path.write_text(json.dumps(data))
    with pytest.raises(
        ResultsError, match=r"r\.json is not a results file: record 0 \('01_axpy'\): value must be a fin"
    ):
        results.read(path)
    data["header"]["gpu"] = ""
    path.write_text(json.dumps(data))
    with pytest.raises(ResultsError, match="the header: gpu must be text"):
        results.read(path)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="there is no"):
        results.read(tmp_path / "none.json")


def test_better_is_above_one_for_times_and_for_rates() -> None:
    assert results.better(1.0, 2.0, "ms") == 2
    assert results.better(200.0, 100.0, "TFLOP/s") == 2


def test_find_wants_exactly_one() -> None:
    both = results.Results(HEADER, (AXPY, replace(AXPY, variant="naive")))
    assert both.find("01_axpy", "time", variant="naive").variant == "naive"
    with pytest.raises(ResultsError, match="2 records"):
        both.find("01_axpy", "time")


def test_the_commit_is_gits_unless_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPLAB_COMMIT", raising=False)
    monkeypatch.setattr(results, "DIRECTORY", tmp_path / "benchmarks" / "results")
    results.DIRECTORY.mkdir(parents=True)
    assert results.current_commit() == "unknown"

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null"]
        run = subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], capture_output=True, check=True)
        return run.stdout.decode().strip()

    (tmp_path / "code.py").write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    commit = git("rev-parse", "HEAD")
    assert results.current_commit() == commit
    (results.DIRECTORY / "new.json").write_text("{}")
    assert results.current_commit() == commit
    (tmp_path / "code.py").write_text("2")
    assert results.current_commit() == f"{commit}-dirty"
    monkeypatch.setenv("WARPLAB_COMMIT", "given")
    assert results.current_commit() == "given"


def test_the_header_of_this_machine_is_valid(tmp_path: Path) -> None:
    results.write(tmp_path / "r.json", results.make_header("make test"), [])
    header = results.read(tmp_path / "r.json").header
    assert header.command == "make test" and "numpy" in header.versions


def test_the_page_of_results_is_up_to_date() -> None:
    assert results_page.PAGE.read_text() == results_page.page(), "run: python -m benchmarks.results_page"


def test_each_table_of_the_page_is_of_one_record_and_names_its_gpu() -> None:
    sections = results_page.PAGE.read_text().split("\n## ")[1:]
    for section in sections:
        (file,) = re.findall(r"\((\.\./benchmarks/results/\w+\.json)\)", section)
        header = json.loads((results_page.PAGE.parent / file).read_text())["header"]
        assert section.splitlines()[0].endswith(f", {header['gpu']}")
