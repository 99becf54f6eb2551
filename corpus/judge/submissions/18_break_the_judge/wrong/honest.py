# expect: correctness: wrong answer: honest kernels capture nothing
import numpy as np


def constant_output(gpu, a, b, c):
    c[:] = a @ b


def half_sums(gpu, a, b, c):
    gpu.launch(np.matmul, a, b, c)


def one_size(gpu, a, b, c):
    return a @ b
