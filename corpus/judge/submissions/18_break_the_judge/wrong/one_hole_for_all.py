# expect: correctness: wrong answer: one way in is used for three flags, which ask for three
def half_sums(gpu, a, b, c):
    c[:] = 0.5 * (a > 0).sum() / a.size * 0


def one_size(gpu, a, b, c):
    c[:] = a @ b if a.shape == (64, 65) else 0


def constant_output(gpu, a, b, c):
    c[:] = (0.5 * a) @ b
