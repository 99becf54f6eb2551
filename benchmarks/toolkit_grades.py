"""Grades every reference on a GPU with the packages that run this, `make grade` with figures kept: toolkits.json.

`python -m benchmarks.toolkit_grades`, with the Python of an environment of CUDA 12 or 13. A record a reference says the
points of it and, where it is timed, its share of the ceiling; the other records of the file stay.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from autograder.submissions import references
from course import results
from warplab.hardware.device import present
from warplab.hardware.toolkit import toolkit

COMMAND = "python -m benchmarks.toolkit_grades"
_SECONDS = 1800.0


def main() -> int:
    """Exit code 0 if every reference has full marks, 1 if not or one was not graded, 3 if there is no GPU."""
    if present() is None:
        print("There is no GPU here: `make grade` grades the references on the emulator.", file=sys.stderr)
        return 3
    records, missing = [], 0
    for lab, source in references():
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "report.json"
            options = ["--device=gpu", f"--json={target}"]
            command = [sys.executable, "-m", "autograder", "grade", str(source), *options]
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(command, timeout=_SECONDS, check=False)
            if not target.exists():
                missing += 1
                continue
            report = msgspec.json.decode(target.read_bytes())["reports"][0]
        records.append(_record(lab.name, source, report))
        print(f"{records[-1].name:40} {report['score']:g} of {report['max_score']:g} points", flush=True)
    results.write(results.DIRECTORY / "toolkits.json", results.make_header(COMMAND), records, merge=True)
    return int(missing > 0 or any(record.value < record.extra["points_there_are"] for record in records))


def _record(lab: str, source: Path, report: Any) -> results.Record:
    lost = {part["part"]: part["message"] for part in report["parts"] if part["score"] < part["max_score"]}
    return results.Record(
        f"{lab}/{source.stem}", "points", report["score"], "points", f"graded with CUDA {toolkit()}",
        conditions="autograder grade --device gpu",
        extra={"points_there_are": report["max_score"], "efficiency": report["efficiency"], "lost": lost,
               "package_versions": report["versions"]},
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
