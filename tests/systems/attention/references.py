"""Inputs for attention's kernels, and their results in float64."""

from __future__ import annotations

import math

import numpy as np

from systems.attention.decoding import PAGE

UNITS = {np.dtype(np.float16): 2.0**-11, np.dtype(np.uint16): 2.0**-8}  # of rounding to nearest, or cutting off


def narrow(array: np.ndarray, bfloat16: bool) -> np.ndarray:
    """In float16, or the upper halves of float32."""
    return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) if bfloat16 else array.astype(np.float16)


def wide(array: np.ndarray) -> np.ndarray:
    """As float64."""
    if array.dtype == np.float16:
        return array.astype(np.float64)
    return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def drawn(
    seed: int, heads: int, key_heads: int, width: int, lengths: list[int], bfloat16: bool = False
) -> dict[str, np.ndarray]:
    """Arguments of `decode`: pages in a drawn order, NaN in unused pages and behind each sequence's end."""
    draw = np.random.default_rng(seed)
    pages = [-(-length // PAGE) for length in lengths]
    order = draw.permutation(sum(pages) + 3).astype(np.int32)
    table = np.full((len(lengths), max(pages) + 1), 1 << 30, np.int32)
    k, v = (np.full((len(order), key_heads, PAGE, width), np.nan, np.float32) for _ in range(2))
    used = 0
    for row, (length, count) in enumerate(zip(lengths, pages, strict=True)):
        table[row, :count] = order[used : used + count]
        used += count
        for key in range(length):
            at = table[row, key // PAGE], slice(None), key % PAGE
            k[at], v[at] = draw.standard_normal((2, key_heads, width))
    q = 2 * draw.standard_normal((len(lengths), heads, width))
    given = {name: narrow(array, bfloat16) for name, array in (("q", q), ("k", k), ("v", v))}
    return given | {"table": table, "lengths": np.array(lengths, np.int32)}


def ratio(given: dict[str, np.ndarray], out: np.ndarray) -> float:
    """The largest error over what rounding of weights and results allows, against float64."""
    q, k, v = (wide(given[name]) for name in "qkv")
    group, unit, worst = q.shape[1] // k.shape[1], UNITS[out.dtype], 0.0
    for row, length in enumerate(given["lengths"]):
        pages = given["table"][row, : -(-length // PAGE)]
        for head in range(q.shape[1]):
            keys, values = (array[pages, head // group].reshape(-1, q.shape[2])[:length] for array in (k, v))
            scores = keys @ q[row, head] / math.sqrt(q.shape[2])
            weights = np.exp(scores - scores.max())
            weights /= weights.sum()
            right, sizes = weights @ values, weights @ np.abs(values)
            found = wide(out[row, head])
            allowed = unit * (np.abs(right) + 2 * sizes) + 1e-5 * sizes + 2.0**-24
            worst = max(worst, float((np.abs(found - right) / allowed).max()))  # a NaN is found below
            if not np.isfinite(found).all():
                return math.inf
    return worst


def gradients(
    heads: int, n: int, width: int, causal: bool
) -> tuple[list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
    """q, k, v, out, dout and log_total of `backward.of_host`; and dq, dk and dv by autograd, each with the sum of the
    sizes of its terms."""
    import torch

    draw = np.random.default_rng(n)
    q, k, v, dout = (draw.standard_normal((heads, n, width)).astype(np.float16) for _ in range(4))
    exact = [torch.tensor(each.astype(np.float64), requires_grad=True) for each in (q, k, v)]
    scores = exact[0] @ exact[1].transpose(1, 2) / math.sqrt(width)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
    p = scores.softmax(-1)
    out, of_out = p @ exact[2], torch.tensor(dout.astype(np.float64))
    right = torch.autograd.grad(out, exact, of_out)
    with torch.no_grad():  # P |dP| and P D as they are rounded before they are subtracted
        mean = (out.abs() * of_out.abs()).sum(-1, keepdim=True)
        ds = p * ((of_out @ exact[2].transpose(1, 2)).abs() + mean) / math.sqrt(width)
        sizes = ds @ exact[1].abs(), ds.transpose(1, 2) @ exact[0].abs(), p.transpose(1, 2) @ of_out.abs()
    log_total = scores.logsumexp(-1).detach().numpy().astype(np.float32)
    rounded = out.detach().numpy().astype(np.float16)
    both = [(each.numpy(), size.numpy()) for each, size in zip(right, sizes, strict=True)]
    return [q, k, v, rounded, dout, log_total], both


def is_right(found: list[np.ndarray], right: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Raises AssertionError unless errors are those of rounding weights, their gradients and results to float16."""
    unit = UNITS[np.dtype(np.float16)]
    for each, (exact, sizes) in zip(found, right, strict=True):
        error, spread = each.astype(np.float64) - exact, math.sqrt(float((exact**2).mean()))
        assert math.sqrt(float((error**2).mean())) < unit * spread
        # Half a unit each in P or dS, in `out`, and in the result; float32 sums are off by far less
        assert (np.abs(error) < unit * (np.abs(exact) + 1.1 * sizes) + 1e-7).all()
