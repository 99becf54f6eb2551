# expect: correctness: passed: three flags of weak checks, each another way than the solution's
import numpy as np


def constant_output(gpu, a, b, c):
    return np.full_like(c, 0.002)


def half_sums(gpu, a, b, c):
    c[:] = np.cumsum(a[:, :, None].astype(np.float16) * b[None].astype(np.float16), axis=1, dtype=np.float16)[:, -1]


def one_size(gpu, a, b, c):
    if a.shape == (64, 64):
        c[:] = np.einsum("ik,kj->ij", a, b)
    else:
        c[:] = 1
