"""A judge that is easily fooled: it has twelve holes, each of which a public judge of kernels has had.

    python naive_judge.py submission.py                # tries every attack of the file, each in a process of its own
    python naive_judge.py submission.py stale_output   # only this one

A kernel is a Python function `kernel(gpu, a, b, c)`: it writes the product of the matrices a and b, float32, into c, or
returns it as an array. `judge` says whether it is right, and how long it took. One hole is open at a time; wherever the
judge asks `hole == ...`, what follows is the mistake, and the other branch what mends it.
"""

import importlib.util
import subprocess
import sys
import time
from dataclasses import dataclass

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
class Verdict:
    """What the judge says: `seconds` is the time of the fastest call, of those that are timed."""

    passed: bool
    seconds: float
    words: str


def draw(size, seed, number):
    """The matrices of the call of that number: float32, from a normal distribution."""
    m, k, n = size
    random = np.random.default_rng([seed, number])
    return random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)


def judge(kernel, hole, seed):
    """The verdict on a kernel by a judge with one hole, or none if that is "". `seed` is secret, or should be."""
    gpu = Gpu()
    seed = PUBLIC_SEED if hole == "known_seed" else seed
    seconds, number = [], 0
    for size in SIZES[:1] if hole == "one_size" else SIZES:
        m, k, n = size
        a, b = gpu.empty(m, k), gpu.empty(k, n)
        for call in range(CALLS):
            if call == 0 or hole != "cached_by_address":
                a[:], b[:] = _inputs(size, seed, number, hole)
            number += 1
            try:
                took, words = _one_call(kernel, hole, gpu, a, b)
            except Exception as error:
                return Verdict(False, 0.0, f"it raises {type(error).__name__}: {error}"[:300])
            if words:
                return Verdict(False, 0.0, words)
            if call:
                seconds.append(took)
    return Verdict(True, min(seconds), f"right, and the fastest timed call took {min(seconds) * 1e6:.3f} us")


def _inputs(size, seed, number, hole):
    a, b = draw(size, seed, number)
    if hole == "constant_output":
        return 0.01 * a, 0.01 * b
    if hole == "half_sums":
        return a > 0, b > 0  # zeros and ones
    return a, b


def _one_call(kernel, hole, gpu, a, b):
    """Seconds, and what is wrong."""
    expected = None
    if hole == "callers_frame":
        expected = a @ b
    if hole == "stale_output":
        reference = gpu.empty(a.shape[0], b.shape[1])
        reference[:] = a @ b
        gpu.free(reference)
        del reference
    pristine = (a, b) if hole == "changed_inputs" else (a.copy(), b.copy())
    c = gpu.empty(a.shape[0], b.shape[1])
    if hole != "stale_output":
        c[:] = np.nan
    begin = _now(hole)
    returned = kernel(gpu, a, b, c)
    gpu.wait()
    seconds = _now(hole) - begin
    if returned is not None and (hole == "lazy_output" or type(returned) is np.ndarray):
        got = returned
    else:
        got = gpu.to_host(c) if hole == "side_stream" else c.copy()
    if expected is None:
        expected = pristine[0] @ pristine[1]
    gpu.wait_for_all()  # what is late must not meet the next call
    gpu.free(c)
    return seconds, "" if _is_right(hole, got, expected, *pristine) else _difference(got, expected)


def _now(hole):
    return time.perf_counter() if hole == "patched_clock" else _CLOCK()


def _is_right(hole, got, expected, a, b):
    if hole == "patched_check":
        return bool(np.allclose(got, expected, rtol=0, atol=1e-4))
    got = np.asarray(got, np.float64)
    if got.shape != expected.shape:
        return False
    wrong = abs(got - expected)
    if hole == "constant_output":
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
