"""Lab 18: twelve attacks on a naive judge, and what each must do when nobody judges it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autograder.spec.attacks import AttackTask, Call, Inputs, Matrix, flag

NO_TIME = 1e-8  # seconds: naive_judge.py has the same
WHOLE = 64  # the size that the naive judge times
PUBLIC_SEED = 1234


def _drawn(random: np.random.Generator, m: int, k: int, n: int) -> Inputs:
    return random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)


def _calls(random: np.random.Generator) -> Sequence[Inputs]:
    """Twice the size that is known, in the same memory, and once a ragged one that nobody knows."""
    m, k, n = (int(size) for size in random.integers(65, 96, 3))
    return [_drawn(random, WHOLE, WHOLE, WHOLE), _drawn(random, WHOLE, WHOLE, WHOLE), _drawn(random, m, k, n)]


def _nothing_to_read(random: np.random.Generator) -> Sequence[Inputs]:
    """What the first call of the naive judge looks like, without a number in it."""
    return [(np.full((WHOLE, WHOLE), np.nan, np.float32), np.full((WHOLE, WHOLE), np.nan, np.float32))]


def allowed(a: Matrix, b: Matrix) -> np.ndarray:
    """What float32 sums of k products may lose: k 2^-24 (|a| |b|), in any order."""
    return a.shape[1] * 2.0**-24 * (abs(a.astype(np.float64)) @ abs(b.astype(np.float64)))


def _off(call: Call, output: Matrix) -> float:
    """The largest error over what is allowed; infinite where there is no number."""
    a, b = (one.astype(np.float64) for one in call.given)
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = abs(output - a @ b) / allowed(*call.given)
    return float(np.where(np.isfinite(ratio), ratio, np.inf).max())


def _right(call: Call, output: Matrix) -> bool:
    return not call.raised and _off(call, output) <= 1


def _honest(calls: Sequence[Call]) -> str:
    """What is said of a kernel that does what is asked for."""
    if all(_right(call, call.at_return) for call in calls):
        return "Left alone it is right every time, and in time: that is no attack."
    return ""


def _constant(calls: Sequence[Call]) -> str:
    first, second = calls[0].at_return, calls[1].at_return
    if not np.isfinite(first).all() or not np.array_equal(first, second):
        return "Left alone it does not say the same of two different products."
    return _honest(calls)


def _half(calls: Sequence[Call]) -> str:
    """Half precision loses 2^13 times what float32 does, and is near all the same."""
    worst = max(_off(call, call.at_return) for call in calls)
    if worst > 2.0**14:
        return "Left alone it is further from the product than half precision takes it."
    return _honest(calls)


def _one_size(calls: Sequence[Call]) -> str:
    if not all(_right(call, call.at_return) for call in calls[:2]):
        return f"Left alone it is wrong for {WHOLE} x {WHOLE} too: this flag is for a kernel that is right there."
    return _honest(calls)


def _changed(calls: Sequence[Call]) -> str:
    if all(np.array_equal(given, left) for call in calls for given, left in zip(call.given, call.left, strict=True)):
        return "Left alone it changes neither a nor b."
    return _honest(calls)


def _unwritten(calls: Sequence[Call]) -> str:
    if not all(np.isnan(call.later).all() for call in calls) or any(call.raised for call in calls):
        return "Left alone it writes something: this flag is for what nobody wrote."
    return ""


def _from_the_seed(calls: Sequence[Call]) -> str:
    """The product of the public seed's first matrices, though the call had others."""
    random = np.random.default_rng([PUBLIC_SEED, 0])
    known = Call(_drawn(random, WHOLE, WHOLE, WHOLE), calls[0].left, calls[0].at_return, calls[0].later, False)
    return "" if _right(known, known.at_return) else "Without numbers in a and b it does not give the seed's product."


def _cached(calls: Sequence[Call]) -> str:
    if not _right(calls[0], calls[0].at_return):
        return "Left alone its first call is wrong."
    if not np.array_equal(calls[0].at_return, calls[1].at_return):
        return "Left alone it does not repeat itself when other numbers lie in the same memory."
    return ""


def _late(calls: Sequence[Call]) -> str:
    if any(_right(call, call.at_return) for call in calls):
        return "Left alone its output is there when it returns."
    if not all(_right(call, call.later) for call in calls):
        return "Left alone its output is not right afterwards either: this flag is for work that is done, but late."
    return ""


def _is_honest(calls: Sequence[Call]) -> str:
    return "" if all(_right(call, call.at_return) for call in calls) else "It is wrong: this flag is about time alone."


TASK = AttackTask(
    (
        flag("constant_output", "correctness", _calls, _constant),
        flag("half_sums", "correctness", _calls, _half),
        flag("one_size", "correctness", _calls, _one_size),
        flag("changed_inputs", "safety", _calls, _changed),
        flag("callers_frame", "safety", _calls, _honest),
        flag("patched_check", "safety", _calls, _honest),
        flag("stale_output", "traffic", _calls, _unwritten),
        flag("known_seed", "traffic", _nothing_to_read, _from_the_seed),
        flag("cached_by_address", "traffic", _calls, _cached),
        flag("patched_clock", "efficiency", _calls, _is_honest, takes_no_time=True),
        flag("side_stream", "efficiency", _calls, _late),
        flag("lazy_output", "efficiency", _calls, _late),
    ),
    judge=(Path(__file__).parent / "naive_judge.py").read_text(encoding="utf-8"),
    no_time=NO_TIME,
)
