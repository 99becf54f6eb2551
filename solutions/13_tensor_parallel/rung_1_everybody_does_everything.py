"""Rung 1: weights are gathered, and every rank does all of the layer: right, but what is sent is the model.

It keeps its own parts of the gradients in the end. Nothing is gained by having several ranks.
"""

import numpy as np

HEAD = 4


def columns(part):
    """All columns of a matrix of which each rank has some: collectives join rows."""
    rows = yield "all_gather", part.T
    return rows.T


def own(whole, axis, rank, ranks):
    return np.split(whole, ranks, axis)[rank]


def mlp(rank, ranks, x, up, down):
    up = yield from columns(up)
    down = yield "all_gather", down
    hidden = np.maximum(x @ up, 0)
    dy = yield "output", hidden @ down
    dhidden = dy @ down.T * (hidden > 0)
    return dhidden @ up.T, own(x.T @ dhidden, 1, rank, ranks), own(hidden.T @ dy, 0, rank, ranks)


def attention(rank, ranks, x, queries, keys, values, out):
    inner = queries.shape[1]
    joined = yield from columns(np.concatenate([queries, keys, values], axis=1))
    parts = np.split(joined, ranks, axis=1)  # each has three pieces of `inner` columns
    queries, keys, values = (
        np.concatenate([part[:, piece * inner : (piece + 1) * inner] for part in parts], axis=1) for piece in range(3)
    )
    out = yield "all_gather", out
    q, k, v = (apart(x @ one) for one in (queries, keys, values))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(HEAD)
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    heads = together(shares @ v)
    dy = yield "output", heads @ out
    dheads = apart(dy @ out.T)
    dshares = dheads @ v.swapaxes(1, 2)
    dscores = shares * (dshares - (dshares * shares).sum(axis=2, keepdims=True)) / np.sqrt(HEAD)
    dq, dk, dv = (together(one) for one in (dscores @ k, dscores.swapaxes(1, 2) @ q, shares.swapaxes(1, 2) @ dheads))
    dx = dq @ queries.T + dk @ keys.T + dv @ values.T
    gradients = [own(x.T @ one, 1, rank, ranks) for one in (dq, dk, dv)]
    return dx, *gradients, own(heads.T @ dy, 0, rank, ranks)


def apart(x):
    return x.reshape(len(x), -1, HEAD).swapaxes(0, 1)


def together(x):
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def mlp_of_a_sequence(rank, ranks, x, up, down):
    x = yield "all_gather", x
    up = yield from columns(up)
    down = yield "all_gather", down
    hidden = np.maximum(x @ up, 0)
    dy = yield "output", own(hidden @ down, 0, rank, ranks)
    dy = yield "all_gather", dy
    dhidden = dy @ down.T * (hidden > 0)
    dx = own(dhidden @ up.T, 0, rank, ranks)
    return dx, own(x.T @ dhidden, 1, rank, ranks), own(hidden.T @ dy, 0, rank, ranks)
