"""What the packages of one environment make of the corpus and the labs' references: for `benchmarks.toolkits`.

`python -m benchmarks.toolkit_run FILE` captures, assembles and emulates everything with the Python that runs it. FILE
gets, by kernel, a digest of each output and the counters, for two environments to be compared without either's arrays.
Needs no GPU.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from autograder.own_work import capture_submission
from autograder.records.machine import versions
from autograder.spec.inputs import generate
from autograder.spec.lab import CHECKOUT, find_lab, kernel_labs
from autograder.submissions import references
from corpus.emulator.catalogue import ENTRIES
from corpus.emulator.plans import assemble_all
from warplab import emulator
from warplab.errors import WarplabError
from warplab.plan.assembler import version
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan

SEED = 21


def subjects() -> Iterator[tuple[str, Plan, Mapping[str, np.ndarray]]]:
    """Every entry of the corpus that the emulator runs, then every reference on its lab's profile case."""
    entries = [entry for entry in ENTRIES if not entry.gap]
    plans = assemble_all(entries, EMULATED_ARCHITECTURE)
    yield from ((f"corpus/{entry.name}", plans[entry.name], entry.draw()) for entry in entries)
    of_kernels = set(kernel_labs())
    for name, source in ((lab.name, source) for lab, source in references() if lab.name in of_kernels):
        lab = find_lab(name)
        case = lab.task.profile
        plan = capture_submission(lab, source, (case,), SEED, EMULATED_ARCHITECTURE).plans[case.name]
        values = generate(np, lab.task, case, SEED)
        inputs = {key: values[key] for key in plan.buffers if key in values}
        yield source.relative_to(CHECKOUT).with_suffix("").as_posix(), plan, inputs


def measured(plan: Plan, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The digests of the outputs, the counters and how many findings there are, or why the plan does not run."""
    try:
        execution = emulator.execute(plan, dict(inputs), architecture=EMULATED_ARCHITECTURE, workers=1)
    except WarplabError as error:
        return {"refused": str(error)}
    outputs = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in execution.outputs.items()}
    return {"outputs": outputs, "counters": asdict(execution.total), "findings": len(execution.findings)}


def main(target: Path) -> int:
    """Exit code 0. Raises CaptureFailure or CompileError for a kernel that the environment cannot make."""
    kernels = {name: measured(plan, inputs) for name, plan, inputs in subjects()}
    target.write_text(json.dumps({"versions": versions() | {"assembler": version()}, "kernels": kernels}))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
