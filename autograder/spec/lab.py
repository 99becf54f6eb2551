"""Finds and loads labs: a folder with `lab.toml` (texts and points) and `task.py` (the trusted specification).

Most labs ask for kernels, and are a Lab. One whose lab.toml says `kind = "schedules"`, of collectives, or
`kind = "pipelines"`, "programs" of ranks, "checkpoints", or "attacks" on a naive judge, is a ScheduleLab.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from autograder.spec.attacks import AttackTask
from autograder.spec.checkpoints import CheckpointTask
from autograder.spec.pipelines import PipelineTask
from autograder.spec.programs import ProgramTask
from autograder.spec.records import RecordCase
from autograder.spec.schedules import ScheduleTask
from autograder.spec.sizes import drawn
from autograder.spec.task import Case, Task
from warplab.errors import WarplabError
from warplab.plan.model import Language

CHECKOUT = Path(__file__).resolve().parents[2]
SUBMISSION_NAMES = ("submission.py", "submission_cuda.py")
_KERNELS = "kernels"
_NO_SCALE = {"floor": 0.5, "target": 1.0}  # where nothing is timed or modelled
_ARCHITECTURE = re.compile(r"(?:sm_\d{2,3}a?)?")
AnyRecordTask: TypeAlias = ScheduleTask | PipelineTask | ProgramTask | CheckpointTask | AttackTask
_TASKS: dict[str, type[AnyRecordTask]] = {
    "schedules": ScheduleTask,
    "pipelines": PipelineTask,
    "programs": ProgramTask,
    "checkpoints": CheckpointTask,
    "attacks": AttackTask,
}


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
    """One lab. `feedback` maps a part's name to the section of the course that explains it.

    `needs` is the architecture that its kernels cannot do without: "sm_80" or newer, "sm_90a" alone, "" for any. Where
    older GPUs have instructions for the same, the lab has a `form` from that architecture on, of which its handout says
    what is other; the references and rungs are for `needs`.
    """

    name: str
    folder: Path
    title: str
    languages: frozenset[Language]
    points: Points
    efficiency: EfficiencyScale
    task: Task = field(repr=False)
    notebook: str = ""
    feedback: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    form: str = ""
    judged_without_gpu: ClassVar = ("correctness", "safety", "traffic")

    @property
    def oldest(self) -> str:
        """The oldest architecture that submissions can be written for."""
        return self.form or self.needs

    def points_without_gpus(self, part: str) -> float:
        """What a part gives, if it is judged without a GPU."""
        return float(getattr(self.points, part))

    def drawn(self, seed: int) -> Lab:
        """The lab as one grade sees it: the seed draws the size of each case from its class."""
        return replace(self, task=drawn(self.task, seed))

    def case(self, name: str) -> Case:
        """The case of that name among the correctness, profile and timing cases. Raises LabError."""
        for case in (*self.task.correctness, self.task.profile, self.task.timing):
            if case.name == name:
                return case
        raise LabError(f"Lab {self.name} has no case named {name!r}.")


@dataclass(frozen=True)
class ScheduleLab:
    """One lab whose submissions are schedules, of collectives or of a pipeline's passes, programs of ranks, plans of
    checkpoints, or attacks.

    `efficiency` is in shares of the bound of what is modelled; attacks have none.
    """

    name: str
    folder: Path
    title: str
    points: Points
    efficiency: EfficiencyScale
    task: AnyRecordTask = field(repr=False)
    notebook: str = ""
    feedback: Mapping[str, str] = field(default_factory=dict)
    needs: ClassVar = ""
    oldest: ClassVar = ""
    judged_without_gpu: ClassVar = ("correctness", "safety", "traffic", "efficiency")  # its time is modelled

    def points_without_gpus(self, part: str) -> float:
        """What a part gives where nothing can be measured."""
        return float(getattr(self.points, part)) - (self.task.measured_points if part == "efficiency" else 0.0)

    def drawn(self, seed: int) -> ScheduleLab:
        """The lab as one grade sees it: the seed draws the size of each case from its class."""
        return replace(self, task=self.task.drawn(seed))


AnyLab: TypeAlias = Lab | ScheduleLab


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


def kernel_labs() -> list[str]:
    """Names of the labs that ask for kernels."""
    return [name for name in known_labs() if _kind(labs_folder() / name) == _KERNELS]


def find_any(name: str) -> AnyLab:
    """Load the lab called `name`, whatever it asks for. Raises LabError naming the labs that exist."""
    known = known_labs()
    if name not in known:
        listing = f"the labs are {', '.join(known)}" if known else f"there are no labs in {labs_folder()}"
        raise LabError(f"There is no lab named {name!r}: {listing}.")
    folder = labs_folder() / name
    return load_schedule_lab(folder) if _kind(folder) in _TASKS else load_lab(folder)


def find_lab(name: str) -> Lab:
    """Load the lab called `name`, which asks for kernels. Raises LabError naming the labs that exist."""
    lab = find_any(name)
    if not isinstance(lab, Lab):
        raise LabError(f"Lab {name} asks for no kernels: those that do are {', '.join(kernel_labs())}.")
    return lab


def lab_of(path: Path) -> AnyLab:
    """The lab that a submission belongs to: the nearest folder above it named like a lab. Raises LabError."""
    known = set(known_labs())
    resolved = path.resolve()
    for part in (resolved, *resolved.parents):
        if part.name in known:
            return find_any(part.name)
    listing = ", ".join(sorted(known)) or f"none in {labs_folder()}"
    raise LabError(f"{path} does not lie in a folder named after a lab: say which with --lab (known: {listing}).")


def load_lab(folder: Path) -> Lab:
    """Load the lab in `folder`. Its task.py is trusted code. Raises LabError if a file is missing or malformed."""
    texts, points, scale = _described(folder)
    try:
        languages = frozenset(Language(name) for name in texts["languages"])
        needs, form = texts.get("needs", ""), texts.get("form", "")
        for key, name in (("needs", needs), ("form", form)):
            if not _ARCHITECTURE.fullmatch(name):
                raise ValueError(f'{key} is an architecture such as "sm_80" or "sm_90a", and not {name!r}')
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(f"{folder / 'lab.toml'} is not a valid lab description: {error}.") from error
    task = _load_task(folder)
    if not isinstance(task, Task):
        raise LabError(f"{folder / 'task.py'} must define TASK, a autograder.spec.task.Task.")
    _require_distinct_names([*task.correctness, task.profile, task.timing], folder)
    return Lab(
        folder.name, folder, _title(folder, texts), languages, points, scale, task, *_further(texts), needs, form
    )


def load_schedule_lab(folder: Path) -> ScheduleLab:
    """The same for a lab that asks for schedules."""
    texts, points, scale = _described(folder)
    task = _load_task(folder)
    wanted = _TASKS.get(_kind(folder), ScheduleTask)
    if not isinstance(task, wanted):
        raise LabError(f"{folder / 'task.py'} must define TASK, a {wanted.__module__}.{wanted.__name__}.")
    _require_distinct_names([case for _, case in task.cases()], folder)
    return ScheduleLab(folder.name, folder, _title(folder, texts), points, scale, task, *_further(texts))


def _kind(folder: Path) -> str:
    try:
        return str(tomllib.loads((folder / "lab.toml").read_text(encoding="utf-8")).get("kind", _KERNELS))
    except (OSError, ValueError):
        return _KERNELS  # loading it says what is wrong


def _described(folder: Path) -> tuple[dict[str, Any], Points, EfficiencyScale]:
    try:
        texts = tomllib.loads((folder / "lab.toml").read_text(encoding="utf-8"))
        points = Points(**{key: float(value) for key, value in texts["points"].items()})
        shares = _NO_SCALE if texts.get("kind") == "attacks" else texts["efficiency"]
        scale = EfficiencyScale(float(shares["floor"]), float(shares["target"]))
        if not 0 < scale.floor < scale.target <= 1:
            raise ValueError("efficiency needs 0 < floor < target <= 1")
        kinds = (_KERNELS, *_TASKS)
        if texts.get("kind", _KERNELS) not in kinds:
            raise ValueError(f"kind is {', '.join(kinds[:-1])} or {kinds[-1]}")
    except OSError as error:
        raise LabError(f"The lab in {folder} has no readable lab.toml ({error.strerror}).") from error
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(f"{folder / 'lab.toml'} is not a valid lab description: {error}.") from error
    return texts, points, scale


def _title(folder: Path, texts: Mapping[str, Any]) -> str:
    return str(texts.get("title", folder.name))


def _further(texts: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The notebook and the feedback."""
    feedback = {str(key): str(value) for key, value in texts.get("feedback", {}).items()}
    return str(texts.get("notebook", "")), feedback


def _load_task(folder: Path) -> object:
    name = f"warplab_labs.{folder.name}.task"
    path = folder / "task.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise LabError(f"The lab in {folder} has no task.py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # data classes defined in a task look their module up
    try:
        spec.loader.exec_module(module)
        return module.TASK
    except Exception as error:
        raise LabError(f"{path} does not load: {type(error).__name__}: {error}.") from error


def _require_distinct_names(cases: Sequence[Case] | Sequence[RecordCase], folder: Path) -> None:
    seen: dict[str, Case | RecordCase] = {}
    for case in cases:
        if seen.setdefault(case.name, case) != case:
            raise LabError(f"{folder / 'task.py'} gives two different cases the name {case.name!r}.")
