# expect: correctness: syntax error: a colon is missing, on line 5
from numba import cuda


def axpy(alpha, x, y, out)
    pass
