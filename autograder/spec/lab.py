"""Finds and loads labs: a folder with `lab.toml` (texts and points) and `task.py` (the trusted specification).

Most labs ask for kernels. `kind` in lab.toml names another answer: "schedules" of collectives, "pipelines", "programs"
of ranks, "checkpoints" or "attacks" on a naive judge. TASKS has the specification of each kind.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import autograder
from autograder.spec.attacks import AttackTask
from autograder.spec.checkpoints import CheckpointTask
from autograder.spec.lab_names import meant
from autograder.spec.lab_task import LabTask, NamedCase
from autograder.spec.pipelines import PipelineTask
from autograder.spec.programs import ProgramTask
from autograder.spec.schedules import ScheduleTask
from autograder.spec.task import Case, Task
from warplab.errors import WarplabError
from warplab.plan.model import EMULATED_ARCHITECTURE, Language


def _course_folder() -> Path:
    """The folder with the labs: a checkout or a release around this package, else around the working folder."""
    around = Path(autograder.__path__[0]).resolve().parent
    here = Path.cwd()
    holders = (folder for folder in (around, here, *here.parents) if any(folder.glob("labs/*/lab.toml")))
    return next(holders, here)


CHECKOUT = _course_folder()
SUBMISSION_NAMES = ("submission.py", "submission_cuda.py")
_ARCHITECTURE = re.compile(r"(?:sm_\d{2,3}a?)?")
TASKS: tuple[type[LabTask], ...] = (Task, ScheduleTask, PipelineTask, ProgramTask, CheckpointTask, AttackTask)
_BY_KIND = {task.kind: task for task in TASKS}

T = TypeVar("T", bound=LabTask)
T_co = TypeVar("T_co", bound=LabTask, covariant=True)


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
    """Efficiencies (fractions of the roofline, or of the bound of what is modelled) at which the score starts and at
    which it is full.

    `set_on` is the card whose measurements gave the target; "" where nothing is timed.
    """

    floor: float
    target: float
    set_on: str = ""


_NO_SCALE = EfficiencyScale(0.5, 1.0)  # where nothing is timed or modelled


@dataclass(frozen=True)
class LabOf(Generic[T_co]):
    """One lab, whose specification is a T_co. `feedback` maps a part's name to the section of the course that explains
    it.

    `predictions` answer what the handout has a student predict, in its order.

    `languages`, `needs` and `form` are of labs that ask for kernels. `needs` is the architecture that these cannot do
    without: "sm_80" or newer, "sm_90a" alone, "" for any. Where older GPUs have instructions for the same, the lab has
    a `form` from that architecture on, and its handout says what differs; the references and rungs are for `needs`.
    """

    name: str
    folder: Path
    title: str
    points: Points
    efficiency: EfficiencyScale
    task: T_co = field(repr=False)
    notebook: str = ""
    feedback: Mapping[str, str] = field(default_factory=dict)
    languages: frozenset[Language] = frozenset()
    needs: str = ""
    form: str = ""
    predictions: tuple[str, ...] = ()

    @property
    def oldest(self) -> str:
        """The oldest architecture that submissions can be written for."""
        return self.form or self.needs

    @property
    def emulated(self) -> str:
        """The architecture that is emulated for the lab's kernels."""
        return emulated_architecture(self.needs)

    def points_without_gpus(self, part: str) -> float:
        """What a part gives where nothing can be measured."""
        return float(getattr(self.points, part)) - (self.task.measured_points if part == "efficiency" else 0.0)

    def drawn(self, seed: int) -> LabOf[T_co]:
        """The lab as one grade sees it: the seed draws the size of each case from its class."""
        return replace(self, task=self.task.drawn(seed))

    def case(self: LabOf[Task], name: str) -> Case:
        """The case of that name in a lab of kernels. Raises LabError."""
        for case in self.task.every_case():
            if case.name == name:
                return case
        raise LabError(f"Lab {self.name} has no case named {name!r}.")


def emulated_architecture(needs: str) -> str:
    """The architecture that is emulated for kernels with these needs: Hopper, unless they need a newer one."""
    return needs if needs.startswith(("sm_10", "sm_11", "sm_12")) else EMULATED_ARCHITECTURE


Lab: TypeAlias = LabOf[Task]  # asks for kernels
AnyLab: TypeAlias = LabOf[LabTask]


def checkout() -> Path:
    """The project's folder, for what is made of its files. Raises LabError where only the package is installed."""
    if not (CHECKOUT / "constraints.txt").is_file():
        raise LabError(f"{CHECKOUT} is no checkout of the project, of which this is made: run it in one.")
    return CHECKOUT


def labs_folder() -> Path:
    """The folder that holds the labs: WARPLAB_LABS if that is set, else `labs/` of the course's folder."""
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
    return [name for name in known_labs() if _kind(labs_folder() / name) == Task.kind]


def find_any(name: str) -> AnyLab:
    """Load the lab called `name`, whatever it asks for. Raises LabError naming the labs that exist."""
    return load_any(_folder(name))


def find_lab(name: str) -> Lab:
    """Load the lab called `name`, which asks for kernels. Raises LabError naming the labs that exist."""
    folder = _folder(name)
    if _kind(folder) in _BY_KIND.keys() - {Task.kind}:
        raise LabError(f"Lab {name} asks for no kernels: those that do are {', '.join(kernel_labs())}.")
    return load_lab(folder)


def _folder(name: str) -> Path:
    known = known_labs()
    if name not in known:
        if near := meant(name, known):
            raise LabError(f"There is no lab named {name!r}: did you mean {' or '.join(near)}?")
        listing = f"the labs are {', '.join(known)}" if known else f"there are no labs in {labs_folder()}"
        raise LabError(f"There is no lab named {name!r}: {listing}.")
    return labs_folder() / name


def lab_of(path: Path) -> AnyLab:
    """The lab that a submission belongs to: the nearest folder above it named like a lab. Raises LabError."""
    known = set(known_labs())
    resolved = path.resolve()
    for part in (resolved, *resolved.parents):
        if part.name in known:
            return find_any(part.name)
    listing = ", ".join(sorted(known)) or f"none in {labs_folder()}"
    raise LabError(f"{path} does not lie in a folder named after a lab: say which with --lab (known: {listing}).")


def load_any(folder: Path) -> AnyLab:
    """Load the lab in `folder`, whatever it asks for. Raises LabError as `load` does."""
    return load(folder, _BY_KIND.get(_kind(folder), Task))


def load_lab(folder: Path) -> Lab:
    """Load the lab in `folder`, which asks for kernels. Raises LabError as `load` does."""
    return load(folder, Task)


def load(folder: Path, wanted: type[T]) -> LabOf[T]:
    """Load the lab in `folder`, of the kind that `wanted` specifies. Its task.py is trusted code.

    Raises LabError if a file is missing or malformed, or defines a lab of another kind.
    """
    path = folder / "lab.toml"
    try:
        texts = tomllib.loads(path.read_text(encoding="utf-8"))
        declared = _declared(texts)
        points = _points(texts["points"])
        given = {key: texts[key] for key in declared.required}
        scale = _scale(given["efficiency"]) if "efficiency" in given else _NO_SCALE
        title, notebook = str(texts.get("title", folder.name)), str(texts.get("notebook", ""))
        feedback = {str(key): str(value) for key, value in texts.get("feedback", {}).items()}
        languages = frozenset(Language(name) for name in given.get("languages", ()))
        needs, form = _architecture(texts, "needs"), _architecture(texts, "form")
        predictions = tuple(str(answer) for answer in texts.get("predictions", ()))
    except OSError as error:
        raise LabError(f"The lab in {folder} has no readable lab.toml ({error.strerror}).") from error
    except KeyError as error:
        raise LabError(f"{path} does not say `{error.args[0]}`. Add it, as in the other labs' lab.toml.") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise LabError(f"{path} is not a valid lab description: {error}.") from error
    task = _load_task(folder, wanted, declared)
    _require_distinct_names(task.every_case(), folder)
    return LabOf(
        folder.name, folder, title, points, scale, task, notebook, feedback, languages, needs, form, predictions
    )


def _kind(folder: Path) -> str:
    try:
        return str(tomllib.loads((folder / "lab.toml").read_text(encoding="utf-8")).get("kind", Task.kind))
    except (OSError, ValueError):
        return Task.kind  # loading it says what is wrong


def _declared(texts: Mapping[str, Any]) -> type[LabTask]:
    """The specification of the kind that lab.toml names."""
    found = _BY_KIND.get(str(texts.get("kind", Task.kind)))
    if found is None:
        kinds = list(_BY_KIND)
        raise ValueError(f"kind is {', '.join(kinds[:-1])} or {kinds[-1]}")
    return found


def _points(table: Mapping[str, Any]) -> Points:
    names = [field.name for field in fields(Points)]
    if unknown := table.keys() - set(names):
        raise ValueError(f"[points] has {', '.join(names)}, and no {min(unknown)!r}")
    return Points(*(float(table[name]) for name in names))


def _scale(texts: Mapping[str, Any]) -> EfficiencyScale:
    scale = EfficiencyScale(float(texts["floor"]), float(texts["target"]), str(texts.get("set_on", "")))
    if not 0 < scale.floor < scale.target <= 1:
        raise ValueError("efficiency needs 0 < floor < target <= 1")
    return scale


def _architecture(texts: Mapping[str, Any], key: str) -> str:
    name = texts.get(key, "")
    if not _ARCHITECTURE.fullmatch(name):
        raise ValueError(f'{key} is an architecture such as "sm_80" or "sm_90a", and not {name!r}')
    return str(name)


def _load_task(folder: Path, wanted: type[T], declared: type[LabTask]) -> T:
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
    if not isinstance(task, wanted):
        raise LabError(
            f"{path} does not say what a lab of {declared.kind} asks for. Set TASK = "
            f"{declared.__name__}(...), or change `kind` in lab.toml."
        )
    return task


def _require_distinct_names(cases: Sequence[NamedCase], folder: Path) -> None:
    seen: dict[str, NamedCase] = {}
    for case in cases:
        if seen.setdefault(case.name, case) != case:
            raise LabError(f"{folder / 'task.py'} gives two different cases the name {case.name!r}.")
