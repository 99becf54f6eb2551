"""Lab 13: column and row parallel MLP and attention, and the MLP with its sequence cut, as programs of ranks."""

from __future__ import annotations

import numpy as np

from autograder.spec.programs import Arrays, Asking, Program, ProgramTask, Wires
from autograder.spec.records import RecordCase
from autograder.spec.sizes import every
from autograder.spec.task import Dimensions
from systems.network.collectives import Collective

HEAD = 4  # the width of a head
# Given, not measured: a step of a ring, and what a rank sends a second; small arrays, so that both count.
WIRES = Wires(latency=1e-6, bandwidth=1e9)


def _mlp_arrays(size: Dimensions, random: np.random.Generator) -> Arrays:
    tokens, width, hidden = size["tokens"], size["width"], size["hidden"]
    return {
        "x": random.standard_normal((tokens, width)),
        "up": random.standard_normal((width, hidden)) / np.sqrt(width),
        "down": random.standard_normal((hidden, width)) / np.sqrt(hidden),
        "dy": random.standard_normal((tokens, width)),
    }


def _mlp(arrays: Arrays) -> Arrays:
    x, up, down, dy = arrays["x"], arrays["up"], arrays["down"], arrays["dy"]
    before = x @ up
    hidden = np.where(before > 0, before, 0)
    dbefore = np.where(before > 0, dy @ down.T, 0)
    return {"y": hidden @ down, "dx": dbefore @ up.T, "dup": x.T @ dbefore, "ddown": hidden.T @ dy}


def _attention_arrays(size: Dimensions, random: np.random.Generator) -> Arrays:
    tokens, width, inner = size["tokens"], size["width"], size["heads"] * HEAD
    shapes = {"queries": (width, inner), "keys": (width, inner), "values": (width, inner), "out": (inner, width)}
    return {
        "x": random.standard_normal((tokens, width)),
        **{name: random.standard_normal(shape) / np.sqrt(shape[0]) for name, shape in shapes.items()},
        "dy": random.standard_normal((tokens, width)),
    }


def _attention(arrays: Arrays) -> Arrays:
    """Head by head, with the Jacobian of the softmax written out."""
    x, out, dy = arrays["x"], arrays["out"], arrays["dy"]
    found = {name: np.zeros_like(arrays[name]) for name in ("queries", "keys", "values", "out")}
    y, dx = np.zeros_like(dy), np.zeros_like(x)
    for begin in range(0, out.shape[0], HEAD):
        mine = slice(begin, begin + HEAD)
        q, k, v = (x @ arrays[name][:, mine] for name in ("queries", "keys", "values"))
        raised = np.exp(q @ k.T / 2.0)  # the square root of HEAD
        shares = raised / raised.sum(axis=1)[:, None]
        y += shares @ v @ out[mine]
        found["out"][mine] = (shares @ v).T @ dy
        dhead = dy @ out[mine].T
        jacobian = np.einsum("ij,jk->ijk", shares, np.eye(len(x))) - np.einsum("ij,ik->ijk", shares, shares)
        dscores = np.einsum("ij,ijk->ik", dhead @ v.T, jacobian) / 2.0
        for name, gradient in (("queries", dscores @ k), ("keys", dscores.T @ q), ("values", shares.T @ dhead)):
            found[name][:, mine] = x.T @ gradient
            dx += gradient @ arrays[name][:, mine].T
    return {"y": y, "dx": dx, **{f"d{name}": gradient for name, gradient in found.items()}}


def _sums(size: Dimensions) -> tuple[Asking, ...]:
    """One sum over the ranks in each direction."""
    return ((Collective.ALL_REDUCE, size["tokens"] * size["width"]),) * 2


def _halves(size: Dimensions) -> tuple[Asking, ...]:
    """The same, in halves."""
    whole = size["tokens"] * size["width"]
    return ((Collective.ALL_GATHER, whole), (Collective.REDUCE_SCATTER, whole)) * 2


def _cut(size: Dimensions) -> bool:
    """Whether the ranks can have equal parts, and weights are more than what is to be sent."""
    parts = [size.get("hidden", size["ranks"]), size.get("heads", size["ranks"])]
    weights = size["hidden"] if "hidden" in size else 2 * size["heads"] * HEAD
    return all(part % size["ranks"] == 0 for part in parts) and weights >= 2 * size["tokens"]


def _rows(size: Dimensions) -> bool:
    return _cut(size) and size["tokens"] % size["ranks"] == 0


_MLP_AXES = {"x": None, "up": 1, "down": 0, "dy": None, "y": None, "dx": None, "dup": 1, "ddown": 0}
_ROWS_AXES = {**_MLP_AXES, "x": 0, "dy": 0, "y": 0, "dx": 0}
_ATTENTION_AXES = {
    **dict.fromkeys(("x", "dy", "y", "dx")),
    **dict.fromkeys(("queries", "keys", "values", "dqueries", "dkeys", "dvalues"), 1),
    **dict.fromkeys(("out", "dout"), 0),
}

MLP = Program(
    function="mlp",
    correctness=(
        RecordCase("MLP: one rank", {"ranks": 1, "tokens": 3, "width": 5, "hidden": 6}),
        RecordCase("MLP: two ranks", {"ranks": 2, "tokens": 3, "width": 4, "hidden": 6}),
        RecordCase(
            "MLP: hidden",
            {"ranks": 2, "tokens": 5, "width": 7, "hidden": 12},
            every(_cut, ranks=(2,), tokens=(3, 5), width=(5, 7, 9, 11), hidden=(10, 12, 14)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "MLP: modelled",
        {"ranks": 3, "tokens": 7, "width": 16, "hidden": 24},
        every(_cut, ranks=(3,), tokens=(6, 7, 8), width=(14, 15, 16), hidden=(24, 36)),
    ),
    arrays=_mlp_arrays,
    true=_mlp,
    axes=_MLP_AXES,
    least=_sums,
    wires=WIRES,
    reason="Cut the first matrix by columns and the second by rows: then one sum of y, and one of dx, is all.",
)

ATTENTION = Program(
    function="attention",
    correctness=(
        RecordCase("attention: one rank", {"ranks": 1, "tokens": 3, "width": 5, "heads": 2}),
        RecordCase("attention: two ranks", {"ranks": 2, "tokens": 3, "width": 4, "heads": 4}),
        RecordCase(
            "attention: hidden",
            {"ranks": 2, "tokens": 5, "width": 7, "heads": 6},
            every(_cut, ranks=(2,), tokens=(3, 4, 5, 6), width=(5, 7, 9, 11), heads=(2, 4, 6)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "attention: modelled",
        {"ranks": 3, "tokens": 7, "width": 16, "heads": 6},
        every(_cut, ranks=(3,), tokens=(6, 7, 8), width=(14, 15, 16), heads=(6,)),
    ),
    arrays=_attention_arrays,
    true=_attention,
    axes=_ATTENTION_AXES,
    least=_sums,
    wires=WIRES,
    reason="A rank can do its heads from beginning to end: one sum of y, and one of dx, is all.",
)

MLP_OF_A_SEQUENCE = Program(
    function="mlp_of_a_sequence",
    correctness=(
        RecordCase("sequence: one rank", {"ranks": 1, "tokens": 3, "width": 5, "hidden": 6}),
        RecordCase("sequence: two ranks", {"ranks": 2, "tokens": 4, "width": 3, "hidden": 8}),
        RecordCase(
            "sequence: hidden",
            {"ranks": 2, "tokens": 6, "width": 7, "hidden": 12},
            every(_rows, ranks=(2,), tokens=(2, 4, 6), width=(5, 7, 9, 11), hidden=(12, 14, 16)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "sequence: modelled",
        {"ranks": 3, "tokens": 9, "width": 16, "hidden": 24},
        every(_rows, ranks=(3,), tokens=(6, 9), width=(14, 15, 16), hidden=(24, 36)),
    ),
    arrays=_mlp_arrays,
    true=_mlp,
    axes=_ROWS_AXES,
    least=_halves,
    wires=WIRES,
    reason="Gather rows before the first product and scatter the sum after the second: what was gathered can be kept "
    "for the way back.",
)

TASK = ProgramTask((MLP, ATTENTION, MLP_OF_A_SEQUENCE))
