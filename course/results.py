"""The files of benchmarks/results: every number that the README, a notebook or a document quotes stands in one.

A file is a header, which says what measured and when, and records, one number each. This module is the only one that
writes and reads them.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from course.sources import digest, files_of, in_folder
from warplab.errors import WarplabError
from warplab.files import write_whole
from warplab.hardware import present
from warplab.hardware.toolkit import CUPY

DIRECTORY = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
PACKAGES = (
    "warplab",
    "numpy",
    "numba",
    "numba-cuda",
    *CUPY,
    "cuda-core",
    "cuda-bindings",
    "cuda-toolkit",
    "torch",
)
SECONDS = {"s", "ms", "us", "ns"}
Text = Annotated[str, msgspec.Meta(min_length=1)]
Size = Annotated[int, msgspec.Meta(ge=0)]
T = TypeVar("T")
Number = int | float  # one of a file stays what it is

# What a field that msgspec refuses must be: text, if it is none of these.
_MUST_BE = {
    "versions": "a map of packages to versions",
    "value": "a finite number",
    "shape": "a list of sizes",
    "interval": "[low, high] or null",
    "baseline_value": "a finite number",
    "ratio": "a finite number",
}
_REFUSED = re.compile(r"(?:field `|\$\.)(\w+)")  # msgspec's words for the place in a record


class ResultsError(WarplabError):
    """A results file is missing, damaged or of another shape."""


@dataclass(frozen=True)
class Header:
    """What measured: `gpu` and `driver` are "none" without a GPU; `date` is UTC in ISO 8601."""

    gpu: Text
    driver: Text
    versions: dict[Text, Text]
    commit: Text
    command: Text
    date: Text

    @property
    def where(self) -> str:
        """On what and when, to stand behind "measured on": an NVIDIA H200 on 2026-01-02."""
        return f"an {self.gpu} on {self.date[:10]}"


@dataclass(frozen=True)
class Record:
    """One number. `name`, `variant`, `shape`, `dtype` and `metric` together are its key within a file.

    `interval` is a 95% confidence interval in the unit of `value`. `ratio` says how many times better `value` is than
    the value of `baseline`, measured in the same run: above 1 is better, whether more or less of the unit is good.
    `extra` holds what only this record has; its keys stand beside the others in the file.
    """

    name: Text
    metric: Text
    value: Number
    unit: Text
    variant: str = ""
    shape: tuple[Size, ...] = ()
    dtype: str = ""
    interval: tuple[Number, Number] | None = None
    baseline: Text | None = None
    baseline_value: Number | None = None
    ratio: Number | None = None
    conditions: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple:
        """What makes a record the same one, measured again."""
        return (self.name, self.variant, self.shape, self.dtype, self.metric)


@dataclass(frozen=True)
class Results:
    """A results file in memory."""

    header: Header
    records: tuple[Record, ...]

    def find(self, name: str, metric: str, **where: Any) -> Record:
        """The record of this name and metric with the fields of `where`; ResultsError unless exactly one matches."""
        found = [
            record
            for record in self.records
            if record.name == name
            and record.metric == metric
            and all(getattr(record, field_name) == value for field_name, value in where.items())
        ]
        if len(found) != 1:
            raise ResultsError(
                f"{len(found)} records are called {name!r} with metric {metric!r} and {where}: expected one."
            )
        return found[0]


def make_header(command: str) -> Header:
    """The header of a run on this machine now. `command` is what a reader types to repeat it."""
    device = present()
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return Header(
        gpu=device.name if device else "none",
        driver=device.driver if device else "none",
        versions=versions,
        commit=current_commit(),
        command=command,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def current_commit() -> str:
    """The commit of the checkout, "-dirty" if its code differs from it; WARPLAB_COMMIT where there is no git.

    What is under benchmarks/results does not count: writing a result must not make the next one dirty.
    """
    if given := os.environ.get("WARPLAB_COMMIT"):
        return given
    root = DIRECTORY.parent.parent
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changes = _git(root, "status", "--porcelain", "--", ".", ":(exclude)benchmarks/results")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}-dirty" if changes else commit


def _git(root: Path, *arguments: str) -> str:
    run = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=30)
    return run.stdout.strip()


def better(value: float, baseline_value: float, unit: str) -> float:
    """How many times better `value` is than `baseline_value`: for times, less is better; for all else, more."""
    return baseline_value / value if unit in SECONDS else value / baseline_value


def write(
    path: Path,
    header: Header,
    records: Iterable[Record],
    *,
    merge: bool = False,
    stale: Callable[[Record], bool] = lambda record: False,
) -> Path:
    """Writes a results file, atomically, and gives its path. With `merge`, records of an existing file that are not
    measured again stay, each marked with the commit and date of its own run, but for those that are `stale`: new ones
    stand for them under other keys. If the file is of another GPU, the new ones go into a file of their own beside it,
    named after this GPU.

    Raises ResultsError if a record is not valid or if two have the same key.
    """
    new = tuple(_with_source(path.stem, record) for record in records)
    kept: tuple[Record, ...] = ()
    if merge:
        path = of_gpu(path, header.gpu)
    if merge and path.exists():
        old = read(path)
        measured = {record.key for record in new}
        kept = tuple(
            _dated(record, old.header) for record in old.records if record.key not in measured and not stale(record)
        )
    data = {"header": asdict(header), "records": [_to_dict(record) for record in (*kept, *new)]}
    try:
        parse(data)
    except ResultsError as error:
        raise ResultsError(f"cannot write {path}: {error}.") from None
    write_whole(path, json.dumps(data, indent=1, allow_nan=False) + "\n")
    return path


def source_digest(results: str, record: Record) -> str:
    """The digest that the kernel's files have now; "" if the record is of no kernel, or of one that is gone."""
    try:
        return digest(files_of(results, record.name, record.variant), in_folder(DIRECTORY.parent.parent))
    except OSError:
        return ""


def is_stale(results: str, record: Record) -> bool:
    """Whether a record of a results file (its name without .json) is of a kernel that has changed since, or is gone."""
    return bool(files_of(results, record.name, record.variant)) and (
        record.extra.get("source") != source_digest(results, record) or not record.extra.get("source")
    )


def _with_source(results: str, record: Record) -> Record:
    if "source" in record.extra:  # written again, not measured again
        return record
    found = source_digest(results, record)
    return replace(record, extra=record.extra | {"source": found}) if found else record


def of_gpu(path: Path, gpu: str) -> Path:
    """Where results of a GPU belong: the file, or if it is of another GPU one beside it, named after this one."""
    if path.exists() and read(path).header.gpu != gpu:
        return path.with_name(f"{path.stem}_{'_'.join(gpu.lower().split())}.json")
    return path


def _dated(record: Record, header: Header) -> Record:
    return replace(record, extra={"commit": header.commit, "date": header.date} | record.extra)


def _to_dict(record: Record) -> dict[str, Any]:
    data = asdict(record)
    extra = data.pop("extra")
    if clash := data.keys() & extra.keys():
        raise ResultsError(
            f"record {record.name!r}: {sorted(clash)[0]!r} is a field of every record, not an extra one."
        )
    return data | extra


def read(path: Path) -> Results:
    """Reads a results file. Raises ResultsError if it is missing, not JSON or not of this shape."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultsError(
            f"there is no {path}: measure it with the command that benchmarks/README.md names."
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ResultsError(f"{path} is not JSON ({error}): measure it again.") from None
    try:
        return parse(data)
    except ResultsError as error:
        raise ResultsError(f"{path} is not a results file: {error}.") from None


def parse(data: Any) -> Results:
    """The results in the contents of a file. Raises ResultsError with what is wrong, in a phrase."""
    if not isinstance(data, dict) or set(data) != {"header", "records"} or not isinstance(data["records"], list):
        raise ResultsError("it must be an object with a header and a list of records")
    names = [f.name for f in fields(Header)]
    if not isinstance(data["header"], dict) or set(data["header"]) != set(names):
        raise ResultsError(f"the header must have {', '.join(names)} and nothing else")
    header = _convert(data["header"], Header, "the header")
    records: dict[tuple, Record] = {}
    for number, entry in enumerate(data["records"]):
        if not isinstance(entry, dict):
            raise ResultsError(f"record {number} is not an object")
        where = f"record {number} ({entry.get('name')!r})"
        record = _record(entry, where)
        if problem := _problem(record):
            raise ResultsError(f"{where}: {problem}")
        if record.key in records:
            raise ResultsError(f"{where} is there twice")
        records[record.key] = record
    return Results(header, tuple(records.values()))


def _record(entry: dict[str, Any], where: str) -> Record:
    own = {f.name for f in fields(Record)} - {"extra"}
    extra = {name: value for name, value in entry.items() if name not in own}
    return _convert({name: entry[name] for name in entry.keys() & own} | {"extra": extra}, Record, where)


def _convert(data: dict[str, Any], kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        found = _REFUSED.search(str(error))
        assert found, error
        raise ResultsError(f"{where}: {found[1]} must be {_MUST_BE.get(found[1], 'text')}") from None


def _problem(record: Record) -> str:
    """What is wrong with a record whose fields are of their types; empty if nothing."""
    for name in ("value", "baseline_value", "ratio"):
        number = getattr(record, name)
        if number is not None and not math.isfinite(number):
            return f"{name} must be {_MUST_BE[name]}"
    low, high = record.interval or (0, 0)
    if not (low <= high and math.isfinite(high - low)):
        return f"interval must be {_MUST_BE['interval']}"
    if record.baseline is None:
        of_none = record.baseline_value is not None or record.ratio is not None
        return "baseline_value and ratio need a baseline" if of_none else ""
    if record.baseline_value is None:
        return "a baseline needs a baseline_value"
    if not record.value or not record.baseline_value:  # nothing to divide by
        return ""
    if record.ratio is None:
        return "a record with a baseline needs a ratio"
    expected = better(record.value, record.baseline_value, record.unit)
    if not math.isclose(record.ratio, expected, rel_tol=0.01):
        return f"ratio is {record.ratio:.3g}, but value and baseline_value give {expected:.3g}"
    return ""
