"""The rungs of matrix products that are measured together: those of the labs that name the library's product."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograder.spec.lab import find_lab, kernel_labs, solutions_folder
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role

BEST = "08_hopper_hgemm/rung_14_any_shape"


@dataclass(frozen=True)
class Rung:
    """One product: c = a @ b by `function(a, b, c)` of a file. `result` is the dtype of c for float16 inputs."""

    name: str
    path: Path
    function: str
    result: str


def order(name: str) -> tuple[str, bool, bool, int, str]:
    """A key to sort rungs' names: by lab; in a lab by number, those in Numba first and the submissions last."""
    lab, _, stem = name.rpartition("/")
    number = next((int(word) for word in stem.split("_") if word.isdecimal()), 0)
    return lab, stem.startswith("submission"), not stem.startswith("numba"), number, stem


def rungs() -> list[Rung]:
    """All of them: a lab's function and dtype are those of its task."""
    found = []
    for lab in kernel_labs():
        task = find_lab(lab).task
        if task.library != "matmul":
            continue
        function, result = task.function, task.arrays(Role.OUTPUT)[0].dtype
        for path in (solutions_folder() / lab).glob("*.py"):
            if path.stem.partition("_")[0] in ("rung", "numba", "submission"):
                found.append(Rung(f"{lab}/{path.stem}", path, function, result))
    return sorted(found, key=lambda rung: order(rung.name))


def plan_of(
    path: Path,
    m: int,
    n: int,
    k: int,
    architecture: str,
    function: str = "hgemm",
    dtype: str = "float16",
    result: str = "float16",
) -> Plan:
    """The plan of a file's product of matrices m x k and k x n of `dtype` ("uint16" holds bfloat16)."""
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    arguments = tuple(
        ArrayArgument(name, result if name == "c" else dtype, shape, Role.OUTPUT if name == "c" else Role.INPUT)
        for name, shape in shapes.items()
    )
    return capture(path, [HostCall(function, arguments)], (architecture,))[0]
