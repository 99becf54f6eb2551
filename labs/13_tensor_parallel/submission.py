"""Lab 13_tensor_parallel: an MLP and attention cut over ranks, forward and backward, as programs of one rank.

Each function is a generator: `sum = yield "all_reduce", part` asks all ranks for a collective, `dy = yield "output", y`
ends the forward pass. README.md says which arrays a rank has.
"""

import numpy as np

HEAD = 4  # the width of a head


def mlp(rank, ranks, x, up, down):
    """y = relu(x up) down: `up` is cut by columns, `down` by rows. Returns dx, dup, ddown."""
    dy = yield "output", np.zeros_like(x)
    return np.zeros_like(dy), np.zeros_like(up), np.zeros_like(down)


def attention(rank, ranks, x, queries, keys, values, out):
    """y = heads(x) out: the first three are cut by columns, in whole heads, `out` by rows. Returns dx and theirs."""
    dy = yield "output", np.zeros_like(x)
    return tuple(np.zeros_like(one) for one in (dy, queries, keys, values, out))


def mlp_of_a_sequence(rank, ranks, x, up, down):
    """The same MLP, but each rank has only its rows of x and of dy, and gives its rows of y and of dx."""
    dy = yield "output", np.zeros_like(x)
    return np.zeros_like(dy), np.zeros_like(up), np.zeros_like(down)
