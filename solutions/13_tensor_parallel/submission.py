"""Lab 13_tensor_parallel: an MLP and attention cut over ranks, forward and backward, as programs of one rank.

Each function is a generator: `sum = yield "all_reduce", part` asks all ranks for a collective, `dy = yield "output", y`
ends the forward pass. README.md says which arrays a rank has.
"""

import numpy as np

HEAD = 4  # the width of a head


def mlp(rank, ranks, x, up, down):
    """y = relu(x up) down: `up` is cut by columns, `down` by rows. Returns dx, dup, ddown."""
    # BEGIN SOLUTION
    # STARTER: dy = yield "output", np.zeros_like(x)
    # STARTER: return np.zeros_like(dy), np.zeros_like(up), np.zeros_like(down)
    # Columns of `up` make columns of the hidden layer, and rows of `down` take just these: one sum at the end.
    hidden = np.maximum(x @ up, 0)
    y = yield "all_reduce", hidden @ down
    dy = yield "output", y
    dhidden = dy @ down.T * (hidden > 0)
    dx = yield "all_reduce", dhidden @ up.T
    return dx, x.T @ dhidden, hidden.T @ dy
    # END SOLUTION


def attention(rank, ranks, x, queries, keys, values, out):
    """y = heads(x) out: the first three are cut by columns, in whole heads, `out` by rows. Returns dx and theirs."""
    # BEGIN SOLUTION
    # STARTER: dy = yield "output", np.zeros_like(x)
    # STARTER: return tuple(np.zeros_like(one) for one in (dy, queries, keys, values, out))
    # Heads do not know each other, so a rank does its own from beginning to end.
    q, k, v = (apart(x @ one) for one in (queries, keys, values))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(HEAD)
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    heads = together(shares @ v)
    y = yield "all_reduce", heads @ out
    dy = yield "output", y
    dheads = apart(dy @ out.T)
    dshares = dheads @ v.swapaxes(1, 2)
    dscores = shares * (dshares - (dshares * shares).sum(axis=2, keepdims=True)) / np.sqrt(HEAD)
    dq, dk, dv = (together(one) for one in (dscores @ k, dscores.swapaxes(1, 2) @ q, shares.swapaxes(1, 2) @ dheads))
    dx = yield "all_reduce", dq @ queries.T + dk @ keys.T + dv @ values.T
    return dx, x.T @ dq, x.T @ dk, x.T @ dv, heads.T @ dy
    # END SOLUTION


# BEGIN SOLUTION
def apart(x):
    """(tokens, width) -> (heads, tokens, HEAD)."""
    return x.reshape(len(x), -1, HEAD).swapaxes(0, 1)


def together(x):
    """The way back."""
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


# END SOLUTION
def mlp_of_a_sequence(rank, ranks, x, up, down):
    """The same MLP, but each rank has only its rows of x and of dy, and gives its rows of y and of dx."""
    # BEGIN SOLUTION
    # STARTER: dy = yield "output", np.zeros_like(x)
    # STARTER: return np.zeros_like(dy), np.zeros_like(up), np.zeros_like(down)
    # An all-reduce is a reduce-scatter and an all-gather: between the two, rows are on one rank only.
    x = yield "all_gather", x
    hidden = np.maximum(x @ up, 0)
    y = yield "reduce_scatter", hidden @ down
    dy = yield "output", y
    dy = yield "all_gather", dy
    dhidden = dy @ down.T * (hidden > 0)
    dx = yield "reduce_scatter", dhidden @ up.T
    return dx, x.T @ dhidden, hidden.T @ dy
    # END SOLUTION
