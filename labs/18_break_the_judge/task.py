"""Lab 18: twelve attacks on a naive judge, and what each must do when no hole is open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autograder.spec.attacks import AttackTask, Call, Inputs, Matrix, flag

NO_TIME = 1e-8  # seconds: naive_judge.py has the same
WHOLE = 64  # the size that everybody knows
SIZES = ((WHOLE, WHOLE, WHOLE), (33, 65, 17))  # m, k and n of the naive judge's calls
PUBLIC_SEED = 1234


def _drawn(size: tuple[int, int, int], seed: int, number: int) -> Inputs:
    """What the naive judge draws for its call of that number."""
    m, k, n = size
    random = np.random.default_rng([seed, number])
    return random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)


def _calls(seed: int) -> Sequence[Inputs]:
    """Each size twice, in the same memory."""
    sizes = [size for size in SIZES for _ in range(2)]
    return [_drawn(size, seed, number) for number, size in enumerate(sizes)]


def _nothing_to_read(seed: int) -> Sequence[Inputs]:
    """The same calls, without a number in them."""
    return [(np.full_like(a, np.nan), np.full_like(b, np.nan)) for a, b in _calls(seed)]


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
        return "With no hole open it is right every time, and in time: that is no attack."
    return ""


def _constant(calls: Sequence[Call]) -> str:
    first, second = calls[0].at_return, calls[1].at_return
    if not np.isfinite(first).all() or not np.array_equal(first, second):
        return "With no hole open it does not say the same of two different products."
    return _honest(calls)


def _half(calls: Sequence[Call]) -> str:
    """Half precision loses 2^13 times what float32 does, and is near all the same."""
    worst = max(_off(call, call.at_return) for call in calls)
    if worst > 2.0**14:
        return "With no hole open it is further from the product than half precision takes it."
    return _honest(calls)


def _one_size(calls: Sequence[Call]) -> str:
    if not all(_right(call, call.at_return) for call in calls[:2]):
        return f"With no hole open it is wrong for {WHOLE} x {WHOLE} too: this flag is for what is right there."
    return _honest(calls)


def _changed(calls: Sequence[Call]) -> str:
    if all(np.array_equal(given, left) for call in calls for given, left in zip(call.given, call.left, strict=True)):
        return "With no hole open it changes neither a nor b."
    return _honest(calls)


def _unwritten(calls: Sequence[Call]) -> str:
    if not all(np.isnan(call.later).all() for call in calls) or any(call.raised for call in calls):
        return "With no hole open it writes something: this flag is for an output that nothing wrote."
    return ""


def _from_the_seed(calls: Sequence[Call]) -> str:
    """The product of the public seed's first matrices, though the call had others."""
    known = Call(_drawn(SIZES[0], PUBLIC_SEED, 0), calls[0].left, calls[0].at_return, calls[0].later, False)
    return "" if _right(known, known.at_return) else "Without numbers in a and b it does not give the seed's product."


def _cached(calls: Sequence[Call]) -> str:
    if not _right(calls[0], calls[0].at_return):
        return "With no hole open its first call is wrong."
    if not np.array_equal(calls[0].at_return, calls[1].at_return):
        return "With no hole open it does not repeat itself when other numbers lie in the same memory."
    return ""


def _late(calls: Sequence[Call]) -> str:
    if any(_right(call, call.at_return) for call in calls):
        return "With no hole open its output is there when it returns."
    if not all(_right(call, call.later) for call in calls):
        return "With no hole open its output is not right afterwards either: this flag is for work that is only late."
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
        flag("known_seed", "traffic", _nothing_to_read, _from_the_seed, blank=True),
        flag("cached_by_address", "traffic", _calls, _cached),
        flag("patched_clock", "efficiency", _calls, _is_honest, takes_no_time=True),
        flag("side_stream", "efficiency", _calls, _late),
        flag("lazy_output", "efficiency", _calls, _late),
    ),
    judge=(Path(__file__).parent / "naive_judge.py").read_text(encoding="utf-8"),
    no_time=NO_TIME,
)
