"""Fits to the measured times of benchmarks.collectives, and their errors on the sizes that no fit has seen.

`python -m benchmarks.collective_fits` renews them in benchmarks/results/collectives.json and measures nothing;
benchmarks.collectives does so after each run. NCCL's own collectives get a law of its channels
(systems.network.channels); schedules, and processes over Gloo, up to three lines (systems.network.fits). Times of more
than two GPUs are besides predicted from the laws of two (systems.network.more_ranks): no constant is fitted to them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from course import results
from course.results import Record
from systems.network import more_ranks
from systems.network.channels import CHANNEL, CHANNELS, WAIT, Call, Law, fit_law, terms
from systems.network.collectives import Collective
from systems.network.fits import fit, predicted
from systems.network.nccl import Protocol
from warplab.errors import WarplabError
from warplab.hardware.chips import find_chip

COMMAND = "python -m benchmarks.collective_fits"
LIBRARY = "nccl"  # the variant of NCCL's own collectives
_ERRORS = (("error below 1 MiB", 0, 1 << 20), ("error from 1 MiB up", 1 << 20, 1 << 62))
OF_TWO = ", by the laws of two GPUs"  # behind the names of errors
_LINES = ("alpha", "bandwidth")
_JUDGED = ("error ", "share ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Renew the fits of a results file, and say how well they hold."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Renews the fits to measured collectives.")
    parser.add_argument("path", type=Path, nargs="?", default=results.DIRECTORY / "collectives.json")
    try:
        refit(parser.parse_args(arguments).path)
    except WarplabError as error:
        print(f"collective_fits: {error}", file=sys.stderr)
        return 1
    return 0


def refit(path: Path) -> None:
    """Puts fits of the file's times in the place of those that it has. Raises ResultsError if it cannot be read."""
    old = results.read(path)
    kept = [record for record in old.records if not _is_fit(record)]
    times = [one for one in kept if one.metric == "time" and not one.variant.startswith("by hand")]
    found: list[Record] = []
    for _, group in itertools.groupby(sorted(times, key=_series), key=_series):
        of = list(group)
        found += laws(of) if of[0].variant == LIBRARY else lines(of)
    if chip := find_chip(old.header.gpu):
        found += by_two([one for one in times if one.variant == LIBRARY], chip.bandwidth)
    results.write(path, old.header, [*kept, *found])
    for one in found:
        if one.metric.startswith(_JUDGED):
            print(f"{one.name:16}{one.variant:34}{one.shape[0]:3} ranks  {one.metric:54}{one.value:7.1%}", flush=True)


def is_fitted(size: int) -> bool:
    """Whether a fit may know the time of a size: powers of two, and five quarters of them; the others judge it."""
    return size // (size & -size) in (1, 5)


def laws(times: Sequence[Record]) -> Iterator[Record]:
    """The constants of the law of one of NCCL's collectives, and its largest errors on sizes that it has not seen.

    `times` are in microseconds; where NCCL's log named a protocol, and its channels, the records have them.
    """
    most, law = _most(times), _law(times)
    first, extra, where = times[0], _extra(times[0]), _where(times[0])
    make = partial(Record, first.name, variant=first.variant, dtype=first.dtype, shape=first.shape[:1], extra=extra)
    for name, value in law.constants.items():
        protocol, _, what = name.partition(": ")
        words = f"NCCL's {protocol} protocol, fitted to sizes of 1 or 5 times a power of two; {where}"
        if what in (WAIT, CHANNEL):
            yield make(name, value * 1e6, "us", conditions=words)
        elif value > 0:
            yield make(f"{name}, bandwidth", 1e-9 / value, "GB/s", conditions=words)
    unseen = [one for one in times if not is_fitted(one.shape[1]) and law.knows(terms(_call(one, most)))]
    yield from _errors(unseen, partial(_by_law, law, most))


def by_two(times: Sequence[Record], memory: float) -> Iterator[Record]:
    """The largest errors of what the laws of two GPUs say of more, and the share of sizes within 5%; none without both.

    `times` are those of NCCL's collectives, over any number of GPUs; `memory` is the bandwidth of a GPU's memory, bytes
    per second.
    """
    series = {key: list(of) for key, of in itertools.groupby(sorted(times, key=_series), key=_series)}
    two = {Collective(name): _law(of) for (name, _, ranks), of in series.items() if ranks == 2}
    for (name, _, ranks), of in series.items():
        if ranks > 2 and two.keys() >= {Collective(name), Collective.BROADCAST}:
            seconds = partial(_by_two, two, _most(of), memory)
            yield from _errors(of, seconds, OF_TWO)
            close = [one for one in of if one.shape[1] >= 1 << 20 and _off(one, seconds) <= 0.05]
            large = sum(one.shape[1] >= 1 << 20 for one in of)
            yield Record(name, f"share within 5% from 1 MiB up{OF_TWO}", len(close) / large, "1", of[0].variant,
                         of[0].shape[:1], of[0].dtype, conditions=f"{len(close)} of {large} sizes; {_where(of[0])}",
                         extra=_extra(of[0]))  # fmt: skip


def lines(times: Sequence[Record]) -> Iterator[Record]:
    """Alpha and bandwidth of each of up to three lines, and the largest errors on sizes that they have not seen."""
    first, extra, where = times[0], _extra(times[0]), _where(times[0])
    seen = [(float(one.shape[1]), one.value * 1e-6) for one in times if is_fitted(one.shape[1])]
    if len(seen) < 2:
        return
    found = fit(seen)
    make = partial(Record, first.name, variant=first.variant, dtype=first.dtype)
    for number, line in enumerate(found):
        more = {**extra, "first": line.first, "last": line.last}
        span = f"sizes from {line.first:.0f} to {line.last:.0f} bytes; {where}"
        shape = (first.shape[0], number)
        yield make("alpha", line.alpha * 1e6, "us", shape=shape, conditions=span, extra=more)
        if line.bandwidth < 1e15:
            yield make("bandwidth", line.bandwidth / 1e9, "GB/s", shape=shape, conditions=span, extra=more)
    unseen = [one for one in times if not is_fitted(one.shape[1])]
    yield from _errors(unseen, lambda one: predicted(found, one.shape[1]))


def _errors(unseen: Sequence[Record], seconds: Callable[[Record], float], by: str = "") -> Iterator[Record]:
    for metric, low, high in _ERRORS:
        if those := [one for one in unseen if low <= one.shape[1] < high]:
            off = {one.shape[1]: _off(one, seconds) for one in those}
            size = max(off, key=lambda one: off[one])
            one = those[0]
            words = f"the largest of {len(those)} sizes that were not fitted, at {size} bytes; {_where(one)}"
            yield Record(one.name, metric + by, off[size], "1", one.variant, one.shape[:1], one.dtype,
                         conditions=words, extra=_extra(one))  # fmt: skip


def _off(one: Record, seconds: Callable[[Record], float]) -> float:
    return abs(seconds(one) / (one.value * 1e-6) - 1)


def _most(times: Sequence[Record]) -> int:
    """How many channels the communicator has, as far as its log says."""
    return max((one.extra.get("channels", 0) for one in times), default=0) or CHANNELS


def _law(times: Sequence[Record]) -> Law:
    most = _most(times)
    return fit_law([(terms(_call(one, most)), one.value * 1e-6) for one in times if is_fitted(one.shape[1])])


def _by_two(laws: dict[Collective, Law], most: int, memory: float, one: Record) -> float:
    return more_ranks.seconds(laws, _call(one, most), memory)


def _by_law(law: Law, most: int, one: Record) -> float:
    return law.seconds(terms(_call(one, most)))


def _call(one: Record, most: int) -> Call:
    protocol = one.extra.get("protocol")
    return Call(
        Collective(one.name), one.shape[0], one.shape[1], Protocol(protocol) if protocol else None,
        one.extra.get("channels"), most,
    )  # fmt: skip


def _is_fit(record: Record) -> bool:
    metric = record.metric
    return metric in _LINES or metric.startswith(_JUDGED) or metric.partition(":")[0] in _NAMES


_NAMES = tuple(Protocol)


def _series(record: Record) -> tuple[str, str, int]:
    return record.name, record.variant, record.shape[0]


def _extra(record: Record) -> dict[str, Any]:
    return {name: record.extra[name] for name in ("gpus", "processes") if name in record.extra}


def _where(record: Record) -> str:
    return record.conditions.rpartition("; ")[2]


if __name__ == "__main__":
    sys.exit(main())
