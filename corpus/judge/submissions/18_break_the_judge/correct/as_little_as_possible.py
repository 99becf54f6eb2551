# expect: correctness: passed: only flags of weak checks are tried, each in one line
import numpy as np


def constant_output(gpu, a, b, c):
    gpu.launch(c.fill, 0.0)


def half_sums(gpu, a, b, c):
    c[:] = np.add.reduce(np.einsum("ik,kj->kij", a, b).astype(np.float16), axis=0, dtype=np.float16)


def one_size(gpu, a, b, c):
    gpu.launch(np.matmul, a[:, :64], b[:64], c)
