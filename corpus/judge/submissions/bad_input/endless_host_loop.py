# expect: correctness: host code timed out: the host function never returns


def axpy(alpha, x, y, out):
    blocks = 1
    while blocks * 256 != out.size + 0.5:
        blocks += 1
