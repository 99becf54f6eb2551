"""The lines of a submission that waste traffic, and what each costs, by the emulator's counters of the profile case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autograder.records.report import WastedLine
from warplab.plan.execution import Counters

_SMALLEST_SHARE = 0.05  # of the kernel's traffic; less is not worth a student's time
_MOST = 3
# What the words about a line have, and the beginnings of the counters that it raises.
_RAISED = {
    "wavefronts of shared memory": ("shared",),
    "sectors of local memory": ("local",),
    " reads ": ("global_load", "global_read", "global_sectors"),
    " writes ": ("global_store", "global_written", "global_sectors"),
}


def wasted_lines(total: Counters, lines: Mapping[int, Counters]) -> tuple[WastedLine, ...]:
    """The lines that waste most, the worst first; at most three, none that wastes less than 5% of the traffic.

    Sectors are wasted that the same requests would not need if their lanes read the same bytes side by side; wavefronts
    beyond one for each that a conflict-free access takes; and all local memory, which stands in for registers.
    """
    found = [wasted for number, counters in lines.items() if number > 0 for wasted in _of(number, counters, total)]
    return tuple(sorted((w for w in found if w.share >= _SMALLEST_SHARE), key=lambda w: -w.share)[:_MOST])


def raises(wasted: WastedLine, counters: Sequence[str]) -> bool:
    """Whether the line is a place where one of the counters became larger than it needs to be."""
    raised = next((names for words, names in _RAISED.items() if words in wasted.words), None)
    return raised is None or any(counter.startswith(raised) for counter in counters)


def _of(number: int, line: Counters, total: Counters) -> Iterator[WastedLine]:
    sectors = _sectors(total)
    for verb, used, ideal in (
        ("reads", line.global_load_sectors, line.global_load_ideal_sectors),
        ("writes", line.global_store_sectors, line.global_store_ideal_sectors),
    ):
        if ideal and used > ideal:
            share = (used - ideal) / sectors
            yield WastedLine(
                number,
                share,
                f"Line {number} {verb} {used:,} sectors where {ideal:,} would do if neighbouring lanes of a warp "
                f"went to neighbouring elements: {share:.0%} of all the sectors that the kernels move are wasted here.",
            )
    local = line.local_load_sectors + line.local_store_sectors
    if local:
        share = local / sectors
        yield WastedLine(
            number,
            share,
            f"Line {number} moves {local:,} sectors of local memory, which lies off the chip: {share:.0%} of all the "
            "sectors that the kernels move. A local array stays in registers only if constants index it.",
        )
    conflicts = line.shared_load_bank_conflicts + line.shared_store_bank_conflicts
    if conflicts:
        wavefronts = line.shared_load_wavefronts + line.shared_store_wavefronts
        share = conflicts / (total.shared_load_wavefronts + total.shared_store_wavefronts)
        yield WastedLine(
            number,
            share,
            f"Line {number} takes {wavefronts:,} wavefronts of shared memory, {conflicts:,} of them because lanes meet "
            f"in one bank: {share:.0%} of all the wavefronts that the kernels take are wasted here.",
        )


def _sectors(counters: Counters) -> int:
    """Sectors of global and local memory."""
    return (
        counters.global_load_sectors
        + counters.global_store_sectors
        + counters.local_load_sectors
        + counters.local_store_sectors
    )
