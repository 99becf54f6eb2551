"""Tries the packages that learners may have: CUDA 12 and 13, every supported numba-cuda, and Colab's own versions.

`python -m benchmarks.toolkits [NAME...]` makes a virtual environment for each (a gigabyte each, from the package index,
in a temporary folder that goes with it), runs `benchmarks.toolkit_run` in it and compares outputs and counters with
those of CUDA 13's; in Colab's it runs chapter 00 as well. Writes benchmarks/results/toolkits.json. Needs no GPU.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course import results
from course.results import Record
from warplab.errors import WarplabError

ROOT = Path(__file__).resolve().parent.parent
BASELINE = "CUDA 13"
COLAB = "Colab"
_SECONDS = 3600.0  # for one environment's run: a quarter of an hour on two idle processors
_INSTRUCTIONS = re.compile(r".*_instructions$")  # PTX instructions: another compiler may need another number
_CHAPTER = """
import sys, jupytext, nbclient
from pathlib import Path
notebook = jupytext.read(Path("notebooks/source/00_start_here.md"))
place = {"metadata": {"path": "notebooks"}}
nbclient.NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=place).execute()
sys.exit(any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", ())))
"""


@dataclass(frozen=True)
class Environment:
    """What is installed: `packages` at the versions of the files `constraints`; then `pinned`, without what they need.

    `python` is the version that it is made with, if there is one: "3.13".
    """

    name: str
    constraints: tuple[str, ...]
    packages: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    python: str = "3.12"


_COMMON = "numpy numba llvmlite nvidia-ml-py msgspec jinja2 rich platformdirs filelock cloudpickle pygments ipython"
_COMMON += " nbformat matplotlib ipykernel ipywidgets jupytext nbclient numba-cuda cuda-core"
_CUDA_12 = "cupy-cuda12x cuda-bindings==12.* cuda-toolkit[nvrtc,nvcc,cudart,cccl]>=12.8,<13 nvidia-nvjitlink-cu12"
_CUDA_13 = (
    "cupy-cuda13x cuda-bindings==13.* cuda-toolkit[nvrtc,nvvm,nvcc,cudart,cccl,crt]==13.0.* nvidia-nvjitlink==13.0.*"
)
# Between Colab's and the newest, which the others have. They need a numba and a cuda-core of their time, as Colab has.
_NUMBA_CUDAS = ("0.23.0", "0.24.0", "0.26.0", "0.27.0", "0.28.2", "0.29.0")
_COLABS = ("constraints-colab.txt",)
ENVIRONMENTS = (
    Environment(BASELINE, ("constraints.txt", "constraints-cu13.txt"), (*_COMMON.split(), *_CUDA_13.split())),
    Environment("CUDA 12", ("constraints.txt", "constraints-cu12.txt"), (*_COMMON.split(), *_CUDA_12.split())),
    *(
        Environment(f"Colab, numba-cuda {version}", _COLABS, pinned=(f"numba-cuda=={version}",), python="3.13")
        for version in _NUMBA_CUDAS
    ),
    Environment(COLAB, _COLABS, python="3.13"),
)


def build(environment: Environment, folder: Path) -> Path:
    """Make the environment in a folder; gives its Python. Raises WarplabError with pip's last words."""
    _run([_python(environment.python), "-m", "venv", str(folder)])
    made = folder / "bin" / "python"
    install = [str(made), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    constraints = [part for file in environment.constraints for part in ("-c", str(ROOT / file))]
    packages = environment.packages or _pinned_names(ROOT / environment.constraints[0])
    _run([*install, *constraints, *packages])
    if environment.pinned:
        _run([*install, "--no-deps", *environment.pinned])
    return made


def _python(version: str) -> str:
    """The Python of that version, else the one that runs this: a version manager may have a name that leads nowhere."""
    found = shutil.which(f"python{version}")
    works = found and subprocess.run([found, "-c", "import venv"], capture_output=True, check=False).returncode == 0
    return found if found and works else sys.executable


def _pinned_names(file: Path) -> tuple[str, ...]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return tuple(line.partition("==")[0] for line in lines if "==" in line and not line.startswith("#"))


def measure(python: Path, target: Path) -> Mapping[str, Any]:
    """What `benchmarks.toolkit_run` finds with this Python. Raises WarplabError with the last line that it says."""
    _run([str(python), "-m", "benchmarks.toolkit_run", str(target)])
    return json.loads(target.read_text(encoding="utf-8"))


def chapter(python: Path) -> None:
    """Run chapter 00 with this Python. Raises WarplabError if a cell fails or shows an error."""
    _run([str(python), "-c", _CHAPTER])


def _run(command: Sequence[str]) -> None:
    environment = {"PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=_inherited() | environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WarplabError(f"{' '.join(command[:4])} did not end within {_SECONDS:.0f} s.") from None
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise WarplabError(f"{' '.join(command[:4])} failed: {' '.join(words)}")


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def compared(name: str, found: Mapping[str, Any], baseline: Mapping[str, Any], conditions: str = "") -> list[Record]:
    """The records of an environment: how many kernels differ from the baseline's, and in what."""
    ours, theirs = found["kernels"], baseline["kernels"]
    shared = sorted(ours.keys() & theirs.keys())
    outputs = [n for n in shared if ours[n].get("outputs") != theirs[n].get("outputs")]
    findings = [n for n in shared if ours[n].get("findings") != theirs[n].get("findings")]
    counters = {n: _apart(ours[n], theirs[n]) for n in shared}
    memory = [n for n in shared if any(not _INSTRUCTIONS.match(c) for c in counters[n])]
    instructions = [n for n in shared if any(_INSTRUCTIONS.match(c) for c in counters[n])]

    def record(metric: str, names: Sequence[str], **extra: Any) -> Record:
        return Record(name, metric, len(names), "kernels", conditions=conditions, extra=extra)

    return [
        record("kernels compared", shared, package_versions=found["versions"]),
        record("outputs differ", outputs, kernels=outputs),
        record("findings differ", findings, kernels=findings),
        record("memory counters differ", memory, kernels={n: counters[n] for n in memory}),
        record("instruction counts differ", instructions),
    ]


def _apart(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, list[int]]:
    mine, other = ours.get("counters", {}), theirs.get("counters", {})
    return {counter: [mine[counter], other[counter]] for counter in mine if mine[counter] != other.get(counter)}


def main(names: Sequence[str]) -> int:
    """Exit code 0 if outputs and findings agree everywhere, 1 if not, 2 for an unknown name.

    Counters may differ where compilers make other code, and the record says in which kernels.
    """
    if unknown := set(names) - {environment.name for environment in ENVIRONMENTS}:
        print(
            f"There is no environment {sorted(unknown)[0]!r}: {', '.join(e.name for e in ENVIRONMENTS)}.",
            file=sys.stderr,
        )
        return 2
    wanted = [e for e in ENVIRONMENTS if e.name == BASELINE or not names or e.name in names]
    baseline: Mapping[str, Any] = {}
    records: list[Record] = []
    for environment in wanted:
        with tempfile.TemporaryDirectory(prefix="warplab-toolkit-") as folder:
            python = build(environment, Path(folder) / "venv")
            found = measure(python, Path(folder) / "found.json")
            baseline = baseline or found
            records += compared(environment.name, found, baseline)
            if environment.name == COLAB:
                chapter(python)
                records.append(Record(COLAB, "chapter 00 without an error", 1, "chapters"))
        for record in records[-6:]:
            if record.name == environment.name:
                print(f"{record.name:28} {record.metric:28} {record.value:6.0f}", flush=True)
    results.write(results.DIRECTORY / "toolkits.json", results.make_header(_command(names)), records, merge=bool(names))
    return int(any(record.value for record in records if record.metric in ("outputs differ", "findings differ")))


def _command(names: Sequence[str]) -> str:
    return " ".join(["python -m benchmarks.toolkits", *(f"'{name}'" for name in names)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
