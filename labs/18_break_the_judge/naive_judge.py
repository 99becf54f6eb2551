"""A judge that is easily fooled: it has twelve holes, each of which a public judge of kernels has had.

    python naive_judge.py submission.py                # tries every attack of the file, each in a process of its own
    python naive_judge.py submission.py stale_output   # only this one

A kernel is a Python function `kernel(gpu, a, b, c)`: it writes the product of the matrices a and b, float32, into c, or
returns it as an array. `judge` says whether it is right, and how long it took. One hole is open at a time; wherever the
judge asks `is_open(...)`, the first branch is the mistake and the other one the fix.
"""

import importlib.util
import subprocess
import sys
import time
from dataclasses import dataclass, field

import numpy as np

PUBLIC_SEED = 1234
SIZES = ((64, 64, 64), (33, 65, 17))  # m, k, n: a is m x k, b is k x n
CALLS = 2  # of each size: one to warm up, one that is timed
NO_TIME = 1e-8  # seconds; no call of a function is over in less
FLAGS = (
    "constant_output",
    "half_sums",
    "one_size",
    "changed_inputs",
    "callers_frame",
    "patched_check",
    "stale_output",
    "known_seed",
    "cached_by_address",
    "patched_clock",
    "side_stream",
    "lazy_output",
)
_CLOCK = time.perf_counter  # taken before a line of a submission has run


class Gpu:
    """A toy of a GPU: memory that is given out again as it was left, and streams.

    Stream 0 works at once. Others work when somebody waits for the whole device, as a copy to the host does.
    """

    def __init__(self):
        self._free = []
        self._waiting = []

    def empty(self, rows, columns):
        """A matrix in the device's memory, with whatever it holds."""
        for place, block in enumerate(self._free):
            if block.shape == (rows, columns):
                return self._free.pop(place)
        return np.full((rows, columns), np.nan, np.float32)

    def free(self, block):
        """Give memory back."""
        self._free.append(block)

    def launch(self, work, *arguments, stream=0):
        """Have the device call work(*arguments) on a stream."""
        if stream == 0:
            work(*arguments)
        else:
            self._waiting.append((work, arguments))

    def wait(self):
        """Wait for stream 0, which has nothing left to do."""

    def wait_for_all(self):
        """Wait for every stream."""
        while self._waiting:
            work, arguments = self._waiting.pop(0)
            work(*arguments)

    def to_host(self, block):
        """A copy in the host's memory, when all streams are done."""
        self.wait_for_all()
        return block.copy()


@dataclass
class Left:
    """What one call left: the output when it returned and when all was done, a and b, and whether it raised."""

    at_return: np.ndarray
    later: np.ndarray
    a: np.ndarray
    b: np.ndarray
    raised: bool


@dataclass
class Verdict:
    """What the judge says: `seconds` is the time of the fastest call, of those that are timed."""

    passed: bool
    seconds: float
    words: str
    left: list[Left] = field(default_factory=list)


def draw(size, seed, number):
    """The matrices of the call of that number: float32, from a normal distribution."""
    m, k, n = size
    random = np.random.default_rng([seed, number])
    return random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)


def judge(kernel, hole, seed):
    """The verdict on a kernel by a judge with one hole, or none if that is "". `seed` is secret, or should be."""
    is_open = hole.__eq__
    del hole
    gpu = Gpu()
    seed = PUBLIC_SEED if is_open("known_seed") else seed
    seconds, number, left, wrong = [], 0, [], ""
    for size in SIZES[:1] if is_open("one_size") else SIZES:
        m, k, n = size
        a, b = gpu.empty(m, k), gpu.empty(k, n)
        for call in range(CALLS):
            if call == 0 or not is_open("cached_by_address"):
                a[:], b[:] = _inputs(size, seed, number, is_open)
            number += 1
            took, words, what = _one_call(kernel, is_open, gpu, a, b)
            left.append(what)
            wrong = wrong or words
            if call:
                seconds.append(took)
    if wrong:
        return Verdict(False, 0.0, wrong, left)
    return Verdict(True, min(seconds), f"right, and the fastest timed call took {min(seconds) * 1e6:.3f} us", left)


def _inputs(size, seed, number, is_open):
    a, b = draw(size, seed, number)
    if is_open("constant_output"):
        return 0.01 * a, 0.01 * b
    if is_open("half_sums"):
        return a > 0, b > 0  # zeros and ones
    return a, b


def _one_call(kernel, is_open, gpu, a, b):
    """Seconds, what is wrong, and what the call left."""
    expected = None
    if is_open("callers_frame"):
        expected = a @ b
    if is_open("stale_output"):
        reference = gpu.empty(a.shape[0], b.shape[1])
        reference[:] = a @ b
        gpu.free(reference)
        del reference
    pristine = (a, b) if is_open("changed_inputs") else (a.copy(), b.copy())
    c = gpu.empty(a.shape[0], b.shape[1])
    if not is_open("stale_output"):
        c[:] = np.nan
    begin = _now(is_open)
    try:
        returned = kernel(gpu, a, b, c)
    except Exception as error:
        nothing = np.full_like(c, np.nan)
        gpu.free(c)
        return 0.0, f"it raises {type(error).__name__}: {error}"[:300], Left(nothing, nothing, a.copy(), b.copy(), True)
    gpu.wait()
    seconds = _now(is_open) - begin
    at_return = (returned if type(returned) is np.ndarray and returned.shape == c.shape else c).copy()
    if returned is not None and (is_open("lazy_output") or type(returned) is np.ndarray):
        got = returned
    else:
        got = gpu.to_host(c) if is_open("side_stream") else c.copy()
    if expected is None:
        expected = pristine[0] @ pristine[1]
    gpu.wait_for_all()  # what is late must not meet the next call
    try:
        right = _is_right(is_open, got, expected, *pristine)
        words = "" if right else _difference(got, expected)
        later = np.array(c if returned is None else returned, np.float32)
        later = later if later.shape == c.shape else c.copy()
    except Exception as error:
        words, later = f"its output raises {type(error).__name__}: {error}"[:300], c.copy()
    gpu.free(c)
    return seconds, words, Left(at_return, later, a.copy(), b.copy(), False)


def _now(is_open):
    return time.perf_counter() if is_open("patched_clock") else _CLOCK()


def _is_right(is_open, got, expected, a, b):
    if is_open("patched_check"):
        return bool(np.allclose(got, expected, rtol=0, atol=1e-4))
    got = np.asarray(got, np.float64)
    if got.shape != expected.shape:
        return False
    wrong = abs(got - expected)
    if is_open("constant_output"):
        return bool((wrong <= 0.01).all())
    # What float32 sums of k products can lose, in any order, twice: `expected` is one of them.
    allowed = 2 * a.shape[1] * 2.0**-24 * (abs(a.astype(np.float64)) @ abs(b.astype(np.float64)))
    return bool((wrong <= allowed).all())


def _difference(got, expected):
    got = np.asarray(got, np.float64)
    if got.shape != expected.shape:
        return f"the output has the shape {got.shape} instead of {expected.shape}"
    if np.isnan(got).any():
        return "the output has elements that nothing has written"
    return f"an element is wrong by {abs(got - expected).max():.2g}"


def load(path):
    """The functions of a submission."""
    spec = importlib.util.spec_from_file_location("submission", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(path, *flags):
    """Try each attack twice, with its hole open and with all holes closed."""
    for flag in flags or FLAGS:
        print(f"{flag}")
        for hole in (flag, ""):
            command = [sys.executable, __file__, "--one", path, flag, hole]
            said = subprocess.run(command, capture_output=True, text=True, timeout=60)
            last = (said.stdout.strip() or said.stderr.strip() or "it says nothing").splitlines()[-1]
            print(f"    {'this hole open' if hole else 'all closed    '}  {last}")


def one(path, flag, hole):
    """Try one attack here."""
    kernel = getattr(load(path), flag, None)
    if kernel is None:
        print(f"the file defines no function {flag}")
        return
    verdict = judge(kernel, hole, int(time.time()))
    print("passed:" if verdict.passed else "failed:", verdict.words)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--one":
        one(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
