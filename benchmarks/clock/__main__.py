"""How long kernels take by the model and by the clock.

`python -m benchmarks.clock measure [LAB ...]` times them on the GPU present and writes clock_times.json, or if that is
of another GPU one beside it. Names of labs, or `textbook`, restrict it.

`python -m benchmarks.clock compare` models each on the emulator, needs no GPU, and writes clock.json: the errors of the
two halves (subjects.py) against clock_times.json. With `--kept FOLDER` it saves there what the emulator counted and
loads it the next time, so that a changed model is compared in a minute. Delete the folder when kernels or the emulator
change.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from collections.abc import Collection, Container, Iterator
from pathlib import Path

from benchmarks.clock import compare, subjects
from course import results
from warplab.emulator.clock.estimate import estimate
from warplab.errors import WarplabError
from warplab.files import write_whole
from warplab.hardware.chips import find_chip
from warplab.hardware.device import architecture_of, present
from warplab.hardware.records import Chip
from warplab.plan.execution import Execution
from warplab.plan.model import EMULATED_ARCHITECTURE

TIMES = results.DIRECTORY / "clock_times.json"
RESULT = results.DIRECTORY / "clock.json"
TEXTBOOK = "textbook"


def measure(wanted: list[str]) -> int:
    """Time all subjects, those that were never timed on a GPU last; what was timed stays if a later one fails."""
    from benchmarks.clock.measure import Wrong, times  # imports CuPy's device

    device = present()
    if device is None:
        print("No GPU answers in this machine.", file=sys.stderr)
        return 3
    architecture = architecture_of(device)
    records: list[results.Record] = []
    start, failed = time.monotonic(), 0
    header = results.make_header("python -m benchmarks.clock measure")
    for part in _parts(wanted, architecture):
        try:
            for record in times(part, architecture):
                records.append(record)
                seconds = time.monotonic() - start
                print(f"{seconds:6.1f} s  {record.name:60} {record.value * 1e3:10.2f} us", flush=True)
        except (WarplabError, Wrong) as error:
            print(error, file=sys.stderr, flush=True)
            failed = 1
        results.write(TIMES, header, records, merge=True)
    return failed


def _parts(
    wanted: list[str], architecture: str, known: Container[str] | None = None
) -> Iterator[list[subjects.Subject]]:
    """Subjects by lab, with `known` only those of labs whose names it has."""
    if not wanted or TEXTBOOK in wanted:
        yield list(subjects.textbook(architecture))
    files = [file for file in subjects.lab_files() if not wanted or file.lab in wanted]
    if known is not None:
        files = [file for file in files if file.name in known]
    captured = list(subjects.of_labs(architecture, files))  # all side by side, which takes as long as two labs' do
    for lab in dict.fromkeys(file.lab for file in files):
        yield [subject for subject, file in zip(captured, files, strict=True) if file.lab == lab]


def compare_all(kept: Path | None) -> int:
    """Model every subject that has a measured time."""
    measured = {r.name: r.value / 1e3 for r in results.read(TIMES).records}
    chip = find_chip(results.read(TIMES).header.gpu)
    if chip is None:
        print("The GPU of clock_times.json has no datasheet here.", file=sys.stderr)
        return 1
    records = []
    for name, execution in _executions(measured, chip, kept):
        model = estimate(execution, chip)
        records.append(compare.record(name, model, measured[name]))
        print(f"{name:60} {model.seconds / measured[name]:6.2f}", flush=True)
    found = compare.summaries(records)
    results.write(RESULT, results.make_header("python -m benchmarks.clock compare"), [*found, *records])
    for summary in found:
        print(f"{summary.name:8} {summary.metric:20} {summary.value:8.3f}")
    return 0


def _executions(names: Collection[str], chip: Chip, kept: Path | None) -> Iterator[tuple[str, Execution]]:
    """What the emulator counts of the subjects with these names, loaded from `kept` where it is there."""
    files = {name: kept / f"{name.replace('/', '__')}.pickle" for name in names} if kept else {}
    missing = [name for name in names if name not in files or not files[name].exists()]
    for name, file in files.items():
        if name not in missing:
            yield name, pickle.loads(file.read_bytes())
    for part in _parts([], EMULATED_ARCHITECTURE, missing) if missing else ():
        for subject in part:
            if subject.name in missing:
                execution = compare.executed(subject, EMULATED_ARCHITECTURE, chip)
                if kept:
                    write_whole(files[subject.name], pickle.dumps(execution))
                yield subject.name, execution


def main() -> int:
    """Exit code 0 once the file is written, 1 if a part of it could not be measured, 3 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clock", description=__doc__)
    parser.add_argument("command", choices=["measure", "compare"])
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--kept", type=Path)
    arguments = parser.parse_args()
    return measure(arguments.parts) if arguments.command == "measure" else compare_all(arguments.kept)


if __name__ == "__main__":
    sys.exit(main())
