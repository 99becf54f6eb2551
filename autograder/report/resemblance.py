"""What a submission resembles among the recorded rungs of its lab, by its counters, where no GPU tells its time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autograder.records.report import Resemblance, SimilarRung
from autograder.records.status import Part
from autograder.report.words import resemblance_words
from autograder.spec.lab import Lab
from autograder.spec.recorded import INSTRUCTIONS, recorded, relative_counters
from warplab.plan.execution import Counters

# docs/grading.md says what these come from
LIKE = 1.0  # distance up to which a submission is like a rung: counters differ by a factor of 2
APART = 0.1  # by how much less a rung must differ than another to be told from it
_NOTHING = 0.05  # of a budget: less is as good as none


def resemblance(lab: Lab, counters: Counters) -> Resemblance | None:
    """The rungs that `counters`, of the profile case of `lab` with the size that it has there, are most like.

    None for a lab without recorded rungs.
    """
    known = recorded(lab.folder)
    if known is None or not known.rungs:
        return None
    size = dict(lab.task.profile.dimensions)
    own = relative_counters(lab.task, size, counters)
    rungs = [
        SimilarRung(rung.name, rung.what, rung.share, round(min(distance(own, other) for other in rung.at(size)), 3))
        for rung in known.rungs
    ]
    near = sorted(rungs, key=lambda rung: rung.distance)
    alike = tuple(rung for rung in near if rung.distance <= min(LIKE, near[0].distance + APART))
    references = sorted((rung for rung in rungs if rung.is_reference), key=_share, reverse=True)
    further = _further(rungs, alike, references)
    section = lab.feedback.get(Part.EFFICIENCY, "")
    words = resemblance_words(alike, near[0], further, references, known, section)
    return Resemblance(words, alike, further, known.of, known.gpu)


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
    that are alike, or else a reference. None beside a reference, and for what is like no rung."""
    if not alike or any(rung.is_reference for rung in alike):
        return None
    ladder = [rung for rung in rungs if _ladder(rung) == _ladder(alike[0])]
    last = max(place for place, rung in enumerate(ladder) if rung in alike)
    fastest = max(_share(rung) for rung in alike)
    above = [*ladder[last + 1 :], *references]
    return next((rung for rung in above if rung.share is None or rung.share > fastest), None)


def _ladder(rung: SimilarRung) -> str:
    return rung.name.split("_", 1)[0]


def _share(rung: SimilarRung) -> float:
    return rung.share or 0.0
