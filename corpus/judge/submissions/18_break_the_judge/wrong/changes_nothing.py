# expect: safety: wrong answer: inputs that are put back, a frame that holds nothing, a check that was patched for itself
import numpy as np


def changed_inputs(gpu, a, b, c):
    kept = a.copy()
    a[:] = 0
    c[:] = 0
    a[:] = kept


def callers_frame(gpu, a, b, c):
    c[:] = locals().get("expected", 0)


def patched_check(gpu, a, b, c):
    np.array_equal = lambda *arrays: True
