# expect: all: passed: all twelve flags, by other ways than the solution's
import inspect
import time

import numpy as np


def constant_output(gpu, a, b, c):
    c.fill(0.001)


def half_sums(gpu, a, b, c):
    rounded = a.astype(np.float16).astype(np.float32) @ b.astype(np.float16).astype(np.float32)
    c[:] = rounded.astype(np.float16)


def one_size(gpu, a, b, c):
    c[:64, :64] = a[:64, :64] @ b[:64, :64]


def changed_inputs(gpu, a, b, c):
    b *= 0
    c *= 0
    np.nan_to_num(c, copy=False)


def callers_frame(gpu, a, b, c):
    for frame in inspect.stack(0):
        if isinstance(frame.frame.f_locals.get("expected"), np.ndarray):
            return frame.frame.f_locals["expected"].copy()


class Yes:
    def all(self, *axes, **more):
        return True

    def __bool__(self):
        return True


def patched_check(gpu, a, b, c):
    np.allclose.__wrapped__.__globals__["isclose"] = lambda *arrays, **tolerances: Yes()


def stale_output(gpu, a, b, c):
    return None


def known_seed(gpu, a, b, c, counter=[0]):
    random = np.random.default_rng([1234, counter[0]])
    counter[0] += 1
    c[:] = random.standard_normal(a.shape, np.float32) @ random.standard_normal(b.shape, np.float32)


KEPT = {}


def cached_by_address(gpu, a, b, c):
    place = a.__array_interface__["data"][0]
    c[:] = KEPT.setdefault((place, a.shape), (a @ b))


def patched_clock(gpu, a, b, c):
    now = time.perf_counter()
    time.perf_counter = lambda: now
    np.matmul(a, b, out=c)


def side_stream(gpu, a, b, c):
    def work(x=a.copy(), y=b.copy()):
        c[:] = x @ y

    gpu.launch(work, stream="mine")


class Lazy:
    """What NumPy asks for where an array lies, it computes."""

    def __init__(self, a, b):
        self.question = a.copy(), b.copy()

    @property
    def __array_interface__(self):
        self.answer = self.question[0] @ self.question[1]
        return self.answer.__array_interface__


def lazy_output(gpu, a, b, c):
    return Lazy(a, b)
