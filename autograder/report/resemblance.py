"""What a submission resembles among the recorded rungs of its lab, by its counters, where no GPU tells its time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autograder.records.measurement import Measurement
from autograder.records.report import Resemblance, SimilarRung
from autograder.records.status import Part
from autograder.report.words import Change, change_words, faster_words, library_words, resemblance_words
from autograder.spec.lab import Lab
from autograder.spec.recorded import INSTRUCTIONS, Recorded, recorded, relative_counters
from autograder.spec.task import Dimensions
from warplab.plan.execution import Counters

# docs/grading.md says what these come from
LIKE = 1.0  # distance up to which a submission is like a rung: counters differ by a factor of 2
APART = 0.1  # by how much less a rung must differ than another to be told from it
_NOTHING = 0.05  # of a budget: less is as good as none
_NOTABLE = 1.02  # times as fast: less may be another run of the same
_NOTABLE_CHANGE = 1.2  # times as much of a counter
_TOLD = 2  # counters


def resemblance(lab: Lab, counters: Counters) -> Resemblance | None:
    """The rungs that `counters`, of the profile case of `lab` with the size that it has there, are most like.

    None for a lab without recorded rungs.
    """
    known = recorded(lab.folder)
    if known is None or not known.rungs:
        return None
    size = dict(lab.task.profile.dimensions)
    own = relative_counters(lab.task, size, counters)
    rungs = _compared(known, size, own)
    near = sorted(rungs, key=lambda rung: rung.distance)
    alike = tuple(rung for rung in near if rung.distance <= min(LIKE, near[0].distance + APART))
    references = sorted((rung for rung in rungs if rung.is_reference), key=_share, reverse=True)
    further = _further(rungs, alike, references)
    section = lab.feedback.get(Part.EFFICIENCY, "")
    other = further or near[0]
    changes = change_words(_changes(own, _nearest(known, other, size, own)))
    words = resemblance_words(alike, near[0], further, references, known, section, changes)
    return Resemblance(words, alike, further, known.of, known.gpu)


def beyond(lab: Lab, counters: Counters, measured: Measurement) -> Resemblance | None:
    """What is faster than a submission that was timed and earned all points: a recorded rung or the library, and the
    counters that show why. None where nothing is known to be."""
    known, library = recorded(lab.folder), measured.library
    if known is None:
        return None
    reached = measured.efficiency
    if known.of != "the roofline":
        reached = library.ratio if library else math.inf
    size = dict(lab.task.profile.dimensions)
    own = relative_counters(lab.task, size, counters)
    faster = _fastest(_compared(known, size, own), reached)
    words = ""
    if faster:
        words = faster_words(faster, known, change_words(_changes(own, _nearest(known, faster, size, own))))
    if library and library.ratio < 1 / _NOTABLE:
        words = f"{words} {library_words(library, lab.task.tensor_cores)}".strip()
    return Resemblance(words, (), faster, known.of, known.gpu) if words else None


def _compared(known: Recorded, size: Dimensions, own: Mapping[str, float]) -> list[SimilarRung]:
    return [
        SimilarRung(rung.name, rung.what, rung.share, round(min(distance(own, other) for other in rung.at(size)), 3))
        for rung in known.rungs
    ]


def _nearest(known: Recorded, rung: SimilarRung, size: Dimensions, own: Mapping[str, float]) -> Mapping[str, float]:
    """The counters of a recorded rung, of the draw of inputs that is most like one's own."""
    counted = next(one.at(size) for one in known.rungs if one.name == rung.name)
    return min(counted, key=lambda other: distance(own, other))


def _changes(own: Mapping[str, float], other: Mapping[str, float]) -> list[Change]:
    """The counters that tell the other from one's own most, the clearest first."""
    found = [(abs(_ratio(name, other[name], own[name])), name) for name in own if name in other]
    return [
        Change(name, own[name], other[name])
        for far, name in sorted(found, reverse=True)[:_TOLD]
        if far >= math.log2(_NOTABLE_CHANGE)
    ]


def _fastest(rungs: Sequence[SimilarRung], reached: float) -> SimilarRung | None:
    """The fastest rung, if it is notably faster than the share that was reached."""
    best = max(rungs, key=_share, default=None)
    return best if best and _share(best) > reached * _NOTABLE else None


def distance(own: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How far apart relative counters are: the root mean square of the binary logarithms of their ratios, which is 1
    if each is twice the other's. Infinite where not the same ones were counted."""
    if own.keys() != other.keys():
        return math.inf
    squares = [_ratio(name, own[name], other[name]) ** 2 for name in own]
    return math.sqrt(sum(squares) / len(squares))


def _ratio(name: str, own: float, other: float) -> float:
    floor = 0.0 if name == INSTRUCTIONS else _NOTHING
    return math.log2((own + floor) / (other + floor))


def _further(
    rungs: Sequence[SimilarRung], alike: Sequence[SimilarRung], references: Sequence[SimilarRung]
) -> SimilarRung | None:
    """The rung to look at next: the first that is not known to be slower, on the ladder of the nearest and above all
    that are alike, or else a reference. Beside a reference the fastest, if that is faster. None for what is like no
    rung."""
    if not alike:
        return None
    if any(rung.is_reference for rung in alike):
        return _fastest(rungs, max(_share(rung) for rung in alike))
    ladder = [rung for rung in rungs if _ladder(rung) == _ladder(alike[0])]
    last = max(place for place, rung in enumerate(ladder) if rung in alike)
    fastest = max(_share(rung) for rung in alike)
    above = [*ladder[last + 1 :], *references]
    return next((rung for rung in above if rung.share is None or rung.share > fastest), None)


def _ladder(rung: SimilarRung) -> str:
    return rung.name.split("_", 1)[0]


def _share(rung: SimilarRung) -> float:
    return rung.share or 0.0
