# expect: correctness: no records returned: an operation by another name
import numpy as np


def relu(x):
    return np.where(x > 0, x, 0.0)


def softmax(x):
    raised = np.exp(x - x.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def mlp(rank, ranks, x, up, down):
    before = x @ up
    y = yield "allreduce", relu(before) @ down
    dy = yield "output", y
    back = np.where(before > 0, dy @ down.T, 0.0)
    dx = yield "all_reduce", back @ up.T
    return dx, x.T @ back, relu(before).T @ dy


def attention(rank, ranks, x, queries, keys, values, out):
    heads = [slice(first, first + 4) for first in range(0, len(out), 4)]
    made = np.zeros((len(x), len(out)))
    kept = []
    for head in heads:
        q, k, v = x @ queries[:, head], x @ keys[:, head], x @ values[:, head]
        shares = softmax(q @ k.T / 2)
        made[:, head] = shares @ v
        kept.append((q, k, v, shares))
    y = yield "all_reduce", made @ out
    dy = yield "output", y
    dmade = dy @ out.T
    gradients = [np.zeros_like(queries), np.zeros_like(keys), np.zeros_like(values)]
    part = np.zeros_like(x)
    for head, (q, k, v, shares) in zip(heads, kept):
        given = dmade[:, head]
        dshares = given @ v.T
        dscores = shares * (dshares - (dshares * shares).sum(1, keepdims=True)) / 2
        for which, one in enumerate((dscores @ k, dscores.T @ q, shares.T @ given)):
            gradients[which][:, head] = x.T @ one
            part += one @ (queries, keys, values)[which][:, head].T
    dx = yield "all_reduce", part
    return (dx, *gradients, made.T @ dy)


def mlp_of_a_sequence(rank, ranks, x, up, down):
    every = yield "all_gather", x
    before = every @ up
    y = yield "reduce_scatter", relu(before) @ down
    dy = yield "output", y
    dy = yield "all_gather", dy
    back = np.where(before > 0, dy @ down.T, 0.0)
    dx = yield "reduce_scatter", back @ up.T
    return dx, every.T @ back, relu(before).T @ dy
