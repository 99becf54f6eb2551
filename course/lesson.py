"""What a notebook needs to teach from a lab: rungs counted here, timed here or quoted, their code, a reader's guesses.

Every time that a notebook shows passes through `Lesson.climb`, so each says where it was measured: on the GPU of this
machine, or, without one, in the results that the project ships.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
from IPython.core.getipython import get_ipython
from IPython.display import HTML, Markdown, display
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, PythonLexer

from autograder.own_work import capture_submission
from autograder.records.machine import choose_machine
from autograder.records.measurement import Measurement
from autograder.records.rejection import Rejected
from autograder.records.status import Executor
from autograder.spec.inputs import generate
from autograder.spec.lab import CHECKOUT, Lab, find_lab, solutions_folder
from autograder.spec.task import Ceiling
from autograder.worker.judge_case import compare_outputs
from course import out_of_order, results
from course.answer import Answer
from course.captures import process_for
from course.cell_file import cell_file
from course.prediction import Prediction
from course.results import DIRECTORY, Results, ResultsError
from course.rungs import Rung, climb
from course.waiting import Waiting
from warplab.emulator import Profile, profile
from warplab.errors import DeviceError, WarplabError
from warplab.figures import style
from warplab.figures.source import source_html
from warplab.files import write_whole
from warplab.hardware import Chip, Math, present
from warplab.hardware.chips import H200
from warplab.plan.execution import Counters, Finding
from warplab.plan.model import Dim3, Role
from warplab.worker.process import Worker

if shell := get_ipython():
    out_of_order.install(shell)

SEED = 0  # notebooks show the same numbers every time
_CEILINGS_SECONDS = 120.0
# Where a number comes from: outcomes or the emulator's counters, values that a cell computed, a formula, a
# model of the hardware, the simulator of networks, a clock, a publication, the judge.
EVIDENCE = ("Counted", "Computed", "Calculated", "Modelled", "Simulated", "Measured", "Published", "Graded")
_CLOSE = 0.1  # a guess this near, as a fraction, is called right
CODE_STYLE = (
    f"background:{style.PANEL};color:{style.INK};padding:8px;font:13px/1.4 ui-monospace,Menlo,Consolas,monospace"
)


class ClosedLab(WarplabError):
    """A step of a lab's ladder, or its reference, is asked for where it is not: in a students' release."""

    def _render_traceback_(self) -> list[str]:  # what IPython shows: the sentence
        return [str(self)]


def solution(lab: str, name: str) -> Path:
    """The file of solutions/`lab` called `name`, without .py. Raises ClosedLab where a release has left it out."""
    path = solutions_folder() / lab / f"{name}.py"
    if not path.exists():
        raise ClosedLab(
            f"solutions/{lab}/{path.name} is not in this release. What it shows, and what builds on it, stands "
            f"in the saved outputs, until whoever gave you the course adds the steps of lab {lab}."
        )
    return path


@dataclass(frozen=True)
class Time:
    """A measured time, in milliseconds, and its 95% interval; `flops` in FLOP/s; `efficiency` as the grade has it."""

    milliseconds: float
    low: float
    high: float
    flops: float
    efficiency: float
    where: str


@dataclass(frozen=True)
class Step:
    """One rung as a lesson shows it. `worst` is the largest error of its profile run over the error allowed."""

    lab: Lab
    rung: Rung
    time: Time | None
    worst: float

    @property
    def name(self) -> str:
        """The rung's name without its number; the solution is the reference."""
        if self.rung.name == "submission":
            return "reference"
        return self.rung.name.split("_", 2)[-1].replace("_", " ") if "rung_" in self.rung.name else self.rung.name

    @property
    def text(self) -> str:
        """The submission's source."""
        return self.rung.source.read_text(encoding="utf-8")

    @property
    def total(self) -> Counters:
        """Counters of the profile case."""
        return self.rung.profile.total

    @property
    def lines(self) -> Mapping[int, Counters]:
        """The same, a source line each."""
        return self.rung.profile.lines

    @property
    def findings(self) -> Sequence[Finding]:
        """What the emulator's sanitizers found in the profile run."""
        return self.rung.profile.findings

    def per_multiply_add(self, *counters: str) -> float:
        """Counters of the profile case, summed, for each warp-wide multiply-add: m n k / 32 of them in a matrix
        product, whichever kernel makes them."""
        d = self.lab.task.profile.dimensions
        return sum(getattr(self.total, name) for name in counters) / (d["m"] * d["n"] * d["k"] / 32)


class Lesson:
    """A lab, measured for a notebook: `climb` each rung, in any order."""

    def __init__(self, lab: str) -> None:
        self.lab = find_lab(lab)
        self.machine = choose_machine("auto", self.lab.needs)
        self.shipped = None if self.machine.device is Executor.GPU else _shipped()

    @property
    def source_of_times(self) -> str:
        """One sentence: where the times of this lesson come from."""
        if self.machine.device is Executor.GPU:
            return f"Times are measured now, on this machine's {self.machine.hardware}."
        if self.shipped is None:
            return (
                f"There is no GPU here and this checkout has no {_labs_file()}, so this run shows no times: "
                "`make bench` on a machine with a GPU writes that file. All counters are counted here, by the emulator."
            )
        return f"There is no GPU here: times were {self._where()}. All counters are counted here, by the emulator."

    def climb(self, rung: str | Path) -> Step:
        """Measure one rung: a file of solutions/<lab> by its name without .py, or any submission by its path.

        Raises autograder.judge.capture_stage.Rejected if it cannot be captured, ClosedLab."""
        source = rung if isinstance(rung, Path) else solution(self.lab.name, rung)
        (measured,) = climb(self.lab, [source], self.machine, SEED)
        shipped = None if isinstance(rung, Path) else self._shipped_time(rung)
        return Step(self.lab, measured, self._measured_time(measured) or shipped, _worst_ratio(self.lab, measured))

    def profile(self, rung: str, block: Dim3 = (0, 0, 0)) -> Profile:
        """What one block of a rung of solutions/<lab> does on the profile case, for pictures of accesses and warps.

        Raises ClosedLab."""
        case = self.lab.task.profile
        source = solution(self.lab.name, rung)
        captured = capture_submission(
            self.lab, source, (case,), SEED, self.machine.architecture, captured_in=process_for(source)
        )
        plan = captured.plans[case.name]
        values = generate(np, self.lab.task, case, SEED)
        inputs = {name: values[name] for role in (Role.INPUT, Role.INOUT) for name in plan.arguments(role)}
        return profile(plan, inputs, block=block, architecture=self.machine.architecture)

    def _measured_time(self, rung: Rung) -> Time | None:
        timing = rung.timing
        if not isinstance(timing, Measurement) or not timing.counts:
            return None
        flops = self.lab.task.flops(self.lab.task.timing.dimensions) / timing.median_ms * 1e3
        where = f"measured here, {self.machine.hardware}"
        return Time(timing.median_ms, timing.low_ms, timing.high_ms, flops, timing.efficiency, where)

    def _shipped_time(self, rung: str) -> Time | None:
        if self.shipped is None:
            return None
        try:
            time = self.shipped.find(self.lab.name, "time", variant=rung)
            efficiency = self.shipped.find(self.lab.name, "efficiency", variant=rung)
        except ResultsError:
            return None
        low, high = time.interval or (time.value, time.value)
        flops = self.lab.task.flops(self.lab.task.timing.dimensions) / time.value * 1e3
        return Time(time.value, low, high, flops, efficiency.value, self._where())

    def _where(self) -> str:
        assert self.shipped is not None
        return f"measured on {self.shipped.header.where}, shipped with the project"


def ceilings() -> tuple[float, float, str]:
    """Sustained float32 FLOP/s and bytes/s, and where they come from: this GPU, the shipped results or a datasheet."""
    machine = choose_machine("auto")
    if machine.device is Executor.GPU:
        with Worker() as worker:
            found = worker.call("course.lesson:ceilings_of_this_gpu", timeout=_CEILINGS_SECONDS)
        return found["fp32_fma"], found["copy"], f"ceilings measured here, {machine.hardware}"
    try:
        shipped = results.read(DIRECTORY / "ceilings.json")
        compute = shipped.find(Ceiling.FP32_FMA.value, "rate").value
        copy = shipped.find(Ceiling.COPY.value, "rate").value
    except ResultsError:
        return H200.peaks[Math.FP32], H200.bandwidth, f"{H200.name}, datasheet"
    return compute, copy, f"ceilings measured on an {shipped.header.gpu}, shipped"


def ceilings_of_this_gpu() -> dict[str, Any]:
    """In the worker: the ceilings of the GPU present, measured now unless that was done before."""
    from warplab.gpu import calibrate

    device = present()
    if device is None:
        raise DeviceError("No usable GPU was found: run `autograder doctor`.")
    return asdict(calibrate.measure(device))


def datasheet() -> Chip:
    """The datasheet of the GPU present; without one, of the H200 that the shipped results come from."""
    device = present()
    return (device and device.chip) or H200


def highlighted(text: str, lexer: Lexer | None = None) -> HTML:
    """Code with its words in colour; Python without a lexer."""
    formatter = HtmlFormatter(noclasses=True, nobackground=True, prestyles=CODE_STYLE)
    return HTML(highlight(text, lexer or PythonLexer(), formatter))


def code(step: Step, *functions: str) -> HTML:
    """The named functions of a rung, as they stand in its file; without names, its first kernel."""
    tree, rows = ast.parse(step.text), step.text.splitlines()
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    wanted = [node for node in defined if node.name in functions] or [n for n in defined if n.decorator_list][:1]
    blocks = [
        "\n".join(rows[min([d.lineno for d in node.decorator_list], default=node.lineno) - 1 : node.end_lineno])
        for node in wanted
    ]
    return highlighted(f"# {_place(step.rung.source)}\n\n" + "\n\n\n".join(blocks))


def passage(step: Step, first: str, last: str) -> HTML:
    """A part of a rung's CUDA C++: from the first line with `first` in it to the next one with `last`, indented less.

    Raises ValueError for text that the rung does not have."""
    rows = step.text.splitlines()
    start = next((n for n, row in enumerate(rows) if first in row), None)
    end = None if start is None else next((n for n in range(start, len(rows)) if last in rows[n]), None)
    if start is None or end is None:
        raise ValueError(f"{step.rung.name} has no passage from {first!r} to {last!r}")
    place = f"// {_place(step.rung.source)}, line {start + 1}"
    return highlighted(f"{place}\n" + dedent("\n".join(rows[start : end + 1])), CudaLexer())


def costs(step: Step) -> HTML:
    """The rung's kernel with what each line moved in the profile run; the redder a number, the more of it is waste."""
    return HTML(source_html(step.text, step.lines))


def reveal(
    guess: Prediction | float | str | None,
    value: float | str,
    what: str,
    how: str,
    *,
    exactly: bool = False,
    within: float | None = None,
    wrong: Mapping[str, str] | None = None,
    also: Sequence[Any] = (),
) -> Answer:
    """The `value` and the reader's guess beside it, once there is one. `how` is the evidence, a word of EVIDENCE first.

    A guess is right within a tenth, or `exactly`: of a small number of things the neighbour is another answer. Of what
    may be about zero, such as a gain in percent, a tenth is nothing: there it is right `within` so much. Of choices,
    `value` is the right one, `what` says why, and `wrong` says of each other one why not. `also` are tables and figures
    that show with the answer. Raises ValueError where a choice is neither the right one nor among the wrong ones.
    """
    name, choices = (guess.name, guess.choices) if isinstance(guess, Prediction) else ("", ())
    if choices and sorted(choices) != sorted([str(value), *(wrong or {})]):
        raise ValueError(f"{name}: the answer has to give its reason for each choice, and no others")

    def say() -> str:
        given = guess.value if isinstance(guess, Prediction) else guess
        if isinstance(value, str):
            return _chosen(given, value, what, how, wrong or {})
        return _compared(given, value, what, how, exactly, within)

    return Answer(say, guess, also)


def _chosen(guess: object, value: str, why: str, how: str, wrong: Mapping[str, str]) -> str:
    answer = f"**{how}: {value}.** {why}"
    if guess is None:
        return f"{answer} (No prediction was written down.)"
    return (
        f"{answer} You chose this: right." if guess == value else f"{answer} You chose “{guess}”: {wrong[str(guess)]}"
    )


def _compared(guess: Any, value: float, what: str, how: str, exactly: bool, within: float | None) -> str:
    answer = f"**{how}: {_number(value)} {what}.**"
    if guess is None:
        return f"{answer} (No prediction was written down.)"
    if not isinstance(guess, (int, float, np.integer, np.floating)):
        return f"{answer} You wrote {guess!r}, which is no number: write one, without quotes or a unit."
    guess = float(guess)
    if within is not None:
        miss = abs(guess - value)
        verdict = "right." if miss <= within else f"off by {_number(miss)}. Find out why before you read on."
        return f"{answer} You said {_number(guess)}: {verdict}"
    if abs(guess - value) <= (0 if exactly else _CLOSE) * max(abs(value), 1e-12):
        return f"{answer} You said {_number(guess)}: right."
    if not value:
        return f"{answer} You said {_number(guess)}, not what it is. Find out why before you read on."
    if value < 1 < guess and abs(guess / 100 - value) <= _CLOSE * value:
        return f"{answer} You said {_number(guess)}, which is right in percent: here 1 is all of it."
    return (
        f"{answer} You said {_number(guess)}, {_number(guess / value)} times what it is. "
        "Find out why before you read on."
    )


def speed(step: Step) -> Markdown:
    """One sentence on how long the rung takes, or that nobody has measured it."""
    if step.time is None:
        return Markdown(f"*{step.name}: no time is known here.*")
    t = step.time
    return Markdown(
        f"**{step.name}: {t.milliseconds:.3g} ms, {t.flops / 1e12:.3g} TFLOP/s, {t.efficiency:.1%} of the ceiling** "
        f"(95% interval {t.low:.4g} to {t.high:.4g} ms; {t.where})."
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Markdown:
    """A Markdown table; columns with a number in them are aligned to the right, columns of text to the left."""
    numeric = [any(_is_numeric(row[n]) for row in rows) for n in range(len(heads))]
    lines = ["| " + " | ".join(heads) + " |", "|" + "|".join("---:" if right else ":---" for right in numeric) + "|"]
    lines += ["| " + " | ".join(c if isinstance(c, str) else _number(c) for c in row) + " |" for row in rows]
    return Markdown("\n".join(lines))


def goal(reached: bool, text: str) -> None:
    """Whether an exercise is solved. An unsolved one is no error: the notebook runs on."""
    display(Markdown(f"✅ **Solved.** {text}" if reached else f"⬜ **Not yet.** {text}"))


def load_ipython_extension(shell) -> None:
    """Called by `%load_ext course.lesson`: adds the cell magic `%%rung LAB NAME`."""

    def rung(line: str, cell: str) -> None:
        """`%%rung LAB NAME`: keep the cell as a submission, measure it, and put the Step into the variable NAME."""
        try:
            lab, name = line.split()
            path = CHECKOUT / "build" / "rungs" / lab / f"{name}.py"
            write_whole(path, cell_file("rung", line, cell))
        except ValueError:
            print("Write the lab and a name for your rung after %%rung, for example: %%rung 06_tiled_gemm mine")
            return
        waiting = Waiting(f"Measuring {name}")
        try:
            step = Lesson(lab).climb(path)
        except KeyboardInterrupt:
            waiting.answer("Stopped by you, nothing was measured.")
        except Rejected as rejection:
            waiting.answer(f"Line {rejection.line}: {rejection}" if rejection.line else str(rejection))
        except WarplabError as error:
            waiting.answer(str(error))
        else:
            shell.user_ns[name] = step
            waiting.answer(_summary(step))

    shell.register_magic_function(rung, magic_kind="cell", magic_name="rung")


def _place(source: Path) -> Path:
    return source.relative_to(CHECKOUT) if source.is_relative_to(CHECKOUT) else source


def _summary(step: Step) -> Markdown:
    right = "its result is right" if step.worst <= 1 else "**its result is wrong**"
    found = [f"* line {finding.line}: {finding.message}" for finding in step.findings[:3]]
    parts = [f"`{step.rung.name}` ran: {right}; the emulator found {'this:' if found else 'no fault.'}"]
    parts += ["\n".join(found)] * bool(found) + [speed(step).data] * bool(step.time)
    return Markdown("\n\n".join(parts))


def _worst_ratio(lab: Lab, rung: Rung) -> float:
    """Of the profile run, by the judge's own comparison."""
    case = lab.task.profile
    return compare_outputs(lab.task, case, generate(np, lab.task, case, SEED), rung.profile.outputs).worst_ratio


def _shipped() -> Results | None:
    path = DIRECTORY / "labs.json"
    return results.read(path) if path.exists() else None


def _labs_file() -> str:
    return (DIRECTORY / "labs.json").relative_to(CHECKOUT).as_posix()


def _is_numeric(cell: object) -> bool:
    return not isinstance(cell, str) or cell.rstrip("%").replace(".", "", 1).replace(",", "").isdigit()


def _number(value: object) -> str:
    if not isinstance(value, (int, float)) or not np.isfinite(value):
        return str(value)
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"
