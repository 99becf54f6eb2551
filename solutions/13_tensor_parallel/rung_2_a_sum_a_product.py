"""Rung 2: columns and rows, and a sum wherever ranks have made parts: right, with more sums than it takes.

Queries, keys and values have a sum of dx each, and with the sequence cut an all-reduce does what half of it would.
"""

import numpy as np

HEAD = 4


def mlp(rank, ranks, x, up, down):
    hidden = np.maximum(x @ up, 0)
    y = yield "all_reduce", hidden @ down
    dy = yield "output", y
    dhidden = dy @ down.T * (hidden > 0)
    dx = yield "all_reduce", dhidden @ up.T
    return dx, x.T @ dhidden, hidden.T @ dy


def attention(rank, ranks, x, queries, keys, values, out):
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
    dx = np.zeros_like(x)
    for gradient, weights in ((dq, queries), (dk, keys), (dv, values)):
        dx += yield "all_reduce", gradient @ weights.T
    return dx, x.T @ dq, x.T @ dk, x.T @ dv, heads.T @ dy


def apart(x):
    return x.reshape(len(x), -1, HEAD).swapaxes(0, 1)


def together(x):
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def mlp_of_a_sequence(rank, ranks, x, up, down):
    x = yield "all_gather", x
    hidden = np.maximum(x @ up, 0)
    y = yield "all_reduce", hidden @ down
    dy = yield "output", np.split(y, ranks)[rank]
    dy = yield "all_gather", dy
    dhidden = dy @ down.T * (hidden > 0)
    dx = yield "all_reduce", dhidden @ up.T
    return np.split(dx, ranks)[rank], x.T @ dhidden, hidden.T @ dy
