"""What was measured, as a notebook quotes it: any record that the project ships; and of the microbenchmarks figures,
curves, tables with what is known, and the kernels' own text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from IPython.display import HTML, Markdown
from pygments.lexers import CudaLexer

from autograder.spec.lab import CHECKOUT
from course.lesson import highlighted, table
from course.results import DIRECTORY, Record, Results, ResultsError, read
from warplab.figures.style import quantity

KERNELS = CHECKOUT / "benchmarks" / "micro"


def results_of(file: str) -> Results | None:
    """benchmarks/results/`file`.json, or None where it is missing or damaged."""
    try:
        return read(DIRECTORY / f"{file}.json")
    except ResultsError:
        return None


def measured(file: str, name: str, metric: str, **where: Any) -> Record | None:
    """The record of benchmarks/results/`file`.json with this name and metric and the fields of `where`.

    None where it has not been measured: there is no such file, or not exactly one such record in it.
    """
    try:
        return needed(file, name, metric, **where)
    except ResultsError:
        return None


def needed(file: str, name: str, metric: str, **where: Any) -> Record:
    """The same record where a chapter cannot do without it. Raises ResultsError unless there is exactly one."""
    return read(DIRECTORY / f"{file}.json").find(name, metric, **where)


class Measured:
    """benchmarks/results/microbench.json. Every number of it was measured on the GPU that `where` names."""

    def __init__(self) -> None:
        self.results = read(DIRECTORY / "microbench.json")

    @property
    def where(self) -> str:
        """One sentence: on what, when and how the figures were measured."""
        header = self.results.header
        return (
            f"Measured on {header.where} (driver {header.driver}), and shipped with the project; "
            "`python -m benchmarks.microbench` measures again, on a Hopper GPU."
        )

    def record(self, name: str, metric: str, **where: Any) -> Record:
        """One record; raises ResultsError unless exactly one fits."""
        return self.results.find(name, metric, **where)

    def value(self, name: str, metric: str, **where: Any) -> float:
        """The value of one record, in its unit."""
        return self.record(name, metric, **where).value

    def curve(self, name: str, metric: str, **where: Any) -> list[tuple[int, float]]:
        """(first number of the shape, value) of all records that fit, in order. Raises KeyError if there are none."""
        points = sorted(
            (record.shape[0], record.value)
            for record in self.results.records
            if record.name == name
            and record.metric == metric
            and record.shape
            and all(getattr(record, key) == wanted for key, wanted in where.items())
        )
        if not points:
            raise KeyError(f"microbench.json has no curve {name!r} of {metric!r} with {where}")
        return points

    def beside(self, *records: Record) -> Markdown:
        """A table: what was measured, what is known, how far they are apart and, where that is much, why."""
        rows = []
        for record in records:
            what = " ".join(part for part in (record.name, record.variant, record.dtype) if part)
            what += "".join(f" {n:,}" for n in record.shape)
            known = record.extra.get("known")
            rows.append(
                (
                    f"{what}, {record.metric}",
                    said(record.value, record.unit),
                    said(known, record.unit) if known is not None else "nothing published that fits",
                    f"{record.extra['deviation']:+.1%}" if known is not None else "",
                    record.extra.get("explanation", ""),
                )
            )
        return table(["what", "measured", "known", "apart", "why"], rows)

    def sources(self, *records: Record) -> Markdown:
        """Where the known figures of these records come from, each source once."""
        found = dict.fromkeys(r.extra["known_from"] for r in records if "known_from" in r.extra)
        return Markdown("\n".join(f"* {source}" for source in found))


def known(value: float | None) -> float:
    """A datasheet's figure that the text relies on. Raises ValueError where the maker gives none."""
    if value is None:
        raise ValueError("the datasheet has no such figure")
    return value


def said(value: float, unit: str) -> str:
    """A value as people say it: with a prefix for rates per second, plainly for counts of cycles."""
    if unit in ("B/s", "FLOP/s", "Hz", "1/s", "s") and value:
        return f"{value * 1e6:.3g} us" if unit == "s" else quantity(value, unit)
    digits = f"{value:,.0f}" if abs(value) >= 1000 or value == round(value) else f"{value:.3g}"
    words = {
        "1/cycle/SM": "per cycle and SM",
        "B/cycle/SM": "bytes per cycle and SM",
        "FLOP/cycle/SM": "FLOP per cycle and SM",
    }
    return f"{digits} {words.get(unit, unit)}"


def kernel(file: str, *names: str) -> HTML:
    """Functions or structs of a file of benchmarks/micro, with the comment above each, as they stand there."""
    text = (KERNELS / f"{file}.cu").read_text(encoding="utf-8")
    parts = "\n\n".join(_definition(text, name) for name in names)
    return highlighted(f"// benchmarks/micro/{file}.cu\n\n{parts}", CudaLexer())


def _definition(text: str, name: str) -> str:
    lines = text.splitlines()
    wanted = re.compile(rf"\b(?:void|u32|u64|struct|float)\b[^;]*\b{re.escape(name)}\b[^;]*\{{")
    found = next((n for n, line in enumerate(lines) if wanted.search(line)), None)
    if found is None:
        raise ValueError(f"there is no definition of {name!r} in this file")
    first = found
    while first and (lines[first - 1].startswith(("//", "template"))):
        first -= 1
    last = next(n for n in range(found, len(lines)) if lines[n].startswith("}"))
    return "\n".join(lines[first : last + 1])


def records_of(measured: Measured, names: Sequence[str]) -> list[Record]:
    """All records with one of these names, in the order of the file."""
    return [record for record in measured.results.records if record.name in names]
