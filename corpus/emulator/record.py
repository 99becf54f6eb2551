"""Records kernels into a set, and renews the set: `python -m corpus.emulator.record SET [FILE...]`.

Each FILE is a Python module with `ENTRIES` (corpus.emulator.entry); `Entry.file` is relative to it. Each kernel is
captured, assembled and kept with its inputs and NumPy's values. Then the whole set is replayed: its outputs must be
NumPy's, and it must have no findings. Where NumPy gives none, a GPU must have computed the same bits, by
benchmarks/results. Counters are those of benchmarks/results, if Nsight Compute has counted the kernel:
`python -m benchmarks.validate corpus/SET/` does both on a GPU, and `record SET` takes them over.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from corpus.emulator import draws, recorded
from corpus.emulator.compare import compare, expectations, is_rounded
from corpus.emulator.entry import Entry
from corpus.emulator.plans import assemble_all
from corpus.emulator.recorded import Known, RecordedKernel
from course import results
from warplab import emulator
from warplab.errors import WarplabError
from warplab.plan.execution import METRICS, Execution
from warplab.plan.model import EMULATED_ARCHITECTURE

_COUNTED = ("counters.json", "counters_nvidia_h100_80gb_hbm3.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 if a kernel is not what its entry or its set says, and nothing is written then."""
    options = _parser().parse_args(arguments)
    kept = recorded.of_set(options.set) if options.set in recorded.sets() else {}
    try:
        found = {name: recorded.load(f"{options.set}/{name}") for name in kept}
        for file in options.files:
            found |= {one.name.removeprefix(f"{options.set}/"): one for one in _made(options.set, _entries(file))}
        if not found:
            raise WarplabError(f"There is no set '{options.set}': name files with ENTRIES to make it.")
        reasons = dict(options.why)
        if unknown := sorted(reasons.keys() - found.keys()):
            raise WarplabError(f"The set '{options.set}' has no kernel '{unknown[0]}': --why takes one of its names.")
        counted = _counted()
        found = {
            name: _renewed(one, counted.get(f"corpus/{one.name}"), reasons.get(name, one.known.why))
            for name, one in found.items()
        }
    except WarplabError as error:
        print(f"record: {error}", file=sys.stderr)
        return 1
    path = recorded.write(options.set, found.values())
    print(f"{path.name}: {len(found)} kernels, {path.stat().st_size:,} bytes")
    return 0


def _made(folder: str, entries: Sequence[Entry]) -> list[RecordedKernel]:
    """Capture, assemble, run and compare kernels. Raises WarplabError if one is not what its entry says."""
    plans = assemble_all(entries, EMULATED_ARCHITECTURE)
    made, on_a_gpu = [], _same_on_a_gpu()
    for entry in entries:
        inputs = entry.draw()
        approximate = asdict(entry.approximate) if entry.approximate else None
        drawn = _drawn(entry, inputs)
        seed = entry.name if drawn else ""
        known = Known(
            {},
            {},
            counted=not entry.uncounted,
            approximate=approximate,
            tolerance=entry.tolerance,
            seed=seed,
            drawn=drawn,
        )
        name = f"{folder}/{entry.name.removeprefix(f'{folder}/')}"
        one = RecordedKernel(name, replace(plans[entry.name], source=""), inputs, known, {})
        outputs = _replayed(one).outputs
        if problem := compare(entry, inputs, outputs):
            raise WarplabError(f"{entry.name}: {problem}.")
        wanted = expectations(entry, inputs)
        confirmed = outputs.keys() if f"corpus/{name}" in on_a_gpu else wanted.keys()
        if not confirmed:
            raise WarplabError(f"{entry.name}: NumPy says nothing of its outputs. Give its entry `expected`.")
        expected = {
            output: values.astype(np.float64)
            for output, values in wanted.items()
            if is_rounded(outputs[output], values)
        }
        known = replace(known, unconfirmed=tuple(sorted(outputs.keys() - confirmed)))
        made.append(replace(one, known=known, expected=expected))
    return made


def _drawn(entry: Entry, inputs: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Names of `draws` by input, in order; empty unless each input comes from one of its functions."""
    names = {name: entry.inputs.get(name, draws.plain).__name__ for name in inputs}
    return names if all(getattr(draws, n, None) is entry.inputs.get(i, draws.plain) for i, n in names.items()) else {}


def _replayed(one: RecordedKernel) -> Execution:
    execution = emulator.execute(one.plan, dict(one.inputs), architecture=EMULATED_ARCHITECTURE, workers=1)
    if execution.findings:
        raise WarplabError(f"{one.name}: {execution.findings[0].message}")
    return execution


def _renewed(one: RecordedKernel, measured: tuple[str, Mapping[str, int]] | None, why: str) -> RecordedKernel:
    """A kernel with what it computes and counts now; `measured` is a card and its counters by metric."""
    execution = _replayed(one)
    if problem := one.known.outputs and one.problem(execution.outputs):
        raise WarplabError(f"{one.name}: {problem}.")
    card, counters = one.known.card, one.known.counters
    if measured:
        card, counters = measured[0], {c: measured[1][m] for c, m in METRICS.items() if measured[1].get(m)}
    apart = tuple(c for c in METRICS if counters and getattr(execution.total, c) != counters.get(c, 0))
    if apart and not why:
        raise WarplabError(
            f"{one.name}: the emulator counts {', '.join(apart)} otherwise than Nsight Compute. "
            f"Say why with --why {one.name.partition('/')[2]} REASON."
        )
    outputs = recorded.digests(execution.outputs)
    known = replace(one.known, outputs=outputs, counters=counters, card=card, apart=apart, why=why if apart else "")
    return replace(one, known=known)


def _same_on_a_gpu() -> set[str]:
    """The kernels whose outputs a GPU computed bit for bit as the emulator did."""
    return {
        record.name
        for file in _COUNTED
        if (results.DIRECTORY / file).is_file()
        for record in results.read(results.DIRECTORY / file).records
        if (record.metric, record.value, record.conditions) == ("elements that differ", 0, "bit for bit")
    }


def _counted() -> dict[str, tuple[str, Mapping[str, int]]]:
    """The card and what Nsight Compute counted on it last, summed over launches, by a kernel's name and a metric's."""
    newest: dict[str, tuple[str, str, dict[str, int]]] = {}
    for file in _COUNTED:
        kept = results.read(results.DIRECTORY / file)
        for record in kept.records:
            if record.baseline_value is None:
                continue
            date = record.extra.get("date", kept.header.date)
            have = newest.get(record.name)
            if have is None or (have[1] != kept.header.gpu and have[0] < date):
                have = newest[record.name] = (date, kept.header.gpu, {})
            if have[1] == kept.header.gpu:
                have[2][record.metric] = int(record.baseline_value)
    return {name: (f"{gpu}, {date[:10]}", counters) for name, (date, gpu, counters) in newest.items()}


def _entries(file: Path) -> Sequence[Entry]:
    """The entries of a module. Raises WarplabError if it has none."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise WarplabError(f"{file} is no Python file: name a module with ENTRIES.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not getattr(module, "ENTRIES", ()):
        raise WarplabError(f"{file} has no ENTRIES: list its kernels there (corpus/emulator/entry.py).")
    return [replace(entry, file=str(file.resolve().parent / entry.file)) for entry in module.ENTRIES]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m corpus.emulator.record", description=__doc__)
    parser.add_argument("set", metavar="SET", help="the set that the kernels go to")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="modules with ENTRIES, if some are added")
    why = "why the emulator counts a kernel otherwise than Nsight Compute"
    parser.add_argument("--why", nargs=2, action="append", default=[], metavar=("KERNEL", "REASON"), help=why)
    return parser


if __name__ == "__main__":
    sys.exit(main())
