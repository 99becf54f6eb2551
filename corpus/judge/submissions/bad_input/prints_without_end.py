# expect: correctness: too many resources: the host function prints for ever


def axpy(alpha, x, y, out):
    while True:
        print("working " * 1000)
