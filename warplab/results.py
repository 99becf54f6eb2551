"""The files of benchmarks/results: every number that the README, a notebook or a document quotes stands in one.

A file is a header, which says what measured and when, and records, one number each. This module is the only one that
writes and reads them.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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


class ResultsError(WarplabError):
    """A results file is missing, damaged or of another shape."""


@dataclass(frozen=True)
class Header:
    """What measured: `gpu` and `driver` are "none" without a GPU; `date` is UTC in ISO 8601."""

    gpu: str
    driver: str
    versions: dict[str, str]
    commit: str
    command: str
    date: str


@dataclass(frozen=True)
class Record:
    """One number. `name`, `variant`, `shape`, `dtype` and `metric` together are its key within a file.

    `interval` is a 95% confidence interval in the unit of `value`. `ratio` says how many times better `value` is than
    the value of `baseline`, measured in the same run: above 1 is better, whether more or less of the unit is good.
    `extra` holds what only this record has; its keys stand beside the others in the file.
    """

    name: str
    metric: str
    value: float
    unit: str
    variant: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    interval: tuple[float, float] | None = None
    baseline: str | None = None
    baseline_value: float | None = None
    ratio: float | None = None
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
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}-dirty" if changes else commit


def _git(root: Path, *arguments: str) -> str:
    run = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=30)
    return run.stdout.strip()


def better(value: float, baseline_value: float, unit: str) -> float:
    """How many times better `value` is than `baseline_value`: for times, less is better; for all else, more."""
    return baseline_value / value if unit in SECONDS else value / baseline_value


def write(path: Path, header: Header, records: Iterable[Record], *, merge: bool = False) -> None:
    """Writes a results file, atomically. With `merge`, records of an existing file that are not measured again stay,
    each marked with the commit and date of its own run; they must be of the same GPU.

    Raises ResultsError if a record is not valid, if two have the same key, or if the files cannot be merged.
    """
    new = tuple(records)
    kept: tuple[Record, ...] = ()
    if merge and path.exists():
        old = read(path)
        if old.header.gpu != header.gpu:
            raise ResultsError(f"{path} was measured on {old.header.gpu}, not on {header.gpu}: write to another file.")
        measured = {record.key for record in new}
        kept = tuple(_dated(record, old.header) for record in old.records if record.key not in measured)
    data = {"header": asdict(header), "records": [_to_dict(record) for record in (*kept, *new)]}
    if problems := validate(data):
        raise ResultsError(f"cannot write {path}: {problems[0]}.")
    write_whole(path, json.dumps(data, indent=1, allow_nan=False) + "\n")


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
    if problems := validate(data):
        raise ResultsError(f"{path} is not a results file: {problems[0]}.")
    own = {f.name for f in fields(Record)} - {"extra"}
    records = []
    for entry in data["records"]:
        known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items() if k in own}
        records.append(Record(**known, extra={k: v for k, v in entry.items() if k not in own}))
    return Results(Header(**data["header"]), tuple(records))


def validate(data: Any) -> list[str]:
    """What is wrong with the contents of a results file, a phrase each; nothing if all is well."""
    if not isinstance(data, dict) or set(data) != {"header", "records"} or not isinstance(data["records"], list):
        return ["it must be an object with a header and a list of records"]
    problems = _validate_header(data["header"])
    seen = set()
    for number, record in enumerate(data["records"]):
        where = f"record {number}"
        if not isinstance(record, dict):
            problems.append(f"{where} is not an object")
            continue
        wrong = _validate_record(record)
        problems += [f"{where} ({record.get('name')!r}): {problem}" for problem in wrong]
        if not wrong:
            parts = (record["name"], record.get("variant", ""), tuple(record.get("shape", ())), record.get("dtype", ""))
            key = (*parts, record["metric"])
            if key in seen:
                problems.append(f"{where} ({record['name']!r}) is there twice")
            seen.add(key)
    return problems


def _validate_header(header: Any) -> list[str]:
    if not isinstance(header, dict) or set(header) != {f.name for f in fields(Header)}:
        return [f"the header must have {', '.join(f.name for f in fields(Header))} and nothing else"]
    problems = [
        f"{name} in the header must be text" for name in header if name != "versions" and not _is_text(header[name])
    ]
    versions = header["versions"]
    if not isinstance(versions, dict) or not all(_is_text(v) for v in (*versions, *versions.values())):
        problems.append("versions in the header must map packages to versions")
    return problems


def _validate_record(record: dict[str, Any]) -> list[str]:
    problems = [f"{name} must be text" for name in ("name", "metric", "unit") if not _is_text(record.get(name))]
    problems += [
        f"{name} must be text"
        for name in ("variant", "dtype", "conditions")
        if not isinstance(record.get(name, ""), str)
    ]
    if not _is_number(record.get("value")):
        problems.append("value must be a finite number")
    shape = record.get("shape", ())
    if not isinstance(shape, (list, tuple)) or not all(type(n) is int and n >= 0 for n in shape):
        problems.append("shape must be a list of sizes")
    interval = record.get("interval")
    if interval is not None and not (
        isinstance(interval, (list, tuple))
        and len(interval) == 2
        and all(_is_number(v) for v in interval)
        and interval[0] <= interval[1]
    ):
        problems.append("interval must be [low, high] or null")
    if problems:
        return problems
    return _validate_baseline(record)


def _validate_baseline(record: dict[str, Any]) -> list[str]:
    baseline, baseline_value, ratio = (record.get(name) for name in ("baseline", "baseline_value", "ratio"))
    if baseline is None:
        if baseline_value is not None or ratio is not None:
            return ["baseline_value and ratio need a baseline"]
        return []
    if not _is_text(baseline) or not _is_number(baseline_value):
        return ["baseline must be text, with a finite baseline_value"]
    if ratio is None:  # nothing to divide by
        return [] if record["value"] == 0 or baseline_value == 0 else ["a record with a baseline needs a ratio"]
    if not _is_number(ratio):
        return ["ratio must be a finite number"]
    if record["value"] and baseline_value:
        expected = better(record["value"], baseline_value, record["unit"])
        if not math.isclose(ratio, expected, rel_tol=0.01):
            return [f"ratio is {ratio:.3g}, but value and baseline_value give {expected:.3g}"]
    return []


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
