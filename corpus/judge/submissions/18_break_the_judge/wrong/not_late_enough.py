# expect: efficiency: wrong answer: outputs that are there when they should be late, and a clock that goes too fast
import time

import numpy as np

CLOCK = time.perf_counter


def patched_clock(gpu, a, b, c):
    time.perf_counter = lambda: CLOCK() / 2
    c[:] = a @ b


def side_stream(gpu, a, b, c):
    gpu.launch(np.matmul, a, b, c, stream=1)
    gpu.wait_for_all()


class Later:
    def __init__(self, c):
        self.c = c

    def __array__(self, dtype=None, copy=None):
        return self.c.astype(dtype)


def lazy_output(gpu, a, b, c):
    c[:] = a @ b
    return Later(c)
