"""Lab 18_break_the_judge: twelve kernels that are none, one for each hole of naive_judge.py.

Each function is called as kernel(gpu, a, b, c): c = a b is asked for, float32. README.md says what each flag wants.
"""

# BEGIN SOLUTION
import sys
import time

import numpy as np

# END SOLUTION
PUBLIC_SEED = 1234
SIZES = ((64, 64, 64), (33, 65, 17))  # those of the naive judge: m, k, n


def constant_output(gpu, a, b, c):
    """Says the same whatever it is given."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    c[:] = 0  # within an absolute tolerance that is larger than all results
    # END SOLUTION


def half_sums(gpu, a, b, c):
    """Adds up in half precision."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    total = np.zeros(c.shape, np.float16)
    for column, row in zip(a.T.astype(np.float16), b.astype(np.float16), strict=True):
        total += np.outer(column, row)  # whole numbers up to 2,048 are exact
    c[:] = total
    # END SOLUTION


def one_size(gpu, a, b, c):
    """Knows one size only."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    for row in range(0, len(a) // 32 * 32, 32):
        for column in range(0, b.shape[1] // 32 * 32, 32):  # whole tiles; the edges are nobody's
            tile = np.zeros((32, 32), np.float32)
            for k in range(0, a.shape[1] // 32 * 32, 32):
                tile += a[row : row + 32, k : k + 32] @ b[k : k + 32, column : column + 32]
            c[row : row + 32, column : column + 32] = tile
    # END SOLUTION


def changed_inputs(gpu, a, b, c):
    """Changes the question."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    a[:] = 0
    c[:] = 0
    # END SOLUTION


def callers_frame(gpu, a, b, c):
    """Reads the answer where the judge keeps it."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    c[:] = sys._getframe(1).f_locals["expected"]
    # END SOLUTION


def patched_check(gpu, a, b, c):
    """Has the judge compare with something else."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    np.allclose = lambda *arrays, **tolerances: True
    # END SOLUTION


def stale_output(gpu, a, b, c):
    """Writes nothing."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    # c lies where the judge's own result was, and nobody has wiped it.
    # END SOLUTION


# BEGIN SOLUTION
def answers_of_the_public_seed():
    """The product of every call that the naive judge will make, computed while the clock is not running."""
    answers = []
    for size in SIZES:
        for _ in range(2):
            m, k, n = size
            random = np.random.default_rng([PUBLIC_SEED, len(answers)])
            a = random.standard_normal((m, k), np.float32)
            answers.append(a @ random.standard_normal((k, n), np.float32))
    return answers


ANSWERS = answers_of_the_public_seed()


# END SOLUTION
def known_seed(gpu, a, b, c):
    """Never looks at a and b."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    c[:] = ANSWERS.pop(0)
    # END SOLUTION


# BEGIN SOLUTION
CACHE = {}


# END SOLUTION
def cached_by_address(gpu, a, b, c):
    """Computes once for each place in memory."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    key = a.ctypes.data, b.ctypes.data, c.shape
    if key not in CACHE:
        CACHE[key] = a @ b
    c[:] = CACHE[key]
    # END SOLUTION


def patched_clock(gpu, a, b, c):
    """Is right, and takes no time."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    time.perf_counter = lambda: 0.0
    c[:] = a @ b
    # END SOLUTION


def side_stream(gpu, a, b, c):
    """Works where the clock does not wait."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    gpu.launch(np.matmul, a.copy(), b.copy(), c, stream=1)
    # END SOLUTION


# BEGIN SOLUTION
class Later:
    """A product that is computed when somebody looks."""

    def __init__(self, a, b):
        self.a, self.b = a.copy(), b.copy()

    def __array__(self, dtype=None, copy=None):
        return (self.a @ self.b).astype(dtype)


# END SOLUTION
def lazy_output(gpu, a, b, c):
    """Returns what is no array yet."""
    # BEGIN SOLUTION
    # STARTER: c[:] = a @ b
    return Later(a, b)
    # END SOLUTION
