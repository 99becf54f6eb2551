"""A profile as one page of HTML: what each warp of a block did, to scrub and to step through.

The page needs no network and no kernel. Its data are arrays of numbers, compressed; `microscope.html` draws them.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warplab.emulator.profiling.accesses import Space, WarpAccess, accesses_of
from warplab.emulator.profiling.timeline import IssueKind, Reason, Timeline, heads_of
from warplab.files import write_whole
from warplab.plan.disassembler import disassembled

if TYPE_CHECKING:
    from warplab.emulator.profiling.profile import Profile

# Of a page: what comes later is left without the addresses of its lanes, and where that is not enough, left out.
MOST_BYTES = 2_000_000
_LANES = 32
_IDLE = -(2**31)  # the place of a lane that takes no part
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_KINDS, _REASONS, _SPACES = tuple(IssueKind), tuple(Reason), tuple(Space)


@dataclass(frozen=True)
class Page:
    """A page of HTML that stands alone; a notebook shows it in a frame."""

    text: str = field(repr=False)

    def save(self, path: Path | str) -> None:
        """Write it to a file. Raises OSError."""
        write_whole(Path(path), self.text)

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="microscope" srcdoc="{html.escape(self.text)}" '
            'style="width:100%;height:720px;border:0"></iframe>'
        )


def microscope(profile: Profile) -> Page:
    """The page of a profile, at most MOST_BYTES long. Times are modelled, not measured."""
    accesses = list(accesses_of(profile.trace, profile.resolver, None, None))
    order = profile.timeline()
    model = profile.modelled(order, accesses)
    data = _data(profile, accesses, order, model)
    without = data | {"lanes": data["lanes"][:0]}
    while len(page := _page(profile, without)) > MOST_BYTES:
        order, model = _beginning(order, model, 0.9 * MOST_BYTES / len(page))
        last = max((issue.access for issue in order.issues), default=-1)
        accesses = [access for access in accesses if access.row <= last]
        data = _data(profile, accesses, order, model)
        without = data | {"lanes": data["lanes"][:0]}
    shown = len(data["lanes"]) // _LANES
    page = _page(profile, data)
    while len(page) > MOST_BYTES:
        shown = shown * 2 // 3
        page = _page(profile, data | {"lanes": data["lanes"][: shown * _LANES]})
    return Page(page)


def _beginning(order: Timeline, model: Timeline, share: float) -> tuple[Timeline, Timeline]:
    """What every warp does in the first share of the modelled time, by both clocks."""
    end = int(model.end * share)
    counts = Counter(issue.warp for issue in model.issues if issue.time < end)
    left_out = len(model.issues) - counts.total()
    return _cut(order, counts, left_out), _cut(model, counts, left_out)


def _cut(chart: Timeline, counts: Counter[int], left_out: int) -> Timeline:
    """The first issues of each warp, as many as `counts` has, and what began before the last of them."""
    of_warps = {warp: sorted(chart.of_warp(warp), key=lambda issue: issue.time)[:n] for warp, n in counts.items()}
    ends = {warp: issues[-1].time for warp, issues in of_warps.items()}
    return replace(
        chart,
        issues=tuple(issue for issues in of_warps.values() for issue in issues),
        stalls=tuple(stall for stall in chart.stalls if stall.start <= ends.get(stall.warp, -1)),
        flights=tuple(flight for flight in chart.flights if flight.start <= ends.get(flight.warp, -1)),
        truncated=chart.truncated + left_out,
    )


def _page(profile: Profile, contents: Mapping[str, Any]) -> str:
    data = _packed(contents)
    kernel = profile.plan.kernels[profile.plan.launches[profile.launch].kernel]
    title = f"{kernel.name}, block {profile.block}"
    template = (files("warplab.emulator.profiling") / "microscope.html").read_text(encoding="utf-8")
    return template.replace("{{title}}", html.escape(title)).replace("{{data}}", data)


def _packed(data: Mapping[str, Any]) -> str:
    """JSON with arrays as base64 of little-endian int32, all deflated, in base64."""

    def plain(value: Any) -> Any:
        return {"int32": base64.b64encode(value.astype("<i4").tobytes()).decode()}

    return base64.b64encode(zlib.compress(json.dumps(data, default=plain).encode(), 6)).decode()


def _data(profile: Profile, accesses: list[WarpAccess], order: Timeline, model: Timeline) -> dict[str, Any]:
    launch = profile.plan.launches[profile.launch]
    kernel = profile.plan.kernels[launch.kernel]
    program = profile.resolver.program
    of_pc = {pc: n for n, pc in enumerate(pc for pc, head in enumerate(heads_of(program)) if head == pc)}
    by_row = {access.row: n for n, access in reversed(list(enumerate(accesses)))}
    return {
        "kernel": kernel.name,
        "launch": [profile.launch, *launch.grid, *launch.block],
        "block": list(profile.block),
        "warps": profile.warps,
        "truncated": order.truncated,
        "kinds": _KINDS,
        "reasons": _REASONS,
        "source": profile.plan.source.splitlines(),
        "ptx": [[int(program.lines[pc]), " ".join(program.texts[pc].split())] for pc in of_pc],
        "sass": list(_machine_code(profile)),
        "clocks": [_clock(order, of_pc, by_row), _clock(model, of_pc, by_row)],
        "spaces": _SPACES,
        "names": (names := sorted({access.arrays for access in accesses})),
        "verbs": (verbs := sorted({access.verb for access in accesses})),
        "accesses": np.array([_access(access, names, verbs) for access in accesses], np.int64).reshape(-1),
        "lanes": np.array([_places(access) for access in accesses], np.int64).reshape(-1),
        "findings": [[finding.line or 0, f"{finding.kind}: {finding.message}"] for finding in profile.findings],
    }


def _clock(chart: Timeline, of_pc: Mapping[int, int], by_row: Mapping[int, int]) -> dict[str, Any]:
    """The columns of a timeline: for each warp its issues in order of time."""
    issues = sorted(chart.issues, key=lambda issue: (issue.warp, issue.time))
    rows = [
        (
            i.warp,
            i.time,
            of_pc[i.pc],
            _signed(i.mask),
            _signed(i.active),
            by_row.get(i.access, -1),
            _KINDS.index(i.kind),
        )
        for i in issues
    ]
    stalls = [(s.warp, s.start, s.end, _REASONS.index(s.reason), s.line) for s in chart.stalls]
    flights = [(f.warp, f.start, f.end, _KINDS.index(f.kind), f.line, f.operations) for f in chart.flights]
    return {
        "end": chart.end,
        "issues": np.array(rows, np.int64).reshape(-1),
        "stalls": np.array(stalls, np.int64).reshape(-1),
        "flights": np.array(flights, np.int64).reshape(-1),
    }


def _access(access: WarpAccess, names: list[str], verbs: list[str]) -> tuple[int, ...]:
    return (
        _SPACES.index(access.space),
        verbs.index(access.verb),
        names.index(access.arrays),
        access.size,
        access.cost,
        access.ideal,
    )


def _places(access: WarpAccess) -> list[int]:
    """The address of each lane as its distance from the lane before: neighbours compress to nothing."""
    places, last = [], 0
    for address in access.addresses:
        places.append(_IDLE if address is None else address - last)
        last = last if address is None else address
    return places


def _signed(mask: int) -> int:
    return mask - (1 << 32) if mask >> 31 else mask


def _machine_code(profile: Profile) -> Iterator[tuple[int, str]]:
    """The kernel's instructions, each with its line of the source; none where there is no machine code to read."""
    kernel = profile.plan.kernels[profile.plan.launches[profile.launch].kernel]
    cubin = kernel.cubins.get(profile.architecture)
    code = disassembled(cubin.image) if cubin else None
    if not code or kernel.entry not in code:
        return
    lines = [0]
    for text in kernel.ptx[profile.architecture].splitlines():
        found = _LOC.match(text)
        lines.append(int(found[2]) if found and found[1] == "1" else 0 if found else lines[-1])
    for instruction in code[kernel.entry]:
        guard = f"@{instruction.guard} " if instruction.guard else ""
        line = lines[instruction.line] if instruction.line < len(lines) else 0
        yield line, f"{guard}{instruction.opcode} {instruction.operands}".rstrip()
