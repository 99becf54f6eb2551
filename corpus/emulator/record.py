"""Records kernels into a set: `python -m corpus.emulator.record SET FILE...`.

Each FILE is a Python module with `ENTRIES` (corpus.emulator.entry), whose kernels lie beside it. Each kernel is
captured, assembled and run on the emulator; its outputs must be NumPy's, and it must have no findings. Counters are
those of benchmarks/results, if Nsight Compute has counted the kernel. `python -m benchmarks.validate corpus/SET/`
counts them on a GPU; recording again takes them over.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from corpus.emulator.compare import compare
from corpus.emulator.entry import Entry
from corpus.emulator.plans import assemble_all
from corpus.emulator.recorded import FOLDER, Known, RecordedKernel, digests, load, names, write
from course import results
from warplab import emulator
from warplab.errors import WarplabError
from warplab.plan.execution import METRICS, Execution

ARCHITECTURE = "sm_90a"
_COUNTED = ("counters.json", "counters_nvidia_h100_80gb_hbm3.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 if a kernel is not what its entry says, and nothing is written then."""
    options = _parser().parse_args(arguments)
    found: dict[str, RecordedKernel] = {}
    if (FOLDER / f"{options.set}.zip").exists():
        found = {name: load(name) for name in names() if name.startswith(f"{options.set}/")}
    try:
        for file in options.files:
            found |= {one.name: one for one in recorded(options.set, _entries(file))}
    except WarplabError as error:
        print(f"record: {error}", file=sys.stderr)
        return 1
    path = write(options.set, found.values())
    print(f"{path.name}: {len(found)} kernels, {path.stat().st_size:,} bytes")
    return 0


def recorded(folder: str, entries: Sequence[Entry]) -> list[RecordedKernel]:
    """Capture, assemble, run and compare kernels. Raises WarplabError if one is not what its entry says."""
    plans, counted = assemble_all(entries, ARCHITECTURE), _counters()
    kernels = []
    for entry in entries:
        name = f"{folder}/{entry.name.rpartition('/')[2]}"
        plan, inputs = replace(plans[entry.name], source=""), entry.draw()
        execution = emulator.execute(plan, inputs, architecture=ARCHITECTURE, workers=1)
        problem = "; ".join(f.message for f in execution.findings) or compare(entry, inputs, execution.outputs)
        if problem:
            raise WarplabError(f"{entry.name}: {problem}")
        kernels.append(RecordedKernel(name, plan, inputs, _known(entry, execution, counted.get(f"corpus/{name}", {}))))
    return kernels


def _known(entry: Entry, execution: Execution, counted: Mapping[str, int]) -> Known:
    counters = {c: counted.get(metric, 0) for c, metric in METRICS.items()} if any(counted.values()) else {}
    apart = tuple(c for c, value in counters.items() if getattr(execution.total, c) != value)
    approximate = asdict(entry.approximate) if entry.approximate else None
    kept = {name: value for name, value in counters.items() if value}
    return Known(digests(execution.outputs), kept, apart, "", not entry.uncounted, approximate)


def _counters() -> dict[str, dict[str, int]]:
    """What Nsight Compute counted, summed over launches, by a kernel's name and a metric's."""
    found: dict[str, dict[str, int]] = {}
    for file in _COUNTED:
        for record in json.loads((results.DIRECTORY / file).read_text())["records"]:
            if record["baseline_value"] is not None:
                found.setdefault(record["name"], {})[record["metric"]] = record["baseline_value"]
    return found


def _entries(file: Path) -> Sequence[Entry]:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise WarplabError(f"{file} is no Python file with ENTRIES.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ENTRIES


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m corpus.emulator.record", description=__doc__)
    parser.add_argument("set", metavar="SET", help="the set that the kernels go to")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="modules with ENTRIES")
    return parser


if __name__ == "__main__":
    sys.exit(main())
