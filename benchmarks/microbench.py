"""Measures the parts of a Hopper GPU one at a time and sets each beside the published figure: results/microbench.json.

Run as `python -m benchmarks.microbench`, or with names of groups (sm, memory, host, tensor, library) for those alone.
"""

from __future__ import annotations

import sys
import time
import traceback
from importlib import import_module

from benchmarks.micro import known
from course import results
from warplab.hardware.device import present

GROUPS = ("sm", "memory", "host", "cold", "tensor", "library")
NOT_SHOWN = ("known", "known_from", "source", "deviation", "explanation")
FILE = results.DIRECTORY / "microbench.json"


def line(record: results.Record) -> str:
    """One row of the table: what, value, known figure, deviation."""
    what = " ".join(str(part) for part in (record.name, record.variant, record.dtype) if part)
    shape = ",".join(f"{n:,}" for n in record.shape)
    extra = record.extra
    text = f"{what:42} {record.metric:10} {shape:>16} {record.value:14.5g} {record.unit:15}"
    if "known" in extra:
        text += f" known {extra['known']:<10.5g} {extra['deviation']:+7.1%}"
        if abs(extra["deviation"]) > known.TOLERANCE and not extra.get("explanation"):
            text += "  not explained"
    rest = {k: v for k, v in extra.items() if k not in NOT_SHOWN and len(str(v)) < 120}
    return text + (f"  {rest}" if rest else "")


def measure(group: str) -> tuple[list[results.Record], bool]:
    """The records of one group, and whether it came to its end."""
    taken: list[results.Record] = []
    begin = time.monotonic()
    try:
        for record in import_module(f"benchmarks.micro.{group}").records():
            taken.append(record)
            print(line(record), flush=True)
        whole = True
    except Exception:  # a part that fails must not lose the parts before it
        traceback.print_exc()
        whole = False
    print(f"# {group}: {len(taken)} records in {time.monotonic() - begin:.1f} s", flush=True)
    return taken, whole


def main(arguments: list[str]) -> int:
    """Measure all groups, or those named. Exit code 0, 2 for an unknown group, 3 if something cannot be measured."""
    if wrong := [a for a in arguments if a not in GROUPS]:
        print(f"There is no group {wrong[0]!r}: the groups are {', '.join(GROUPS)}.", file=sys.stderr)
        return 2
    device = present()
    if device is None or device.compute_capability[0] != 9:
        print("These kernels are for a Hopper GPU (compute capability 9.0), and there is none here.", file=sys.stderr)
        return 3
    header = results.make_header(" ".join(["python -m benchmarks.microbench", *arguments]))
    taken: list[results.Record] = []
    whole = True
    for group in arguments or GROUPS:
        records, complete = measure(group)
        taken += records
        whole &= complete
        results.write(
            FILE, header, known.compare(taken), merge=bool(arguments)
        )  # a group that hangs loses itself alone
    print("# beside what is known")
    for record in known.compare(taken):
        if "known" in record.extra:
            print(line(record))
    return 0 if whole else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
