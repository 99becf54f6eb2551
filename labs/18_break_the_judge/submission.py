"""Lab 18_break_the_judge: twelve kernels that are none, one for each hole of naive_judge.py.

Each function is called as kernel(gpu, a, b, c): c = a b is asked for, float32. README.md says what each flag wants.
"""

PUBLIC_SEED = 1234
SIZES = ((64, 64, 64), (33, 65, 17))  # those of the naive judge: m, k, n


def constant_output(gpu, a, b, c):
    """Says the same whatever it is given."""
    c[:] = a @ b


def half_sums(gpu, a, b, c):
    """Adds up in half precision."""
    c[:] = a @ b


def one_size(gpu, a, b, c):
    """Knows one size only."""
    c[:] = a @ b


def changed_inputs(gpu, a, b, c):
    """Changes the question."""
    c[:] = a @ b


def callers_frame(gpu, a, b, c):
    """Reads the answer where the judge keeps it."""
    c[:] = a @ b


def patched_check(gpu, a, b, c):
    """Has the judge compare with something else."""
    c[:] = a @ b


def stale_output(gpu, a, b, c):
    """Writes nothing."""
    c[:] = a @ b


def known_seed(gpu, a, b, c):
    """Never looks at a and b."""
    c[:] = a @ b


def cached_by_address(gpu, a, b, c):
    """Computes once for each place in memory."""
    c[:] = a @ b


def patched_clock(gpu, a, b, c):
    """Is right, and takes no time."""
    c[:] = a @ b


def side_stream(gpu, a, b, c):
    """Works where the clock does not wait."""
    c[:] = a @ b


def lazy_output(gpu, a, b, c):
    """Returns what is no array yet."""
    c[:] = a @ b
