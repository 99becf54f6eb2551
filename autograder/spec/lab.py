"""Finds and loads labs: a folder with `lab.toml` (texts and points) and `task.py` (the trusted specification)."""

from __future__ import annotations

import importlib.util
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.spec.sizes import drawn
from autograder.spec.task import Case, Task
from warplab.errors import WarplabError
from warplab.plan.model import Language

CHECKOUT = Path(__file__).resolve().parents[2]
SUBMISSION_NAMES = ("submission.py", "submission_cuda.py")


class LabError(WarplabError):
    """There is no such lab, or its folder is damaged."""


@dataclass(frozen=True)
class Points:
    """Points that each part of a lab gives."""

    correctness: float
    safety: float
    traffic: float
    efficiency: float


@dataclass(frozen=True)
class EfficiencyScale:
    """Efficiencies (fractions of the roofline) at which the score starts and at which it is full."""

    floor: float
    target: float


@dataclass(frozen=True)
class Lab:
    """One lab. `feedback` maps a part's name to the section of the course that explains it."""

    name: str
    folder: Path
    title: str
    languages: frozenset[Language]
    points: Points
    efficiency: EfficiencyScale
    task: Task = field(repr=False)
    notebook: str = ""
    feedback: Mapping[str, str] = field(default_factory=dict)

    def drawn(self, seed: int) -> Lab:
        """The lab as one grade sees it: the seed draws the size of each case from its class."""
        return replace(self, task=drawn(self.task, seed))

    def case(self, name: str) -> Case:
        """The case of that name among the correctness, profile and timing cases. Raises LabError."""
        for case in (*self.task.correctness, self.task.profile, self.task.timing):
            if case.name == name:
                return case
        raise LabError(f"Lab {self.name} has no case named {name!r}.")


def labs_folder() -> Path:
    """The folder that holds the labs: WARPLAB_LABS if that is set, else `labs/` of the checkout."""
    return Path(os.environ.get("WARPLAB_LABS") or CHECKOUT / "labs")


def solutions_folder() -> Path:
    """The folder that holds the reference solutions, beside the labs."""
    return labs_folder().parent / "solutions"


def known_labs() -> list[str]:
    """Names of all labs, in the order of the course."""
    folder = labs_folder()
    return sorted(path.parent.name for path in folder.glob("*/lab.toml")) if folder.is_dir() else []


def find_lab(name: str) -> Lab:
    """Load the lab called `name`. Raises LabError naming the labs that exist."""
    known = known_labs()
    if name not in known:
        listing = f"the labs are {', '.join(known)}" if known else f"there are no labs in {labs_folder()}"
        raise LabError(f"There is no lab named {name!r}: {listing}.")
    return load_lab(labs_folder() / name)


def lab_of(path: Path) -> Lab:
    """The lab that a submission belongs to: the nearest folder above it named like a lab. Raises LabError."""
    known = set(known_labs())
    resolved = path.resolve()
    for part in (resolved, *resolved.parents):
        if part.name in known:
            return find_lab(part.name)
    listing = ", ".join(sorted(known)) or f"none in {labs_folder()}"
    raise LabError(f"{path} does not lie in a folder named after a lab: say which with --lab (known: {listing}).")


def load_lab(folder: Path) -> Lab:
    """Load the lab in `folder`. Its task.py is trusted code. Raises LabError if a file is missing or malformed."""
    try:
        texts = tomllib.loads((folder / "lab.toml").read_text(encoding="utf-8"))
        points = Points(**{key: float(value) for key, value in texts["points"].items()})
        scale = EfficiencyScale(float(texts["efficiency"]["floor"]), float(texts["efficiency"]["target"]))
        languages = frozenset(Language(name) for name in texts["languages"])
        if not 0 < scale.floor < scale.target <= 1:
            raise ValueError("efficiency needs 0 < floor < target <= 1")
    except OSError as error:
        raise LabError(f"The lab in {folder} has no readable lab.toml ({error.strerror}).") from error
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(f"{folder / 'lab.toml'} is not a valid lab description: {error}.") from error
    return Lab(
        name=folder.name,
        folder=folder,
        title=str(texts.get("title", folder.name)),
        languages=languages,
        points=points,
        efficiency=scale,
        task=_load_task(folder),
        notebook=str(texts.get("notebook", "")),
        feedback={str(key): str(value) for key, value in texts.get("feedback", {}).items()},
    )


def _load_task(folder: Path) -> Task:
    name = f"warplab_labs.{folder.name}.task"
    path = folder / "task.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise LabError(f"The lab in {folder} has no task.py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # data classes defined in a task look their module up
    try:
        spec.loader.exec_module(module)
        task = module.TASK
    except Exception as error:
        raise LabError(f"{path} does not load: {type(error).__name__}: {error}.") from error
    if not isinstance(task, Task):
        raise LabError(f"{path} must define TASK, a autograder.spec.task.Task.")
    _require_distinct_names(task, path)
    return task


def _require_distinct_names(task: Task, path: Path) -> None:
    seen: dict[str, Case] = {}
    for case in (*task.correctness, task.profile, task.timing):
        if seen.setdefault(case.name, case) != case:
            raise LabError(f"{path} gives two different cases the name {case.name!r}.")
