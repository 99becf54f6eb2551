"""Says which flags were captured, by what the capture processes say of attacks on a naive judge.

It reads a stranger's bytes, so it runs in a worker's sandbox. The attack itself never runs here. A naive judge's
verdict was made in the attack's own process, so it may be forged: it must be "passed" with the hole open and another
one with all holes closed. What the kernel's calls left then is compared with the truth here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from autograder.records.outcome import CaseOutcome
from autograder.records.rejection import Rejected, rejected
from autograder.records.status import Status
from autograder.spec.attacks import AttackTask, Call, Flag, Inputs, Matrix
from autograder.spec.lab import load
from autograder.worker.record_rows import rows
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.protocol import decode_records, unusable

MOST_WORDS = 300  # of what the naive judge is said to have said
MOST_ELEMENTS = 1 << 14  # of one matrix; those that are sent have less than 96 x 96
_Length = Annotated[int, msgspec.Meta(ge=0, le=MOST_ELEMENTS)]


class _Packed(msgspec.Struct):
    shape: Annotated[list[_Length], msgspec.Meta(max_length=4)]
    data: str


class _Left(msgspec.Struct):
    at_return: _Packed
    later: _Packed
    a: _Packed
    b: _Packed
    raised: bool


class _Verdict(msgspec.Struct):
    passed: bool
    seconds: float
    words: str


class _Said(msgspec.Struct):
    verdict: _Verdict
    alone: Annotated[list[_Left], msgspec.Meta(max_length=8)]


def check(task: str, seed: int, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The outcome of every flag of the lab in the folder `task`.

    A run is {"flag", "opened", "closed"}: the answers of the two capture processes, with the flag's hole open and with
    all of them closed. Flags without one were not tried. Gives {"outcomes"}, or {"refused"} if no run of any flag came
    to an answer, with what was wrong with the first.
    """
    drawn = load(Path(task), AttackTask).task
    told = {run["flag"]: run for run in runs}
    outcomes, refusals = [], list[Rejected]()
    for flag in drawn.functions:
        if flag.function not in told:
            outcomes.append(_failed(flag, f"The file defines no function '{flag.function}'."))
            continue
        run = told[flag.function]
        try:
            outcomes.append(_outcome(drawn, flag, seed, _said(run["opened"]), _said(run["closed"])))
        except Rejected as rejection:
            refusals.append(rejection)
            outcomes.append(_failed(flag, str(rejection)))
    if told and len(refusals) == len(told):
        return refusals[0].to_wire()
    return {"outcomes": [outcome.to_wire() for outcome in outcomes]}


def _outcome(task: AttackTask, flag: Flag, seed: int, opened: _Said, closed: _Said) -> CaseOutcome:
    if not opened.verdict.passed:
        return _failed(flag, f"With its hole open the naive judge is not fooled: {opened.verdict.words[:MOST_WORDS]}.")
    if flag.takes_no_time:
        if opened.verdict.seconds >= task.no_time:
            return _failed(flag, f"The naive judge says that it took {opened.verdict.seconds:.2g} s.")
        if closed.verdict.passed and closed.verdict.seconds < task.no_time:
            return _failed(flag, "It takes no time with all holes closed either: it got in by another way.")
    elif closed.verdict.passed:
        words = "With all holes closed it passes too: it is an honest kernel, or got in by another way."
        return _failed(flag, words)
    if words := flag.missing(_calls(flag.drawn_calls(seed), closed.alone)):
        return _failed(flag, words)
    return CaseOutcome(flag.function, Status.PASSED)


def _failed(flag: Flag, words: str) -> CaseOutcome:
    return CaseOutcome(flag.function, Status.WRONG_ANSWER, words)


def _said(content: bytes) -> _Said:
    """What one capture process said. Raises Rejected."""
    try:
        (blob,) = decode_records(content, 1)
    except CaptureFailure as failure:
        raise rejected(failure) from failure
    said: _Said = rows(blob, _Said)
    return said


def _calls(given: Sequence[Inputs], left: Sequence[_Left]) -> list[Call]:
    """An output of another shape than asked for is none. Raises Rejected for what the capture process cannot have
    written."""
    if len(given) != len(left):
        raise rejected(unusable(ValueError("it has not what was asked for.")))
    calls = []
    for (a, b), one in zip(given, left, strict=True):
        nothing = np.full((len(a), b.shape[1]), np.nan, np.float32)
        outputs = (_array(packed) for packed in (one.at_return, one.later))
        at_return, later = (output if output.shape == nothing.shape else nothing for output in outputs)
        calls.append(Call((a, b), (_array(one.a), _array(one.b)), at_return, later, one.raised))
    return calls


def _array(packed: _Packed) -> Matrix:
    try:
        data = base64.b64decode(packed.data, validate=True)
        return np.frombuffer(data, np.float32).reshape(packed.shape)
    except ValueError as error:
        raise rejected(unusable(error)) from None
