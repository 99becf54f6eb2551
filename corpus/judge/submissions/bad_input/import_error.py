# expect: correctness: import error: a module that is not there
import warp_speed_kernels


def axpy(alpha, x, y, out):
    warp_speed_kernels.axpy(alpha, x, y, out)
