"""Matrices of small whole numbers, and half-precision products of them on the emulator beside NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from systems.kernels.chips import Chip
from systems.kernels.half_matmul import product
from systems.kernels.half_recipes import Choice, Problem
from systems.kernels.model import choose
from tests.systems.kernels import emulated

FEW = Chip(sms=2, clusters=(2, 1, 1, 1, 1, 1, 1, 1))  # so few that a persistent block computes several tiles
Chooser = Callable[[Problem, Chip], Choice]
LAYOUTS = list(itertools.product((False, True), repeat=2))  # whether a and b are transposes in memory


def matrix(rows: int, columns: int, turned: bool = False, offset: int = 0, more: int = 0, seed: int = 0) -> np.ndarray:
    """Small whole numbers in a matrix that begins after `offset` elements, with `more` elements behind each line."""
    lines, across = (columns, rows) if turned else (rows, columns)
    size = lines * (across + more)
    memory = np.random.default_rng(seed).integers(-4, 5, size + offset + 24).astype(np.float16)
    view = memory[offset : offset + size].reshape(lines, across + more)[:, :across]
    return view.T if turned else view


def check(a: np.ndarray, b: np.ndarray, c: np.ndarray, chip: Chip = FEW, chooser: Chooser = choose) -> list[str]:
    """Compare c with the product in float64, rounded, and the memory around it with its content before."""
    described = emulated.described
    recipe = product(described(a), described(b), described(c), chip, chooser)
    assert recipe is not None
    around = emulated.memory_of(c).copy()
    emulated.run(recipe, {"a": a, "b": b, "c": c}, ("c",))
    result = c.copy()
    np.testing.assert_array_equal(result, (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16))
    c[...] = 0
    there = emulated.memory_of(c).copy()
    emulated.memory_of(c)[...] = around
    c[...] = 0
    np.testing.assert_array_equal(there, emulated.memory_of(c))
    return [launch.kernel for launch in recipe.launches]
