# expect: all: passed: two sums of 31 bits in each float64, so that a gather really sends half
import numpy as np

HEAD = 4


def both(x, ranks):
    """all_reduce of x as a reduce_scatter and an all_gather of packed halves."""
    flat = x.reshape(-1)
    unit = 2 * ranks
    padded = np.zeros(-(-flat.size // unit) * unit)
    padded[: flat.size] = flat
    mine = yield "reduce_scatter", padded
    scale = 2.0 ** np.ceil(np.log2(np.abs(mine).max() + 1e-300))
    whole = np.rint(mine / scale * (2**31 - 2)).astype(np.int32)
    packed = np.concatenate([np.array([scale]), whole.view(np.float64)])
    got = yield "all_gather", packed
    parts = [p[1:].copy().view(np.int32) / (2**31 - 2) * p[0] for p in np.split(got, ranks)]
    return np.concatenate(parts)[: flat.size].reshape(x.shape)


def mlp(rank, ranks, x, up, down):
    hidden = np.maximum(x @ up, 0)
    y = yield from both(hidden @ down, ranks)
    dy = yield "output", y
    dhidden = dy @ down.T * (hidden > 0)
    dx = yield from both(dhidden @ up.T, ranks)
    return dx, x.T @ dhidden, hidden.T @ dy


def attention(rank, ranks, x, queries, keys, values, out):
    """y = heads(x) out: the first three are cut by columns, in whole heads, `out` by rows. Returns dx and theirs."""
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


def apart(x):
    """(tokens, width) -> (heads, tokens, HEAD)."""
    return x.reshape(len(x), -1, HEAD).swapaxes(0, 1)


def together(x):
    """The way back."""
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def mlp_of_a_sequence(rank, ranks, x, up, down):
    """The same MLP, but each rank has only its rows of x and of dy, and gives its rows of y and of dx."""
    # An all-reduce is a reduce-scatter and an all-gather: between the two, rows are on one rank only.
    x = yield "all_gather", x
    hidden = np.maximum(x @ up, 0)
    y = yield "reduce_scatter", hidden @ down
    dy = yield "output", y
    dy = yield "all_gather", dy
    dhidden = dy @ down.T * (hidden > 0)
    dx = yield "reduce_scatter", dhidden @ up.T
    return dx, x.T @ dhidden, hidden.T @ dy
