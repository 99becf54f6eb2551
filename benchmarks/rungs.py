"""What is known of the rungs of each lab, for reports of machines without a GPU: counters, a line, a measured speed.

Writes labs/*/rungs.json (`autograder.spec.recorded`), which students get too: no line of a solution is in it. Counters
come from the emulator, speeds from benchmarks/results. `python -m benchmarks.rungs [LAB...]`; needs no GPU.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from autograder.own_work import capture_submission
from autograder.spec.inputs import generate
from autograder.spec.lab import SUBMISSION_NAMES, Lab, find_lab, kernel_labs, solutions_folder
from autograder.spec.recorded import FILE, Counted, Recorded, RecordedRung, relative_counters
from autograder.spec.task import Dimensions
from autograder.worker.emulator_stage import counters_of
from autograder.worker.same_kernels import other_kernels
from course import results
from warplab import emulator
from warplab.files import write_whole

SIZES = 5  # of a class of which all are counted: where there are more, shapes do not differ much
# How many rows an expert has is drawn with the inputs, and it matters.
SEEDS: Mapping[str, Sequence[int]] = defaultdict(lambda: (0,), {"11_grouped_gemm": range(4)})
# Their rungs were timed beside cuBLAS, all in the same turns, and not against the roofline.
BESIDE_CUBLAS = ("07_tensor_core_hgemm", "08_hopper_hgemm")
_SHAPE = (4096, 4096, 4096)


def sources(lab: Lab) -> list[Path]:
    """The rungs of a lab, ladder by ladder from below, the longest ladder first, and then its references."""
    found = sorted((solutions_folder() / lab.name).glob("*.py"))
    return sorted(found, key=lambda path: (path.name in SUBMISSION_NAMES, not path.name.startswith("rung_"), path.name))


def what(path: Path) -> str:
    """What a rung does: the first line of its docstring, without the lab's and the rung's names. Empty for references,
    which are called by no more than the lab's title."""
    if path.name in SUBMISSION_NAMES:
        return ""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n", 1)[0].split(": ", 1)[1].rstrip(".")


def sizes(lab: Lab) -> list[Dimensions]:
    """The sizes of the profile case that are counted, the nominal one first."""
    case = lab.task.profile
    return [case.dimensions, *(size for size in case.sizes if size != case.dimensions and len(case.sizes) <= SIZES)]


def counted(lab: Lab, path: Path, size: Dimensions) -> list[Counted] | None:
    """The counters of a rung for a size of the profile case; None if it launches other kernels for what is timed."""
    case = replace(lab.task.profile, dimensions=size)
    lab = replace(lab, task=replace(lab.task, profile=case))
    plans = capture_submission(lab, path, (case, lab.task.timing), 0, lab.emulated).plans
    plan = plans[case.name]
    if other_kernels(plan, plans[lab.task.timing.name], ()):
        return None
    found: list[Counted] = []
    for seed in SEEDS[lab.name]:
        draw = partial(generate, np, lab.task, case, seed)
        values = draw()
        inputs = {name: values[name] for name in plan.buffers if name in values}
        execution = emulator.execute(plan, inputs, architecture=lab.emulated, sanitize=False)
        relative = relative_counters(lab.task, size, counters_of(lab.task, execution, plan, draw))
        one = Counted(dict(size), {name: float(f"{value:.5g}") for name, value in relative.items()})
        found += [one] if one not in found else []
    return found


def measured(lab: Lab, path: Path) -> float | None:
    """How fast a rung was, as a fraction of what `of(lab)` names; None if there is no record of it."""
    if lab.name in BESIDE_CUBLAS:
        known = results.read(results.DIRECTORY / "gemm.json").records
        shares = [
            record.ratio
            for record in known
            if (record.name, record.metric, record.variant) == (f"{lab.name}/{path.stem}", "rate", "squares")
            and (record.shape, record.dtype) == (_SHAPE, "float16")
        ]
    else:
        known = results.read(results.DIRECTORY / "labs.json").records
        shares = [
            record.value
            for record in known
            if (record.name, record.metric, record.variant) == (lab.name, "efficiency", path.stem)
        ]
    return float(f"{shares[0]:.3g}") if shares and shares[0] is not None else None


def of(lab: Lab) -> str:
    """What `measured` is a fraction of."""
    return "cuBLAS's speed for matrices of 4,096 x 4,096" if lab.name in BESIDE_CUBLAS else "the roofline"


def gpu() -> str:
    """The GPU of the records."""
    return results.read(results.DIRECTORY / "labs.json").header.gpu


def record(lab: Lab) -> Recorded:
    """Everything of a lab, counted now."""
    found, left_out = [], []
    for path in sources(lab):
        counts = [counted(lab, path, size) for size in sizes(lab)]
        kept = [one for some in counts if some for one in some]
        if counts[0] is None:
            left_out.append(path.stem)
        else:
            found.append(RecordedRung(path.stem, what(path), measured(lab, path), tuple(kept)))
        print(f"{lab.name:22} {path.stem:28} {'left out' if counts[0] is None else kept[0].counters}", flush=True)
    return Recorded(gpu(), of(lab), tuple(found), tuple(left_out))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files of the named labs, or of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labs", nargs="*", metavar="LAB", help=f"only these of {', '.join(kernel_labs())}")
    options = parser.parse_args(arguments)
    if unknown := set(options.labs) - set(kernel_labs()):
        parser.error(f"There is no lab {', '.join(sorted(unknown))}: the labs are {', '.join(kernel_labs())}.")
    for name in options.labs or kernel_labs():
        lab = find_lab(name)
        write_whole(lab.folder / FILE, json.dumps(asdict(record(lab)), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
