"""Runs the kernel of docs/tools.md under Nsight Compute, compute-sanitizer and Nsight Systems, beside the emulator.

Run as `python -m benchmarks.tools` on a machine with a GPU and these tools; one that is not there is left out, and its
records stay. Writes benchmarks/results/tools.json: ncu's counters beside ours, and the lines that a reader of the
other tools looks at.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import warplab
from benchmarks.nsight import rows_of, value_of
from corpus.tools import row_sums
from course import results
from course.results import Record
from warplab.errors import WarplabError
from warplab.gpu import sanitizer
from warplab.hardware.device import present
from warplab.plan.execution import METRICS

FILE = results.DIRECTORY / "tools.json"
COMMAND = "python -m benchmarks.tools"
SCRIPT = Path(row_sums.__file__)
COUNTERS = (
    "global_load_requests",
    "global_load_sectors",
    "global_store_sectors",
    "shared_load_wavefronts",
    "shared_load_bank_conflicts",
    "shared_store_wavefronts",
)
SECONDS = 240
_OF_THE_PROCESS = re.compile(r"==(PROF|WARNING)==|\[\d+\] ")


def run(command: list[str]) -> str:
    """What a tool prints, without its lines about the process that it watches. Raises WarplabError if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    if done.returncode:
        raise WarplabError(f"{Path(command[0]).name} failed with {done.returncode}: {' '.join(lines[-3:])}")
    return "\n".join(line.rstrip() for line in lines if not _OF_THE_PROCESS.match(line))


def by_ncu(program: str) -> list[Record]:
    """Nsight Compute's counters beside the emulator's, and what its pages of text say."""
    total = warplab.run(row_sums.main).execution.total
    names = [METRICS[counter] for counter in COUNTERS]
    command = [program, "--clock-control", "none", "--kernel-name", "row_sums"]
    table = ["--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(names)]
    (row,) = rows_of(run([*command, *table, sys.executable, str(SCRIPT)]))
    found = []
    for counter, name in zip(COUNTERS, names, strict=True):
        value, ours = value_of(row, name), getattr(total, counter)
        ratio = value / ours if ours else None
        found.append(
            Record(counter, "count", value, "1", variant=name, baseline="emulator", baseline_value=ours, ratio=ratio)
        )
    sections = [word for name in ("SpeedOfLight", "MemoryWorkloadAnalysis_Tables", "SourceCounters")
                for word in ("--section", name)]  # fmt: skip
    text = run([*command, *sections, sys.executable, str(SCRIPT)])
    found.append(Record("ncu", "lines", len(text.splitlines()), "1", extra={"text": text}))
    return found


def by_sanitizer(program: str) -> list[Record]:
    """What each of compute-sanitizer's tools reports. Raises WarplabError where one gives no summary."""
    found = []
    for tool in ("racecheck", "initcheck", "memcheck", "synccheck"):
        text = run([program, "--tool", tool, "--print-limit", "3", sys.executable, str(SCRIPT)])
        summary = re.findall(r"(\d+) (?:hazards? displayed|errors?)", text)
        shown = "\n".join(text.splitlines()[:30] + text.splitlines()[-2:])
        if not summary:
            raise WarplabError(f"compute-sanitizer's {tool} gave no summary: {text[-200:]}")
        extra = {"text": shown}
        found.append(Record("compute-sanitizer", "reports", int(summary[-1]), "1", variant=tool, extra=extra))
    return found


def by_nsys(program: str) -> list[Record]:
    """Nsight Systems' table of kernels and of calls."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "profile", "--stats=true", "-o", str(Path(folder, "report")), sys.executable, str(SCRIPT)]
        text = run(command)
    return [Record("nsys", "lines", len(text.splitlines()), "1", extra={"text": text})]


def main() -> int:
    """Exit code 3 without a GPU, without any of the tools, or where one fails."""
    if present() is None:
        raise WarplabError("This needs a GPU.")
    records = []
    for name, program, part in (
        ("ncu", shutil.which("ncu"), by_ncu),
        ("compute-sanitizer", sanitizer.find(), by_sanitizer),
        ("nsys", shutil.which("nsys"), by_nsys),
    ):
        if program:
            records += part(program)
        else:
            print(f"{name} is not on the PATH and is left out.", file=sys.stderr)
    if not records:
        raise WarplabError("None of ncu, compute-sanitizer and nsys is on the PATH: add the toolkit's bin folder.")
    for record in records:
        print(record.name, record.variant, record.value, record.baseline_value, sep="  ")
    print(f"Written: {results.write(FILE, results.make_header(COMMAND), records, merge=True).name}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WarplabError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
