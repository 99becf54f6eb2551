"""Times a submission's kernels on the GPU at hand, against that GPU's roofline. Never guessed without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import geometric_mean

from autograder.judge.efficiency import Shares, efficiency_part
from autograder.judge.ruling import Ruling
from autograder.records.measurement import Library, Measurement, Unmeasured
from autograder.records.report import PartResult
from autograder.records.status import Status
from autograder.records.text import clean
from autograder.spec.lab import Lab

_FAILURES = {
    "wrong": Status.WRONG_ANSWER,
    "fault": Status.DEVICE_FAULT,
    "nonsense": Status.WORKER_CRASHED,
}
Measure = Callable[[], Measurement | Unmeasured]


def timed_part(
    lab: Lab,
    measure: Measure | None,
    answers_right: bool,
    others: str = "",
    hardware: str = "",
    *,
    safe: bool = True,
    missing: str = "",
) -> PartResult:
    """The efficiency of kernels. `measure` times the plan once; None says that this machine has no GPU to do it on.
    Only what is right and safe is timed.
    `missing` says what the lab asks for and the kernels lack: these are not timed.
    `others` says why other kernels would be timed than were judged, if so (autograder.worker.same_kernels).
    `hardware` is what measures (Machine.hardware): a target that another card set is said to be such."""
    if measure is None:
        card = "B200" if lab.emulated == "sm_100a" else "GPU"
        left_out = "; the points of this part are left out of the maximum" if lab.points.efficiency else ""
        message = f"Needs a {card}{left_out}."
        return efficiency_part(lab, Ruling(Status.NOT_MEASURED, message))
    if not answers_right:
        return efficiency_part(lab, Ruling(Status.WITHHELD, "Not timed, because the answers are wrong."))
    if not safe:
        return efficiency_part(lab, Ruling(Status.WITHHELD, "Not timed, because the kernel is not safe."))
    if missing:
        return efficiency_part(lab, Ruling(Status.WITHHELD, f"Not timed. {missing}"))
    if others:
        return efficiency_part(lab, Ruling(Status.OTHER_KERNELS, others))
    measured = _measure_fairly(lab, measure)
    return replace(efficiency_part(lab, _judged(lab, measured, hardware)), measurement=measured)


def mean_of(several: Sequence[Measurement | Unmeasured]) -> Measurement | Unmeasured:
    """What several timed cases come to: the first that gave no time or an impossible one, else geometric means of
    times, floors, work and efficiencies.

    The bounds of the means are those of all bounds, which is wider than a 95% interval. A mean whose cases are bound by
    different ceilings is said to be bound by the first one's.
    """
    for one in several:
        if isinstance(one, Unmeasured) or not one.counts:
            return one
    measured = [one for one in several if isinstance(one, Measurement)]
    first = measured[0]
    if len(measured) == 1:
        return first

    def mean(of: Callable[[Measurement], float]) -> float:
        return geometric_mean([of(one) for one in measured])

    libraries = [one.library for one in measured if one.library is not None]
    library = None
    if len(libraries) == len(measured):
        times = geometric_mean([one.median_ms for one in libraries])
        library = Library(libraries[0].name, times, geometric_mean([one.ratio for one in libraries]))
    return replace(
        first,
        median_ms=mean(lambda one: one.median_ms),
        low_ms=mean(lambda one: one.low_ms),
        high_ms=mean(lambda one: one.high_ms),
        samples=min(one.samples for one in measured),
        floor_ms=mean(lambda one: one.floor_ms),
        efficiency=mean(lambda one: one.efficiency),
        efficiency_low=mean(lambda one: one.efficiency_low),
        efficiency_high=mean(lambda one: one.efficiency_high),
        ceilings={name: geometric_mean([one.ceilings[name] for one in measured]) for name in first.ceilings},
        throttled=any(one.throttled for one in measured),
        shared=any(one.shared for one in measured),
        shared_fraction=max(one.shared_fraction for one in measured),
        library=library,
        throttle_reasons=tuple(sorted({reason for one in measured for reason in one.throttle_reasons})),
        work={name: geometric_mean([one.work[name] for one in measured]) for name in first.work},
    )


def _judged(lab: Lab, measured: Measurement | Unmeasured, hardware: str) -> Shares | Ruling:
    """What the timing means for the grade."""
    if isinstance(measured, Unmeasured):
        return Ruling(_FAILURES[measured.status], clean(measured.message))
    message = measured.message
    if measured.counts:
        message = _shared_words(measured) if measured.shared else _words(lab, measured)
        set_on = lab.efficiency.set_on
        if set_on and not hardware.startswith(set_on):
            message += f" The target was set on an {set_on}, in shares of that card's ceilings."
    if not measured.counts or measured.shared:
        return Ruling(Status.NOT_MEASURED if measured.counts else Status.IMPOSSIBLE, clean(message))
    return Shares((measured.efficiency,), clean(message))


def _measure_fairly(lab: Lab, measure: Measure) -> Measurement | Unmeasured:
    """Measure, and once more if the clock was throttled, the GPU was shared, or the interval leaves open whether the
    target was met."""
    first = measure()
    if isinstance(first, Unmeasured) or not first.counts:
        return first
    if not (_disturbed(first) or _straddles(lab.efficiency.target, first)):
        return first
    second = measure()
    if isinstance(second, Unmeasured) or not second.counts:
        return second
    candidates = [m for m in (first, second) if not _disturbed(m)] or [first, second]
    candidates = [m for m in candidates if not m.shared] or candidates
    return min(candidates, key=lambda m: (m.efficiency_high - m.efficiency_low) / m.efficiency)


def _straddles(boundary: float, measured: Measurement) -> bool:
    return measured.efficiency_low < boundary < measured.efficiency_high


def _disturbed(measured: Measurement) -> bool:
    return measured.throttled or measured.shared


def _shared_words(m: Measurement) -> str:
    return (
        "Measured while another process used the GPU, so this is not a grade: it had the GPU for "
        f"{m.shared_fraction:.0%} of the time. Grade again when the GPU is free; the points of this part are left "
        "out of the maximum."
    )


def _words(lab: Lab, m: Measurement) -> str:
    several = f" Geometric means over {len(lab.task.timed)} shapes." if lab.task.timed else ""
    throttled = " The GPU was throttled while this was timed." if m.throttled else ""
    return (
        f"{m.median_ms:.4g} ms ({m.low_ms:.4g} to {m.high_ms:.4g}, {m.samples} samples) is "
        f"{m.efficiency:.1%} of the {m.bound} roofline (floor {m.floor_ms:.4g} ms); full points from "
        f"{lab.efficiency.target:.0%}.{_above_words(m)}{several}{throttled}{_library_words(m.library)}"
    )


def _above_words(m: Measurement) -> str:
    """Why a share of more than 100% is no error; empty for less."""
    if m.efficiency <= 1:
        return ""
    if m.bound == "memory":
        return (
            " More than 100% is no error: the roofline is what a copy moved in this run, which writes as much as it "
            "reads, and a kernel that reads more than it writes can move more."
        )
    return " More than 100% is no error: the roofline is what our own kernel of multiply-adds reached in this run."


def _library_words(library: Library | None) -> str:
    if library is None:
        return ""
    return f" For information: {library.name}, in the same turns, takes {library.median_ms:.4g} ms."
