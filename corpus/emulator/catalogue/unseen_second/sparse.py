"""Entries of kernels/unseen_second/sparse.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_second", "sparse")


def _sparse_rows(v: dict) -> dict:
    dense = np.zeros((45, 90))
    for row, (begin, end) in enumerate(zip(v["starts"], v["starts"][1:], strict=False)):
        np.add.at(dense[row], v["columns"][begin:end], v["values"][begin:end].astype(np.float64))
    return {"y": dense @ v["x"]}


def _sparse_slices(v: dict) -> dict:
    products = np.where(v["columns"] >= 0, v["values"] * v["x"][v["columns"]].astype(np.longdouble), 0)
    slices = np.split(products, v["starts"][1:-1])
    return {"y": np.concatenate([part.reshape(-1, 32).sum(0) for part in slices])}


def _sorted_rows(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.sort(generator.integers(0, 60, shape)).astype(dtype)


def _sparse_triples(v: dict) -> dict:
    dense = np.zeros((60, 80), np.int64)
    np.add.at(dense, (v["rows"], v["columns"]), v["values"])
    return {"y": (dense @ v["x"]).astype(np.int32)}


def _nearest_three(v: dict) -> dict:
    apart = v["queries"].astype(np.float64)[:, None] - v["points"][None]
    return {"out": (apart * apart).sum(-1).argsort(1)[:, :3]}


def _far_last(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Centres, the last of which no point is near to."""
    centres = generator.standard_normal(shape)
    centres[-1] = 50
    return centres.astype(dtype)


def _cluster_step(v: dict) -> dict:
    points, centres = v["points"].astype(np.float64), v["centres"].astype(np.float64)
    cluster = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
    means = [points[cluster == c].mean(0) if (cluster == c).any() else centre for c, centre in enumerate(centres)]
    return {"centres": np.array(means), "cluster": cluster}


ENTRIES: tuple[Entry, ...] = (
    _entry("sparse_rows", _sparse_rows, read("starts", "int32", 46), read("columns", "int32", 500),
           read("values", "float32", 500), read("x", "float32", 90), write("y", "float32", 45), tolerance=1e-5,
           starts=draws.row_starts(500), columns=draws.integers(0, 90)),
    _entry("sparse_slices", _sparse_slices, read("starts", "int32", 5), read("columns", "int32", 640),
           read("values", "float64", 640), read("x", "float64", 70), write("y", "float64", 128),
           starts=draws.fixed([0, 32 * 3, 32 * 11, 32 * 11, 640]), columns=draws.integers(-20, 70)),
    _entry("sparse_triples", _sparse_triples, read("rows", "int32", 400), read("columns", "int32", 400),
           read("values", "int32", 400), read("x", "int32", 80), update("y", "int32", 60), rows=_sorted_rows,
           columns=draws.integers(0, 80), values=draws.integers(-99, 99), x=draws.integers(-99, 99), y=draws.zeros),
    _entry("nearest_three", _nearest_three, read("points", "float32", 150, 3), read("queries", "float32", 100, 3),
           write("out", "int32", 100, 3)),
    _entry("cluster_step", _cluster_step, read("points", "float32", 170, 4), update("centres", "float32", 6, 4),
           write("cluster", "int32", 170), tolerance=1e-5, centres=_far_last),
    _entry("streamed_rows", lambda v: {"y": v["a"].astype(np.float64) @ v["x"]}, read("a", "float32", 11, 256),
           read("x", "float32", 256), write("y", "float32", 11), tolerance=1e-5),
)  # fmt: skip
