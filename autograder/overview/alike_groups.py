"""Groups of submissions that are all alike, so that twelve copies are one entry and hide no other pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autograder.overview.alike import AlikePair

SAME = 0.9  # from here on two are copies, as far as likeness tells


@dataclass(frozen=True)
class Alike:
    """One entry of the list: `members` of one group, or the most alike pair of two groups, or of a group and a known
    text. `pair` is shown of it; every two members of one group are at least `least` alike.

    `source` is the known text that a group is most like, where it is SAME at least, and that of a student alone.
    """

    members: tuple[str, ...]
    pair: AlikePair
    least: float
    source: AlikePair | None = None

    @property
    def strongest(self) -> float:
        """What entries are ordered by."""
        return max(self.pair.strongest, self.source.strongest if self.source else 0.0)

    @property
    def pasted(self) -> str:
        """The known text that is in the submissions nearly whole; empty if there is none."""
        source = self.source
        return source.second.name if source and max(source.by_tokens or 0, source.held or 0) >= SAME else ""

    @property
    def title(self) -> str:
        """The group's members, for a heading."""
        if len(self.members) > 2:
            return f"{len(self.members)} alike: {', '.join(self.members)}"
        return f"{self.pair.first.name} and {self.pair.second.name}"


def entries(found: Sequence[AlikePair]) -> list[Alike]:
    """The pairs, which begin with the most alike, as entries: a group once, two groups once, and each group's
    most alike known text once."""
    groups = _groups([pair for pair in found if not pair.second.known])
    sources: dict[tuple[str, ...], AlikePair] = {}
    inside: dict[tuple[str, ...], list[AlikePair]] = {}
    made: list[Alike] = []
    seen: set[frozenset[tuple[str, ...]]] = set()
    for pair in found:
        if pair.second.known:
            sources.setdefault(groups.get(pair.first.name, (pair.first.name,)), pair)
    for pair in found:
        if pair.second.known:
            continue
        one, other = groups[pair.first.name], groups[pair.second.name]
        if one == other:
            inside.setdefault(one, []).append(pair)
        elif (both := frozenset((one, other))) not in seen:
            seen.add(both)
            made.append(Alike((pair.first.name, pair.second.name), pair, pair.strongest))
    for members, theirs in inside.items():
        source = sources.get(members)
        telling = source if source and source.strongest >= SAME else None
        made.append(Alike(members, theirs[0], theirs[-1].strongest, telling))
    for members, pair in sources.items():
        if len(members) == 1:
            made.append(Alike((pair.first.name, pair.second.name), pair, pair.strongest, pair))
    return sorted(made, key=lambda entry: (-entry.strongest, not entry.pasted, -len(entry.members), entry.members))


def _groups(found: Sequence[AlikePair]) -> dict[str, tuple[str, ...]]:
    """The group of each student, alone or with others: every two of a group are SAME at least (complete linkage)."""
    strongest = {frozenset((pair.first.name, pair.second.name)): pair.strongest for pair in found}
    groups: dict[str, tuple[str, ...]] = {
        name: (name,) for pair in found for name in (pair.first.name, pair.second.name)
    }
    for pair in found:
        if pair.strongest < SAME:
            break
        one, other = groups[pair.first.name], groups[pair.second.name]
        if one != other and all(strongest[frozenset((a, b))] >= SAME for a in one for b in other):
            merged = tuple(sorted((*one, *other)))
            groups.update(dict.fromkeys(merged, merged))
    return groups
