"""What a host function returns where data is asked for and not kernels: records, as JSON.

There are three forms of them here: the steps of a schedule of a collective, the passes of a pipeline, and the operators
whose results a checkpoint keeps. This runs in the capture process, beside the submission: it turns whatever was
returned into plain numbers and words, and says in one sentence what is no record. Who reads the JSON believes none of
it.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from warplab.plan.capture.failure import CaptureFailure, CaptureStatus

MOST_RECORDS = 1 << 18  # of one call
MOST_NUMBER = 1 << 31
LONGEST_NAME = 40  # characters
OPERATIONS = ("copy", "reduce")
PASSES = ("F", "B", "W")

Row = list[int | str | None]


class RecordForm(StrEnum):
    """What the records of a submission are."""

    TRANSFERS = "transfers"  # step, source, destination, chunk, operation, and the step of the destination or null
    PASSES = "passes"  # rank, pass, micro-batch, chunk
    KEPT = "kept"  # block, name of an operator
    STEPS = "steps"  # what a rank's program asks for next: see program_step
    ATTACKS = "attacks"  # what a naive judge says of a kernel that attacks it: see attacked


def to_json(returned: Any, form: RecordForm, what: str) -> bytes:
    """The records that the function `what` returned, as rows of the form. Raises CaptureFailure."""
    described = _FORMS[form]
    if isinstance(returned, (str, bytes, dict)) or not hasattr(returned, "__iter__"):
        raise _no_records(f"{what} returns {_kind(returned)} instead of a list of records: {described.words}.")
    rows = []
    for number, record in enumerate(returned):
        if number == MOST_RECORDS:
            raise CaptureFailure(
                CaptureStatus.RESOURCES, f"{what} returns more than {MOST_RECORDS:,} records: fewer must do."
            )
        where = f"Record {number} of {what}"
        if not isinstance(record, (tuple, list)) or len(record) not in described.lengths:
            raise _no_records(f"{where} is {_kind(record)}, not {described.words}.")
        rows.append(described.row(tuple(record), where))
    return json.dumps(rows, separators=(",", ":")).encode()


def _transfer(parts: tuple[Any, ...], where: str) -> Row:
    names = ("step", "source", "destination", "chunk")
    step, source, destination, chunk = (_number(p, n, where) for p, n in zip(parts[:4], names, strict=True))
    operation = _word(parts[4], OPERATIONS, "operation", where)
    received = _number(parts[5], "step of the destination", where) if len(parts) == 6 and parts[5] is not None else None
    return [step, source, destination, chunk, operation, received]


def _pass(parts: tuple[Any, ...], where: str) -> Row:
    rank, kind, micro_batch, chunk = parts
    return [
        _number(rank, "rank", where),
        _word(kind, PASSES, "pass", where),
        _number(micro_batch, "micro-batch", where),
        _number(chunk, "chunk", where),
    ]


def _kept(parts: tuple[Any, ...], where: str) -> Row:
    block, name = parts
    return [_number(block, "block", where), _name(name, where)]


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _no_records(f"{where} has {_kind(value)} for its name: give the operator's name.")
    name = str.__getitem__(value, slice(LONGEST_NAME + 1))  # a plain str, whatever class the submission's is of
    if len(name) > LONGEST_NAME:
        raise _no_records(f"{where} has a name of more than {LONGEST_NAME} characters: give the operator's name.")
    return name


def _word(value: Any, known: Sequence[str], name: str, where: str) -> str:
    word = str(value)
    if word not in known:
        listing = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
        raise _no_records(f"{where} has the {name} {word[:40]!r}: it is {listing}.")
    return next(one for one in known if one == word)  # not the submission's own string, which may be of a class of its


def _number(value: Any, name: str, where: str) -> int:
    try:
        number = int(operator.index(value))
    except TypeError:
        raise _no_records(f"{where} has {_kind(value)} for its {name}: give a whole number.") from None
    if not 0 <= number < MOST_NUMBER:
        shown = str(number) if abs(number) < 1 << 64 else "a number of many digits"
        raise _no_records(f"{where} has {shown} for its {name}: numbers begin at 0 and stay below 2^31.")
    return number


def _no_records(message: str) -> CaptureFailure:
    return CaptureFailure(CaptureStatus.NO_RECORDS, message)


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {'tuple' if isinstance(value, tuple) else 'list'} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__[:40]}"


@dataclass(frozen=True)
class _Form:
    words: str
    lengths: tuple[int, ...]
    row: Callable[[tuple[Any, ...], str], Row]


_FORMS = {
    RecordForm.TRANSFERS: _Form(
        "(step, source, destination, chunk, 'copy' or 'reduce') or the same and the step in which it is received",
        (5, 6),
        _transfer,
    ),
    RecordForm.PASSES: _Form("(rank, 'F', 'B' or 'W', micro-batch, chunk)", (4,), _pass),
    RecordForm.KEPT: _Form("(block, name of an operator)", (2,), _kept),
}
